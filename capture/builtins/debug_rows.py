"""`jax.debug.print`: said once the Graph has run, instead of a graph break.

Nothing that the captured code does meanwhile can be seen: whatever Python prints, or calls, breaks the
graph, and what was to be printed before it is. Only what cannot change until then is kept, arrays and
constants; inside transformed functions and branches a print is a side effect like others.
"""

from __future__ import annotations

import jax

from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.values import ArrayV, Const, DictV, NumberV, TupleV, Value, is_known_literal
from dynacomp.capture.tracing.trace_call import library_call


def debug_print(cap: Capture, *args: Value, **kwargs: Value) -> Value:
    if cap.bodies or not all(map(is_settled, (*args, *kwargs.values()))):
        return library_call(cap, jax.debug.print, list(args), kwargs)
    cap.prints.append((runtime.debug_print, TupleV(list(args)), DictV(dict(kwargs)), None))
    return Const(None)


def is_settled(v: Value) -> bool:
    """Whether a Value is the same whenever Python gets it."""
    if isinstance(v, TupleV):
        return all(isinstance(x, Value) and is_settled(x) for x in v.items)
    return isinstance(v, (ArrayV, NumberV)) or is_known_literal(v)


BUILTINS[jax.debug.print] = debug_print
