"""Calls and recompiles leak nothing."""

import gc
import resource
import sys
import tracemalloc

import jax.numpy as jnp
import pytest

import dynacomp


def grown(work, rounds):
    """Bytes that Python holds more after `rounds` of work than after a warm-up."""
    work(rounds // 4 or 1)
    gc.collect()
    tracemalloc.start()
    try:
        work(rounds // 4 or 1)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        work(rounds)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def calls(n):
    f, x = dynacomp.jit(lambda a, k: {"y": jnp.abs(a) * k, "x": a}), jnp.ones(8)

    def work(rounds):
        for _ in range(rounds):
            f(x, 2)

    references = sys.getrefcount(x)
    bytes_grown = grown(work, n)
    assert sys.getrefcount(x) - references < 5
    return bytes_grown


def recompiles(n):
    x = jnp.ones(8)

    def work(rounds):
        for k in range(rounds):
            f = eval(f"lambda a: (print(end=''), a + {k})[1] * 2", {})
            assert dynacomp.jit(f, backend="eager")(x)[0] == 2 + 2 * k

    return grown(work, n)


def test_calls():
    assert calls(10_000) < 20_000


def test_recompiles():
    assert recompiles(40) < 40 * 20_000  # JAX's bounded caches still fill; the long version is strict


@pytest.mark.slow
def test_many_recompiles():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert recompiles(1_000) < 1_000 * 500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
