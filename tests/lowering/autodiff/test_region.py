"""The primitive by itself: which derived regions run on arrays, and how often each is compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters.ad import primitive_linearizations
from jax.extend.core import jaxpr_as_fun

from dynacomp.lowering.autodiff.region import Region, apply, region_p

X, W = jnp.linspace(-1, 1, 6).reshape(2, 3), jnp.linspace(0, 1, 12).reshape(3, 4)


def loss(x, w):
    return jnp.tanh(x @ w).sum()


class Compiler:
    """Compiles by XLA, and counts."""

    def __init__(self):
        self.made, self.runs = 0, 0

    def __call__(self, closed):
        self.made += 1
        program = jax.jit(jaxpr_as_fun(closed))

        def run(*arrays):
            assert not any(isinstance(x, jax.core.Tracer) for x in arrays)
            self.runs += 1
            return program(*arrays)

        return run


@pytest.fixture
def compiler():
    return Compiler()


@pytest.fixture
def region(compiler):
    made = Region(jax.make_jaxpr(loss)(X, W), compiler)
    return lambda x, w: apply(made, x, w)[0]


@pytest.mark.parametrize("transform, programs", [
    (lambda f: f, 1),
    (lambda f: jax.grad(f, (0, 1)), 2),
    (lambda f: lambda x, w: jax.jvp(f, (x, w), (x, w)), 1),
    (lambda f: lambda x, w: jax.vmap(f, (None, 0))(x, jnp.stack([w, w])), 1),
    (lambda f: lambda x, w: jax.vmap(jax.grad(f), (0, None))(jnp.stack([x, x]), w), 2),
    (lambda f: lambda x, w: jax.linearize(f, x, w)[1](x, w), 2),
    (lambda f: jax.jit(f), 0),
    (lambda f: jax.jit(jax.grad(f)), 0),
    (lambda f: lambda x, w: jax.make_jaxpr(f)(x, w).out_avals, 0),
], ids=["call", "grad", "jvp", "vmap", "vmap of grad", "linearize", "jit", "jit of grad", "make_jaxpr"])
def test_programs_are_compiled_once_and_run_on_arrays(transform, programs, region, compiler):
    for _ in range(3):
        got, want = transform(region)(X, W), transform(loss)(X, W)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5) if hasattr(a, "dtype")
                     and not isinstance(a, jax.core.ShapedArray) else None, got, want)
    assert (compiler.made, compiler.runs) == (programs, 3 * programs)


def test_where_jax_linearises_by_the_rule_for_forward_derivatives(region, compiler, monkeypatch):
    """As versions of JAX do whose linearisation has another form than those that are known."""
    monkeypatch.delitem(primitive_linearizations, region_p)
    for _ in range(3):
        np.testing.assert_allclose(jax.grad(region)(X, W), jax.grad(loss)(X, W), rtol=1e-5)
    assert (compiler.made, compiler.runs) == (2, 6)


def test_what_jax_stages_holds_no_region(region):
    assert "dynacomp_region" not in str(jax.make_jaxpr(region)(X, W))
    assert "dynacomp_region" not in str(jax.make_jaxpr(jax.grad(region))(X, W))


def test_no_gradient_of_what_nobody_asks_for(compiler):
    def two(x, w):
        return (x * 2).sum(), jnp.tanh(x @ w)

    region = Region(jax.make_jaxpr(two)(X, W), compiler)
    gradient = jax.grad(lambda x: apply(region, x, W)[0])
    np.testing.assert_allclose(gradient(X), np.full(X.shape, 2.0))
    (backward,) = [r for key, r in region.split((True, False))[1].derived.items()]
    assert "dot_general" not in str(backward.jaxpr)
