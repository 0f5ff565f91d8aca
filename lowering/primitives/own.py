"""Primitives beside JAX's: real ones, that JAX evaluates, differentiates, batches and compiles, and Ops of ours.

`new_op` gives a `jax.extend.core.Primitive`; wherever JAX traces it, lowering makes one node of it. Its name is made
unique: `lowering.primitives.ops.OPS` knows it by that.

    >>> double = new_op("double", lambda x: (x,), lambda x: (x + x,))
    >>> double.bind(jnp.ones(2))[0].tolist(), OPS["double"].kind
    ([2.0, 2.0], 'template')
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.dispatch import apply_primitive
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from dynacomp.lowering.primitives.ops import OPS, PRIMITIVES, TEMPLATE, Op


def new_op(name: str, abstract: Callable[..., Sequence[Any]], reference: Callable[..., Sequence[Any]]) -> Primitive:
    """A primitive of several results.

    abstract: the results' shapes and dtypes from those of the operands, and the parameters. reference: computes
    them, in terms that JAX can trace.
    """
    unique = next(n for n in _numbered(name) if n not in OPS)
    primitive = Primitive(unique)
    primitive.multiple_results = True
    primitive.def_impl(functools.partial(apply_primitive, primitive))
    primitive.def_abstract_eval(functools.partial(_abstract, abstract))
    mlir.register_lowering(primitive, mlir.lower_fun(reference, multiple_results=True))
    PRIMITIVES[unique] = [primitive]
    OPS[unique] = Op(unique, TEMPLATE, primitive.bind)
    return primitive


def _numbered(name: str) -> Any:
    return itertools.chain([name], (f"{name}_{k}" for k in itertools.count(1)))


def _abstract(rule: Callable[..., Sequence[Any]], *avals: Any, **params: Any) -> list[Any]:
    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
    return [jax.core.ShapedArray(tuple(s.shape), jax.dtypes.canonicalize_dtype(s.dtype))
            for s in rule(*structs, **params)]


# --- what `jax.vmap` does with one


def in_turn(primitive: Primitive) -> None:
    """Batches run one element after another."""
    def rule(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> tuple[list[Any], list[int]]:
        moving = [jnp.moveaxis(x, d, 0) for x, d in zip(args, dims) if d is not None]

        def one(each: Any) -> list[Any]:
            parts = iter(each)
            return primitive.bind(*(x if d is None else next(parts) for x, d in zip(args, dims)), **params)

        outs = jax.lax.map(one, moving)
        return list(outs), [0] * len(outs)

    batching.primitive_batchers[primitive] = rule


def broadcasting(primitive: Primitive) -> None:
    """It takes arrays with further leading dimensions, those of all operands the same."""
    def rule(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> tuple[list[Any], list[int]]:
        size = next(x.shape[d] for x, d in zip(args, dims) if d is not None)
        wide = [jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
                for x, d in zip(args, dims)]
        outs = primitive.bind(*wide, **params)
        return outs, [0] * len(outs)

    batching.primitive_batchers[primitive] = rule


def by_rule(primitive: Primitive, fn: Callable[..., tuple[Any, Any]]) -> None:
    """As `jax.custom_batching.custom_vmap` has it: `fn(size, is_batched, *args, **params)`, batches first."""
    def rule(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
        size = next(x.shape[d] for x, d in zip(args, dims) if d is not None)
        batched = [d is not None for d in dims]
        moved = [jnp.moveaxis(x, d, 0) if b else x for x, d, b in zip(args, dims, batched)]
        outs, out_batched = fn(size, batched, *moved, **params)
        several = isinstance(outs, (tuple, list))
        flags = list(out_batched) if isinstance(out_batched, (tuple, list)) else [out_batched]
        return list(outs) if several else [outs], [0 if b else None for b in flags]

    batching.primitive_batchers[primitive] = rule
