"""What a frame asks about the trace that runs it, where JAX's transformations run its caller.

Each call has a trace of its own, and its arrays are tracers of whatever class: neither is known while capturing, nor
guarded. Some questions have one answer all the same. A value that JAX may trace is of no class but those of JAX's
arrays and tracers, and a frame runs under one trace from beginning to end: all that it hears of it is equal.

    type(x) is Repeated                      # False, whoever transforms the caller
    type(x) in GRAPH_REGISTRY                # False, but for a table of JAX's own classes
    dataclasses.is_dataclass(x)              # False: no class of theirs has `__dataclass_fields__`
    type(x).__name__ == "Repeated"           # False: none of theirs is called so
    made.jax_trace == current_jax_trace()    # True where the frame itself has made it (NNX's Variables)
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import jax
from jax._src.core import OpaqueTraceState, get_opaque_trace_state

from dynacomp.capture.base.errors import Break
from dynacomp.capture.bodies.placement import is_tracer
from dynacomp.capture.graph.avals import ARRAY_TYPE, KEY_TYPE
from dynacomp.capture.reconstruct.emit import made
from dynacomp.capture.symbolic.generator_finalization import LEAVES
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const, is_const, peek
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.standing import ClassOfTracedV, HashedV, TracedNameV, TraceStateV, is_traced_name
from dynacomp.capture.values.value import Value

NAMES = ("__name__", "__qualname__", "__module__")


def _same_class(cap: Capture, a: Value, b: Value) -> bool:
    if a is b:
        return True
    asked, other = (a, b) if isinstance(a, ClassOfTracedV) else (b, a)
    cls: Any = peek(other) if is_const(other) else None
    if not issubclass(type(cls), type) and is_const(other):
        return False
    if cls in (ARRAY_TYPE, KEY_TYPE) and is_tracer(cap, asked.array, jax.core.Tracer):  # type: ignore[attr-defined]
        return False
    if cls in (None, ARRAY_TYPE, KEY_TYPE) or issubclass(cls, jax.core.Tracer):
        raise Break("tracer", "the class of a value that a transformation may trace")
    return False


def _key(cap: Capture, v: ClassOfTracedV) -> HashedV:
    """As a key it is compared with the class of plain arrays, and is none of the others; see `keys.sought`."""
    return HashedV(v, hash(_untraced(v)), lambda a, b: _same_class(cap, a, b), by_id=True)


def _untraced(v: ClassOfTracedV) -> type:
    """The class that it is of an array that nobody traces."""
    array: Any = v.array
    return KEY_TYPE if jax.dtypes.issubdtype(array.aval.dtype, jax.dtypes.prng_key) else ARRAY_TYPE


def _has(v: ClassOfTracedV, name: str) -> bool | None:
    """What the class of arrays and those of tracers say alike."""
    said = {hasattr(cls, name) for cls in (_untraced(v), *_with_subclasses(jax.core.Tracer))}
    return said.pop() if len(said) == 1 else None


def _with_subclasses(cls: type) -> Iterator[type]:
    yield cls
    more: list[type] = type.__subclasses__(cls)
    for below in more:
        yield from _with_subclasses(below)


def _named(cap: Capture, v: ClassOfTracedV, name: str) -> TracedNameV:
    """An attribute of the class: what it is called."""
    if name not in NAMES:
        raise Break("attribute", f"{name!r} of the class of a value that a transformation may trace")
    return TracedNameV(v, name)


def compare_names(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """`==` and `!=` of such a name and a text. One that a class of JAX's has is for Python to compare, unless nobody
    traces the value."""
    named, other = (a, b) if is_traced_name(a) else (b, a)
    if op not in (operator.eq, operator.ne) or not is_traced_name(named) or not is_const(other):
        return None
    asked, untraced, text = named.cls, _untraced(named.cls), peek(other)
    known = text in {getattr(cls, named.name) for cls in (untraced, *_with_subclasses(jax.core.Tracer))}
    if known and is_tracer(cap, asked.array, jax.core.Tracer):  # type: ignore[arg-type]
        raise Break("tracer", "the name of the class of a value that a transformation traces")
    return Const((known and getattr(untraced, named.name) == text) is (op is operator.eq))


define(ClassOfTracedV, Kind(python_type=lambda v: type, identical=_same_class, key=_key, has=_has, getattr=_named,
                            emit=made(type, lambda v: v.array)))
define(TracedNameV, Kind(emit=made(getattr, lambda v: v.cls, lambda v: Const(v.name))))
define(TraceStateV, Kind(python_type=lambda v: OpaqueTraceState, identical=lambda cap, a, b: a is b,
                         emit=made(get_opaque_trace_state)))
LEAVES.extend((ClassOfTracedV, TracedNameV, TraceStateV))
