"""Conditions on arrays one of whose sides only raises stay in the one graph, and raise what plain Python raises."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

GOOD, BAD = jnp.arange(1.0, 5.0), jnp.array([1.0, -1.0, jnp.nan, 2.0])
SEEN = []


@pytest.fixture(autouse=True)
def anew():
    dynacomp.reset()


def asserted(x):
    SEEN.append(1)
    y = jnp.sqrt(x)
    assert (x > 0).all(), f"negative: {x}"
    return y.sum()


def positive(value, name):
    if not jnp.all(value > 0):
        raise ValueError(f"{name} must be positive, got {value}")
    return value


def validated(x):
    return jnp.log(positive(x, "x")) + positive(x * 2, "twice x")


def caught(x):
    try:
        scale = positive(x, "x")
    except ValueError as error:
        SEEN.append(str(error))
        scale = jnp.ones_like(x)
    return x / scale


def in_a_loop(x):
    for _ in range(3):
        x = x * 2
        if jnp.isnan(x).any():
            raise FloatingPointError("nan")
    return x


def by_numpy(x):
    if not np.all(x > 0):
        raise ValueError("by NumPy")
    return x + np.max(x)


def behind_a_break(x):
    print(end="")
    held = x * 3
    assert (x > 0).all()
    return held


def within_with(x):
    with jax.named_scope("checked"):
        if (x < 0).any():
            raise ValueError(f"with {x.sum()}")
        return x * 2


def outcome(fn, *args):
    SEEN.clear()
    try:
        got = fn(*args)
    except Exception as error:
        return type(error), str(error), tuple(SEEN)
    return np.asarray(got).tolist(), got.dtype, tuple(SEEN)


@pytest.mark.parametrize("fn", [asserted, validated, caught, in_a_loop, by_numpy, behind_a_break, within_with])
def test_one_graph_and_what_python_raises(fn):
    breaks = {"effect": 1} if fn is behind_a_break else {}
    compiled = dynacomp.jit(fn, backend="eager")
    for x in (GOOD, GOOD + 1, BAD, GOOD + 2, GOOD, BAD, *[GOOD] * 4):
        assert str(outcome(compiled, x)) == str(outcome(fn, x))
    stats = dynacomp.stats()
    assert stats["breaks"] == breaks and stats["graphs"] == 1 and not stats["frames_eager"]


def test_exceptions_as_control_flow_break_the_graph():
    compiled = dynacomp.jit(caught, backend="eager")
    for _ in range(12):
        assert str(outcome(compiled, BAD)) == str(outcome(caught, BAD))
    stats = dynacomp.stats()
    assert stats["breaks"]["branch"] and stats["frames_captured"] <= 6


def test_a_loop_does_not_run_for_what_is_refused():
    """It might never end."""
    def halved(x, tolerance):
        if (tolerance <= 0).any():
            raise ValueError("tolerance")
        return jax.lax.while_loop(lambda v: jnp.abs(v).max() > tolerance, lambda v: v / 2, x)

    def by_python(x, tolerance):
        assert tolerance > 0
        while jnp.abs(x).max() > tolerance:
            x = x / 2
        return x

    looped = jax.jit(lambda x, tolerance: jax.lax.while_loop(
        lambda v: jnp.abs(v).max() > tolerance, lambda v: v / 2, x))

    def within_a_function_of_jax(x, tolerance):
        if (tolerance <= 0).any():
            raise ValueError("tolerance")
        return looped(x, tolerance)

    for fn in (halved, by_python, within_a_function_of_jax):
        compiled = dynacomp.jit(fn, backend="eager")
        for tolerance in (0.5, -1.0, 0.25, -1.0, 0.5):
            args = GOOD, jnp.float32(tolerance)
            assert str(outcome(compiled, *args)) == str(outcome(fn, *args))


def test_derivatives_see_the_checks():
    def loss(x):
        assert (x > 0).all()
        return jnp.sum(x ** 2)

    step = dynacomp.jit(lambda x: jax.grad(loss)(x))
    outside = jax.grad(dynacomp.jit(loss))
    for fn in (step, outside):
        for x in (GOOD, BAD, GOOD):
            assert str(outcome(fn, x)) == str(outcome(jax.grad(loss), x))


def test_what_a_frame_holds_when_it_starts_again():
    """A frame that the hook has found keeps its arguments until its checks have held."""
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)

    def inner(x, held):
        if (x < 0).any():
            raise ValueError(type(held).__name__)
        return x + 1

    def outer(x, held):
        print(end="")
        return inner(x, held)

    compiled = dynacomp.jit(outer, backend="eager")
    for x in (GOOD, BAD, GOOD, BAD):
        assert str(outcome(compiled, x, thing)) == str(outcome(outer, x, thing))
    del thing
    gc.collect()
    assert gone() is None


def test_the_first_of_several_is_blamed():
    def both(x):
        if (x < 0).any():
            raise ValueError("first")
        if jnp.isnan(x).any():
            raise TypeError("second")
        return x

    compiled = dynacomp.jit(both, backend="eager")
    for x in (GOOD, BAD, jnp.array([jnp.nan] * 4), GOOD):
        assert str(outcome(compiled, x)) == str(outcome(both, x))
    assert dynacomp.stats()["graphs"] == 1


def test_a_side_that_cannot_be_captured():
    """It is expected not to be taken; the call in which it is runs as plain Python."""
    def step(x):
        loss = (x ** 2).sum()
        if loss > 100:
            SEEN.append(f"large: {loss}")
            print(end="")
        return x - 0.1 * x, loss

    compiled = dynacomp.jit(step, backend="eager")
    for k in range(40):
        x = GOOD * (10 if k % 19 == 5 else 1)
        want, wanted = step(x), tuple(SEEN)
        SEEN.clear()
        got = compiled(x)
        assert str(got) == str(want) and tuple(SEEN) == wanted and len(SEEN) == (k % 19 == 5)
        SEEN.clear()
    stats = dynacomp.stats()
    assert stats["breaks"] == {} and stats["frames_captured"] == 1 and stats["checks_failed"] == {"leaves": 2}
    notice, = dynacomp.notices.told()
    assert (notice.kind, notice.file) == ("fallback", __file__) and "run as plain Python" in notice.reason
    assert notice.line == step.__code__.co_firstlineno + 2


def test_exceptions_of_the_program_are_counted_and_not_told():
    compiled = dynacomp.jit(validated, backend="eager")
    compiled(GOOD)
    for _ in range(2):
        with pytest.raises(ValueError):
            compiled(BAD)
    assert dynacomp.stats()["checks_failed"] == {"raises": 2} and not dynacomp.notices.told()


def test_generators_methods_and_recursion():
    class Model:
        def __init__(self, w):
            self.w = w

        def __call__(self, x):
            for y in self.halves(x, 2):
                positive(y, "y")
            return y * self.w

        def halves(self, x, depth):
            yield x
            if depth:
                yield from self.halves(x / 2, depth - 1)

    def called(w, x):
        return Model(w)(x)

    compiled = dynacomp.jit(called, backend="eager")
    for x in (GOOD, BAD, GOOD, GOOD + 1, BAD, GOOD):
        assert str(outcome(compiled, x, x)) == str(outcome(called, x, x))
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]
