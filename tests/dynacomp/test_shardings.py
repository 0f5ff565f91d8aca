"""`in_shardings`, `out_shardings` and `device`: as in `jax.jit`, in what they mean and in what they refuse."""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax._src.sharding_impls import UNSPECIFIED
from jax.sharding import NamedSharding, PartitionSpec

import dynacomp

X = jnp.arange(8.0)
MESH = jax.sharding.Mesh(jax.devices()[:1], "d")
ROWS, WHOLE = NamedSharding(MESH, PartitionSpec("d")), NamedSharding(MESH, PartitionSpec())


def step(params, x, n=2, name="w"):
    return {name: params["w"] * x.sum() * n}, x + 1


HOW = [dict(in_shardings=(None, ROWS), out_shardings=(WHOLE, ROWS)), dict(out_shardings=ROWS), dict(in_shardings=ROWS),
       dict(in_shardings=[WHOLE, None]), dict(device=jax.devices()[0]), dict(keep_unused=True, inline=True),
       dict(compiler_options={}), dict(in_shardings=(WHOLE, ROWS), static_argnums=2, args=(3,)),
       dict(in_shardings=(WHOLE, ROWS), static_argnames="n", args=(3,)), dict(out_shardings=(None, ROWS)),
       dict(in_shardings=(UNSPECIFIED, ROWS), out_shardings=UNSPECIFIED)]


@pytest.mark.parametrize("how", HOW, ids=str)
def test_results_are_and_lie_as_under_jax_jit(how):
    how = dict(how)
    args = ({"w": jnp.ones(8)}, X, *how.pop("args", ()))
    want, compiled = jax.jit(step, **how)(*args), dynacomp.jit(step, **how)
    for _ in range(3):
        for g, w in zip(jax.tree.leaves(compiled(*args)), jax.tree.leaves(want), strict=True):
            assert jnp.array_equal(g, w) and g.sharding.is_equivalent_to(w.sharding, w.ndim)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError):
        dynacomp.jit(step, device=jax.devices()[0], out_shardings=ROWS)
    with pytest.raises(ValueError):
        dynacomp.jit(step, in_shardings=(ROWS, ROWS, ROWS))({"w": X}, X)
    with pytest.raises(TypeError, match="in_shading"):
        dynacomp.jit(step, in_shading=ROWS)


def test_methods_and_decorators():
    class Model:
        weight = 3.0

        @functools.partial(dynacomp.jit, out_shardings=ROWS)
        def apply(self, x):
            return x * self.weight

    assert Model().apply(X).sharding == ROWS and Model.apply.__name__ == "apply"


PROGRAM = '''
import jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import dynacomp
from dynacomp.capture import frame

mesh = Mesh(jax.devices(), ("d",))
rows, whole, last = NamedSharding(mesh, P("d")), NamedSharding(mesh, P()), jax.devices()[-1]
plain = jnp.arange(8.0)
spread = jax.device_put(plain, rows)

def moved(x):
    y = jax.device_put(x, rows)
    return y + 1, y * 2, y.sum(), jax.device_put({"a": x, "b": x + 1}, whole)

def either(x):
    return jax.device_put(x, last) * 2 if x.sum() > 0 else x

def refused(x):
    try:
        return jax.device_put(x, last) + jax.device_put(x, jax.devices()[0])
    except ValueError:
        return "refused"

PROGRAMS = [moved, either, refused,
            lambda x: (x * 2, x.sum(), x @ jnp.ones((8, 2))), lambda x: jax.device_put(x, last) + 1,
            lambda x: jax.device_put(x + 1, rows).sharding.spec,
            lambda x: jax.lax.with_sharding_constraint(x + 1, whole),
            jax.jit(lambda x: x + 1, out_shardings=rows), lambda x: told(x) * 2]
told = jax.jit(lambda x: x + 1, out_shardings=whole)
for n, program in enumerate(PROGRAMS):
    for inputs in ([plain] * 3, [spread] * 3, [-spread, spread, -spread, spread]):
        compiled = dynacomp.jit(program)
        for x in inputs:
            want = program(x)
            for w, g in zip(jax.tree.leaves(want), jax.tree.leaves(compiled(x)), strict=True):
                assert jnp.array_equal(w, g) if isinstance(w, jax.Array) else w == g, n
                if isinstance(w, jax.Array):
                    assert w.sharding.is_equivalent_to(g.sharding, w.ndim), (n, w, g)
                    assert type(w.sharding) is type(g.sharding), (n, w, g)
                    assert len(jax.devices()) == 1 or w.committed == g.committed, (n, w, g)
for jit in (dynacomp.jit, jax.jit):
    outer = jit(lambda x: x + 1, out_shardings=rows)
    assert dynacomp.jit(lambda x: outer(x))(plain).sharding == rows
'''


@pytest.mark.medium
@pytest.mark.parametrize("devices", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_arrays_lie_where_eager_jax_puts_them(devices):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, "XLA_FLAGS": flags},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
