"""The units of templates that many programs call: an installation can compile them ahead (`codegen/prebuilt.py`).

    >>> from dynacomp.kernels.templates import TEMPLATES
    >>> f32 = np.dtype(np.float32)
    >>> set(TEMPLATES["sort"].instances({}, (f32,))) <= set(units())
    True
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from dynacomp.kernels.templates import SPATIAL, TEMPLATES

F32, BF16, I32 = map(np.dtype, (np.float32, ml_dtypes.bfloat16, np.int32))
UNKNOWN = None
"""A size that may be any: a template's special ways all may fit."""
CONV = {s: [UNKNOWN] * 3 for s in SPATIAL} | dict.fromkeys(("c", "k", "groups", "batch_groups"), UNKNOWN) | {
    s: [UNKNOWN] * 5 for s in ("lhs_strides", "rhs_strides", "out_strides")}

# A template's name, its params as far as its units depend on them, and the dtypes of its operands and results.
CALLS: tuple[tuple[str, dict[str, Any], tuple[Any, ...]], ...] = (
    ("matmul", {}, (F32, F32, F32)),
    ("matmul", {}, (BF16, BF16, BF16)),
    ("matmul", {}, (BF16, BF16, F32)),
    ("matmul", {}, (F32, BF16, F32)),
    ("conv", CONV, (F32, F32, F32)),
    ("attention", {}, (F32, F32, F32, F32)),
    ("sort", {}, (F32, F32)),
    ("top_k", {}, (F32, F32, I32)),
    ("cholesky", {}, (F32, F32)),
    ("lu", {}, (F32, F32, I32, I32)),
    ("triangular_solve", {}, (F32, F32, F32)),
)


def units() -> tuple[str, ...]:
    """Their texts, each once."""
    found: list[str] = []
    for name, params, dtypes in CALLS:
        instances = TEMPLATES[name].instances
        assert instances is not None
        found.extend(instances(params, dtypes))
    return tuple(dict.fromkeys(found))
