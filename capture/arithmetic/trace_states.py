"""Is what JAX has said of a trace about the one that runs the frame? NNX asks that of each Variable before it changes.

    variable.state == jax.extend.core.get_opaque_trace_state()     # a guard on the trace that `state` is about

Capture itself traces calls of libraries, so that the comparison is no call of JAX's own `__eq__` but a row of its own.
"""

from __future__ import annotations

import operator
from typing import Any

from jax._src.core import OpaqueTraceState

from dynacomp.capture.base.errors import Break
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.questions import is_object
from dynacomp.capture.values.standing import TraceStateV
from dynacomp.capture.values.value import Value, existing, type_of


def compare(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """`==` and `!=` where the trace that runs the frame is another one in each call: JAX transforms a caller."""
    other = b if isinstance(a, TraceStateV) else a
    if op not in (operator.eq, operator.ne) or isinstance(other, TraceStateV) or type_of(other) is not OpaqueTraceState:
        return None
    trace = _source(other)
    if trace is None:
        raise Break("tracer", "whether another trace is the one that runs the caller")
    answer = existing(other)._trace_ref is cap.root.trace
    cap.guards.add("same" if answer else "distinct", trace, S.TraceRef())
    return Const(answer == (op is operator.eq))


def compare_known(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """The same where the frame's own trace is known."""
    known, other = (a, b) if is_const(a) else (b, a)
    if op not in (operator.eq, operator.ne) or type_of(other) is not OpaqueTraceState or not is_const(known):
        return None
    trace = _source(other)
    if known.source is not None or type_of(known) is not OpaqueTraceState or trace is None:
        return None
    answer = existing(other)._trace_ref is known.value._trace_ref
    cap.guards.add("is" if answer else "is_not", trace, known.value._trace_ref)
    return Const(answer == (op is operator.eq))


def _source(state: Value) -> S.Source | None:
    """Where the trace is of which JAX has said something before the call; None where that is not as it was."""
    exists = is_object(state) and state.source is not None and not state.written
    return S.Attr(state.source, "_trace_ref") if exists else None  # type: ignore[arg-type]
