"""Functions that are made anew for each call: known by their code, unless which one it is matters."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

X = jnp.arange(3.0)


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def captures(fn, *calls):
    """Runs the calls compiled, compares with plain Python, and gives the number of captures."""
    compiled = dynacomp.jit(fn, backend="eager")
    for args in calls:
        np.testing.assert_equal(jax.tree.map(np.asarray, compiled(*args)), jax.tree.map(np.asarray, fn(*args)))
    return dynacomp.stats()["frames_captured"]


def scale(k):
    return lambda x: x * k


def apply(x, fn):
    return fn(x) if fn is not None and callable(fn) and fn else x


def test_a_new_function_with_the_same_code_hits():
    assert captures(apply, *[(X, scale(2)) for _ in range(4)]) == 1


def test_what_it_closes_over_is_guarded():
    calls = [(X, scale(k)) for k in (2, 2, 3, 2)]
    assert captures(apply, *calls) == 2


def test_defaults_are_guarded():
    def make(k):
        return lambda x, k=k: x + k

    none = make(1)
    none.__defaults__ = None
    compiled = dynacomp.jit(apply, backend="eager")
    for fn in (make(1), make(1), make(2)):
        np.testing.assert_array_equal(compiled(X, fn), fn(X))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        compiled(X, none)


def test_after_a_break():
    def program(x):
        def inner(y):
            return y * 2

        dynacomp.graph_break()
        return inner(x) + (lambda z: z + 1)(x)

    assert captures(program, *[(X,)] * 4) == 2


def test_of_a_transformation():
    def program(x, loss):
        return jax.grad(loss)(x), jax.vmap(loss)(x)

    assert captures(program, *[(X, lambda v: (v ** 2).sum()) for _ in range(3)]) == 1


def test_identity_counts_where_it_is_asked_for():
    a, b = scale(2), scale(2)

    def program(x, f, g, table):
        return f is g, f in table, table.get(g), x * 1, f == g, f.__name__

    table = {a: 1}
    captures(program, (X, a, b, table), (X, a, a, table), (X, b, a, table), (X, b, b, table), (X, a, b, table))


def test_decorated_and_partial():
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            return fn(*args) + 1

        return wrapper

    def program(x, fn, other):
        return fn(x), other(x)

    assert captures(program, *[(X, decorate(scale(2)), functools.partial(scale(3))) for _ in range(3)]) == 1


def test_other_globals_are_another_function():
    source = "def made():\n    return lambda x: x * K\n"
    first, second = {"K": 2}, {"K": 3}
    code = compile(source, "<made>", "exec")
    for table in (first, second):
        exec(code, table)
    captures(apply, (X, first["made"]()), (X, second["made"]()), (X, first["made"]()))


def double(x):
    return x * 2


def triple(x):
    return x * 3


def test_a_function_that_comes_twice_is_known_in_each_place():
    captures(lambda x, fn: fn(double(x)), (X, double), (X, triple))
    captures(lambda x, one, other: other(one(x)), (X, double, double), (X, double, triple), (X, triple, double))

    def made(k):
        return lambda x: x * k

    same = made(5)
    captures(lambda x, one, other: one(x) + other(x), (X, same, same), (X, same, made(5)), (X, same, made(7)))


def test_one_that_is_alive_at_a_break_is_no_other_function_in_the_next_call():
    def loop(x):
        def scale(v):
            return v * 2

        kept = [scale]
        for _ in range(3):
            x = scale(x)
            dynacomp.graph_break()
            x = kept[0](x)
        return x, scale

    dynacomp.reset()
    compiled, seen = dynacomp.jit(loop, backend="eager"), []
    for _ in range(4):
        assert jnp.array_equal(compiled(X)[0], loop(X)[0])
        seen.append(dynacomp.stats()["frames_captured"])
    assert len(set(seen)) == 1


def test_two_are_told_apart_where_they_stand():
    same, other = scale(2), scale(2)
    program = lambda x, f, g: (f(x), f is g)  # noqa: E731
    assert captures(program, (X, same, same), (X, other, other)) == 1
    dynacomp.reset()
    assert captures(program, (X, same, same), (X, same, other), (X, other, same)) == 2
