"""The XLA backend on hand-made primitive Graphs: sizes, weak types, donation, export, meshes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Builder, Graph
from dynacomp.codegen.backends import BACKENDS
from dynacomp.lowering.sizes.symbols import size
from tests.codegen.export_kit import export_graph

F32 = np.dtype("float32")


def symbolic_graph() -> Graph:
    """f32[n,3] -> (its six-fold flattening of weak type, itself)."""
    n = size("n")
    b = Builder("g")
    x = b.placeholder("x", Aval((n, 3), F32))
    y = b.call(
        lax.broadcast_in_dim, (x,), {"shape": (2, n, 3), "broadcast_dimensions": (1, 2)}, Aval((2, n, 3), F32)
    )
    z = b.call(lax.reshape, (y,), {"new_sizes": (2 * n * 3,)}, Aval((6 * n,), F32, True))
    graph = b.finish((z, x))
    return replace(graph, nodes=(*graph.nodes[:-1], replace(graph.nodes[-1], aval=(z.aval, x.aval))))


def test_one_program_serves_every_size() -> None:
    program = BACKENDS["xla"].compile(symbolic_graph(), None, {})
    for n in (1, 4, 7):
        x = jnp.arange(3.0 * n).reshape(n, 3)
        flat, same = program(x)
        np.testing.assert_array_equal(flat, np.tile(np.ravel(x), 2))
        np.testing.assert_array_equal(same, x)
    assert program.backend == "xla" and "reshape" in program.source["g.py"]


def test_weak_types_are_those_of_the_graph() -> None:
    flat, same = BACKENDS["xla"].compile(symbolic_graph(), None, {})(jnp.ones((2, 3)))
    assert flat.weak_type and not same.weak_type


def test_wrong_shape_is_named() -> None:
    with pytest.raises(ValueError, match=r"input 0 has shape \(4, 4\)"):
        BACKENDS["xla"].compile(symbolic_graph(), None, {})(jnp.ones((4, 4)))


def test_donated_inputs_are_consumed() -> None:
    b = Builder("add")
    x = b.placeholder("x", Aval((8,), F32))
    graph = b.finish((b.call(lax.add, (x, x), {}, x.aval),))
    program = BACKENDS["xla"].compile(graph, None, {"donate": (0,)})
    value = jnp.ones(8)
    program(value)
    assert value.is_deleted()


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm", "tpu"])
@pytest.mark.parametrize("symbolic", [False, True])
def test_lowers_for_every_platform(platform: str, symbolic: bool) -> None:
    n = jax.export.symbolic_shape("m")[0] if symbolic else 5
    exported = export_graph(symbolic_graph(), (platform,), (jax.ShapeDtypeStruct((n, 3), F32),))
    assert exported.platforms == (platform,)
    assert "stablehlo.reshape" in exported.mlir_module() or "dynamic_reshape" in exported.mlir_module()


MESH = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from dynacomp.codegen.backends import BACKENDS
from dynacomp.lowering.primitives.translate import lower_function
f = lambda x, w: jax.nn.relu(x @ w) - x.mean(0)[:, None].sum()
x, w = jnp.arange(64.0).reshape(8, 8), jnp.ones((8, 4))
mesh = Mesh(np.array(jax.devices()), ("rows",))
sharded = jax.device_put(x, NamedSharding(mesh, P("rows")))
(found,) = BACKENDS["xla"].compile(lower_function(f, x, w), None, {})(sharded, w)
np.testing.assert_allclose(found, f(x, w), rtol=1e-6)
print(len(jax.devices()), len(found.sharding.device_set), found.sharding.spec)
"""


def test_sharded_arguments_stay_sharded() -> None:
    """Four devices: the program runs where its arguments live, as `jax.jit` does."""
    flags = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", MESH], capture_output=True, text=True, env=flags, timeout=120)
    assert done.stdout.split()[:2] == ["4", "4"], done.stderr
    assert "rows" in done.stdout
