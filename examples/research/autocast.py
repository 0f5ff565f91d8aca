"""A pass over primitive graphs: products of f32 matrices take bf16 operands, and still add up in f32."""

from dataclasses import replace

import jax.numpy as jnp

import dynacomp
from dynacomp import passes


def low(node, builder):
    """The operand of a product, in bf16."""
    cast = passes.lower(lambda x: x.astype(jnp.bfloat16), jnp.zeros(1)).calls[0]
    return builder.call(cast.target, (node,), cast.kwargs, replace(node.aval, dtype=jnp.dtype(jnp.bfloat16)))


def product(node, builder):
    if node.target.name == "dot_general" and node.aval.dtype == jnp.float32:
        return builder.append(replace(node, name=builder.fresh("dot"), args=tuple(low(a, builder) for a in node.args)))


def autocast(graph):
    return passes.rebuild(graph, product)


if __name__ == "__main__":
    x, w = jnp.linspace(0, 1, 64 * 96).reshape(64, 96), jnp.linspace(-1, 1, 96 * 32).reshape(96, 32)
    cast = dynacomp.jit(lambda x, w: jnp.tanh(x @ w), options={"passes": passes.default().insert(autocast)})
    print("largest difference from f32:", jnp.abs(cast(x, w) - jnp.tanh(x @ w)).max())
