"""The XLA backend's StableHLO of real regions, for platforms that are not here; sizes may be symbolic."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tests.codegen.conformance.regions import ALL
from tests.codegen.conformance.test_conformance import lowered
from tests.codegen.export_kit import export_graph

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
NAMES = (
    "arithmetic_bfloat16", "bits_uint32", "cumulatives_float32", "matmul_int8", "convolution", "scatters", "sorts",
    "random_values", "control", "complexes", "zero_size", "grad_of_mlp",
    "symbolic_softmax", "symbolic_norm", "symbolic_batch", "symbolic_layout", "symbolic_rows",
)  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_one_module_for_all_platforms(name: str) -> None:
    graph, region = lowered(name)[0], ALL[name]
    scope = jax.export.SymbolicScope()
    specs = [
        jax.ShapeDtypeStruct(
            jax.export.symbolic_shape(region.symbolic[i], scope=scope) if region.symbolic else np.shape(a), a.dtype
        )
        for i, a in enumerate(region.args)
    ]
    exported = export_graph(graph, PLATFORMS, specs)
    assert exported.platforms == PLATFORMS and "stablehlo" in exported.mlir_module()
    if region.symbolic:
        assert any(not isinstance(d, int) for aval in exported.in_avals for d in aval.shape)
    for found, wanted in zip(
        exported.call(*region.args), jax.tree.leaves(region.fn(*map(jax.numpy.asarray, region.args)))
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-2 if found.dtype.itemsize == 2 else 1e-5, atol=1e-5)
