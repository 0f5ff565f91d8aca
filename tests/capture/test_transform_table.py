"""Transformations around and inside compiled functions, against the same without a compiler.

Each row of FUNCTIONS is a function of one float array x f32[3] that returns a scalar, with and without
graph breaks; each row of TRANSFORMS makes another function of it. They are put together in three ways:
the transformation of the compiled function, the compiled transformation, and both. What is compared is
the result, or the type of the exception with its first line, and what was printed.
"""

import functools
import os
import re
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

X = jnp.asarray([0.5, -1.0, 2.0])
W = jnp.asarray([[1.0, 2.0, 0.5], [0.0, 1.0, -1.0], [2.0, 0.0, 1.0]])


# --- functions


def smooth(x):
    return jnp.sum(jnp.sin(x) * x ** 2)


def closes_over_an_array(x, scale=2.0):
    def inner(v):
        return jnp.tanh(W @ v) * scale
    return inner(x).sum()


def branches(x):
    if x.sum() > 0:
        return (x * x).sum()
    return (x ** 3).sum()


def branches_unevenly(x):
    if x[0] > 0:
        y = x * 2
        for _ in range(2):
            y = y + jnp.sin(y)
        return y.sum()
    return -x[1]


def prints(x):
    y = jnp.sin(x)
    print("in between")
    return (y * y).sum()


def leaves(x):
    return (x * float(x[1])).sum() + x[0]


def loops_on_data(x):
    n = 0
    while x.sum() < 20:
        x, n = x * 2, n + 1
    return x.sum() * n


def walks_a_tree(x):
    tree = {"a": x, "b": [x[0], (x[1:], 2.0)]}
    return sum(leaf.sum() if hasattr(leaf, "sum") else leaf for leaf in jax.tree.leaves(tree))


@jax.custom_vjp
def clipped(x):
    return x ** 2


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (jnp.clip(g * x, -1, 1),))


@jax.custom_jvp
def halved(x):
    return jnp.cos(x)


@halved.defjvp
def halved_rule(primals, tangents):
    return halved(primals[0]), tangents[0] * 0.5


def has_a_custom_vjp(x):
    return clipped(x).sum()


def has_a_custom_jvp(x):
    return halved(x).sum() * x[0]


def differentiates(x):
    return jax.grad(smooth)(x) @ x


def maps_and_scans(x):
    total, _ = jax.lax.scan(lambda c, a: (c * a + 1, c), 1.0, jax.vmap(jnp.sin)(x))
    return total


def conditions(x):
    return jax.lax.cond(x[0] > 0, lambda v: v.sum(), lambda v: (v * v).sum(), x)


def calls_a_jitted_function(x):
    return jax.jit(lambda v, n: (v * n).sum(), static_argnums=1)(x, 3)


def is_saved(x):
    return jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)).sum())(x)


def mutates(x):
    seen = []
    for v in (x, x * 2):
        seen.append(jnp.tanh(v).sum())
    return sum(seen)


def raises(x):
    if x.shape[0] > 1:
        raise ValueError(f"not this shape: {x.shape}")
    return x.sum()


def numpy_inside(x):
    return x.sum() * np.sqrt(np.float32(4.0))


def stops(x):
    return (jax.lax.stop_gradient(x) * x).sum()


FEW = (smooth, branches, prints, has_a_custom_vjp)
FUNCTIONS = (*FEW, closes_over_an_array, branches_unevenly, leaves, loops_on_data, walks_a_tree, has_a_custom_jvp,
             differentiates, maps_and_scans, conditions, calls_a_jitted_function, is_saved, mutates, raises,
             numpy_inside, stops)


# --- transformations: each takes a scalar function of x and gives a function of x

BATCH = jnp.stack([X, X * 2, X + 1])

TRANSFORMS = {
    "call": lambda f: f,
    "grad": jax.grad,
    "value_and_grad": jax.value_and_grad,
    "has_aux": lambda f: lambda x: jax.value_and_grad(lambda v: (f(v), {"aux": v * 2}), has_aux=True)(x),
    "argnums": lambda f: lambda x: jax.grad(lambda a, b: f(a) * f(b), argnums=(0, 1))(x, x + 1),
    "jit": jax.jit,
    "vmap": lambda f: lambda x: jax.vmap(f)(BATCH * x),
    "vmap of axes": lambda f: lambda x: jax.vmap(lambda a, b: f(a) + b, in_axes=(1, None))(BATCH, x.sum()),
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(f))(BATCH * x),
    "grad of vmap": lambda f: jax.grad(lambda x: jax.vmap(f)(BATCH * x).sum()),
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x * 0 + 1,)),
    "vjp": lambda f: lambda x: jax.vjp(f, x)[1](1.0),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
    "jacfwd": jax.jacfwd,
    "jacrev": jax.jacrev,
    "hessian": jax.hessian,
    "third order": lambda f: jax.jacfwd(jax.jacrev(jax.grad(f))),
    "grad of grad of grad": lambda f: lambda x: jax.grad(lambda a: jax.grad(lambda b: jax.grad(f)(b)[0])(a)[1])(x),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
    "jit of grad": lambda f: jax.jit(jax.grad(f)),
    "grad of jit": lambda f: jax.grad(jax.jit(f)),
    "scan": lambda f: lambda x: jax.lax.scan(lambda c, a: (c + f(a), c), 0.0, BATCH)[0] + x.sum(),
    "cond": lambda f: lambda x: jax.lax.cond(x[0] > 0, f, lambda v: f(v * 2), x),
    "eval_shape": lambda f: lambda x: jnp.ones(jax.eval_shape(f, x).shape),
    "filter_jit": eqx.filter_jit,
    "filter_grad": eqx.filter_grad,
    "filter_value_and_grad": eqx.filter_value_and_grad,
    "filter_vmap": lambda f: lambda x: eqx.filter_vmap(f)(BATCH * x),
    "filter_jvp": lambda f: lambda x: eqx.filter_jvp(f, (x,), (x,)),
    "filter_checkpoint": lambda f: jax.grad(eqx.filter_checkpoint(f)),
    "partial": lambda f: functools.partial(f),
}

# These keep what they traced: whether a function is called, and prints, depends on what was called before.
TRACED_ONCE = ("jit", "scan", "cond", "checkpoint", "jit of grad", "grad of jit", "eval_shape", "filter_jit",
               "filter_checkpoint", "vmap of grad", "filter_vmap", "hessian", "third order", "jacfwd", "jacrev")
THOROUGH = ("call", "grad", "vmap", "value_and_grad", "linearize")

compiled = functools.partial(dynacomp.jit, backend="eager")
WAYS = {
    "transformation of the compiled function": lambda transform, f: transform(compiled(f)),
    "compiled transformation": lambda transform, f: compiled(lambda x: transform(f)(x)),
    "both": lambda transform, f: compiled(lambda x: transform(compiled(f))(x)),
}


def outcome(fn, capsys):
    try:
        result = jax.tree.map(np.asarray, fn(X))
    except Exception as error:
        result = type(error), re.sub(r"\d{5,}|0x\w+", "", str(error).split("\n")[0])
    return result, capsys.readouterr().out


def same(want, got):
    if isinstance(want, tuple) and isinstance(want[0], type):
        return want == got
    return jax.tree.structure(want) == jax.tree.structure(got) and all(
        a.dtype == b.dtype and np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
        for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(got)))


@pytest.mark.sampled(12)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRANSFORMS)
def test_as_without_a_compiler(name, capsys):
    transform, differences = TRANSFORMS[name], []
    for f in FUNCTIONS if name in THOROUGH else FEW:
        want = outcome(transform(f), capsys)
        for way, make in WAYS.items():
            dynacomp.reset()
            made = make(transform, f)
            for attempt in ("first", "second"):
                got = outcome(made, capsys)
                if not (same(want[0], got[0]) and (want[1] == got[1] or name in TRACED_ONCE)):
                    differences.append(f"{f.__name__}, {way}, {attempt} call:\n  without {want}\n  with    {got}")
    assert not differences, "\n".join(differences)


SHARDED = """
import jax, jax.numpy as jnp, numpy as np, dynacomp
from jax.sharding import Mesh, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("d",))
x = jnp.arange(8.0)
compiled = lambda f: dynacomp.jit(f)
def body(v):
    return jnp.sin(v) * jax.lax.psum(v.sum(), "d")
def mapped(f):
    return jax.shard_map(f, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
def loss(v):
    if v.sum() > 0:
        return mapped(body)(v).sum()
    return v.sum()
want, slope = mapped(body)(x), jax.grad(loss)(x)
for made in (mapped(compiled(body)), compiled(lambda v: mapped(body)(v)),
             compiled(lambda v: mapped(compiled(body))(v))):
    for _ in range(2):
        got = made(x)
        assert np.allclose(got, want, rtol=1e-5) and got.sharding == want.sharding, (got, want)
for made in (jax.grad(compiled(loss)), compiled(jax.grad(loss)), compiled(lambda v: jax.grad(loss)(v))):
    for _ in range(2):
        assert np.allclose(made(x), slope, rtol=1e-5)
rows = x.reshape(4, 2)
assert np.allclose(jax.pmap(compiled(jnp.sin))(rows), jnp.sin(rows), rtol=1e-5)
assert np.allclose(compiled(lambda v: jax.pmap(jnp.sin)(v))(rows), jnp.sin(rows), rtol=1e-5)
print("as without")
"""


def test_over_several_devices():
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run([sys.executable, "-c", SHARDED], env=env, capture_output=True, text=True)
    assert done.stdout == "as without\n", done.stderr[-3000:]
