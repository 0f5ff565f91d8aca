"""Every transformation over compiled functions agrees with eager JAX: over all models of the frameworks (slow), and
over small functions to third order, graph breaks inside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.frameworks import registry
from tests.frameworks.transforms import TRANSFORMS, Checked, apart

X = jnp.linspace(0.2, 1.1, 6)


@pytest.mark.slow
@pytest.mark.parametrize("m", [pytest.param(m, id=m.name) for m in registry.load()])
def test_model(m):
    dynacomp.reset()
    seen = Checked(list(TRANSFORMS), max(1e-3, m.tolerance))
    m.run(seen)
    assert seen.wrong == []


def smooth(x):
    return jnp.tanh(x * x) @ jnp.sin(x)


def broken(x):
    y = jnp.exp(-x) * x
    dynacomp.graph_break()
    z = y.sum() * jnp.cos(x)
    print(end="")
    return (z ** 3).sum() + y[0]


def branching(x):
    return (jnp.sin(x) ** 3).sum() if x.shape[0] > 3 else x.sum()


def looped(x):
    h = x
    for _ in range(3):
        h = jnp.sin(h) * x + jax.nn.softplus(h)
    return h.sum() + jax.lax.cond(h[0] > 0, lambda v: v ** 3, lambda v: v, h[1])


def scanned(x):
    return jax.lax.scan(lambda c, v: (jnp.tanh(c * v) + c, c * v), 0.3, x)[0] ** 2


def along(f):
    """The derivative along a fixed direction."""
    return lambda x: jax.jvp(f, (x,), (jnp.cos(x.shape[0] * jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape),))[1]


def each(f):
    """The mean over a batch."""
    return lambda x: jax.vmap(f)(jnp.stack([x, x * 0.9])).mean(0)


def pulled(f):
    return lambda x: jax.vjp(f, x)[1](jnp.ones(()))[0]


def pushed(f):
    return lambda x: jax.linearize(f, x)[1](jnp.ones_like(x))


ORDERS = {
    "grad of hessian-vector": lambda f: jax.grad(lambda x: along(jax.grad(f))(x).sum()),
    "hessian": jax.hessian,
    "jacfwd of hessian": lambda f: jax.jacfwd(jax.hessian(f)),
    "grad of vmap": lambda f: jax.grad(each(f)),
    "hessian-vector of vmap": lambda f: along(jax.grad(each(f))),
    "linearize of grad of checkpoint": lambda f: lambda x: jax.linearize(jax.grad(jax.checkpoint(f)), x)[1](x),
    "checkpoint of vjp": lambda f: jax.jacrev(jax.checkpoint(pulled(f))),
    "vmap of linearize of jvp": lambda f: jax.vmap(lambda s: pushed(along(f))(X * s)),
}


FUNCTIONS = (smooth, broken, branching, looped, scanned)
QUICK = {(broken, "grad of vmap"), (branching, "linearize of grad of checkpoint")}


@pytest.mark.parametrize(("fn", "order"), [
    pytest.param(fn, order, marks=[pytest.mark.slow] * ((fn, order) not in QUICK), id=f"{fn.__name__}-{order}")
    for fn in FUNCTIONS for order in ORDERS])
def test_to_third_order(fn, order):
    transform, compiled = ORDERS[order], dynacomp.jit(fn)
    given = jnp.array([0.5, 0.8]) if order.startswith("vmap") else X
    want = transform(fn)(given)
    assert apart([transform(compiled)(given)], [want], 1e-4) == ""
    before = dynacomp.stats()["frames_captured"]
    for k in range(9):
        transform(compiled)(given * (1 + k / 50))
    assert apart([transform(compiled)(given)], [want], 1e-4) == ""
    assert dynacomp.stats()["frames_captured"] == before
    np.testing.assert_allclose(compiled(X), fn(X), rtol=1e-5)
