"""Branches of which one is XLA's: which is chosen is read at run time, and that one alone runs.

What checks a result and calls Python where it is wrong (`eqx.error_if`, in every solver of lineax and diffrax) is a
`cond` with a callback in one branch, and an array handed on in the other. As an XLA program of both it costs more than
the solver; the branch that hands its operands on costs nothing here.

    >>> chosen = choice(graph, [x.shape])  # of one `cond`, branches (handed on, XLA's)
    >>> chosen(False, x)                   # (x,), and XLA was not asked
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import jit as jax_jit  # now: a program may put dynacomp.jit in its place

from dynacomp.capture.graph.avals import ARRAY_TYPE
from dynacomp.capture.graph.graph import Graph
from dynacomp.codegen.dims import open_sizes, shaped
from dynacomp.codegen.xla import as_function
from dynacomp.lowering.fuse.items import op_name
from dynacomp.lowering.primitives.control import bodies

Branch = Callable[..., tuple[Any, ...]]


def choice(graph: Graph, kept: Sequence[Sequence[Any]]) -> Branch | None:
    """The function of a Graph that is one `cond` and results of it, or None. Operands may have another shape of as many
    elements than the Graph says; results have the shapes `kept`, of as many."""
    calls = [node for node in graph.calls if op_name(node) != "getitem"]
    places = {node: k for k, node in enumerate(graph.placeholders)}
    if [op_name(node) for node in calls] != ["cond"] or not all(a in places for a in calls[0].args):
        return None
    if not all(op_name(node) == "getitem" and node.args[0] is calls[0] for node in graph.output):
        return None
    given = [places[a] for a in calls[0].args]
    if calls[0].args[0].aval.dtype != np.int32:
        return None
    results = [(node.args[1], shape) for node, shape in zip(graph.output, kept)]
    branches = [_branch(body, results) for body in bodies(calls[0].kwargs)]

    def run(*operands: Any) -> tuple[Any, ...]:
        index, *rest = [operands[k] for k in given]
        return branches[min(max(_number(index), 0), len(branches) - 1)](*rest)

    return run


def _branch(body: Graph, results: Sequence[tuple[int, Sequence[Any]]]) -> Branch:
    """A branch as a function of its operands: some of these handed on, or XLA's, compiled when it is chosen for the
    first time."""
    places = {node: k for k, node in enumerate(body.placeholders)}
    handed = [(places.get(body.output[k]), shape) for k, shape in results]
    if not any(k is None for k, _ in handed):
        dtypes = [node.aval.dtype for node in body.placeholders]
        fitted = [(k, dtypes[k], _fits(shape)) for k, shape in handed]  # type: ignore[index]
        return lambda *xs: tuple([fit(_array(xs[k], dtype)) for k, dtype, fit in fitted])  # type: ignore[index]
    shapes = [node.aval.shape for node in body.placeholders]

    def call(*operands: Any) -> tuple[Any, ...]:
        found = as_function(body)(*(shaped(x, shape, {}) for x, shape in zip(operands, shapes)))
        return tuple(shaped(found[k], shape, {}) for k, shape in results)

    return jax_jit(call)


def _array(x: Any, dtype: Any) -> Any:
    return x if isinstance(x, jax.Array) else jnp.asarray(x, dtype)


def _fits(shape: Sequence[Any]) -> Callable[[jax.Array], jax.Array]:
    """What gives an array a shape of as many elements."""
    if open_sizes(shape):
        return lambda x: shaped(x, shape, {})
    fixed = tuple(map(int, shape))
    reshaped = jax_jit(lambda x: x.reshape(fixed))  # a tenth of what an eager operation takes
    return lambda x: x if x.shape == fixed else reshaped(x)


def _number(index: Any) -> int:
    """A whole number that compiled code has computed, read where it lies: JAX takes ten times longer."""
    if not issubclass(type(index), ARRAY_TYPE):
        return int(index)
    return int(ctypes.c_int32.from_address(index.block_until_ready().unsafe_buffer_pointer()).value)
