"""Guards on arrays and on JAX's configuration."""

import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture import _native as native

from .native_kit import check, holds

F32 = np.dtype("float32")


def spec(x, **changes):
    """The full guard on array x, some of it replaced."""
    aval = jax.typeof(x)
    parts = {"shape": x.shape, "dtype": x.dtype, "weak": aval.weak_type, "sharding": x.sharding,
             "committed": x._committed} | changes
    return ("array", 0, *parts.values())


def test_an_array_passes_its_own_guard_again_and_again():
    x = jnp.ones((3, 4))
    guards = native.GuardProgram([("local", 0, 0), spec(x)])
    for y in (x, jnp.zeros((3, 4)), jax.jit(lambda a: a + 1)(x), x + 1, jax.jit(lambda a: a + 1)(x)):
        assert guards.check(check, (y,)) == -1
    for y in (jnp.ones((4, 3)), jnp.ones((3, 4), jnp.int32), jnp.ones(3), np.ones((3, 4), F32), 1.0, None,
              jax.device_put(x, jax.devices()[0])):
        assert guards.check(check, (y,)) == 1
    assert guards.check(check, (x,)) == -1


def test_more_shapes_than_are_remembered():
    guards = native.GuardProgram([("local", 0, 0), spec(jnp.ones((3, 4)), shape=(None, 4))])
    for _ in range(2):
        for n in range(10):
            assert guards.check(check, (jnp.ones((n, 4)),)) == -1
            assert guards.check(check, (jnp.ones((n, 5)),)) == 1
    assert guards.check(check, (jnp.ones((3, 4, 1)),)) == 1


def test_each_part_is_checked_and_none_means_any():
    x = jnp.ones(3)
    weak = jnp.asarray(1.0) * jnp.float32(1)
    assert holds(spec(x, weak=None, sharding=None, committed=None), value=x)
    assert not holds(spec(x, weak=True), value=x)
    assert not holds(spec(x, committed=True), value=x)
    assert holds(("array", 0, (), F32, jax.typeof(weak).weak_type), value=weak)
    assert not holds(("array", 0, (), F32, not jax.typeof(weak).weak_type), value=weak)
    assert holds(spec(x, sharding=jax.devices()[0]), value=x)
    assert holds(spec(jnp.ones(3, jnp.bfloat16)), value=jnp.zeros(3, jnp.bfloat16))


def test_a_tracer_is_no_array():
    guards = native.GuardProgram([("local", 0, 0), spec(jnp.ones(3))])
    assert jax.jit(lambda a: guards.check(check, (a,)) + a)(jnp.ones(3))[0] == 2


def test_shardings_over_several_devices(tmp_path):
    """In its own process, since the number of devices is fixed when JAX starts."""
    program = """
import jax, jax.numpy as jnp
jax.config.update("jax_num_cpu_devices", 2)
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from dynacomp.capture import _native as native
one, two = jax.devices()
mesh = Mesh(jax.devices(), "d")
x = jnp.ones((4, 4))
arrays = [jax.device_put(x, s) for s in
          (one, two, *[NamedSharding(mesh, spec) for spec in (P("d"), P(None, "d"), P())])]
for i, a in enumerate(arrays):
    guards = native.GuardProgram([("local", 0, 0), ("array", 0, (4, 4), a.dtype, False, a.sharding, True)])
    for _ in range(2):
        for j, b in enumerate(arrays):
            assert (guards.check(lambda: 0, (b,)) == -1) == (i == j), (i, j)
    again = jax.device_put(x + 1, NamedSharding(Mesh(jax.devices(), "d"), P("d")))
    assert (guards.check(lambda: 0, (again,)) == -1) == (i == 2)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


def test_numpy_arrays():
    x = np.ones((3, 4), F32)
    assert holds(("ndarray", 0, (3, 4), F32), value=x)
    assert holds(("ndarray", 0, (None, 4), F32, True), value=x)
    assert not holds(("ndarray", 0, (3, 4), F32, True), value=np.ones((4, 3), F32).T)
    assert holds(("ndarray", 0, (3, 4), F32, False), value=np.ones((4, 3), F32).T)
    for other in (np.ones((3, 4)), np.ones((3, 5), F32), np.ones(3, F32), x.view(np.recarray),
                  jnp.ones((3, 4)), 3, x.astype(">f4")):
        assert not holds(("ndarray", 0, (3, 4), F32), value=other)


@pytest.mark.parametrize("make", [np.ones, jnp.ones])
def test_dims_as_sizes(make):
    steps = [("local", 0, 0), ("dim", 0, 0, 0), ("dim", 1, 0, 1),
             ("size_check", (("size", 0), ("size", 1), "mul", ("int", 12), "eq"))]
    assert check(steps, make((3, 4))) == -1
    assert check(steps, make((3, 5))) == 3
    assert check(steps, make(3)) == 2
    assert check(steps, 3) == 1


def test_bad_array_guards_are_refused():
    for bad in [("array", 0, 3, F32, False, None), ("array", 0, (-1,), F32, False, None),
                ("array", 0, ("n",), F32, False, None), ("array", 0, (3,), F32, False, "cpu"),
                ("ndarray", 0, 3, F32)]:
        with pytest.raises((TypeError, ValueError)):
            native.GuardProgram([("local", 0, 0), bad])


# ---- the configuration ----

CONTEXTS = {
    "matmul precision": lambda: jax.default_matmul_precision("highest"),
    "x64": lambda: jax.enable_x64(True),
    "default device": lambda: jax.default_device(jax.devices()[0]),
    "disable jit": lambda: jax.disable_jit(),
    "debug nans": lambda: jax.debug_nans(True),
    "debug infs": lambda: jax.debug_infs(True),
    "checking leaks": lambda: jax.checking_leaks(),
    "rank promotion": lambda: jax.numpy_rank_promotion("raise"),
    "dtype promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "prng": lambda: jax.default_prng_impl("rbg"),
    "transfer guard": lambda: jax.transfer_guard("disallow"),
    "mesh": lambda: jax.set_mesh(jax.sharding.Mesh(jax.devices()[:1], "d")),
}


def config_guards(allow_trace=False):
    return native.GuardProgram([("jax_config", native.jax_config_token(allow_trace))])


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_the_configuration_is_guarded(context):
    outside = config_guards()
    assert outside.check(check, ()) == -1
    with context():
        assert outside.check(check, ()) == 0
        inside = config_guards()
        assert inside.check(check, ()) == -1
    assert outside.check(check, ()) == -1
    assert inside.check(check, ()) == 0


def test_context_managers_are_of_one_thread():
    guards = config_guards()
    seen = []
    with jax.default_matmul_precision("highest"):
        thread = threading.Thread(target=lambda: seen.append(guards.check(check, ())))
        thread.start()
        thread.join()
    assert seen == [-1]


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap, jax.make_jaxpr], ids=lambda t: t.__name__)
def test_under_a_trace_the_guard_fails_unless_allowed(transform):
    strict, seen = config_guards(), []

    def traced(x):
        seen.append(strict.check(check, ()))
        seen.append(config_guards(allow_trace=True).check(check, ()))
        return x * 2.0

    transform(traced)(jnp.ones(1)[0] if transform is jax.grad else jnp.ones(1))
    assert seen == [0, -1]
    assert strict.check(check, ()) == -1


def test_a_token_of_another_kind_is_refused():
    for token in (None, (), ((), (), False), 3):
        with pytest.raises(TypeError, match="jax_config_token"):
            native.GuardProgram([("jax_config", token)])
