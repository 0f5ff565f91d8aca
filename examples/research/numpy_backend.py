"""A backend of one's own: it runs the graph of primitives in NumPy, and names what it does not know."""

import jax.numpy as jnp
import numpy as np

import dynacomp

OPS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "exp": np.exp,
       "neg": np.negative, "tanh": np.tanh, "reduce_sum": lambda x, axes: x.sum(axes), "transpose": np.transpose}


def in_numpy(graph):
    unknown = {n.target.name for n in graph.calls} - set(OPS)
    if unknown:
        raise NotImplementedError(f"no NumPy function for {sorted(unknown)}")  # XLA takes the region, with a notice

    def run(*inputs):
        env = dict(zip(graph.placeholders, map(np.asarray, inputs)))
        env.update((n, graph.consts[n.target]) for n in graph.nodes if n.op == "get_attr")
        for n in graph.calls:
            env[n] = OPS[n.target.name](*(env.get(a, a) for a in n.args), **n.kwargs)
        return [env[o] for o in graph.output]
    return run


if __name__ == "__main__":
    dynacomp.register_backend("numpy", in_numpy)
    x, fn = jnp.linspace(0, 2, 8), lambda x: jnp.tanh(jnp.exp(-x) + 1).sum() / 8
    print(dynacomp.list_backends(), dynacomp.jit(fn, backend="numpy")(x), fn(x), dynacomp.stats()["regions"], sep="\n")
