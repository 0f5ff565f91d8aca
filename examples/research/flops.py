"""Count the operations and bytes of a transformer block for every sequence length at once."""

import jax
import jax.numpy as jnp

import dynacomp
from dynacomp import passes


def block(x, qkv, out, up, down):
    q, k, v = jnp.split(x @ qkv, 3, axis=-1)
    x = x + jax.nn.softmax(q @ k.T / q.shape[-1] ** 0.5) @ v @ out
    return x + jax.nn.gelu(x @ up) @ down


def main():
    width = 64
    weights = [jnp.zeros((n * width, m * width)) for n, m in ((1, 3), (1, 1), (1, 4), (4, 1))]
    x = jnp.zeros((128, width))
    dynacomp.mark_dynamic(x, 0)
    (region,) = dynacomp.explain(block)(x, *weights).regions
    cost = passes.count(region.graph)
    (length,) = cost.flops.free_symbols
    print(f"{length} tokens: {cost}")
    for n in (128, 1024):
        print(f"{n} tokens: {cost.at(**{length.name: n})}; dearest op: {next(iter(cost.by_op))}")


if __name__ == "__main__":
    main()
