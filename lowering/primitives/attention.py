"""Attention as an Op of ours: what the pass `fuse_attention` finds, and `kernels/attention.h` computes.

    attention(q[b,h,s,d], k[b,h,t,d], v[b,h,t,w], bias[b or 1, h or 1, s or 1, t]?, scale=, causal=, precision=)
            -> ([b,h,s,w],)
        softmax(scale * q k^T + bias) v; causal: query i sees the keys up to i; precision: of both products
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.lowering.primitives.ops import OPS, Op
from dynacomp.lowering.primitives.own import new_op


def reference(q: Any, k: Any, v: Any, bias: Any = None, *, scale: float, causal: bool,
              precision: Any = None) -> list[Any]:
    """The same in JAX, in float32."""
    wanted: dict[str, Any] = {"precision": precision, "preferred_element_type": np.float32}
    scores = jnp.einsum("bhsd,bhtd->bhst", q, k, **wanted) * np.float32(scale)
    if bias is not None:
        scores = scores + bias.astype(np.float32)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[2:], bool)), scores, -jnp.inf)
    weights = jax.nn.softmax(scores, -1)
    return [jnp.einsum("bhst,bhtw->bhsw", weights, v, **wanted).astype(v.dtype)]


def _shape(q: Any, k: Any, v: Any, bias: Any = None, *, scale: float, causal: bool, precision: Any = None) -> list[Any]:
    del k, bias, scale, causal, precision
    return [jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), v.dtype)]


ATTENTION: Op = OPS[new_op("attention", _shape, reference).name]
