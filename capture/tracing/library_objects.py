"""Library callables that hold user functions: `jax.value_and_grad(loss)`, `jax.custom_vjp(f)`, ...

Such an object often exists before the capture (a module global, a decorator's result). Its library
code may run as one node, but the user functions inside must be captured. `open_callable` finds
them (in closure cells, in instance attributes) and returns a `LibraryV` that builds a copy of the
callable around replacements, which `lowered_args` turns into stand-ins.
"""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

from dynacomp.capture.base.classes import own_dict
from dynacomp.capture.base.errors import Break
from dynacomp.capture.bodies.function_signatures import signature_of
from dynacomp.capture.hosting.rebuilt import WithAttributes, WithCells
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.tracing.onlookers import holds_user_code, is_users, parts_of
from dynacomp.capture.tracing.trace_call import RULES
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import FunctionV
from dynacomp.capture.values.computed import LibraryV
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.containers import ListV, TupleV
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.questions import is_library_object, is_sequence, is_tuple
from dynacomp.capture.values.value import Value, as_python
from dynacomp.capture.wrapping.builder import items_of, wrap
from dynacomp.capture.wrapping.constants import from_python

# What a function has in its `__dict__` that `functools.wraps` has put around what stands for one of the program's.
OF_STANDINS = frozenset({"_standin", "__signature__", "__wrapped__"})


# Options of rules that change no value, and have functions called that only XLA's compiler would reach.
FOR_XLA = ("optimize_remat",)


class WithRule:
    """What `make` makes, given a rule (`made.defvjp(fwd, bwd)`); the rule's arguments come after its own."""

    def __init__(self, make: Any, method: str, own: int, options: dict[str, Any]) -> None:
        self.make, self.method, self.own, self.options = make, method, own, options
        self.__name__ = self.__qualname__ = getattr(make, "__name__", method)
        self.__module__ = "jax"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = self.make(*args[:self.own], **kwargs)
        getattr(made, self.method)(*args[self.own:], **self.options)
        return made


def _define_rule(method: str, cap: Capture, obj: LibraryV, *rules: Value, **options: Value) -> Value:
    """`obj.defvjp(fwd, bwd)` and the like; as a decorator it gives the function back."""
    mutating(cap, obj)
    chosen = {k: as_python(v) for k, v in options.items() if k not in FOR_XLA}
    obj.make = WithRule(obj.make, method, len(obj.args), chosen)
    obj.args, obj.lowered = (*obj.args, *rules), {}
    return rules[0] if method in ("defjvp", "def_fwd", "def_bwd", "def_vmap") and rules else Const(None)


RULE_METHODS = {name: functools.partial(_define_rule, name) for name in RULES}


def decorated(value: LibraryV) -> FunctionV | None:
    """The program's function, made in this call, around which a library's decorator (`jax.checkpoint`) has put its own
    as `functools.wraps` does; None for others."""
    inner = value.args[0] if len(value.args) == 1 else None
    if type(value.real) is not types.FunctionType or type(inner) is not FunctionV:
        return None
    return inner if {"__wrapped__"} <= {*own_dict(value.real)} <= OF_STANDINS else None


def _signature(cap: Capture, value: LibraryV) -> inspect.Signature | None:
    inner = decorated(value)
    return None if inner is None else signature_of(cap, inner)


define(LibraryV, Kind(signature=_signature))


def open_callable(cap: Capture, fn: Value, around: tuple[Any, ...] = ()) -> LibraryV | None:
    """The callable rebuilt around its user functions; None when it holds none. `around` are those that hold it: one
    that holds itself (what `eqx.filter_custom_vjp` makes, in a cell of its own rule) is built by Python."""
    if not is_const(fn) or not holds_user_code(fn.value) or is_users(fn.value):
        return None
    obj, source = fn.value, fn.source
    if any(obj is other for other in around):
        raise Break("call", f"a {type(obj).__qualname__} that holds itself, and functions of the program's")
    around = (*around, obj)
    held = [(key, part) for key, part in parts_of(obj) if holds_user_code(part)]
    keys = tuple(key for key, _ in held)
    values = tuple(_part_value(cap, part, _part_source(source, key), around) for key, part in held)
    if issubclass(type(obj), types.FunctionType):
        return LibraryV(WithCells(obj, keys), values)
    if type(obj).__name__ == "PjitFunction":
        return values[0] if is_library_object(values[0]) else None
    return LibraryV(WithAttributes(obj, keys), values)


def _part_value(cap: Capture, part: Any, source: S.Source | None, around: tuple[Any, ...]) -> Value:
    value = wrap(cap, part, source) if source is not None else from_python(cap, part)
    if is_sequence(value):
        items = [_opened(cap, v, around) for v in items_of(cap, value)]
        return TupleV(items, value.cls) if is_tuple(value) else ListV(items)
    return _opened(cap, value, around)


def _opened(cap: Capture, value: Value, around: tuple[Any, ...]) -> Value:
    return open_callable(cap, value, around) or value


def _part_source(source: S.Source | None, key: Any) -> S.Source | None:
    if source is None:
        return None
    if isinstance(key, int):
        return S.Get(S.Item(S.Get(source, "__closure__"), key), "cell_contents")
    return S.Attr(source, key)
