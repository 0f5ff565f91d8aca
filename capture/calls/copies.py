"""`copy.copy` and `copy.deepcopy` of Values.

Containers and instances of Python classes are copied here, with the memo that keeps shared parts
shared. Classes that say how they are copied (`__copy__`, `__deepcopy__`), or what their state is
(`__getstate__`, `__setstate__`), are asked; those that reduce themselves in their own way break the graph.
"""

from __future__ import annotations

import copy
import copyreg
import types
from typing import Any

from dynacomp.capture.base.classes import entries, mro
from dynacomp.capture.base.errors import Break, Unbuildable
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.calls import c_objects
from dynacomp.capture.calls.calls import BUILTINS, as_function, inline
from dynacomp.capture.kinds import attrs
from dynacomp.capture.kinds.changing_keys import copied, put
from dynacomp.capture.kinds.iteration import key_value
from dynacomp.capture.kinds.keys import hashable
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.twins import told_apart
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import FunctionV
from dynacomp.capture.values.computed import ArrayV, NdArrayV, NumberV, ScalarV, SizeV
from dynacomp.capture.values.constant import Const, is_const, peek, stands_for
from dynacomp.capture.values.containers import DictV, ListV, SetV, TupleV
from dynacomp.capture.values.kind import WITHOUT, Kind, define, kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_dict, is_object, is_value
from dynacomp.capture.values.standing import PrivateV
from dynacomp.capture.values.value import NotConstant, Value
from dynacomp.capture.wrapping import ndarrays
from dynacomp.capture.wrapping.keyed_tables import ChangingKey
from dynacomp.capture.wrapping.pytree_shells import attributes

NAMESPACE = types.SimpleNamespace  # which reduces itself as `object` does
REDUCERS = ("__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")


def shallow(cap: Capture, x: Value) -> Value:
    """`copy.copy(x)`."""
    row = kind(x).copy
    return _atomic(x) if row is None else row(cap, x)


def _shallow_tuple(cap: Capture, x: TupleV) -> Value:
    return x if x.cls is tuple else _atomic(x)


def _shallow_list(cap: Capture, x: ListV) -> Value:
    return ListV(list(cap.items(x)), x.cls, extra=x.extra)


def _shallow_dict(cap: Capture, x: DictV) -> Value:
    return DictV(copied(x.items), _copyable(x), factory=x.factory)


def _shallow_set(cap: Capture, x: SetV) -> Value:
    return x if x.cls is frozenset else SetV(set(x.members), x.cls)


def _shallow_object(cap: Capture, x: ObjectV) -> Value:
    method = cap.special(x, "__copy__")
    return cap.call(method, []) if method is not None else _object(cap, x, lambda v: v)


def deep(cap: Capture, x: Value, memo: Value | None = None) -> Value:
    """`copy.deepcopy(x)`."""
    if memo is not None and not stands_for(memo, None) and not isinstance(memo, MemoV):
        raise Break("call", "copy.deepcopy with a memo")
    if isinstance(memo, MemoV):
        return _deep(cap, x, memo)
    memo = MemoV({})
    made = _deep(cap, x, memo)
    if len(memo.given) > 1:  # an object that is found twice has one copy
        cap.guards.add("all_distinct", None, tuple(memo.given), ())
    return made


class MemoV(DictV):
    """The memo of one deep copy; `__deepcopy__` methods get it and hand it on."""

    def __init__(self, items: dict[Any, Any]) -> None:
        super().__init__(items)
        self.copies: dict[int, Value] = {}
        self.given: dict[S.Source, None] = {}  # where objects were found that existed, and may change


def _refused(*_: Any) -> Any:
    """It is the capture's own, and stays in it."""
    raise Break("call", "a memo of copy.deepcopy that is more than handed on")


def _unknown(memo: MemoV) -> Any:
    raise NotConstant(memo)


def _unbuildable(e: Any, memo: MemoV) -> None:
    raise Unbuildable(memo)


define(MemoV, Kind(constant=_unknown, getattr=_refused, length=_refused, getitem=_refused, text=_refused,
                   display=_refused, copy=_refused, deepcopy=_refused, argument=_refused,
                   emit=_unbuildable, replay=_unbuildable, parts=WITHOUT, put=WITHOUT, content=WITHOUT))


def _deep(cap: Capture, x: Value, memo: MemoV) -> Value:
    told_apart(cap, x)
    if id(x) not in memo.copies:
        made = _deep_new(cap, x, memo)
        if x.source is not None and kind(x).changed is not None:
            memo.given[x.source] = None
        memo.copies.setdefault(id(x), made)
    return memo.copies[id(x)]


def _deep_new(cap: Capture, x: Value, memo: MemoV) -> Value:
    row = kind(x).deepcopy
    return _atomic(x) if row is None else row(cap, x, memo)


def _deep_tuple(cap: Capture, x: TupleV, memo: MemoV) -> Value:
    items = [_deep(cap, i, memo) for i in cap.items(x)]
    same = all(a is b for a, b in zip(items, x.items))
    return x if same and x.cls is tuple else TupleV(items, x.cls)


def _deep_list(cap: Capture, x: ListV, memo: MemoV) -> Value:
    made = memo.copies[id(x)] = ListV([], x.cls, extra=x.extra)
    made.items.extend(_deep(cap, i, memo) for i in cap.items(x))
    return made


def _deep_set(cap: Capture, x: SetV, memo: MemoV) -> Value:
    return SetV({hashable(cap, _deep(cap, key_value(cap, k), memo)) for k in x.items}, x.cls)


def _deep_object(cap: Capture, x: ObjectV, memo: MemoV) -> Value:
    method = cap.special(x, "__deepcopy__")
    if method is not None:
        return cap.call(method, [memo])
    return _object(cap, x, lambda v: _deep(cap, v, memo), memo)


def _copyable(x: DictV) -> type:
    if x.cls is types.MappingProxyType:
        raise Break("call", "a copy of a mappingproxy")  # which Python refuses
    return x.cls


def _deep_dict(cap: Capture, x: DictV, memo: MemoV) -> Value:
    made = memo.copies[id(x)] = DictV({}, _copyable(x), factory=x.factory)
    for key, item in x.items.items():
        if is_value(key) and type(key) is not ChangingKey:
            raise Break("hash", "a deep copy of a dict whose keys are objects")
        put(cap, made, key, _deep(cap, cap.realize(item), memo))
    return made


def _object(cap: Capture, x: ObjectV, each: Any, memo: MemoV | None = None) -> Value:
    if x.cls in copyreg.dispatch_table:
        raise Break("call", f"a copy of {x.cls.__qualname__}, which copyreg knows")
    cap.guards.add("missing_key", S.Root(copyreg.dispatch_table, "copyreg.dispatch_table"), x.cls)
    for name in REDUCERS:
        if _defines(x.cls, name):
            raise Break("call", f"a copy of {x.cls.__qualname__}, which defines {name}")
    if issubclass(x.cls, BaseException):
        raise Break("call", "a copy of an exception")
    made = _bare(cap, x.cls)
    if memo is not None:
        memo.copies[id(x)] = made
    if _defines(x.cls, "__getstate__") or _defines(x.cls, "__setstate__"):
        _hand_over(cap, x, made, each)
    else:
        for name, value in attributes(cap, x).items():
            made.attrs[name] = each(value)
    if x.payload is not None:
        _fill(cap, x.payload, made, each)
    return made


def _defines(cls: type, name: str) -> bool:
    owner, raw = attrs.lookup(cls, name)
    return owner not in (None, object) and raw is not None and not _generated(raw) and cls is not NAMESPACE


def _hand_over(cap: Capture, x: ObjectV, made: ObjectV, each: Any) -> None:
    """Gives a copy the state of `x`, where the class says what that is, or what becomes of it."""
    if any(entries(cls).get("__slots__") for cls in mro(x.cls)):
        raise Break("call", f"a copy of {x.cls.__qualname__}, which has slots and a state of its own")
    asks = _defines(x.cls, "__getstate__")
    if not asks and not attributes(cap, x):
        return  # Python has None for it then
    state = _ask(cap, x, "__getstate__") if asks else cap.getattr(x, "__dict__")
    if stands_for(state, None):
        return
    if _defines(x.cls, "__setstate__"):
        _ask(cap, made, "__setstate__", each(state))
    elif is_dict(state):
        cap.call(cap.getattr(cap.getattr(made, "__dict__"), "update"), [each(state)])
    else:
        raise Break("call", f"a copy of {x.cls.__qualname__}, whose state is no dict")


def _ask(cap: Capture, x: ObjectV, name: str, *args: Value) -> Value:
    """Enters a method, a library's too: it is there for what it does to its object."""
    method = cap.getattr(Const(x.cls), name)
    if not is_const(method) or type(peek(method)) is not types.FunctionType:
        raise Break("call", f"a copy of {x.cls.__qualname__}, whose {name} is no function")
    return inline(cap, as_function(cap, method), [x, *args], {})


def _bare(cap: Capture, cls: type) -> ObjectV:
    """What `cls.__new__(cls)` makes."""
    made = cap.call(cap.getattr(Const(cls), "__new__"), [Const(cls)])
    if not is_object(made) or made.cls is not cls or made.real is not None:
        raise Break("call", f"a copy of {cls.__qualname__}, whose __new__ gives something else")
    return made


def _fill(cap: Capture, content: Value, made: ObjectV, each: Any) -> None:
    """Copies the items of a list's or dict's subclass as `copy` does: by the methods of the copy."""
    if is_dict(content):
        store = cap.special(made, "__setitem__")
        for key, item in list(content.items.items()):
            cap.call(store, [each(key_value(cap, key)), each(cap.realize(item))])  # type: ignore[arg-type]
    else:
        for item in list(cap.items(content)):
            cap.call(cap.getattr(made, "append"), [each(item)])


def _generated(raw: Any) -> bool:
    """The state methods that `dataclass(slots=True)` writes do what is done here."""
    return getattr(raw, "__module__", None) == "dataclasses"


def _atomic(x: Value) -> Value:
    """What Python does not copy."""
    if is_const(x) and _is_atomic(x.value):
        return x
    raise Break("call", f"a copy of a {type(x).__name__.removesuffix('V').lower()}")


def _is_atomic(obj: Any) -> bool:
    known = type(obj) in copy._deepcopy_dispatch or isinstance(obj, (type, range))  # type: ignore[attr-defined]
    return is_literal(obj) or known or hasattr(type(obj), "__members__")


define(TupleV, Kind(copy=_shallow_tuple, deepcopy=_deep_tuple))
define(ListV, Kind(copy=_shallow_list, deepcopy=_deep_list))
define(DictV, Kind(copy=_shallow_dict, deepcopy=_deep_dict))
define(SetV, Kind(copy=_shallow_set, deepcopy=_deep_set))
define(ObjectV, Kind(copy=_shallow_object, deepcopy=_deep_object))
define(PrivateV, Kind(copy=lambda cap, x: c_objects.copied(cap, x, deep=False),
                      deepcopy=lambda cap, x, memo: c_objects.copied(cap, x, deep=True)))
define(NdArrayV, Kind(copy=lambda cap, x: ndarrays.call_method(cap, x, "__copy__", [], {}),
                      deepcopy=lambda cap, x, memo: ndarrays.call_method(cap, x, "copy", [], {})))
define(ArrayV, Kind(copy=lambda cap, x: library_call(cap, copy.copy, [x]),
                    deepcopy=lambda cap, x, memo: library_call(cap, copy.deepcopy, [x])))
for _cls in (FunctionV, NumberV, ScalarV, SizeV):  # what Python does not copy
    define(_cls, Kind(copy=lambda cap, x: x, deepcopy=lambda cap, x, memo: x))
BUILTINS[copy.copy] = shallow
BUILTINS[copy.deepcopy] = deep
