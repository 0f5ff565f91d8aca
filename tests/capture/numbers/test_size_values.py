"""`numbers.size_values`: sizes are numbers like any other, also where JAX hands them to functions it transforms."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.numbers.test_host_functions import compiled_like_plain

SIDES = (5, 6, 7, 12, 4, 8)  # of six and of eight


def clamped(x):
    n = min(x.shape[0], 6)
    return x * n, max(x.shape[0], 6), n


def padded(x):
    return jnp.pad(x, (0, max(0, 8 - x.shape[0]))) * 2


def by_a_distance(x):
    d = x.shape[0] - 6
    return x * abs(d), jnp.zeros(abs(d)), abs(d)


def longest(x):
    y = x[1:]
    n = max(len(y), len(x), 4)
    return jnp.pad(x, (0, n - len(x))) + jnp.pad(y, (0, n - len(y)))


def head_by_rows(x):
    n = min(len(x), 7)
    return jnp.outer(x[:n], x[-n:]).reshape(n * n).cumsum(), [max([n, 5], key=abs), min(n, 2.5), max(n, n), n < 9]

KS = (2, 3, 4, 8, 2)
INNER = {
    "shape": lambda x, k: x.reshape(4, k, 24 // k).sum(1).ravel() / (24 // k) ** 0.5,
    "slice": lambda x, k: x[:, :k].sum(0) / k,
    "arange": lambda x, k: x[:, :1] * jnp.arange(k) + (k - 3),
    "tuple": lambda x, k: x.reshape((4, *(k, 24 // k))).mean((0, 2)),
}
AROUND = {
    "grad": lambda f: jax.grad(lambda x, k: f(x, k).sum()),
    "vmap": lambda f: lambda x, k: jax.vmap(f, (0, None))(jnp.stack([x, 2 * x]), k),
    "jacfwd": lambda f: jax.jacfwd(lambda x, k: f(x, k).sum()),
    "jvp": lambda f: lambda x, k: jax.jvp(lambda y: f(y, k), (x,), (x,)),
    "checkpoint": lambda f: jax.grad(lambda x, k: jax.checkpoint(lambda y: f(y, k))(x).sum()),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("inner", INNER)
def test_ints_that_are_sizes_below_a_transformation(inner, around):
    x = jnp.arange(96.0).reshape(4, 24)
    compiled_like_plain(AROUND[around](INNER[inner]), [(x, k) for k in KS], 3)


@pytest.mark.parametrize("fn", (clamped, padded, by_a_distance, longest))
def test_the_larger_of_two_sizes_takes_no_side(fn):
    compiled_like_plain(fn, [(jnp.arange(1.0, n + 1),) for n in SIDES], 2)


def test_where_a_constant_is_wanted_the_sizes_at_hand_decide():
    def first_part(x):
        return jnp.array_split(jnp.arange(12.0), min(4, x.shape[0]))[0] * x.max()

    compiled_like_plain(first_part, [(jnp.arange(1.0, n + 1),) for n in (9, 10, 12, 8, 11, 20)], 3)


@pytest.mark.medium
def test_parts_as_long_as_the_smaller():
    compiled_like_plain(head_by_rows, [(jnp.arange(1.0, n + 1),) for n in SIDES], 4)


@pytest.mark.parametrize("times", (1, 3))
def test_a_question_of_jax_about_a_remainder_has_two_answers(times):
    """`rfftfreq` asks `n % 2 == 0`: odd sizes first had their length for the even ones, too."""
    def frequencies(x, n):
        return jnp.round(jnp.fft.rfftfreq(n * times) * n * times) + x

    calls = [(jnp.zeros(()), n) for n in (9, 11, 101, 102, 8, 13, 10, 9)]
    compiled_like_plain(frequencies, calls, 3, backend="auto")


def upper_half(x):
    k = int(len(x) * 0.5)
    return x[k:], k


def capacity(x):
    most = math.ceil(x.shape[0] / 4 * 1.25)
    return x[:most].sum(), jnp.zeros((most, 2))


def signed_quotient(x):
    return x * (10 // (x.shape[0] - 5)), x.shape[0] % (20 - x.shape[0])


@pytest.mark.parametrize("fn", [upper_half, capacity, signed_quotient])
@pytest.mark.parametrize("transformed", [lambda fn: fn, lambda fn: jax.grad(lambda x: fn(x)[0].sum())])
def test_ints_that_python_computes_of_sizes_are_sizes_of_their_own(fn, transformed):
    dynacomp.reset()
    plain = transformed(fn)
    compiled = dynacomp.jit(plain, backend="eager")
    for size in (4, 6, 9, 3, 12, 2):
        x = jnp.arange(1.0, size + 1)
        want, got = jax.tree.leaves(plain(x)), jax.tree.leaves(compiled(x))
        assert [jnp.shape(w) for w in want] == [jnp.shape(g) for g in got]
        assert all(jnp.array_equal(w, g) for w, g in zip(want, got))
    assert dynacomp.stats()["frames_captured"] == 2
    assert not dynacomp.stats()["breaks"]


def test_an_int_that_becomes_a_size_beside_a_float_that_changes():
    """`linspace` can't take a number of unknown value as its `num`: that is why it fails, and not the float."""
    calls = [(jnp.ones(3), 1.0 + i / 8, 4 + i % 5) for i in range(10)]
    compiled_like_plain(lambda x, stop, n: (x * stop, jnp.linspace(0, stop, n)), calls, 2)


def test_a_size_of_the_remainder_of_a_number_that_changes():
    """`5 + i % 4` is never negative, though what comes last in it is subtracted."""
    def turned(i):
        n = 5 + i % 4
        return jnp.roll(jax.random.uniform(jax.random.key(i), (n, n)), 1, 0)

    compiled_like_plain(turned, [(i,) for i in range(10)], 2)


BLOCK = jnp.sin(jnp.arange(24.0)).reshape(2, 3, 4)
AXES = {
    "flip": lambda a: jnp.flip(BLOCK, a), "rev": lambda a: jax.lax.rev(BLOCK, (a,)),
    "sort": lambda a: jnp.sort(BLOCK, a),
    "iota": lambda a: jax.lax.broadcasted_iota(jnp.int32, (2, 3, 4), a), "sum": lambda a: BLOCK.sum(a),
    "in_axes": lambda a: jax.vmap(lambda x: x.sum() * a, in_axes=a)(BLOCK),
    "argnums": lambda a: jax.grad(lambda *x: (x[0] * x[1] * x[2]).sum(), argnums=a)(BLOCK, BLOCK + 1, BLOCK * 2),
}


@pytest.mark.parametrize("computed", [True, False])
@pytest.mark.parametrize("fn", AXES.values(), ids=AXES)
def test_an_axis_that_changes_is_a_constant(fn, computed):
    """An entry for each axis."""
    calls = [(i,) if computed else (i % 3,) for i in range(8)]
    compiled_like_plain((lambda i: (fn(i % 3), i)) if computed else (lambda a: fn(a)), calls, 4 if computed else 3)


def test_an_axis_that_native_code_is_told():
    """Most primitives take a symbolic size for an axis. `flip` then turned none round."""
    compiled_like_plain(lambda i: (jnp.flip(BLOCK, i % 2), i), [(i,) for i in range(4)], 3, backend="auto")


def test_slices_that_are_of_one_length_though_nothing_says_so():
    """JAX puts their shapes into a set, which asks no size whether it equals another."""
    def windows(x, w):
        return jnp.stack([x[2:2 + w], x[1:1 + w]])

    compiled_like_plain(windows, [(jnp.arange(10.0), 2 + i % 4) for i in range(8)], 2)
