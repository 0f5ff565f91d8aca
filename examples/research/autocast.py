"""A pass over primitive graphs: products of f32 matrices take bf16 operands, and still add up in f32."""

from dataclasses import replace

import jax.numpy as jnp

import dynacomp
from dynacomp import passes


def autocast(graph):
    new, builder = {}, passes.Builder(graph.name)
    low = passes.lower(lambda x: x.astype(jnp.bfloat16), jnp.zeros(1)).calls[0]
    for node in graph.nodes[:-1]:
        args = [new.get(a, a) if isinstance(a, passes.Node) else a for a in node.args]
        if getattr(node.target, "name", "") == "dot_general" and node.aval.dtype == jnp.float32:
            avals = [replace(a.aval, dtype=jnp.dtype(jnp.bfloat16)) for a in args]
            args = [builder.call(low.target, (a,), low.kwargs, aval) for a, aval in zip(args, avals)]
        new[node] = builder.append(replace(node, name=builder.fresh(node.name), args=tuple(args)))
    builder.consts.update(graph.consts)
    made = builder.finish(tuple(new[o] for o in graph.output))
    return replace(made, nodes=(*made.nodes[:-1], replace(made.nodes[-1], aval=graph.nodes[-1].aval)))


if __name__ == "__main__":
    x, w = jnp.linspace(0, 1, 64 * 96).reshape(64, 96), jnp.linspace(-1, 1, 96 * 32).reshape(96, 32)
    cast = dynacomp.jit(lambda x, w: jnp.tanh(x @ w), options={"passes": passes.default().insert(autocast)})
    print("largest difference from f32:", jnp.abs(cast(x, w) - jnp.tanh(x @ w)).max())
