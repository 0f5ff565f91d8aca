"""Loops on arrays in the functions of gradients: one node that derivatives go through backwards, and a check that there
was room for all rounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.control_flow import limited_loops


def falling(x, y):
    h, rounds = x * 2, 0
    while (h * h).sum() > 0.3:
        h, rounds = (h * 0.5 if h[0] > 0.4 else h * 0.8 - 0.01 * y), rounds + 1
    return (h * x).sum() * (rounds + 1)


def left_early(x, y):
    for i in range(6):
        x = x * 0.7
        if x.sum() > 1.5:
            continue
        if x.sum() < 0.3:
            return (x * y).sum() * i
    else:
        x = x + 1
    return (x ** 2).sum()


def short(x, y):
    while x.max() > 0.5:
        x = x * 0.5
    return (x * y).sum()


def differentiated(fn):
    return lambda x, y: (jax.value_and_grad(fn)(x, y), jax.jvp(lambda x: fn(x, y), (x,), (y,)),
                         jax.vjp(lambda x: fn(x, y), x)[1](jnp.float32(2)))


def same(fn, captures, breaks=None, numbers=range(6), sizes=(4,)):
    """What plain Python gives in all calls, in so many captures."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for k in numbers:
        x = jnp.linspace(-0.4, 0.6, sizes[k % len(sizes)]) + k / 5
        want, got = (jax.tree.leaves(f(x, x * 0 + 1 + k / 8)) for f in (fn, compiled))
        for a, b in zip(want, got, strict=True):
            assert (a.dtype, a.weak_type) == (b.dtype, b.weak_type)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert dynacomp.stats()["frames_captured"] == captures
    assert dynacomp.stats()["breaks"] == (breaks or {})


def test_a_loop_is_one_node_for_all_numbers_of_rounds_and_sizes():
    same(jax.grad(falling), 2, sizes=(4, 5, 7), numbers=range(3))


@pytest.mark.slow
@pytest.mark.parametrize("fn", [falling, left_early])
def test_all_derivatives_go_through_it(fn):
    same(differentiated(fn), 1)
    same(jax.grad(fn), 2, sizes=(4, 5, 7), numbers=range(10))


@pytest.mark.slow
def test_derivatives_of_derivatives():
    same(jax.hessian(falling), 1)
    same(jax.grad(lambda x, y: (jax.grad(falling)(x * 0.5, y) ** 2).sum()), 1)


def test_a_loop_of_more_rounds_is_captured_with_more_room():
    dynacomp.reset()
    fn = jax.grad(short)
    compiled = dynacomp.jit(fn, backend="eager")
    for k in (3, 70, 80):
        x = jnp.ones(2) * 2.0 ** k
        np.testing.assert_allclose(compiled(x, x), fn(x, x))
    assert dynacomp.stats()["frames_captured"] == 2
    assert dynacomp.stats()["checks_failed"] == {"rounds": 1}


def test_what_takes_too_much_room_is_left_to_python(monkeypatch):
    monkeypatch.setattr(limited_loops, "MOST_BYTES", 1 << 9)
    same(jax.grad(short), 5, {"branch": 3}, numbers=range(2))


def test_what_only_tracers_could_tell_raises_as_ever():
    fn = jax.vmap(jax.grad(short), (0, None))
    x = jnp.ones((2, 2))
    for f in (fn, dynacomp.jit(fn, backend="eager")):
        with pytest.raises(jax.errors.TracerBoolConversionError):
            f(x, x[0])
