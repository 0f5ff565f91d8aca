"""What is saved for a backward pass: few bytes, and from them the same derivatives."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Literal, jaxpr_as_fun

from dynacomp.lowering.autodiff import derive
from dynacomp.lowering.autodiff.cut import kept
from dynacomp.lowering.autodiff.derive import linearised

X, W, B = jnp.linspace(-1, 1, 12).reshape(4, 3), jnp.linspace(0, 1, 15).reshape(3, 5), jnp.linspace(-2, 1, 5)


def activations(x, w, b):
    return [jax.nn.gelu(x @ w + b).sum(), jnp.tanh(x).sum(), jnp.where(x > 0, x * x, -x).sum()]


def shifted(x, w, b):
    y = (x * 2 + 1) * 3 - x
    return [(jnp.broadcast_to(b, (4, 5)) * (x @ w)).sum() + (y ** 3).sum()]


def normed(x, w, b):
    h = x @ w
    h = (h - h.mean(-1, keepdims=True)) * jax.lax.rsqrt(h.var(-1, keepdims=True) + 1e-5)
    return [jax.nn.log_softmax(jax.nn.relu(h * b)).sum(), jnp.clip(h, -1, 1).sum()]


def carried(x, w, b):
    last, each = jax.lax.scan(lambda c, row: (jnp.tanh(c + row @ w), c.sum()), b, x)
    return [last.sum() + each.sum(), jnp.sort(x, 0)[0].sum()]


FUNCTIONS = [activations, shifted, normed, carried]


def saved_bytes(split, outputs):
    return sum(math.prod(a.shape) * a.dtype.itemsize for a in split.forward.out_avals[outputs:])


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda f: f.__name__)
def test_derivatives_from_what_is_kept(fn):
    closed, inputs = jax.make_jaxpr(fn)(X, W, B), (X, W, B)
    split, count = linearised(closed, (True,) * 3), len(closed.out_avals)
    results = jaxpr_as_fun(split.forward)(*inputs)
    moved = jaxpr_as_fun(split.tangent)(*split.picked(inputs, results[:count], results[count:]), *inputs)
    want, tangents = jax.jvp(lambda *args: fn(*args), inputs, inputs)
    for a, b in zip((*results[:count], *moved), (*want, *tangents)):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("fn", FUNCTIONS[:3], ids=lambda f: f.__name__)
def test_fewer_bytes_are_saved_than_jax_would(fn, monkeypatch):
    closed = jax.make_jaxpr(fn)(X, W, B)
    count = len(closed.out_avals)
    mine = saved_bytes(linearised(closed, (True,) * 3), count)
    monkeypatch.setattr(derive, "kept", lambda jaxpr, n: list(dict.fromkeys(
        v for v in jaxpr.outvars[n:] if not isinstance(v, Literal))))
    assert mine <= 0.75 * saved_bytes(linearised(closed, (True,) * 3), count)


def test_chains_of_cheap_operations_are_done_again_from_inputs():
    closed = jax.make_jaxpr(lambda x: (((x * 2 + 1) * 3 - x) ** 3).sum())(X)
    split = linearised(closed, (True,))
    assert split.residuals == (("in", 0),) and len(split.forward.out_avals) == 1


def test_products_roots_and_random_bits_are_not_done_again():
    def fn(x, w):
        noise = jax.random.normal(jax.random.key(0), (4, 5))
        return (jnp.sqrt(x @ w + 9) * noise).sum()

    split = linearised(jax.make_jaxpr(fn)(X, W), (True, True))
    names = {str(e.primitive) for e in split.tangent.jaxpr.eqns}
    assert not names & {"sqrt", "threefry2x32", "random_bits", "erf_inv"}
    assert str(split.tangent.jaxpr).count("dot_general[") == 2  # of the tangents themselves


def test_the_same_function_is_cut_alike():
    texts = {str(linearised(jax.make_jaxpr(normed)(X, W, B), (True,) * 3).residuals) for _ in range(3)}
    assert len(texts) == 1


def test_many_layers_are_cut_one_by_one():
    def deep(x):
        for _ in range(200):
            x = jnp.tanh(x) * 2 - x
        return x.sum()

    closed = jax.make_jaxpr(deep)(X)
    split = linearised(closed, (True,))
    assert len(split.forward.out_avals) - 1 <= 401 and kept(closed.jaxpr, 1) == []
