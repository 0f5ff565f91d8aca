"""What `inspect` says of a function that the machine holds: JAX resolves keyword arguments by it."""

from __future__ import annotations

import inspect
import types

from dynacomp.capture.symbolic.libraries import is_compiled
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.values.callables import FunctionV, MethodV
from dynacomp.capture.values.constant import Const, is_open, peek
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.value import NotConstant, Value, as_python
from dynacomp.capture.wrapping.builder import inside_compiled
from dynacomp.capture.wrapping.class_prototypes import leak


def signature_of(cap: Capture, value: Value) -> inspect.Signature | None:
    """What `inspect` says of a function: JAX resolves keyword arguments by it, and defaults become arguments."""
    row = kind(value).signature
    try:
        return None if row is None else row(cap, value)
    except (TypeError, ValueError, NotConstant):
        return None


def _of_constant(cap: Capture, value: Const) -> inspect.Signature | None:
    return _of_open(cap, value) if is_open(value) else inspect.signature(value.value)


def _of_method(cap: Capture, value: MethodV) -> inspect.Signature | None:
    whole = signature_of(cap, value.func)
    return whole and _bound(whole)


def _of_open(cap: Capture, fn: Const) -> inspect.Signature | None:
    """That of a function known by its code: what it has of its own beside that is guarded, not its identity."""
    real = peek(fn)
    if is_compiled(real) and fn.source is not None:
        return signature_of(cap, inside_compiled(cap, real, fn.source))
    if not isinstance(real, types.FunctionType) or "__signature__" in vars(real):
        return inspect.signature(fn.value)
    if "__wrapped__" in vars(real):
        assert fn.source is not None
        return signature_of(cap, cap.getattr(fn, "__wrapped__"))
    return _of_made(cap, OPERATIONS.as_function(cap, fn))


def _of_made(cap: Capture, fn: FunctionV) -> inspect.Signature | None:
    """As `inspect` looks: what it was told, what the wrapped function says, what its own code says."""
    if "__signature__" in fn.attrs:
        told = as_python(fn.attrs["__signature__"])
        return told if isinstance(told, inspect.Signature) else None
    if "__wrapped__" in fn.attrs:
        return signature_of(cap, fn.attrs["__wrapped__"])
    return None if fn.attrs.keys() & PARTIAL else inspect.signature(_twin(cap, fn))


PARTIAL = {"_partialmethod", "__partialmethod__"}  # by which `inspect` knows the functions that a partialmethod makes


def _bound(whole: inspect.Signature) -> inspect.Signature:
    """Without the parameter that takes the object; ValueError where there is none, as in `inspect`."""
    given = list(whole.parameters.values())
    if not given or given[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise ValueError("invalid method signature")
    return whole.replace(parameters=given[given[0].kind is not inspect.Parameter.VAR_POSITIONAL:])


def _twin(cap: Capture, fn: FunctionV) -> types.FunctionType:
    """A real function with the parameters of `fn`; NotConstant when a default or an annotation is not a constant. It is
    annotated by no class of the capture's own: JAX does not ask, and nothing that is kept may refer to one."""
    cells = tuple(types.CellType() for _ in fn.code.co_freevars)
    twin = types.FunctionType(fn.code, {}, fn.name, None if fn.defaults is None else as_python(fn.defaults), cells)
    twin.__kwdefaults__ = None if fn.kwdefaults is None else as_python(fn.kwdefaults)
    if "__annotations__" in fn.special:
        annotations = as_python(fn.special["__annotations__"])
        twin.__annotations__ = {name: x for name, x in annotations.items() if leak(cap, (x,)) is None}
    return twin


define(Const, Kind(signature=_of_constant))
define(FunctionV, Kind(signature=_of_made))
define(MethodV, Kind(signature=_of_method))
