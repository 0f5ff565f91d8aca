"""Templates that Triton leaves to XLA, against the templates' own references."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.codegen.triton.seam import SEAMS, in_order, strided
from dynacomp.kernels.templates import TEMPLATES

F32 = np.dtype(np.float32)


def test_strided_views() -> None:
    x = np.arange(24)
    for shape, strides in (
        ((4, 6), (6, 1)),
        ((6, 4), (1, 6)),
        ((2, 3, 4), (1, 8, 2)),
        ((5, 4), (0, 1)),
        ((3, 3), (1, 2)),
    ):
        wanted = np.lib.stride_tricks.as_strided(x, shape, [8 * s for s in strides])
        np.testing.assert_array_equal(strided(jnp.asarray(x), shape, strides), wanted)


def test_in_order_undoes_strided() -> None:
    x = jnp.arange(24)
    np.testing.assert_array_equal(in_order(strided(x, (2, 3, 4), (1, 8, 2)), (1, 8, 2)), x)


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


CONV = {
    "n": 2,
    "c": 4,
    "k": 6,
    "spatial_in": (7, 8),
    "kernel": (3, 2),
    "spatial_out": (4, 8),
    "stride": (2, 1),
    "pad_lo": (1, 1),
    "pad_hi": (1, 1),
    "lhs_dilation": (1, 1),
    "rhs_dilation": (1, 2),
    "groups": 2,
    "batch_groups": 1,
    "lhs_strides": (224, 1, 32, 4),
    "rhs_strides": (1, 6, 24, 12),
    "out_strides": (192, 1, 48, 6),
}
ATTENTION = {
    "batch": 2,
    "heads": 3,
    "queries": 5,
    "keys": 5,
    "depth": 4,
    "width": 4,
    "scale": 0.5,
    "causal": True,
    "q_strides": (60, 4, 12, 1),
    "k_strides": (60, 4, 12, 1),
    "v_strides": (60, 4, 12, 1),
    "out_strides": (60, 4, 12, 1),
}
CASES = {
    "conv": (CONV, (values(2, 7, 8, 4), values(3, 2, 2, 6))),
    "sort": ({"dimension": 1, "num_keys": 1, "shapes": ((4, 9), (4, 9))}, (values(4, 9), values(4, 9) * 2)),
    "top_k": ({"rows": 4, "n": 9, "k": 3}, (values(4, 9),)),
    "attention": (ATTENTION, (values(2, 5, 3, 4), values(2, 5, 12), values(2, 60))),
}


@pytest.mark.parametrize("name", CASES)
def test_seam_is_the_template(name: str) -> None:
    params, operands = CASES[name]
    dtypes: list[Any] = [F32] * (len(operands) + 1)
    found = SEAMS[name](params, dtypes, *map(jnp.asarray, operands))
    for f, w in zip(found, TEMPLATES[name].reference(params, *operands)):
        np.testing.assert_allclose(np.ravel(f), np.ravel(w), rtol=1e-5, atol=1e-5)
