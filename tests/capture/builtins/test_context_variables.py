"""Context variables: read by guards, set once the Graph has run; what is given back leaves nothing to do."""

import asyncio
import contextlib
import contextvars

import jax
import jax.numpy as jnp
import pytest

import dynacomp

SCALE = contextvars.ContextVar("SCALE", default=1.0)
NOTHING = contextvars.ContextVar("NOTHING")
DEPTH = contextvars.ContextVar("DEPTH", default=())
INPUTS = [(jnp.arange(float(n + 2)), float(n)) for n in range(10)]


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


@contextlib.contextmanager
def holding(variable, value):
    token = variable.set(value)
    try:
        yield token
    finally:
        variable.reset(token)


class Holding:
    """The same as a class, which keeps the token."""

    def __init__(self, value):
        self.value = value

    def __enter__(self):
        self.token = SCALE.set(self.value)

    def __exit__(self, *error):
        SCALE.reset(self.token)


def held(x, v):
    with holding(SCALE, v):
        y = jnp.tanh(x) * SCALE.get()
    return y + SCALE.get()


def held_by_class(x, v):
    with Holding(v):
        y = jnp.tanh(x) * SCALE.get()
    return y + SCALE.get()


def nested(x, v):
    with holding(SCALE, v), holding(DEPTH, (*DEPTH.get(), 1)):
        with holding(SCALE, SCALE.get() + 1), holding(DEPTH, (*DEPTH.get(), 2)):
            y, seen = x * SCALE.get(), DEPTH.get()
        return y + SCALE.get(), seen, DEPTH.get()


def nothing(x, v):
    try:
        return x * NOTHING.get()
    except LookupError as error:
        seen = error.args[0] is NOTHING
    with holding(NOTHING, v):
        return x * NOTHING.get(7), seen


def holds_an_array(x, v):
    with holding(SCALE, x * v):
        return jax.grad(lambda z: (z * SCALE.get()).sum())(x), jax.vmap(lambda r: r * SCALE.get().sum())(x)


def stays(x, v):
    old = SCALE.get()
    SCALE.set(v)
    SCALE.set(SCALE.get() + 1)
    return old, x * SCALE.get()


@pytest.mark.parametrize("program", [held, held_by_class, nested, nothing, holds_an_array, stays])
def test_no_break(program):
    compiled = dynacomp.jit(program, backend="eager")
    here, there = contextvars.copy_context(), contextvars.copy_context()
    for x, v in INPUTS:
        assert repr(here.run(compiled, x, v)) == repr(there.run(program, x, v))
        assert list(here.items()) == list(there.items())
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["frames_captured"] <= 3


def test_what_the_caller_sets_is_guarded():
    def program(x):
        return x * SCALE.get(), NOTHING.get("nothing")

    compiled = dynacomp.jit(program, backend="eager")
    for x, v in INPUTS:
        with holding(SCALE, v):
            assert repr(compiled(x)) == repr(program(x))
        with holding(NOTHING, "something"):
            assert repr(compiled(x)) == repr(program(x))
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["frames_captured"] <= 6


def broken(x, v, variable):
    with holding(variable, v):
        with holding(variable, v + 1):
            dynacomp.graph_break()
            y = x * variable.get()
        z = variable.get()
        dynacomp.graph_break()
    return y, z, variable.get("nothing")


@pytest.mark.parametrize("variable", [SCALE, NOTHING])
def test_tokens_are_real_where_the_graph_breaks(variable):
    compiled = dynacomp.jit(broken, backend="eager")
    for x, v in INPUTS:
        assert repr(compiled(x, v, variable)) == repr(broken(x, v, variable))


def test_tokens_that_leave():
    def program(x, v):
        token = SCALE.set(v)
        return token, x * SCALE.get()

    def given_back(fn, x, v):
        token, y = fn(x, v)
        seen = SCALE.get()
        SCALE.reset(token)
        return y, seen, SCALE.get(), token.var is SCALE

    compiled = dynacomp.jit(program, backend="eager")
    for outer in (contextvars.Context(), contextvars.copy_context()):
        for x, v in INPUTS:
            assert repr(outer.run(given_back, compiled, x, v)) == repr(outer.run(given_back, program, x, v))
    kept = Holding(2.0)
    dynacomp.jit(lambda held, x: held.__enter__() or held.__exit__() or x + 1, backend="eager")(kept, jnp.ones(2))
    assert type(kept.token) is contextvars.Token
    with pytest.raises(RuntimeError):  # it has been used
        SCALE.reset(kept.token)


def test_each_task_has_its_own():
    @dynacomp.jit(backend="eager")
    async def program(x, v):
        token = SCALE.set(v)
        y = x * SCALE.get()
        await asyncio.sleep(0)
        y = y + SCALE.get()
        SCALE.reset(token)
        await asyncio.sleep(0)
        return y, SCALE.get()

    async def all_at_once():
        return await asyncio.gather(*(program(jnp.ones(2), v) for _, v in INPUTS))

    for _ in range(2):
        for (y, after), (_, v) in zip(asyncio.run(all_at_once()), INPUTS):
            assert y.tolist() == [2 * v, 2 * v] and after == 1.0


def test_sides_of_arrays_are_left_to_python():
    def program(x):
        if x.sum() > 3:
            SCALE.set(3.0)
        return x * SCALE.get()

    compiled = dynacomp.jit(program, backend="eager")
    for x, _ in INPUTS:
        assert repr(contextvars.copy_context().run(compiled, x)) == repr(contextvars.copy_context().run(program, x))
