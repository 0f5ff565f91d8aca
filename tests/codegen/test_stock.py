"""Small outputs out of the stock: right values, own memory, right types, under threads and after a fork."""

import gc
import os
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.codegen.program import _refill
from tests.codegen.cpp_kit import compiled

X = jnp.arange(32.0).reshape(4, 8)
ENOUGH = 400  # calls after which a program of three small outputs has its stock


@pytest.fixture(scope="module")
def program():
    """Three small outputs of different kinds and a large one; the stock is open."""
    made = compiled(lambda x, big: (x + 1, x.sum() > 3, x[0].astype(jnp.int32) * 2, big - x[0, 0]), X, jnp.ones(40_000))
    for _ in range(ENOUGH):
        made(X, jnp.ones(40_000))
    return made


def expected(x, big):
    return x + 1, x.sum() > 3, x[0].astype(jnp.int32) * 2, big - x[0, 0]


def agree(program, x, big=None):
    big = jnp.full(40_000, 7.0) if big is None else big
    for got, want in zip(program(x, big), expected(x, big)):
        np.testing.assert_array_equal(got, want)
        assert (got.dtype, got.shape, got.weak_type) == (want.dtype, want.shape, want.weak_type)
        assert got.sharding == want.sharding and got.committed == want.committed


def test_values_and_kinds(program):
    for k in range(100):
        agree(program, X * k)


def test_committed_inputs_have_a_stock_of_their_own(program):
    there = jax.device_put(X, jax.devices()[0])
    for x in (there, X, there + 1, X):
        big = jax.device_put(jnp.ones(40_000), jax.devices()[0]) if x.committed else jnp.ones(40_000)
        agree(program, x, big)


def test_every_output_has_memory_of_its_own(program):
    kept = [program(X + k, jnp.ones(40_000)) for k in range(200)]
    addresses = {y.unsafe_buffer_pointer() for outputs in kept for y in outputs}
    assert len(addresses) == 800
    for k, outputs in enumerate(kept):
        np.testing.assert_array_equal(outputs[0], X + k + 1)


def test_views_outlive_their_arrays(program):
    views = [np.asarray(program(X + k, jnp.ones(40_000))[0]) for k in range(100)]
    gc.collect()
    for _ in range(300):
        program(X * 0, jnp.ones(40_000))
    for k, view in enumerate(views):
        np.testing.assert_array_equal(view, X + k + 1)


def test_outputs_may_be_donated_to_jax(program):
    first = program(X, jnp.ones(40_000))[0]
    second = jax.jit(lambda a: a * 2, donate_argnums=0)(first)
    assert first.is_deleted()
    np.testing.assert_array_equal(second, (X + 1) * 2)
    agree(program, X)


def test_few_arrays_are_made_ahead(program):
    gc.collect()
    before = len(jax.live_arrays())
    for _ in range(500):
        program(X, X.ravel().repeat(1250))
    gc.collect()
    assert len(jax.live_arrays()) - before <= 60


def test_eight_threads(program):
    failures = []

    def work(k):
        for n in range(300):
            if not np.array_equal(program(X + k * n, jnp.ones(40_000))[0], X + k * n + 1):
                failures.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


@pytest.mark.filterwarnings("ignore")
def test_a_child_does_without(program):
    """XLA's threads do not exist in a child."""
    big = jnp.ones(40_000)
    child = os.fork()
    if child == 0:
        os._exit(0 if all(np.asarray(program(X, big)[0])[0, 0] == 1 for _ in range(100)) else 1)
    for _ in range(300):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    assert done and status == 0
    agree(program, X)


def test_under_a_transformation_in_progress(program):
    """A refill in the midst of a trace is no part of the trace."""
    outside, big = [], jnp.ones(40_000)

    def f(x):
        outside.extend(program(X, big)[0] for _ in range(60))
        return x * 2

    jax.make_jaxpr(f)(1.0)
    assert all(isinstance(y, jax.Array) and not isinstance(y, jax.core.Tracer) for y in outside)


def test_programs_with_the_same_outputs_share_what_makes_them():
    first, second = compiled(lambda x: (x + 1, x * 2), X), compiled(lambda x: (x - 1, x / 2), X)
    for _ in range(ENOUGH * 2):
        first(X)
    opened = _refill.cache_info()
    kept = [(first(X + k), second(X + k)) for k in range(ENOUGH * 2)]
    assert _refill.cache_info().misses == opened.misses and _refill.cache_info().hits > opened.hits
    for k, ((a, b), (c, d)) in enumerate(kept[::50]):
        for got, want in zip((a, b, c, d), (X + 50 * k + 1, (X + 50 * k) * 2, X + 50 * k - 1, (X + 50 * k) / 2)):
            np.testing.assert_array_equal(got, want)
