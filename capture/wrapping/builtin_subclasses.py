"""Payloads: the built-in part of instances of subclasses of list, dict, tuple, set, int, str, ...

Such an instance is an `ObjectV` with attributes like any other, and a `payload`: the Value of the
built-in class that holds its items or its number. What the user's class overrides is entered like
any method; what it inherits acts on the payload (`payload_methods`). The payload of a mutable class
and its object are one real object: the payload's `holder` says which, so that changes are replayed
on it and iterators over it are made of it.
"""

from __future__ import annotations

import collections
import types
from typing import Any, cast

from dynacomp.capture.base.classes import entries, mro
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.containers import DictV, ListV, SetV
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_object, is_sequence
from dynacomp.capture.values.value import Value

HEAP, IMMUTABLE_TYPE = 1 << 9, 1 << 8  # Py_TPFLAGS_*
SEQUENCES = (list, tuple, collections.deque)
TABLES = (dict, collections.OrderedDict, collections.defaultdict)
SETS = (set, frozenset)
NUMBERS = (int, float, complex)
SCALARS = (*NUMBERS, str, bytes)
BASES = (*SEQUENCES, *TABLES, *SETS, *SCALARS)
_IDS = frozenset(map(id, BASES))  # metaclasses compare their classes as they like
IMMUTABLE = (tuple, frozenset, *SCALARS)
MUTABLE = tuple(base for base in BASES if base not in IMMUTABLE)


@remembered
def payload_base(cls: type) -> type | None:
    """The built-in class whose content instances of `cls`, a class written in Python, carry; None for
    other classes.

        >>> class Stack(list): pass
        >>> payload_base(Stack), payload_base(list), payload_base(type)
        (<class 'list'>, None, None)
    """
    if id(cls) in _IDS or cls.__flags__ & IMMUTABLE_TYPE:
        return None
    for base in mro(cls):
        if id(base) in _IDS:
            return base
        if not base.__flags__ & HEAP or isinstance(entries(base).get("__new__"), types.BuiltinFunctionType):
            return None
    return None


def built_in_base(cls: type) -> Any:
    """The nearest class in C that a class derives from: `object`, or one that lays out its instances."""
    return next(b for b in mro(cls) if not b.__flags__ & HEAP)


def content(obj: Any) -> Any:
    """What an instance of a class derived from a mutable built-in one holds, as an object of that class."""
    base: Any = payload_base(type(obj))
    held = base.__iter__(obj)
    if base in TABLES:
        pairs = [(k, base.__getitem__(obj, k)) for k in held]
        return base(obj.default_factory, pairs) if base is collections.defaultdict else base(pairs)
    return base(held, obj.maxlen) if base is collections.deque else base(held)


def inherits(cls: type, *names: str) -> bool:
    """Whether a class takes all these methods from its built-in base (none from Python code)."""
    base = payload_base(cls)
    own = mro(cls)[:mro(cls).index(base)] if base is not None else mro(cls)
    return not any(n in c.__dict__ for n in names for c in own)


def empty_payload(cap: Capture, base: type, holder: ObjectV) -> Any:
    """The payload of a new mutable object."""
    made: Any
    if base in SEQUENCES:
        made = ListV([], base)
    else:
        made = SetV(set(), base) if base in SETS else DictV({}, base)
    cap.hold(made, holder)
    return made


def read_payload(cap: Capture, wrapper: Any, holder: ObjectV) -> Value:
    """The payload of an existing object; `wrapper` is the row that wraps objects of the base."""
    base: Any = payload_base(holder.cls)
    obj, source = holder.real, holder.source
    assert source is not None
    if base in SCALARS:
        return wrapper(cap, PLAIN[base](obj), S.Plain(source))
    made = wrapper(cap, obj, source)
    made.cls, made.source = base, None
    if base in SETS:
        made.items = _plain_set(base, obj)
    if base not in IMMUTABLE:
        cap.hold(made, holder)
    return made


def _plain_set(base: Any, obj: Any) -> Any:
    """A real set with the elements in the order of `obj`, which may be of a class with methods of its own."""
    made = base.copy(obj)
    if list(made) != list(base.__iter__(obj)):
        raise Break("opaque", f"a {type(obj).__qualname__} whose elements stand in an order of their own")
    return made


def plain(value: Value) -> Value:
    """The payload of an object that has one, else the Value itself: what C code reads that asks only
    for the built-in content."""
    return value if value.payload is None else value.payload


def is_number(value: Value) -> bool:
    """An instance of a subclass of int, float or complex that other numbers and arrays see as that number."""
    return is_object(value) and payload_base(value.cls) in NUMBERS and inherits(
        value.cls, "__int__", "__index__", "__float__", "__complex__", "__array__", "__jax_array__")


def seen_by_c(value: Value) -> Value:
    """What C code makes of an instance of a number's or string's subclass that overrides no special method:
    the number or string. Other Values are themselves."""
    if is_object(value) and payload_base(value.cls) in SCALARS and inherits(value.cls, *SPECIAL):
        return value.payload
    return value


SPECIAL = tuple({n for base in BASES for n in vars(base) if n.startswith("__")} - {
    "__new__", "__init__", "__doc__", "__getattribute__", "__class_getitem__", "__setattr__", "__module__", "__dict__",
    "__weakref__"}) + ("__array__", "__jax_array__", "__bool__")


def items_payload(value: Value) -> Value | None:
    """The payload of a tuple, list or dict subclass whose class iterates as its base does: what `*x`, `**x`
    and `dict(x)` read directly. None for other Values."""
    payload = plain(value)
    if payload is value or not (is_sequence(payload) or kind(payload).members is not None):
        return None
    return payload if inherits(cast(ObjectV, value).cls, "__iter__") else None


def refill(obj: Any, content: Any) -> None:
    """Gives a real instance the content of `content`, an object of its built-in base, past what it overrides."""
    base: Any = payload_base(type(obj))
    if base is collections.deque:
        base.__init__(obj, content, content.maxlen)
    elif base is collections.defaultdict:
        base.__init__(obj, content.default_factory, content)
    elif base is collections.OrderedDict:
        for key, value in content.items():
            base.__setitem__(obj, key, value)
    else:
        (base.extend if base is list else base.update)(obj, content)


def _whole(base: Any) -> Any:
    return lambda obj: base.__getitem__(obj, slice(None))


# How the built-in content of a number or string is read, past what the class overrides.
PLAIN: dict[type, Any] = {int: int.__int__, float: float.__pos__, complex: complex.__pos__, str: _whole(str),
                          bytes: _whole(bytes)}


NAMED = frozenset(vars(collections.namedtuple("Named", ())))  # what every named tuple defines


@remembered
def is_bare_named_tuple(cls: type) -> bool:
    """A NamedTuple without attributes or operators of its own: a tuple with names (and a `__new__` that takes them)."""
    if not issubclass(cls, tuple) or not hasattr(cls, "_fields") or cls.__dictoffset__ or cls.__new__ is tuple.__new__:
        return False
    return not any(type(member) is types.FunctionType and name.startswith("__") and name not in NAMED
                   for c in mro(cls)[:mro(cls).index(tuple)] for name, member in c.__dict__.items())


def own_iter(obj: Any) -> Any:
    """The elements of a container as its built-in class has them, whatever its own class overrides."""
    base = payload_base(type(obj)) or type(obj)
    return base.__iter__(obj)  # type: ignore[attr-defined]


def own_values(obj: Any) -> Any:
    """The values of a dict, likewise."""
    base: Any = payload_base(type(obj)) or type(obj)
    return base.values(obj)
