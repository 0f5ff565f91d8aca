"""Complex numbers that a loop carries are carried as their parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynacomp
from dynacomp.lowering.passes.pairs import carry_parts
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.control import bodies, is_control
from dynacomp.lowering.primitives.translate import lower_function


def numbers(*shape, dtype=np.complex64):
    rng = np.random.default_rng(len(shape))
    return jnp.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), dtype) / 2


def squares(c):
    return lax.fori_loop(0, 70, lambda i, z: jnp.where(jnp.abs(z) <= 2, z * z * 0.3 + c * 0.1, z), jnp.zeros_like(c))


def rows(c):
    """Eighty arrays like `c`: too many for a loop to be unrolled."""
    return (jnp.arange(80) % 4).reshape(80, *[1] * c.ndim) * 0.5j * c * 0.3 + 0.1


def stacked(c):
    return lax.scan(lambda z, x: (z * x + c, z.conj()), c, rows(c))


def both(c):
    return lax.scan(lambda s, x: ((s[1] * x, s[0] + c, s[2] + 1), s[0] * s[1]), (c, -c, 0), rows(c))


def until(c):
    def small(s):
        return (jnp.max(jnp.abs(s[0])) < 4) & (s[1] < 50)

    return lax.while_loop(small, lambda s: (s[0] * 1.25 + c * 0.1j, s[1] + 1), (c, 0))


def nested(c):
    return lax.fori_loop(0, 70, lambda i, z: lax.fori_loop(0, 80, lambda j, w: w * w * 0.3 - c * 0.1, z * 0.1), c)


def turned(c):  # read whole: moved, not taken apart
    return lax.fori_loop(0, 70, lambda i, z: jnp.fft.fft(z) * 0.1 + c, c)


def loops(graph):
    for node in graph.calls:
        if is_control(node):
            yield node
            for body in bodies(node.kwargs):
                yield from loops(body)


def carried(fn, *args):
    graph = optimise(lower_function(fn, *args))
    return [p.aval.dtype.kind for node in loops(graph) for p in node.kwargs["body"].graph.placeholders]


@pytest.mark.parametrize("fn", [squares, stacked, both, until, nested])
def test_no_loop_carries_pairs(fn):
    found = carried(fn, numbers(4, 5))
    assert found.count("f") >= 2
    carries = [a.dtype.kind for node in loops(optimise(lower_function(fn, numbers(4, 5)))) for a in node.aval]
    assert "c" not in carries[:2]


def test_what_is_read_whole_stays():
    assert "c" in carried(turned, numbers(8))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("fn", [squares, stacked, both, until, nested, turned])
def test_as_eager(fn, dtype):
    with jax.enable_x64(dtype == np.complex128):
        compiled = dynacomp.jit(fn)
        for shape in [(8,), (3, 17)] if fn is turned else [(), (1,), (3, 17), (2, 64)][dtype == np.complex128::2]:
            c = numbers(*shape, dtype=dtype)
            got, expected = jax.tree.leaves(compiled(c)), jax.tree.leaves(fn(c))
            for g, e in zip(got, expected, strict=True):
                assert g.dtype == e.dtype and g.shape == e.shape
                np.testing.assert_allclose(g, e, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("value", [complex(np.nan, 1), complex(1, -np.inf), complex(-0.0, -0.0), complex(0.0, -0.0)])
def test_special_values(value):
    c = jnp.asarray([value] * 19, np.complex64)
    step = lambda c: lax.fori_loop(0, 71, lambda i, z: -z, c)
    got, expected = np.asarray(dynacomp.jit(step)(c)), np.asarray(step(c))
    np.testing.assert_array_equal(got.view(np.uint32) & 0x80000000, expected.view(np.uint32) & 0x80000000)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fn", [stacked, both, nested])
def test_gradients(fn):
    def loss(x):
        return sum(jnp.sum(jnp.abs(leaf) ** 2) for leaf in jax.tree.leaves(fn(x + 0.5j * x)))

    x = jnp.linspace(-1, 1, 21)
    wanted = jax.grad(loss)(x)
    np.testing.assert_allclose(dynacomp.jit(jax.grad(loss))(x), wanted, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(jax.grad(dynacomp.jit(loss))(x), wanted, rtol=2e-4, atol=2e-4)


def test_the_pass_leaves_other_graphs_alone():
    graph = lower_function(lambda x: lax.fori_loop(0, 70, lambda i, y: y * 2, x), np.ones(3, np.float32))
    assert str(carry_parts(graph)) == str(graph)
