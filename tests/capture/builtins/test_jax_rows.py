"""`jax.debug.print` keeps the graph whole, and what is printed in its order."""

import jax
import jax.numpy as jnp
import pytest
from jax._src import core

import dynacomp

X = jnp.ones(3)


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def twice(x):
    jax.debug.print("x = {x}", x=x.sum())
    y = jnp.sin(x) * 2
    jax.debug.print("y = {}", y[0])
    return y


def in_turn(x):
    print("before")
    jax.debug.print("x = {}", x.sum())
    print("after")
    return x * 2


def conditional(x):
    if x.sum() > 0:
        jax.debug.print("positive {}", x[0])
    return x + 1


def printed(fn, capsys):
    for x in (jnp.ones(3), -jnp.ones(3)):
        fn(x)
    jax.effects_barrier()
    return capsys.readouterr().out


@pytest.mark.parametrize("fn, breaks", [(twice, {}), (in_turn, {"effect": 2}), (conditional, {})])
def test_prints_in_order(fn, breaks, capsys):
    assert printed(dynacomp.jit(fn, backend="eager"), capsys) == printed(fn, capsys) != ""
    assert dynacomp.stats()["breaks"] == breaks


def in_a_scan(x):
    def body(c, v):
        jax.debug.print("c = {c}", c=c)
        return c + v, c * 2
    return jax.lax.scan(body, 0.0, x)


def unused(x):
    jax.lax.fori_loop(0, 40, lambda i, c: (jax.debug.print("{} {}", i, c), c + 1)[1], x.sum())
    return x + 1


def in_a_loss(x):
    def loss(v):
        value = (v ** 2).sum()
        jax.debug.print("loss {}", value)
        return value
    value, grad = jax.value_and_grad(loss)(x)
    return x - 0.1 * grad, value


def batched(x):
    return jax.vmap(lambda v: (jax.debug.print("v = {}", v), v * 2)[1])(x)


def in_a_branch(x):
    return jax.lax.cond(x.sum() > 4, lambda v: (jax.debug.print("large {}", v.sum()), v)[1], lambda v: v * 2, x)


def in_a_while(x):
    return jax.lax.while_loop(lambda c: c.max() > 1, lambda c: (jax.debug.print("at {}", c.max()), c / 2)[1], x + 4)


def nested(x):
    def body(c, v):
        g = jax.grad(lambda w: (jax.debug.print("w = {}", w), w * w * c)[1])(v)
        return c + g, g
    return jax.lax.scan(body, 1.0, x)


@pytest.mark.parametrize("fn", [in_a_scan, unused, in_a_loss, batched, in_a_branch, in_a_while, nested])
@pytest.mark.parametrize("size", [4, 40])
def test_prints_in_bodies_stay_in_the_graph(fn, size, capsys):
    """Loops that XLA runs for it included."""
    compiled = dynacomp.jit(fn)
    for k in range(3):
        found = []
        for run in (fn, compiled):
            result = run(jnp.arange(float(size)) + k)
            jax.effects_barrier()
            found.append((result, sorted(capsys.readouterr().out.splitlines())))
        (want, wanted), (got, said) = found
        assert said == wanted
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            assert jnp.allclose(a, b, rtol=1e-5)
    stats = dynacomp.stats()
    assert stats["breaks"] == {} and not stats["frames_eager"] and stats["frames_captured"] == 1


def after_another(x):
    jax.debug.print("first {}", x.sum())
    y, _ = in_a_scan(x)
    jax.debug.print("last {}", y)
    return y


def checked(x):
    y, _ = in_a_scan(x)
    if y > 9:
        raise ValueError("large")
    return y


@pytest.mark.parametrize("fn", [after_another, checked])
def test_prints_have_their_turn_and_come_once(fn, capsys):
    compiled = dynacomp.jit(fn)
    for k in (0, 1, 5, 0, 5, 1):
        said = []
        for run in (fn, compiled):
            try:
                run(jnp.arange(4.0) + k)
            except ValueError as error:
                print(error)
            jax.effects_barrier()
            said.append(capsys.readouterr().out)
        assert said[0] == said[1]


class Named:
    """A context manager of the program's around one of JAX's."""

    def __init__(self, name):
        self.scope = jax.named_scope(name)

    def __enter__(self):
        self.scope.__enter__()

    def __exit__(self, *error):
        self.scope.__exit__(*error)


def test_names_that_are_left_behind_a_graph_break_were_entered(capsys):
    def inner(x, tell):
        with Named("inner"):
            if tell:
                print("here")
            return jnp.sin(x)

    def f(x, tell):
        with Named("outer"):
            return inner(x, tell) + 1

    for tell, breaks in ((False, 0), (True, 1)):
        dynacomp.reset()
        compiled = dynacomp.jit(f, backend="eager")
        for n in range(3):
            x = jnp.arange(3.0) + n
            assert jnp.allclose(compiled(x, tell), f(x, tell))
        assert bool(dynacomp.stats()["breaks"]) == breaks


TRANSFORMED = [lambda f: f, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum()), jax.jit]


@pytest.mark.parametrize("transformed", TRANSFORMED)
def test_whether_somebody_traces_is_what_the_program_would_hear(transformed):
    def clean(x):
        return x * 2 if core.trace_state_clean() else x * 3

    def of_now(x):
        before = core.get_opaque_trace_state()
        same = jax.vmap(lambda y: y * (before == core.get_opaque_trace_state()))(x[None])
        return same[0] + (2 * x if before == core.get_opaque_trace_state() else x)

    for fn in (clean, of_now):
        expected, compiled = transformed(fn)(jnp.arange(3.0)), transformed(dynacomp.jit(fn))
        for _ in range(3):
            assert compiled(jnp.arange(3.0)).tolist() == expected.tolist()


@pytest.mark.parametrize("wrong", [
    lambda x: jax.debug.print("x = {}", n=x),
    lambda x: jax.debug.print("x = {n}", x),
    lambda x: jax.debug.print("x", n=x),
    lambda x: jax.debug.print(None, 42),
])
def test_what_cannot_be_printed_fails_where_it_is_said(wrong, capsys):
    def f(x):
        try:
            wrong(x)
        except Exception as error:
            return x + 1, type(error), str(error)

    compiled = dynacomp.jit(f, backend="eager")
    for x in (X, X * 2):
        assert repr(compiled(x)) == repr(f(x))
    assert not capsys.readouterr().out and dynacomp.stats()["graphs"]


def test_options_of_a_print_apart_from_its_text(capsys):
    def f(x):
        jax.debug.print(ordered=True)("x = {}", x.sum())
        return x + 1

    assert printed(dynacomp.jit(f, backend="eager"), capsys) == printed(f, capsys) != ""
