"""Containers in general: item assignment and deletion, `in`, and calls of their methods by name.

What each kind does stands in `sequences` (lists, tuples, deques) and `dicts_and_sets` (dicts, views, sets).
"""

from __future__ import annotations

import collections
import operator
import types
from typing import Any

from dynacomp.capture.arithmetic import arrays, ranges
from dynacomp.capture.arithmetic.equality import equal
from dynacomp.capture.arithmetic.indices import as_length
from dynacomp.capture.arithmetic.operators import BINARY, COMPARE, CONTAINER_OPS, binary, count_of, fold, truth
from dynacomp.capture.arithmetic.subscripts import subscript
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.rows import fits
from dynacomp.capture.kinds import changing_members, deques, dicts_and_sets, given_items, membership, sequences
from dynacomp.capture.kinds.changing_keys import placed
from dynacomp.capture.kinds.iteration import iterate, iterator
from dynacomp.capture.kinds.keys import missing_key, raised, sought
from dynacomp.capture.kinds.sequences import position_of
from dynacomp.capture.numbers import dynamic_scalars, host_functions
from dynacomp.capture.rows import alike_items, stored_rows
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import mutating, removing
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values.callables import MethodV
from dynacomp.capture.values.computed import ArrayV, LibraryV, NdArrayV, ScalarV
from dynacomp.capture.values.constant import Const, holds, is_const
from dynacomp.capture.values.containers import DictV, ListV, RangeV, SetV, TupleV, ViewV, row_kind
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV, OpaqueV
from dynacomp.capture.values.questions import is_dict, is_list, is_plain_tuple, is_scalar, is_set, type_name
from dynacomp.capture.values.value import Value, type_of
from dynacomp.capture.wrapping import ndarrays
from dynacomp.capture.wrapping.builder import items_of
from dynacomp.capture.wrapping.builtin_subclasses import plain
from dynacomp.capture.wrapping.class_attrs import name_in_errors, resolve

CONTAINER_OPS.update({**sequences.OPERATORS, **deques.OPERATORS, **dicts_and_sets.OPERATORS})
METHODS = {**sequences.METHODS, collections.deque: deques.METHODS, **dicts_and_sets.METHODS}


def length(cap: Capture, x: Value) -> Value:
    """`len(x)`."""
    row = kind(x).length
    return fold(cap, len, x) if row is None else row(cap, x)


def _object_length(cap: Capture, x: Value) -> Value:
    method = cap.special(x, "__len__")
    if method is None:
        raise raised(TypeError, f"object of type {name_in_errors(type_of(x))!r} has no len()")
    return as_length(cap, cap.call(method, []))


def _const_length(cap: Capture, x: Const) -> Value:
    return _object_length(cap, x) if holds(x, type) else fold(cap, len, x)


def _list_item(cap: Capture, obj: ListV, key: Value) -> Value:
    return (deques if obj.cls is collections.deque else sequences).getitem(cap, obj, key)


def setitem(cap: Capture, obj: Value, key: Value, value: Value) -> None:
    store = kind(obj).setitem
    if store is None:
        raise Break("store", f"item assignment on {type_name(obj)}")
    store(cap, obj, key, value)


def delitem(cap: Capture, obj: Value, key: Value) -> None:
    delete = kind(obj).delitem
    if delete is None:
        raise Break("store", f"item deletion on {type_name(obj)}")
    delete(cap, obj, key)


def _store_in_list(cap: Capture, obj: ListV, key: Value, value: Value) -> None:
    if obj.cls is collections.deque:
        deques.setitem(cap, obj, key, value)
        return
    if stored_rows.store(cap, obj, key, value):
        return
    index = position_of(cap, obj, key)
    mutating(cap, obj)
    content = list(iterate(cap, value)) if isinstance(index, slice) else value
    try:
        items_of(cap, obj)[index] = content
    except (IndexError, TypeError, ValueError) as error:
        raise Raised(Const(error)) from None


def _store_in_dict(cap: Capture, obj: DictV, key: Value, value: Value) -> None:
    name = placed(cap, obj, key)
    mutating(cap, obj)
    obj.items[name] = value


def _store_in_object(cap: Capture, obj: ObjectV, key: Value, value: Value) -> None:
    _special_item(cap, obj, "__setitem__", "assignment", key, value)


def _store_in_ndarray(cap: Capture, obj: NdArrayV, key: Value, value: Value) -> None:
    if not (ndarrays.takes(cap, value) and ndarrays.takes(cap, key)):
        raise Break("store", f"item assignment on {type_name(obj)}")
    ndarrays.call_method(cap, obj, "__setitem__", [key, value], {})


def _delete_in_list(cap: Capture, obj: ListV, key: Value) -> None:
    if obj.cls is collections.deque:
        deques.delitem(cap, obj, key)
        return
    index = position_of(cap, obj, key)
    mutating(cap, obj)
    try:
        del obj.items[index]
    except (IndexError, TypeError, ValueError) as error:
        raise Raised(Const(error)) from None


def _delete_in_dict(cap: Capture, obj: DictV, key: Value) -> None:
    name = placed(cap, obj, key)
    if name not in obj.items:
        raise missing_key(key)
    removing(cap, obj)
    del obj.items[name]


def _delete_in_object(cap: Capture, obj: ObjectV, key: Value) -> None:
    _special_item(cap, obj, "__delitem__", "deletion", key)


def _special_item(cap: Capture, obj: ObjectV, name: str, what: str, *args: Value) -> None:
    method = cap.special(obj, name)
    if method is None:
        raise raised(TypeError, f"{obj.cls.__name__!r} object does not support item {what}")
    cap.call(method, list(args))


def contains(cap: Capture, container: Value, item: Value) -> bool:
    inside = kind(container).contains
    if inside is not None:
        return inside(cap, container, item)
    return _among_elements(cap, container, item)


def _among_elements(cap: Capture, container: Value, item: Value) -> bool:
    hosted = host_functions.contained(cap, container, item) or membership.asked(cap, container, item) or (
        alike_items.of_numbers(cap, operator.contains, container, item))
    return truth(cap, hosted) if hosted is not None else any(equal(cap, x, item) for x in iterate(cap, container))


def _set_contains(cap: Capture, table: SetV, item: Value) -> bool:
    hosted = changing_members.asked(cap, table, item) or membership.asked(cap, table, item)
    return truth(cap, hosted) if hosted is not None else sought(cap, item, table.members) in table.members


def is_in(cap: Capture, container: Value, item: Value) -> Value:
    """`item in container` as a Value: another one in each call where that is all that the answer hangs on."""
    found = _open_answer(cap, container, item)
    return Const(contains(cap, container, item)) if found is None else dynamic_scalars.settled(cap, found)


def _open_answer(cap: Capture, container: Value, item: Value) -> Value | None:
    if type(container) is ViewV and container.kind == "keys":
        container = container.table
    if is_dict(container):
        at = given_items.place(cap, container, item)
        return given_items.is_there(cap, container, item) if at is None else host_functions.is_one(
            at, len(container.items))
    if not (is_const(container) or is_set(container) or is_plain_tuple(container) or is_list(container)
            or is_scalar(container)):
        return None
    members = changing_members.asked(cap, container, item) if is_set(container) else None
    return members or host_functions.contained(cap, container, item) or membership.asked(cap, container, item)


def _view_contains(cap: Capture, view: ViewV, item: Value) -> bool:
    if view.kind != "values":
        return dicts_and_sets.view_contains(cap, view, item)
    return _among_elements(cap, view, item)


def _opaque_contains(cap: Capture, container: OpaqueV, item: Value) -> bool:
    raise Break("opaque", f"`in` of a {type(container.obj).__qualname__}")


def _list_contains(cap: Capture, container: ListV, item: Value) -> bool:
    if container.cls is collections.deque:
        return deques.contains(cap, container, item)
    return _among_elements(cap, container, item)


def _ndarray_contains(cap: Capture, container: NdArrayV, item: Value) -> bool:
    return truth(cap, ndarrays.call_method(cap, container, "__contains__", [item], {}))


def _const_contains(cap: Capture, container: Const, item: Value) -> bool:
    hosted = host_functions.contained(cap, container, item) or membership.asked(cap, container, item)
    if hosted is not None:
        return truth(cap, hosted)
    raw = resolve(cap, type_of(container), "__contains__")[1]
    if isinstance(raw, types.FunctionType):
        return truth(cap, cap.call(MethodV(Const(raw), container), [item]))
    found = fold(cap, operator.contains, container, item)
    assert is_const(found)
    return found.value


def _object_contains(cap: Capture, container: ObjectV, item: Value) -> bool:
    method = cap.special(container, "__contains__")
    if method is not None:
        return truth(cap, cap.call(method, [item]))
    if resolve(cap, container.cls, "__contains__")[1] is None:
        raise raised(TypeError, f"{container.cls.__name__!r} object is not a container")
    refuses = resolve(cap, container.cls, "__iter__")[1] is None
    if refuses or cap.special(container, "__iter__") is None and cap.special(container, "__getitem__") is None:
        raise raised(TypeError, f"argument of type {container.cls.__name__!r} is not iterable")
    return any(equal(cap, x, item) for x in iterate(cap, container))


def _operator(op: Any) -> Any:
    """The method of a binary operator: NotImplemented where the operator has no row for these kinds."""
    def method(cap: Capture, a: Value, b: Value) -> Value:
        row = CONTAINER_OPS.get((op.__name__, row_kind(a)))
        found = NotImplemented if row is None else row(cap, a, plain(b) if op is not operator.iadd else b)
        return Const(NotImplemented) if found is NotImplemented else found
    return method


def _reflected(op: Any) -> Any:
    def method(cap: Capture, a: Value, b: Value) -> Value:
        if row_kind(plain(b)) is not row_kind(a) and op is not operator.mul:
            return Const(NotImplemented)
        return _operator(op)(cap, b, a)
    return method


def _repeated(cap: Capture, a: Value, b: Value) -> Value:
    return _operator(operator.mul)(cap, a, b)


def _compared(op: Any) -> Any:
    def method(cap: Capture, a: Value, b: Value) -> Value:
        other = plain(b)
        return binary(cap, op, a, other) if row_kind(a) is row_kind(other) else Const(NotImplemented)
    return method


def _named(op: Any) -> str:
    return f"__{op.__name__.strip('_')}__"


_OPERATORS: dict[str, Any] = {
    **{_named(op): _operator(op) for op in BINARY},
    **{f"__r{op.__name__.strip('_')}__": _reflected(op) for op in BINARY[:13]}, "__rmul__": _repeated,
    **{_named(op): _compared(op) for op in COMPARE.values()},
    "__getitem__": subscript,
    "__setitem__": setitem, "__delitem__": delitem,
    "__contains__": lambda cap, v, x: Const(contains(cap, v, x)),
    "__len__": lambda cap, v: length(cap, v),
    "__iter__": lambda cap, v: iterator(cap, v),
    "__reversed__": lambda cap, v: cap.call(Const(reversed), [v]),
}


WITH_KEYWORDS = ("sort", "update", "move_to_end", "popitem", "setdefault", "pop", "__init__")


def call_method(cap: Capture, value: Any, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    row = METHODS.get(row_kind(value), {}).get(name) or _OPERATORS.get(name)
    if row is None:
        raise Break("call", f"{type_name(value)}.{name}")
    if not fits(row, (value, *args), kwargs) or kwargs and name not in WITH_KEYWORDS:
        raise Break("call", f"{type_name(value)}.{name} with these arguments")
    result = row(cap, value, *args, **kwargs)
    return Const(None) if result is None else result


for _cls in (TupleV, ListV, DictV, SetV, ViewV):
    define(_cls, Kind(method=call_method))
define(TupleV, Kind(length=count_of, getitem=sequences.getitem))
define(ListV, Kind(length=count_of, getitem=_list_item, setitem=_store_in_list, delitem=_delete_in_list,
                   contains=_list_contains))
define(DictV, Kind(length=count_of, getitem=dicts_and_sets.getitem, setitem=_store_in_dict, delitem=_delete_in_dict,
                   contains=dicts_and_sets.contains))
define(SetV, Kind(length=count_of, contains=_set_contains))
define(ViewV, Kind(length=lambda cap, v: length(cap, v.table), contains=_view_contains))
define(ObjectV, Kind(length=_object_length, setitem=_store_in_object, delitem=_delete_in_object,
                     contains=_object_contains))
define(NdArrayV, Kind(length=lambda cap, v: ndarrays.call_method(cap, v, "__len__", [], {}),
                      setitem=_store_in_ndarray, contains=_ndarray_contains))
define(ArrayV, Kind(length=arrays.length))
define(LibraryV, Kind(length=lambda cap, v: library_call(cap, len, [v])))
define(ScalarV, Kind(length=lambda cap, v: dynamic_scalars.length(v)))
define(RangeV, Kind(length=ranges.length, getitem=ranges.item, truth=ranges.is_true))
define(OpaqueV, Kind(contains=_opaque_contains))
define(Const, Kind(length=_const_length, contains=_const_contains))
