"""Loops with a limit of rounds end whatever the arrays are: a check before one waits for the end of the graph."""

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.tracing.endless_loops import may_not_end
from tests.capture.program_kit import check_one_graph

LOOP, X = jax.lax.while_loop, jnp.ones(3)


def rounds(s):
    return s[0] + 1, s[1] * 2, jnp.sum(s[1]) > 5


@pytest.mark.parametrize("ends, loop", [
    (True, lambda x: LOOP(lambda s: (s[0] < 100) & ~s[2], rounds, (0, x, False))),
    (True, lambda x: LOOP(lambda s: jnp.logical_and(~s[2], s[0] < 100), rounds, (jnp.int32(0), x, False))),
    (True, lambda x: jax.jit(lambda x: jax.lax.fori_loop(0, 5, lambda i, s: s * 2, x))(x)),
    (False, lambda x: LOOP(lambda s: (s[0] < 100) | s[2], rounds, (0, x, False))),
    (False, lambda x: LOOP(lambda s: s[0] < 100, lambda s: (s[0] - 1, s[1]), (0, x))),
    (False, lambda x: LOOP(lambda s: s[0] < 100, lambda s: (s[0] * 2, s[1]), (0, x))),
    (False, lambda x: LOOP(lambda s: jnp.sum(s) < 100, lambda s: s * 2, x)),
    (False, lambda x: jax.lax.fori_loop(0, jnp.sum(x).astype(int), lambda i, s: s * 2, x)),
    (False, lambda x: LOOP(lambda s: s[0] < 3, lambda s: (s[0] + 1, LOOP(lambda v: v < 5, lambda v: v * 2, s[1])),
                           (0, x[0]))),
])
def test_what_counts_its_rounds(ends, loop):
    assert may_not_end(jax.make_jaxpr(loop)(X).jaxpr) is not ends


def tried(x):
    """A search that gives up, as libraries write it."""
    if not (x > 0).all():
        raise ValueError("not positive")
    return LOOP(lambda s: (s[0] < 20) & ~s[2], rounds, (0, x, False))[1]


def test_a_check_before_a_counted_loop_stays_in_the_graph():
    check_one_graph(tried, (X,), (X * 3,))
    compiled = dynacomp.jit(tried, backend="eager")
    compiled(X)
    with pytest.raises(ValueError, match="not positive"):
        compiled(-X)
