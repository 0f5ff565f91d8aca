"""Rows for the standard library: what is written in C, or in Python that the machine cannot enter.

Most of the library is entered like the user's code. Here stand the callables that keep hidden
state (caches, locks, thread identities) or are C, as rows of the table of callees. Modules that take more than a
few rows have files of their own.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import operator
import reprlib
import threading
import types
import weakref
from typing import Any, cast

from dynacomp.capture.arithmetic.subscripts import subscript
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.bodies.function_signatures import signature_of
from dynacomp.capture.calls.calls import BUILTINS, BY_TYPE, OPENED, as_function, call, inline
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.library_objects import decorated
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import FunctionV, MethodV
from dynacomp.capture.values.constant import Const, holds, is_const
from dynacomp.capture.values.containers import DictV, TupleV
from dynacomp.capture.values.questions import is_dict, is_library_object, is_made_function, is_object
from dynacomp.capture.values.value import Value, as_python, type_of
from dynacomp.capture.wrapping.builder import wrap
from dynacomp.capture.wrapping.constants import from_python


class SortKey:
    """What `functools.cmp_to_key(compare)` makes of a value: ordered by `compare`."""

    def __init__(self, compare: Any, obj: Any) -> None:
        self.compare, self.obj = compare, obj

    def __lt__(self, other: SortKey) -> bool:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: SortKey) -> bool:
        return self.compare(self.obj, other.obj) > 0

    def __le__(self, other: SortKey) -> bool:
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other: SortKey) -> bool:
        return self.compare(self.obj, other.obj) >= 0

    def __eq__(self, other: object) -> bool:
        return self.compare(self.obj, other.obj) == 0  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]


def _cmp_to_key(cap: Capture, mycmp: Value) -> Value:
    return MethodV(Const(SortKey), mycmp)


BUILTINS[functools.cmp_to_key] = _cmp_to_key


# --- getters


def _item_getter(cap: Capture, getter: Const, obj: Value) -> Value:
    found = [subscript(cap, obj, Const(key)) for key in getter.value.__reduce__()[1]]
    return found[0] if len(found) == 1 else TupleV(found)


def _attribute_getter(cap: Capture, getter: Const, obj: Value) -> Value:
    found = [functools.reduce(cap.getattr, path.split("."), obj) for path in getter.value.__reduce__()[1]]
    return found[0] if len(found) == 1 else TupleV(found)


def _method_caller(cap: Capture, caller: Const, obj: Value) -> Value:
    maker, args = caller.value.__reduce__()[:2]
    name, *rest = args if maker is operator.methodcaller else (*maker.args, *args)
    kwargs = {} if maker is operator.methodcaller else maker.keywords
    return call(cap, cap.getattr(obj, name), [from_python(cap, a) for a in rest],
                {k: from_python(cap, v) for k, v in kwargs.items()})


def _made_of_constants(kind: Any) -> Any:
    def make(cap: Capture, *args: Value, **kwargs: Value) -> Value:
        found = [*map(as_python, args)], {k: as_python(v) for k, v in kwargs.items()}
        try:
            return Const(kind(*found[0], **found[1]))
        except ours(Exception) as error:
            raise Raised(Const(error)) from None
    return make


for _kind, _row in ((operator.itemgetter, _item_getter), (operator.attrgetter, _attribute_getter),
                    (operator.methodcaller, _method_caller)):
    BUILTINS[_kind] = _made_of_constants(_kind)
    BY_TYPE[_kind] = _row


def _logger(cap: Capture, manager: Value, name: Value) -> Value:
    """`logging.getLogger(name)` of a logger that exists: only making one takes the lock of module `logging`."""
    if is_object(manager) and manager.real is not None and manager.source is not None:
        table = manager.real.loggerDict
        if id(table) not in cap.known.objects and isinstance(table.get(as_python(name)), logging.Logger):
            return wrap(cap, table[as_python(name)], S.Key(S.Attr(manager.source, "loggerDict"), as_python(name)))
    return inline(cap, as_function(cap, Const(logging.Manager.getLogger)), [manager, name], {})


BUILTINS[logging.Manager.getLogger] = _logger
BUILTINS[threading.get_ident] = lambda cap: wrap(cap, threading.get_ident(), S.ThreadIdent())


# --- wrappers that the standard library puts around functions, known by their code


def _wrapped(cap: Capture, fn: Const, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A `__repr__` guarded against recursion (by thread and id): the function inside."""
    if not hasattr(fn.value, "__wrapped__"):
        raise Break("call", "a wrapper of a __repr__ that hides the function inside")
    at = S.Attr(fn.source or S.Root(fn.value, fn.value.__qualname__), "__wrapped__")
    return call(cap, wrap(cap, fn.value.__wrapped__, at), args, kwargs)


CACHE = weakref.WeakKeyDictionary


def _single_dispatch(cap: Capture, fn: Const, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`@functools.singledispatch`: the implementation for the first argument's class; the registry
    that chose it is guarded. Nobody can see the cache, but for one that the program has put in its place."""
    if not args:
        raise Break("call", f"{fn.value.__qualname__} without a positional argument")
    dispatch, at = _in_cell(fn.value, fn.source or S.Root(fn.value, fn.value.__qualname__), "dispatch")
    chosen = _implementation(cap, dispatch, at, type_of(args[0]))
    return inline(cap, as_function(cap, fn), args, kwargs) if chosen is None else call(cap, chosen, args, kwargs)


def _dispatch(cap: Capture, fn: Const, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`dispatch(cls)` of such a function: what `functools.singledispatchmethod` asks in each call."""
    known = len(args) == 1 and not kwargs and is_const(args[0]) and type(args[0].value) is type
    at = fn.source or S.Root(fn.value, fn.value.__qualname__)
    chosen = _implementation(cap, fn.value, at, args[0].value) if known else None  # type: ignore[attr-defined]
    return inline(cap, as_function(cap, fn), args, kwargs) if chosen is None else chosen


def _implementation(cap: Capture, dispatch: Any, at: S.Source, cls: type) -> Value | None:
    """What `dispatch`, which lies at `at`, has registered for a class; None where the program has put a cache of its
    own in the place of that which nobody sees."""
    if type(_in_cell(dispatch, at, "dispatch_cache")[0]) is not CACHE:
        return None
    held, place = _in_cell(dispatch, at, "registry")
    registry, chosen = cast(DictV, wrap(cap, held, place)), dispatch(cls)
    return cap.realize(registry.items[next(k for k, v in held.items() if v is chosen)])


def _in_cell(fn: Any, at: S.Source, name: str) -> tuple[Any, S.Source]:
    """What a cell of a function holds, and where that is."""
    n = fn.__code__.co_freevars.index(name)
    return fn.__closure__[n].cell_contents, S.Get(S.Item(S.Get(at, "__closure__"), n), "cell_contents")


def _single_dispatch_method(cap: Capture, descriptor: Value, obj: Value, owner: Value | None = None) -> Value:
    """What Python 3.13 keeps for each object in a dict of weak references, which nobody sees, is made anew."""
    return inline(cap, as_function(cap, Const(_method_of)), [descriptor, obj, owner or Const(None)], {})


def _method_of(descriptor: Any, obj: Any, owner: Any) -> Any:
    def method(*args: Any, **kwargs: Any) -> Any:
        if not args:
            name = getattr(descriptor.func, "__name__", "singledispatchmethod method")
            raise TypeError(f"{name} requires at least 1 positional argument")
        return descriptor.dispatcher.dispatch(args[0].__class__).__get__(obj, owner)(*args, **kwargs)

    method.__isabstractmethod__ = descriptor.__isabstractmethod__  # type: ignore[attr-defined]
    method.register = descriptor.register  # type: ignore[attr-defined]
    return functools.update_wrapper(method, descriptor.func)


if hasattr(functools.singledispatchmethod(len), "_method_cache"):
    BUILTINS[functools.singledispatchmethod.__get__] = _single_dispatch_method


# --- inspection


def _signature(cap: Capture, fn: Value) -> Value:
    """`inspect.signature(fn)` of a function whose code, defaults and wrapped function are guarded."""
    found = None if _innermost(cap, fn) is None else signature_of(cap, fn)
    if found is None:
        raise Break("call", "inspect.signature of a callable that is no function")
    return Const(found)


def _innermost(cap: Capture, fn: Value) -> Value | None:
    """What `fn` wraps in the end, if that is a function; those on the way are guarded."""
    for _ in range(MAX_WRAPPERS):
        while isinstance(fn, MethodV):
            fn = fn.func
        if is_library_object(fn):
            inner = decorated(fn)
            if inner is None:
                return None
            fn = inner
        if holds(fn, types.FunctionType):
            as_function(cap, fn)
            attributes = vars(fn.value)
        elif is_made_function(fn) and _is_fixed(fn):
            attributes = fn.attrs
        else:
            return None
        if "__signature__" in attributes:
            return None
        if "__wrapped__" not in attributes:
            return fn
        fn = cap.getattr(fn, "__wrapped__")
    return None


MAX_WRAPPERS = 50


def _is_fixed(fn: FunctionV) -> bool:
    """Whether a Signature may hold the function's defaults and annotations themselves: no object is made twice."""
    defaults = [*(fn.defaults.items if fn.defaults else ()), *(fn.kwdefaults.items.values() if fn.kwdefaults else ())]
    noted = fn.special.get("__annotations__")
    return all(is_const(v) for v in (*defaults, *(noted.items.values() if is_dict(noted) else ())))


BUILTINS[inspect.signature] = _signature


def _code_of(fn: Any) -> types.CodeType:
    return fn.__code__


def _example(self: Any) -> str:
    return ""


OPENED[_code_of(functools.singledispatch(_example))] = _single_dispatch
OPENED[_code_of(functools.singledispatch(_example).dispatch)] = _dispatch
OPENED[_code_of(reprlib.recursive_repr()(_example))] = _wrapped
if hasattr(dataclasses, "_recursive_repr"):
    OPENED[_code_of(dataclasses._recursive_repr(_example))] = _wrapped
