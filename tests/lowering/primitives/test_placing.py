"""Programs on several devices: eager JAX's results, shard_map and the rest inside a compiled function."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.lowering.primitives.placing import Placed, refuse_placing

PROGRAM = '''
import functools, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import dynacomp
from dynacomp.capture import frame

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
plain, weights = jnp.arange(32.0).reshape(8, 4), jnp.ones((4, 8))
sharded = jax.device_put(plain, NamedSharding(mesh, P("x", "y")))

@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None))
def product(a, b):
    return jax.lax.psum(a @ b, "y")

def made_inside(a, b):
    mean = jax.shard_map(lambda a: jax.lax.pmean(a, "x") * jax.lax.axis_index("y"), mesh=mesh,
                         in_specs=P("x", "y"), out_specs=P(None, "y"))
    return mean(a) @ b

def constrained(a, b):
    return jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P("y", None))) @ b

PROGRAMS = [lambda a, b: (product(a, b).sum() + 1, product(a * 2, b)), made_inside, constrained,
            lambda a, b: jax.grad(lambda b: (product(a, b) ** 2).sum())(b)]
for program in PROGRAMS:
    for a in (plain, sharded):
        compiled = dynacomp.jit(program)
        want, first, again = program(a, weights), compiled(a, weights), compiled(a, weights)
        for x, y, z in zip(*map(jax.tree.leaves, (want, first, again)), strict=True):
            assert np.allclose(x, y) and np.allclose(x, z) and x.sharding.is_equivalent_to(y.sharding, x.ndim)
tiled = lambda x: jax.pmap(lambda v: jax.lax.psum(v, "i") * v, axis_name="i")(x)
assert np.allclose(dynacomp.jit(tiled)(plain[:4]), tiled(plain[:4]))
stats = dynacomp.stats()
assert not stats["breaks"] and not stats["frames_eager"] and stats["graphs"] == 9, stats
'''


def test_meshes_inside_compiled_functions():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, "XLA_FLAGS": flags},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_moves_to_the_first_device_stay():
    first = jax.local_devices()[0]
    jaxpr = jax.make_jaxpr(lambda x: jax.device_put(x, first) + jax.device_put(x))(1.0).jaxpr
    assert {"device_put"} < {e.primitive.name for e in jaxpr.eqns}
    refuse_placing(jaxpr)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_constraints_are_found_inside(wrap):
    mesh = jax.sharding.Mesh(jax.local_devices()[:1], "x")
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    jaxpr = jax.make_jaxpr(wrap(lambda x: jax.lax.with_sharding_constraint(x, spec)))(jnp.ones(4)).jaxpr
    with pytest.raises(Placed, match="sharding_constraint"):
        refuse_placing(jaxpr)


def test_a_move_to_the_only_device_is_no_operation():
    device = jax.devices()[0]

    def program(x):
        y = jax.device_put({"a": x, "b": x + 1}, device)
        return jax.device_put(y["a"] * y["b"], jax.sharding.SingleDeviceSharding(device))

    dynacomp.reset()
    found = dynacomp.explain(program)(jnp.arange(4.0))
    assert not dynacomp.stats()["externs"] and len(found.regions) == 1
    x = jnp.arange(5.0)
    assert (dynacomp.jit(program)(x) == program(x)).all()


def test_what_is_put_on_the_only_device_is_committed_to_it():
    device = jax.devices()[0]

    @jax.custom_jvp
    def ruled(x):
        return jax.device_put(x, device)

    ruled.defjvp(lambda primals, tangents: (ruled(*primals), tangents[0]))

    def program(x):
        y = jax.device_put(x * 2, device)
        return [y, x + 1, y + x, y.sum(), jax.device_put(x), jax.jit(lambda x: jax.device_put(x, device))(x), ruled(x),
                jax.grad(lambda x: (jax.device_put(x, device) * x).sum())(x)]

    compiled = dynacomp.jit(program)
    dynacomp.reset()
    for n in (3, 4, 5):
        x = jnp.arange(1.0, n)
        assert [r.committed for r in compiled(x)] == [r.committed for r in program(x)]
    told = dynacomp.stats()
    assert told["frames_captured"] == 2 and not told["breaks"] and not told["externs"]
