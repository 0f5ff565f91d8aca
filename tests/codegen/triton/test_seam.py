"""Templates that Triton leaves to XLA, against the templates' own references."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.codegen.triton.seam import SEAMS, in_order, strided
from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import TemplateStep
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function

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
    "group": 2,
    "queries": 5,
    "keys": 5,
    "depth": 4,
    "width": 4,
    "scale": 0.5,
    "causal": True,
    "marks": True,
    "fill": -9.0,
    "q_strides": (120, 4, 60, 12, 1),
    "k_strides": (60, 4, 0, 12, 1),
    "v_strides": (60, 4, 0, 12, 1),
    "out_strides": (120, 4, 60, 12, 1),
    "bias_strides": (0, 0, 0, 5, 1),
}
PRODUCT = {"batch": 2, "m": 3, "n": 4, "k": 5, "a_strides": (15, 1, 3), "b_strides": (0, 4, 1)}
CASES = {
    "matmul": (PRODUCT, (values(2, 5, 3), values(5, 4))),
    "conv": (CONV, (values(2, 7, 8, 4), values(3, 2, 2, 6))),
    "sort": ({"dimension": 1, "num_keys": 1, "shapes": ((4, 9), (4, 9))}, (values(4, 9), values(4, 9) * 2)),
    "top_k": ({"rows": 4, "n": 9, "k": 3}, (values(4, 9),)),
    "attention": (ATTENTION, (values(4, 5, 3, 4), values(2, 5, 12), values(2, 60),
                              np.where(values(5, 5) > 0, np.float32(-np.inf), 1))),
}


@pytest.mark.parametrize("name", CASES)
def test_seam_is_the_template(name: str) -> None:
    params, operands = CASES[name]
    dtypes: list[Any] = [F32] * (len(operands) + 1)
    found = SEAMS[name](params, dtypes, *map(jnp.asarray, operands))
    for f, w in zip(found, TEMPLATES[name].reference(params, *operands)):
        np.testing.assert_allclose(np.ravel(f), np.ravel(w), rtol=1e-5, atol=1e-5)


def asked(fn: Any, *shapes: tuple[int, ...]) -> set[str]:
    """The precisions in the products that a Triton Program leaves to XLA."""
    args = [jnp.ones(shape) for shape in shapes]
    planned = schedule(optimise(lower_function(fn, *args)))
    [step] = [s for s in planned.steps if isinstance(s, TemplateStep)]
    operands = [jnp.zeros(planned.buffers[n].shape) for n in step.operands]
    dtypes = [F32] * (len(operands) + 1)
    made = jax.make_jaxpr(lambda *x: SEAMS[step.template](step.params, dtypes, *x))(*operands)
    return set(re.findall(r"precision=(\S+)", str(made)))


def test_products_are_as_precise_as_the_program_asks() -> None:
    x, y = (40, 50), (50, 60)
    assert asked(lambda x, y: x @ y, x, y) == set()
    assert asked(lambda x, y: jnp.dot(x, y, precision="highest"), x, y) == {"(Precision.HIGHEST,"}
    exact = lax.DotAlgorithmPreset.F32_F32_F32
    assert asked(lambda x, y: lax.dot(x, y, precision=exact), x, y) == {"(Precision.HIGHEST,"}
    image, window = (2, 9, 9, 4), (3, 3, 4, 5)
    assert asked(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", precision="high",
                                                       dimension_numbers=("NHWC", "HWIO", "NHWC")),
                 image, window) == {"(Precision.HIGH,"}


def attention(first: Any, last: Any) -> Any:
    def fn(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k, precision=first))
        return jnp.einsum("bhqk,bhkd->bhqd", weights, v, precision=last)
    return fn


def test_attention_is_one_where_its_products_are_alike() -> None:
    shapes = [(2, 4, 64, 16)] * 3
    assert asked(attention(None, None), *shapes) == set()
    assert asked(attention("highest", "highest"), *shapes) == {"(Precision.HIGHEST,"}
    mixed = optimise(lower_function(attention("highest", None), *(jnp.ones(s) for s in shapes)))
    assert [n.target.name for n in mixed.calls if "dot" in str(n.target)].count("dot_general") == 2
