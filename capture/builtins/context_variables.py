"""Context variables that exist, `contextvars.ContextVar`: read by guards, set once the Graph has run.

A variable is known by its identity: programs make them once, in modules. What `set` brings stands in the log of side
effects, where `get` looks first; `reset` with the token of the last `set` takes that out again, so that a `with`
statement whose context manager does both leaves nothing to replay. Tokens of Python's, of before a graph break, are
given back in Python.

    token = SCALE.set(2.0)
    try:
        return x * SCALE.get()      # a graph of `x * 2.0`, and no side effect
    finally:
        SCALE.reset(token)
"""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.calls.calls import BUILTIN_METHODS
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.reconstruct.emit import Emitter
from dynacomp.capture.symbolic.effects import Effect
from dynacomp.capture.symbolic.libraries import is_pure_module
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import changing_outside
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.objects import OpaqueV
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import WRAPPERS, one_object, wrap

MISSING = contextvars.Token.MISSING


class VariableV(OpaqueV):
    """Such a variable."""


@dataclass(eq=False)
class TokenV(Value):
    """What `set` has given: `old` is what the variable had, None for nothing; `below` the token of the `set` before."""

    variable: VariableV
    value: Value
    old: Value | None
    below: TokenV | None
    effect: Effect
    used: bool = False


def _variable(cap: Capture, obj: Any, source: S.Source) -> Value:
    found = one_object(cap, obj, source)
    return VariableV(obj, source=source) if is_const(found) else found


def _last(cap: Capture, variable: VariableV) -> TokenV | None:
    """The token of the last `set` that has not been taken back."""
    return next((t for t in reversed(cap.effects.tokens) if t.variable.obj is variable.obj), None)


def _current(cap: Capture, variable: VariableV) -> Value | None:
    """What the variable has now; None for nothing."""
    token = _last(cap, variable)
    if token is not None:
        return token.value
    assert variable.source is not None
    found, source = variable.obj.get(MISSING), S.Contextual(variable.source)
    if found is not MISSING:
        return wrap(cap, found, source)
    cap.guards.add("is", source, MISSING)
    return None


def _get(cap: Capture, variable: VariableV, *default: Value) -> Value:
    if len(default) > 1:
        raise Break("call", "method 'get' of a ContextVar with these arguments")
    found = _current(cap, variable)
    if found is not None:
        return found
    if default:
        return default[0]
    try:
        made_with = contextvars.Context().run(variable.obj.get)
    except LookupError:
        raise Raised(Const(LookupError(variable.obj))) from None
    return wrap(cap, made_with, S.Root(made_with, f"the default of {variable.source!r}"))


def _set(cap: Capture, variable: VariableV, value: Value) -> Value:
    if cap.current is not None and is_pure_module(cap.current.globals.get("__name__")):
        raise Break("call", "method 'set' of a ContextVar by a library, whose own functions must see it at once")
    old, below = _current(cap, variable), _last(cap, variable)
    changing_outside(cap, "a context variable is set")
    cap.effects.call(runtime.set_variable, [variable, value])
    token = TokenV(variable, value, old, below, cap.effects.calls[-1])
    cap.effects.tokens.append(token)
    return token


def _reset(cap: Capture, variable: VariableV, token: Value) -> Value:
    if not isinstance(token, TokenV) or token is not _last(cap, variable):
        raise Break("call", "method 'reset' of a ContextVar, which something else has set since")
    changing_outside(cap, "a context variable is reset")
    cap.effects.calls.remove(token.effect)
    cap.effects.tokens.remove(token)
    token.used = True
    return Const(None)


def _emit(e: Emitter, token: TokenV) -> None:
    """Makes a token without a change that anybody sees: what has been read of the variable may be loaded later."""
    operands: list[Any] = [token.variable, token.value, Const(MISSING) if token.old is None else token.old]
    if token.below is not None and not token.below.used:  # the variable had nothing before that one
        operands.append(token.below)
    e.call(runtime.used_token if token.used else runtime.token, *e.loads(operands))
    e.remember(token)


WRAPPERS[contextvars.ContextVar] = _variable
BUILTIN_METHODS[VariableV, "get"] = _get
BUILTIN_METHODS[VariableV, "set"] = _set
BUILTIN_METHODS[VariableV, "reset"] = _reset
define(TokenV, Kind(python_type=lambda v: contextvars.Token, emit=_emit))
