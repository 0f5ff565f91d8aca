"""Attention as an Op of ours: what the pass `fuse_attention` finds, and `kernels/attention.h` computes.

    attention(q[b,h,g,s,d], k[b,h,t,d], v[b,h,t,w], bias[b or 1, h or 1, g or 1, s or 1, t]?, scale=, causal=, marks=,
              fill=, precision=) -> ([b,h,g,s,w],)
        softmax(scale * q k^T + bias) v, g heads of queries to one of keys and values; causal: query i sees the keys up
        to i; marks: a bias of -inf marks what is hidden; fill: the score of what is hidden, a number; precision: of
        both products
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.lowering.primitives.ops import OPS, Op
from dynacomp.lowering.primitives.own import new_op


def reference(q: Any, k: Any, v: Any, bias: Any = None, *, scale: float, causal: bool, marks: bool, fill: float,
              precision: Any = None) -> list[Any]:
    """The same in JAX, in float32."""
    wanted: dict[str, Any] = {"precision": precision, "preferred_element_type": np.float32}
    scores = jnp.einsum("bhgsd,bhtd->bhgst", q, k, **wanted) * np.float32(scale)
    hidden = jnp.zeros(scores.shape[3:], bool)
    if bias is not None:
        scores, hidden = scores + bias.astype(np.float32), (bias == -jnp.inf) & marks
    if causal:
        hidden = hidden | ~jnp.tril(jnp.ones(scores.shape[3:], bool))
    weights = jax.nn.softmax(jnp.where(hidden, np.float32(fill), scores), -1)
    return [jnp.einsum("bhgst,bhtw->bhgsw", weights, v, **wanted).astype(v.dtype)]


def _shape(q: Any, k: Any, v: Any, bias: Any = None, **params: Any) -> list[Any]:
    del k, bias, params
    return [jax.ShapeDtypeStruct((*q.shape[:4], v.shape[3]), v.dtype)]


ATTENTION: Op = OPS[new_op("attention", _shape, reference).name]
