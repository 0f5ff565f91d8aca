"""`capture.wrapping.changing_contents`: containers with another content in each call are read by Python."""

import collections

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

X = jnp.arange(3.0)


def known(x, table, n):
    if n not in table:
        table[n] = n * 0.5
    return x * table[n]


def logged(x, log, n):
    y = jnp.tanh(x) * n
    log.append(n)
    return y + len(log)


def members(x, seen, n):
    fresh = n not in seen
    seen.add(n)
    return x * 2 if fresh else x


PROGRAMS = {"dict": (known, dict), "list": (logged, list), "deque": (logged, lambda: collections.deque(maxlen=50)),
            "set": (members, set)}


@pytest.mark.parametrize("fn, container", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_container_that_grows_in_each_call_settles(fn, container):
    dynacomp.reset()
    made, plain, held = dynacomp.jit(fn, backend="eager"), container(), container()
    captured = []
    for n in range(24):
        np.testing.assert_allclose(made(X, held, n), fn(X, plain, n), rtol=1e-6)
        assert held == plain
        captured.append(dynacomp.stats()["frames_captured"])
    assert captured[12] == captured[-1] and not dynacomp.stats()["frames_eager"]


def test_contents_that_return_keep_their_entries():
    """Four lists, again and again: one whole graph for each, and no break."""
    dynacomp.reset()
    made = dynacomp.jit(lambda x, rates: x * rates[-1] + len(rates), backend="eager")
    for n in (1, 2, 3, 4) * 4:
        np.testing.assert_allclose(made(X, [0.5] * n), X * 0.5 + n)
    stats = dynacomp.stats()
    assert (stats["frames_captured"], stats["breaks"]) == (4, {})
