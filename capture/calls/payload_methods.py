"""What instances of subclasses of built-in classes inherit: methods, attributes, `__new__`, `__init__`.

An inherited method acts on the payload as C code does: it asks the object only for its built-in
content, with the exceptions that stand here as rows of `INHERITED` (`__missing__`, `repr`, hashes,
an `OrderedDict` that calls the `__setitem__` of its subclass). Results of operators are of the built-in class.
"""

from __future__ import annotations

import collections
import operator
from typing import Any

from dynacomp.capture.arithmetic.operators import BINARY, binary, fold
from dynacomp.capture.base.errors import Break
from dynacomp.capture.calls.calls import BUILTINS, call, call_row
from dynacomp.capture.kinds.changing_keys import placed, put
from dynacomp.capture.kinds.containers import setitem
from dynacomp.capture.kinds.iteration import iterate, key_value
from dynacomp.capture.kinds.keys import elements_of, hashable, missing_key, pairs
from dynacomp.capture.kinds.text import shown, text
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.callables import BuiltinMethodV
from dynacomp.capture.values.constant import Const, holds, is_const, stands_for
from dynacomp.capture.values.containers import DictV, SetV, TupleV
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_dict, is_list, is_tuple
from dynacomp.capture.values.value import Value, as_python, is_constant
from dynacomp.capture.wrapping.builtin_subclasses import (
    BASES,
    IMMUTABLE,
    SCALARS,
    empty_payload,
    inherits,
    payload_base,
    plain,
)
from dynacomp.capture.wrapping.object_attrs import no_attribute

NONE = Const(None)
_ARITHMETIC = {f"__{op.__name__.strip('_')}__": op for op in BINARY[:13]}
_REFLECTED = {f"__r{op.__name__.strip('_')}__" for op in BINARY[:13]}
# What OrderedDict's methods call of a subclass that overrides it; deques and OrderedDicts copy by calling the class.
_HOOKS = ("__setitem__", "__getitem__", "__delitem__", "__contains__", "__iter__", "__len__", "__missing__", "keys",
          "pop", "__reversed__")
_DIRECT = ("__setitem__", "__getitem__", "__delitem__", "__contains__", "__iter__", "__len__", "get", "keys", "values",
           "items", "move_to_end", "__reversed__")
_CHANGES = ("__setitem__", "__delitem__", "clear", "pop", "popitem", "setdefault", "update", "__ior__")


def inherited(cap: Capture, obj: ObjectV, raw: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A call of `raw`, a method of a built-in class, on an instance of a subclass."""
    name = raw.__name__
    row = INHERITED.get((raw.__objclass__, name)) or INHERITED.get((None, name))
    if row is not None:
        return call_row(cap, row, raw, [obj, *args], kwargs)
    payload = obj.payload
    _check_order(obj, raw)
    if type(payload) is Const or payload_base(obj.cls) in SCALARS:
        return _of_scalar(cap, payload, name, args, kwargs)
    result = call(cap, BuiltinMethodV(payload, name), args, kwargs)
    if result is payload:
        return _plain_copy(payload) if payload_base(obj.cls) in IMMUTABLE else obj
    return _own_kind(cap, obj, result)


def _plain_copy(payload: Any) -> Value:
    """Where a built-in object gives itself (`t[:]`, `frozenset.copy`), an instance of a subclass gives a plain one."""
    return TupleV(list(payload.items)) if is_tuple(payload) else SetV(set(payload.members), payload.cls)


def _check_order(obj: ObjectV, raw: Any) -> None:
    """An OrderedDict is more than its dict, and its methods call what a subclass overrides."""
    base, name = payload_base(obj.cls), raw.__name__
    if base is not collections.OrderedDict:
        return
    if raw.__objclass__ is dict and name in _CHANGES:
        raise Break("call", f"dict.{name} on an OrderedDict")
    if name not in _DIRECT and not inherits(obj.cls, *_HOOKS):
        raise Break("call", f"OrderedDict.{name} on a {obj.cls.__qualname__}, which overrides methods that it calls")


def _own_kind(cap: Capture, obj: ObjectV, result: Value) -> Value:
    """deque, defaultdict and OrderedDict give copies of the subclass, made by calling it."""
    base = payload_base(obj.cls)
    if not (is_list(result) or is_dict(result)) or base in (list, dict) or result.cls is not base:
        return result
    if not inherits(obj.cls, "__init__", "__new__", "append", "extend", "__setitem__", "update"):
        raise Break("call", f"a copy of a {obj.cls.__qualname__}, which its class makes itself")
    made = ObjectV(obj.cls)
    made.payload = result
    cap.hold(result, made)
    return made


def _of_scalar(cap: Capture, payload: Value, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    op = _ARITHMETIC.get(name)
    if op is not None and not is_const(payload) and len(args) == 1:
        return binary(cap, op, payload, plain(args[0]))
    if name == "__mod__" and holds(payload, (str, bytes)):
        return binary(cap, operator.mod, payload, args[0])  # which takes whatever the text shows
    if op is not None or name in _REFLECTED:
        if not all(is_constant(plain(a)) for a in args):
            return Const(NotImplemented)
    takes_text = holds(payload, str) and name in ("format", "join")
    return call(cap, BuiltinMethodV(payload, name), args if takes_text else list(map(plain, args)), kwargs)


# --- methods that look at more than the content


def _getitem(cap: Capture, obj: ObjectV, key: Value) -> Value:
    """`dict.__getitem__`: a subclass says in `__missing__` what a key that is not there stands for."""
    table = obj.payload
    name = placed(cap, table, key)
    if name not in table.items:
        missing = cap.special(obj, "__missing__")
        if missing is not None:
            return cap.call(missing, [key])
        raise missing_key(key)
    item = table.items[name] = cap.realize(table.items[name])
    return item


def _missing(cap: Capture, obj: ObjectV, key: Value) -> Value:
    """`defaultdict.__missing__`: stores through the subclass' own `__setitem__`."""
    factory = obj.payload.factory
    if factory is None or stands_for(factory, None):
        raise missing_key(key)
    made = cap.call(factory, [])
    cap.call(cap.special(obj, "__setitem__"), [key, made])  # type: ignore[arg-type]
    return made


def _repr(cap: Capture, obj: ObjectV) -> Value:
    return text(cap, obj.payload, repr) if payload_base(obj.cls) in SCALARS else Const(shown(cap, obj))


def _format(cap: Capture, obj: ObjectV, spec: Value = Const("")) -> Value:
    if as_python(spec) == "":
        return text(cap, obj, str)
    return text(cap, obj.payload, format, as_python(spec))


def _hash(cap: Capture, obj: ObjectV) -> Value:
    return Const(hash(hashable(cap, obj.payload)))


def _reduce(cap: Capture, obj: ObjectV, *args: Value) -> Value:
    raise Break("call", f"{obj.cls.__qualname__}.__reduce__, which copies and pickles")


INHERITED: dict[tuple[type | None, str], Any] = {
    (dict, "__getitem__"): _getitem,
    (collections.defaultdict, "__missing__"): _missing,
    (None, "__repr__"): _repr, (None, "__str__"): lambda cap, obj: text(cap, obj.payload, str),
    (None, "__hash__"): _hash,
    **{(kind, "__format__"): _format for kind in SCALARS},
    **{(None, name): _reduce for name in ("__reduce__", "__reduce_ex__", "__copy__", "__sizeof__")},
}


def payload_attribute(cap: Capture, obj: ObjectV, name: str) -> Value:
    """An attribute that the built-in class keeps in C: `real`, `maxlen`, `default_factory`."""
    payload = obj.payload
    if is_list(payload) or is_dict(payload) or is_const(payload):
        return cap.getattr(payload, name)
    raise no_attribute(obj.cls.__name__, name)


# --- making


def new(cap: Capture, base: type, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    """`base.__new__(cls, *args)`: immutable content is made here, mutable content by `__init__`."""
    real = as_python(cls)
    if real is base:  # the class itself
        return call(cap, cls, list(args) if base in IMMUTABLE else [], kwargs if base in IMMUTABLE else {})
    made = ObjectV(real)
    if base in IMMUTABLE:
        found: Any = plain(call(cap, Const(base), list(args), kwargs))
        made.payload = TupleV(list(found.items)) if base is tuple else found
    else:
        made.payload = empty_payload(cap, base, made)
    return made


def init_list(cap: Capture, obj: ObjectV, xs: Value = TupleV([])) -> Value:
    mutating(cap, obj.payload)
    obj.payload.items[:] = list(iterate(cap, xs))
    return NONE


def init_deque(cap: Capture, obj: ObjectV, xs: Value = TupleV([]), maxlen: Value = NONE) -> Value:
    mutating(cap, obj.payload)
    if obj.real is not None:
        raise Break("call", "a deque that is initialised again")
    made = BUILTINS[collections.deque](cap, xs, maxlen)
    obj.payload.extra, obj.payload.items[:] = made.extra, made.items
    return NONE


def init_dict(cap: Capture, obj: ObjectV, *sources: Value, **kwargs: Value) -> Value:
    """`dict.__init__`; what OrderedDict's calls of a subclass, it calls here."""
    table = obj.payload
    ordered = table.cls is collections.OrderedDict and not inherits(obj.cls, "__setitem__")
    found = [pair for source in sources for pair in pairs(cap, source)]
    found += kwargs.items()
    if ordered:
        store: Any = cap.special(obj, "__setitem__")
        for key, value in found:
            cap.call(store, [key_value(cap, key), value])
        return NONE
    mutating(cap, table)
    for key, value in found:
        put(cap, table, key, value)
    return NONE


def init_defaultdict(cap: Capture, obj: ObjectV, factory: Value = NONE, *sources: Value, **kwargs: Value) -> Value:
    if obj.real is not None:
        raise Break("call", "a defaultdict that is initialised again")
    obj.payload.factory = factory
    return init_dict(cap, obj, *sources, **kwargs)


def init_set(cap: Capture, obj: ObjectV, xs: Value = TupleV([])) -> Value:
    mutating(cap, obj.payload)
    obj.payload.items = set(BUILTINS[set](cap, xs).items)
    return NONE


def class_method(cap: Capture, cls: type, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`Sub.fromkeys(keys)`, `Sub.from_bytes(b)`: made by calling the class, with what the built-in one gives."""
    base: Any = payload_base(cls)
    if name != "fromkeys":
        return call(cap, Const(cls), [call(cap, Const(getattr(base, name)), args, kwargs)], {})
    if base is not collections.OrderedDict and kwargs or not 1 <= len(args) + len(kwargs) <= 2:
        raise Break("call", f"{cls.__qualname__}.fromkeys with these arguments")
    given = dict(zip(("iterable", "value"), args)) | kwargs
    made = call(cap, Const(cls), [], {})
    for key in iterate(cap, given["iterable"]):
        setitem(cap, made, key, given.get("value", NONE))
    return made


def _from_keys(kind: Any) -> Any:
    return lambda cap, keys, value=NONE: DictV(dict.fromkeys(elements_of(cap, keys), value), kind)


BUILTINS.update({kind.fromkeys: _from_keys(kind) for kind in (dict, collections.OrderedDict, collections.defaultdict)})
INITS: dict[type, Any] = {list: init_list, collections.deque: init_deque, dict: init_dict,
                          collections.OrderedDict: init_dict, collections.defaultdict: init_defaultdict, set: init_set}
INHERITED.update({(kind, "__init__"): row for kind, row in INITS.items()})


def construct(cap: Capture, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    """`list.__new__(cls, ...)` and the like; some classes share theirs, so that `cls` tells which is meant."""
    real = as_python(cls)
    return new(cap, payload_base(real) or real, cls, *args, **kwargs)


def _constructor(owner: type) -> Any:
    """`owner.__new__`, which takes only classes that derive from it."""
    def row(cap: Capture, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
        real = as_python(cls)
        if not (isinstance(real, type) and issubclass(real, owner)):
            return fold(cap, owner.__new__, cls)  # which refuses
        return construct(cap, cls, *args, **kwargs)
    return row


BUILTINS.update({base.__new__: _constructor(base.__new__.__self__)  # type: ignore[union-attr]
                 for base in BASES if base is not tuple})
OPERATIONS.inherited = inherited
OPERATIONS.class_method = class_method
OPERATIONS.payload_attribute = payload_attribute
