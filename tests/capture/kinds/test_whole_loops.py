"""`sum`, `list`, `math.prod` and `functools.reduce` over a symbolic number of items are loops of the Graph."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

W = jnp.eye(3) * 0.5
SIZES = (6, 4, 9, 5, 6, 9, 4, 5, 6, 3)  # half of them once more: Python compiles for each size


def reused(xs):
    squares = (x * x for x in xs)
    total = sum(squares)
    return total, list(squares), next(squares, None)


def of_closures(xs):
    scale = xs[0, 0]
    return sum(sum((lambda: x * scale)() for _ in range(2)) for x in xs)


PROGRAMS = {
    "sum": lambda xs: sum(jnp.tanh(x @ W).sum() for x in xs),
    "sum over a range": lambda xs: sum(jnp.tanh(xs[i] @ W) * i for i in range(len(xs))),
    "sum from": lambda xs: sum((x for x in xs), start=jnp.ones(3)),
    "sum of pairs": lambda xs: sum((a * b).sum() for a, b in zip(xs, xs)),
    "sum of map": lambda xs: sum(map(jnp.tanh, xs)),
    "list": lambda xs: jnp.stack(list(jnp.tanh(x) for x in xs)),  # noqa: C400
    "either": lambda xs: sum(x if i > 3 else 2 * x for i, x in enumerate(xs)),
    "product": lambda xs: math.prod(jnp.tanh(x) for x in xs),
    "product from": lambda xs: math.prod((x for x in xs), start=0.5),
    "reduce": lambda xs: functools.reduce(lambda a, b: jnp.tanh(a + b), xs),
    "reduce from": lambda xs: functools.reduce(lambda a, b: jnp.tanh(a + b), (x * 2 for x in xs), jnp.zeros(3)),
    "reduce pairs": lambda xs: functools.reduce(
        lambda state, x: (jnp.tanh(state[0] + x), state[1] + state[0]), xs, (jnp.zeros(3), jnp.ones(3))),
    "accumulate": lambda xs: jnp.stack(list(itertools.accumulate(xs, lambda a, b: jnp.tanh(a + b)))),
    "accumulate from": lambda xs: sum(itertools.accumulate((x * 2 for x in xs), initial=jnp.ones(3))),
    "closures": of_closures,
    "at its end": reused,
}


def rows(n):
    return jnp.asarray(np.random.RandomState(n).randn(n, 3), jnp.float32)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("transformed", [False, pytest.param(True, marks=pytest.mark.medium)])
def test_two_captures_for_all_lengths(name, transformed):
    program = PROGRAMS[name]
    if transformed:
        program = jax.grad(lambda xs: sum(jnp.sum(leaf ** 2) for leaf in jax.tree.leaves(PROGRAMS[name](xs))))
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager" if transformed else "auto")
    for n in SIZES:
        got, want = compiled(rows(n)), program(rows(n))
        assert jax.tree.structure(got) == jax.tree.structure(want)
        for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
            np.testing.assert_allclose(g, w, rtol=2e-4, atol=1e-5)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 2 and not stats["breaks"] and not stats["frames_eager"]


def test_an_exception_in_the_expression_is_python_s():
    def program(xs, told):
        squares = (xs[:2] @ x for x in xs)
        try:
            return sum(squares)
        except TypeError as error:
            told.append(str(error)[:20])
            return next(squares, "at its end")

    compiled = dynacomp.jit(program, backend="eager")
    for n in (4, 5, 6, 7):
        told, also = [], []
        bad = jnp.ones((n, 3, 5))
        assert repr(compiled(bad, told)) == repr(program(bad, also)) and told == also


def test_reducing_nothing_raises():
    program = PROGRAMS["reduce"]
    compiled = dynacomp.jit(program, backend="eager")
    for n in (3, 4, 5):
        compiled(rows(n))
    with pytest.raises(TypeError, match="reduce\\(\\) of empty iterable"):
        compiled(jnp.ones((0, 3)))


def test_a_generator_expression_that_stops_is_an_error():
    """StopIteration leaves no generator, as it leaves what `map` calls."""
    def program(xs):
        empty = iter(())
        return sum(x + next(empty) for x in xs)

    compiled = dynacomp.jit(program, backend="eager")
    for n in (3, 4, 5):
        with pytest.raises(RuntimeError, match="generator raised StopIteration"):
            compiled(rows(n))
