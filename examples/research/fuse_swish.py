"""A pass that finds `x * sigmoid(x)`, however it was written, and puts one function in its place."""

import jax
import jax.numpy as jnp

import dynacomp
from dynacomp import passes


def swish(x):
    return x * jax.nn.sigmoid(x)


def by_tanh(x):  # the same function
    return 0.5 * x * (1 + jnp.tanh(0.5 * x))


def model(x, w):
    h = x @ w
    return (jax.nn.sigmoid(h) * h).sum(-1)


fuse = passes.rewriter(swish, by_tanh, where=lambda match: not match.shared)
mine = passes.default().insert(fuse, name="fuse_swish", before="merge_common")

if __name__ == "__main__":
    x, w = jnp.linspace(-2, 2, 24).reshape(4, 6), jnp.ones((6, 8))
    before, after = (dynacomp.explain(model, options={"passes": p})(x, w) for p in (passes.default(), mine))
    print(passes.diff(before.regions[0].lowered, after.regions[0].lowered))
    print("largest difference:", jnp.abs(before.result - after.result).max())
