"""Arrays in Python code: indexing, iteration, shapes, NumPy scalars, values that leave."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from tests.corpus.kit import program

PARAMS: dict = {"w": jnp.ones((3,)), "b": 2.0}
SCALE = np.float32(3.0)


def matrix():
    return (jnp.arange(12.0).reshape(3, 4),)


@program(args=matrix)
def indexing(x):
    return (x[0], x[-1, 2], x[:, 1], x[..., 0], x[None].shape, x[1:, ::2], x[jnp.array([1, 0])], x[(0, 1)],
            x[x.shape[0] - 1], x[:, jnp.array([1, 3])], x[0][1])


@program(args=matrix)
def boolean_masks(x):
    return jnp.where(x > 5, x, -x), (x > 3) & (x < 8), ~(x > 3), jnp.sum(x, where=x > 2)


@program(args=matrix, breaks={"concrete": 2})
def boolean_indices(x):
    return x[x > 5], jnp.nonzero(x[0])


@program(args=matrix)
def at_updates(x):
    y = x.at[0].set(9.0).at[1, 2].add(1.0)
    return y.at[:, 0].multiply(2), y.at[0, 0].get(), x.at[1].min(0), y


@program(args=matrix)
def iteration(x):
    total = 0
    for row in x:
        for v in row[:2]:
            total = total + v
    return total, [r.sum() for r in x], len(x), list(zip(x, range(3)))[1][0], max(len(r) for r in x)


@program(args=matrix)
def attributes(x):
    return x.shape, x.ndim, x.size, x.dtype, str(x.dtype), x.T, x.mT.shape, x.astype(jnp.int32), x.nbytes, x.weak_type


@program(args=matrix)
def methods(x):
    return x.sum(), x.mean(axis=0), x.reshape(-1).max(), x.argmax(), x.min(1), x.flatten().shape, x.std(), x.clip(1, 3)


@program
def weak_types(x):
    return x + 1, 1 + x, x * 2.5, x / 2, -x, x ** 2, jnp.asarray(1) + x, 2 ** jnp.asarray(3), x // 2, x % 2, abs(x), +x


@program
def comparisons(x):
    return x > 2, x == 3.0, x != x, 1 < x, (x > 1) | (x < 0), x.any(), jnp.all(x >= 0)


@program
def python_branches_on_shapes(x):
    if x.ndim == 1 and x.shape[0] > 3:
        return x[:3] * len(x)
    return x


@program
def numpy_scalars(x):
    a = np.float32(2.5)
    return x * a, a * 2, a.dtype, x + np.int32(1), SCALE * x, np.pi * x, float(a), a + 1


@program
def numpy_constants(x):
    n = np.prod((2, 3)), np.sqrt(2.0), np.arange(3).tolist()
    return x * n[1], int(n[0]), n[2]


@program
def creation(x):
    return jnp.zeros(3), jnp.ones_like(x), jnp.arange(x.shape[0]), jnp.array([1, 2.5]), jnp.full((2,), 7), jnp.eye(2)


@program
def stacking(x):
    rows = [x * k for k in range(3)]
    return jnp.stack(rows), jnp.concatenate([x, x]), jnp.array([r[0] for r in rows]), jnp.vstack(rows).shape


@program
def pytrees(x):
    tree = {"a": [x, 2 * x], "b": (x, None)}
    return jax.tree.map(lambda v: v + 1, tree), jax.tree.leaves(tree), jax.tree.map(lambda a, b: a - b, tree, tree)


@program
def global_parameters(x):
    return x[:3] * PARAMS["w"] + PARAMS["b"]


@program
def global_parameters_updated(x):
    PARAMS["w"] = PARAMS["w"] - 0.1 * x[:3]
    PARAMS["step"] = PARAMS.get("step", 0) + 1
    return PARAMS["w"].sum()


@program(args=lambda: (jnp.ones(3), [], {"h": jnp.zeros(3)}))
def state_threading(x, log, state):
    for k in range(3):
        state["h"] = jnp.tanh(state["h"] + x * k)
        log.append(state["h"].sum())
    return state["h"]


@program(args=lambda: (jnp.arange(3.0), jnp.arange(3.0)))
def argument_is_result(x, y):
    return x, [y], x is x


@program(args=lambda: (lambda a: (a, a))(jnp.arange(3.0)))
def same_array_twice(x, y):
    return x + y, x, y


@program
def branch_on_an_array(x):
    if x.sum() > 3:
        return x * 2
    return x * 3


@program
def item(x):
    n = x.sum().item()
    return x * n


@program(breaks={"leaves": 1})
def float_and_int(x):
    a = float(x[1])
    return x * a + int(x[2])


@program(breaks={"leaves": 1})
def to_numpy(x):
    y = np.asarray(x * 2)
    return x, y.sum() + 1


@program(args=lambda: (jnp.arange(3.0), np.arange(3.0, dtype=np.float32)))
def numpy_argument(x, n):
    return x + n, jnp.sin(n), n.shape, n.ndim


@program(args=lambda: (jax.random.key(0), jnp.zeros(3)))
def random_keys(key, x):
    a, b = jax.random.split(key)
    return jax.random.normal(a, (3,)) + x, b, jax.random.fold_in(key, 3), key


@program
def array_truth_of_length_one_break_free(x):
    return x if x is not None and x.size else None


@program
def loops_over_layers(x):
    layers = [(jnp.eye(6) * k, float(k)) for k in range(3)]
    for w, b in layers:
        x = jnp.maximum(x @ w + b, 0)
    return x


@program
def arrays_in_sets_of_structures(x):
    d = {("a", 1): x, ("b", 2): x * 2}
    return sum(v for v in d.values()), {k: v.shape for k, v in d.items()}


@program
def closures_over_arrays(x):
    w = x * 2

    def f(v):
        return v * w

    return jax.grad(lambda v: f(v).sum())(x), jax.vmap(lambda a: a + w[0])(x), jax.jit(f)(x)


@program
def transforms_of_methods(x):
    def loss(p, v):
        return jnp.sum((p["w"] * v + p["b"]) ** 2)

    value, grads = jax.value_and_grad(loss)({"w": x, "b": 1.0}, x)
    return value, grads


@program
def control_flow_functions(x):
    a = jax.lax.fori_loop(0, 3, lambda i, v: v + i, x)
    b, ys = jax.lax.scan(lambda c, v: (c + v, c), 0.0, x)
    return a, b, ys, jax.lax.cond(x[0] > 0, lambda v: v, lambda v: -v, x), jax.lax.while_loop(
        lambda v: v[0] < 5, lambda v: v + 1, x)


@program
def errors_from_jax(x):
    found = []
    for f in (lambda: x.reshape(7), lambda: jnp.dot(x, jnp.ones(3)), lambda: x[1, 2], lambda: x.nothing,
              lambda: len(x.sum()), lambda: x @ 3, lambda: x + "a", lambda: jnp.zeros(-1), lambda: x[0.5]):
        try:
            f()
            found.append("none")
        except Exception as error:
            found.append((type(error).__name__, str(error).splitlines()[0]))
    return x, found


@program
def in_place_operators(x):
    y = x
    y += 1
    z = x.copy()
    z *= 2
    return x, y, z, y is x


@program
def dtype_objects(x):
    return x.dtype == jnp.float32, x.dtype.name, jnp.issubdtype(x.dtype, jnp.floating), jnp.finfo(x.dtype).eps, x.dtype.kind


@program
def isinstance_checks(x):
    return isinstance(x, jax.Array), isinstance(x, jnp.ndarray), isinstance(x, (int, jax.Array)), isinstance(x, np.ndarray), \
        hasattr(x, "shape"), callable(x), type(x) is type(x + 1)
