"""What a call has to look at, and the Graph computes of constants alone.

Eager JAX computes as the program goes, so the program may ask what it has computed: a size (`int(jnp.log2(n))`), or a
mask. The Graph computes later; but what no input of the frame goes into is the same in each call, and is computed here,
where something asks that cannot go on otherwise. A call of JAX's that refuses tracers runs at once if all that it is
given is so settled, else it is given the settled arrays as NumPy's, spelled out in the Graph.

    mask = jnp.arange(len(x)) % 2 == 0
    return x[mask]                      # a tracer of booleans as an index is refused

A program without inputs (a script's `main`) is no constant: what is settled is computed in few steps.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.bodies.placement import is_staged
from dynacomp.capture.graph.avals import is_numpy_dtype
from dynacomp.capture.graph.graph import CALL_FUNCTION, GET_ATTR, Node, leaves_in, map_parts, nodes_in
from dynacomp.capture.graph.interpreter import materialise
from dynacomp.capture.graph.sizes import is_symbolic
from dynacomp.capture.hosting.rebuilt import LibraryArg, is_library_arg
from dynacomp.capture.symbolic.libraries import module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.abstract_evaluation import Outcome, abstract
from dynacomp.capture.tracing.alike_calls import OPERATORS
from dynacomp.capture.tracing.failures import Failed
from dynacomp.capture.tracing.lowered_parts import called_by, leaf_nodes, library_args, lowered_sizes, may_be_asked
from dynacomp.capture.tracing.passthrough import is_of_jax
from dynacomp.capture.tracing.traces import on_tracers
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.constants import const_array, from_python

MOST_NODES, MOST_ELEMENTS = 32, 4096
REFUSALS = ("concrete", "raises")  # kinds of breaks where a call fails on tracers


def array_of(cap: Capture, node: Node) -> Any:
    """What `node` is in each call, if eager JAX has a value there and few constants and calls decide it; else None."""
    if cap.bodies or cap.root.traced or cap.under_trace or is_staged(cap):
        return None
    needed: dict[Node, None] = {}
    todo = [node]
    while todo:
        at = todo.pop()
        needed[at] = None
        if len(needed) > MOST_NODES or not _may_be_settled(cap, at):
            return None
        todo += [n for n in nodes_in((at.args, dict(at.kwargs))) if n not in needed]
    made: dict[Node, Any] = {}
    try:
        for at in cap.graph.builder.nodes:
            if at in needed:
                made[at] = _made(cap, at, made)
    except ours(Exception):
        return None
    found = made.get(node)
    return found if isinstance(found, jax.Array) and is_numpy_dtype(found.dtype) else None


def _may_be_settled(cap: Capture, node: Node) -> bool:
    size = getattr(node.aval, "size", 0)
    plain = node.op in (GET_ATTR, CALL_FUNCTION) and node not in cap.graph.heard
    return plain and not any(map(is_symbolic, leaves_in((node.args, dict(node.kwargs))))) and (
        type(size) is int and size <= MOST_ELEMENTS)


def _made(cap: Capture, node: Node, made: dict[Node, Any]) -> Any:
    if node.op == GET_ATTR:
        return jnp.copy(cap.graph.builder.consts[node.target])  # a call may delete it
    return node.target(*materialise(node.args, made), **materialise(dict(node.kwargs), made))


def number(cap: Capture, value: Value, kind: type) -> Any:
    """`kind(x)` of an array without dimensions that is settled; None of others, and of what is no int."""
    if not isinstance(value, ArrayV) or value.aval.shape != () or getattr(value.aval.dtype, "kind", "V") not in "biuf":
        return None
    found = array_of(cap, value.node)
    return kind(found) if found is not None and (kind is float or np.isfinite(found)) else None


def listed(cap: Capture, value: Value) -> Value | None:
    """`x.tolist()` of an array that is settled."""
    found = array_of(cap, value.node) if isinstance(value, ArrayV) else None
    return None if found is None else from_python(cap, found.tolist())


def again(cap: Capture, fn: Any, lowered: Any, refused: Break | Raised,
          since: int) -> Value | tuple[Outcome, Any] | None:
    """What a call gives that tracers were refused, its Value or what JAX traces of it with other arguments; None where
    nothing that it is given is settled."""
    if isinstance(refused, Break) and refused.kind not in REFUSALS or not _is_of_arrays(fn, lowered) or (
            not may_be_asked(lowered)):
        return None
    known = {node: array_of(cap, node) for node in leaf_nodes(lowered)}
    if not known or all(array is None for array in known.values()):
        return None
    try:
        if all(array is not None for array in known.values()) and not lowered_sizes(lowered):
            made = on_tracers(cap, fn, lowered[0], lowered[1], known)
            return from_python(cap, jax.tree.map(lambda x: _anew(cap, x), made))
        shown = _spelled(lowered, known)
        return abstract(cap, fn, shown[0], shown[1], since), shown
    except (Failed, Break, Raised):
        return None
    except ours(Exception):
        return None


def _is_of_arrays(fn: Any, lowered: Any) -> bool:
    """Whether JAX alone runs: a function of its own, an operator, or a method of what these make (`y.at[a:b].get`)."""
    called = called_by(fn, lowered)
    return _is_jaxs(called) and (called is not getattr or all(_is_jaxs(made.make) for made in library_args(lowered)))


def _is_jaxs(fn: Any) -> bool:
    return fn is getattr or is_of_jax(fn) or module_of(fn) == OPERATORS


def _anew(cap: Capture, made: Any) -> Any:
    """An array that a call has made, as each call of the program makes it: another one, which may be donated."""
    if not isinstance(made, jax.Array):
        return made
    if made.weak_type or not is_numpy_dtype(made.dtype):
        raise Break("concrete", "an array that a copy would not be like")
    const: Any = const_array(cap, made)
    node = cap.graph.builder.call(jnp.copy, (const.node,), {}, const.aval, cap.where())
    cap.graph.owner[node] = 0
    return ArrayV(node, const.aval)


def _spelled(arg: Any, known: dict[Node, Any]) -> Any:
    """The arguments of a call with settled arrays spelled out, as NumPy's."""
    if isinstance(arg, Node):
        array = known.get(arg)
        if array is None or array.dtype.kind not in "biuf" or array.size == 0:
            return arg
        if array.weak_type:
            return arg if array.shape else array.item()
        return LibraryArg(np.array, (array.tolist(),), {"dtype": array.dtype.name})
    if is_library_arg(arg):  # what JAX has made of them: `y.at[a:b]`
        return LibraryArg(arg.make, *_spelled((arg.args, arg.kwargs), known)) if _is_jaxs(arg.make) else arg
    return map_parts(arg, lambda part: _spelled(part, known))
