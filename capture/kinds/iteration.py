"""Iteration: `iter`, `next` and whole loops over Values.

Iterators are Values with a position (`SeqIterV`, `CountIterV`), lazy combinations of others
(`StreamV`: zip, map, enumerate, ...) and suspended frames (`GeneratorV`). `advance` gives the next
element or None at the end.
"""

from __future__ import annotations

import copy
import operator
import types
from collections.abc import Iterable, Iterator, KeysView, Mapping
from typing import Any

from dynacomp.capture.arithmetic import arrays
from dynacomp.capture.arithmetic.equality import equal
from dynacomp.capture.arithmetic.operators import binary, truth
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.key_order import in_any_order, is_unordered
from dynacomp.capture.kinds import existing_iterators
from dynacomp.capture.numbers import host_functions, size_values
from dynacomp.capture.numbers.dynamic_scalars import TEXTS
from dynacomp.capture.numbers.given_arrays import is_data
from dynacomp.capture.rows import alike_items
from dynacomp.capture.symbolic.generators import resume
from dynacomp.capture.symbolic.libraries import is_library
from dynacomp.capture.symbolic.machine import STEPS_AN_ITEM, Capture
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.computed import ArrayV, LibraryV, NdArrayV, NeedsConcrete, ScalarV
from dynacomp.capture.values.constant import Const, is_const, stands_for
from dynacomp.capture.values.containers import DictV, ListV, RangeV, RowsV, SequenceV, SetV, TupleV, ViewV
from dynacomp.capture.values.iterators import CountIterV, GeneratorV, GivenIterV, SeqIterV, StreamV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV, OpaqueV
from dynacomp.capture.values.questions import is_graph_number, is_library_object, is_object, is_size
from dynacomp.capture.values.standing import bare
from dynacomp.capture.values.value import Value, type_of
from dynacomp.capture.wrapping import ndarrays
from dynacomp.capture.wrapping.builder import items_of, realize
from dynacomp.capture.wrapping.class_attrs import lookup, name_in_errors, resolve
from dynacomp.capture.wrapping.constants import from_python, opened

KEYS: Any = type(iter({}))  # an iterator over the keys of a dict
ITERATORS = (SeqIterV, CountIterV, StreamV, GivenIterV, GeneratorV)


def get_iter(cap: Capture, value: Value) -> Value:
    """`iter(value)`."""
    made = kind(value).iter
    if made is not None:
        return made(cap, value)
    if hasattr(type_of(value), "__iter__"):
        raise Break("iterator", f"iteration over a {type_of(value).__name__}")
    raise _no_iterable(value)


def _no_iterable(value: Value) -> Raised:
    return Raised(Const(TypeError(f"{name_in_errors(type_of(value))!r} object is not iterable")))


def iterator(cap: Capture, value: Value) -> Value:
    """`iter(value)`, as the program asks for it."""
    it = get_iter(cap, value)
    if isinstance(it, SeqIterV):
        it.seen = True
    return it


def _itself(cap: Capture, it: Value) -> Value:
    return it


def _array_iter(cap: Capture, value: ArrayV) -> Value:
    if ndarrays.is_numpy(value):
        data = is_data(cap, value) and value.aval.shape
        if data or ndarrays.known(cap, value):
            stop = arrays.known_rows(cap, value) if data else None
            return StreamV("getitem", [value], state={"index": 0, "stop": stop})
    rows = arrays.rows(cap, value)
    return SeqIterV(TupleV(arrays.unpack(cap, value)), kind="other") if rows is None else row_iter(cap, value, rows)


def row_iter(cap: Capture, array: Value, rows: Value, back: bool = False) -> Value:
    """An iterator over the rows of an array, which are not taken from it before they are asked for."""
    count = CountIterV(binary(cap, operator.sub, rows, Const(1)), Const(-1), Const(-1)) if back else CountIterV(
        Const(0), rows, Const(1))
    return StreamV("rows", [count, array])


def _numpy_iter(cap: Capture, value: NdArrayV) -> Value:
    if value.recipe is not None and value.array.ndim:
        return SeqIterV(TupleV(ndarrays.rows(cap, value)), kind="other")
    return StreamV("getitem", [value], state={"index": 0})


def _object_iter(cap: Capture, value: ObjectV) -> Value:
    method = cap.special(value, "__iter__")
    if method is None:
        return _by_getitem(cap, value)
    made = cap.call(method, [])
    sample: Any = made.real if is_library_object(made) else None
    names = _named(copy.copy(sample)) if type(sample) is KEYS else None
    return made if names is None else get_iter(cap, from_python(cap, names))


def _library_iter(cap: Capture, value: LibraryV) -> Value:
    if not any(hasattr(type(value.real), name) for name in ("__iter__", "__getitem__")):
        raise _no_iterable(value)
    names = _names(value.real)
    if not value.fixed and names is None:
        raise Break("leaves", "iteration over a library object")
    return get_iter(cap, from_python(cap, tuple(value.real) if names is None else names))


def _names(sample: Any) -> tuple[str, ...] | None:
    """The keys of a library's mapping (a dataclass of Chex is one), where they are names: its structure has them."""
    cls = type(sample)
    goes = lookup(cls, "__iter__")[1]
    if not issubclass(cls, Mapping | KeysView) or type(goes) is types.FunctionType and not is_library(goes):
        return None
    return _named(sample)


def _named(sample: Iterable[Any]) -> tuple[str, ...] | None:
    found = tuple(sample)
    return found if all(type(name) is str for name in found) else None


def _generator_iter(cap: Capture, value: GeneratorV) -> Value:
    if not hasattr(type_of(value), "__iter__"):  # a coroutine
        raise _no_iterable(value)
    return value


def _scalar_iter(cap: Capture, value: ScalarV) -> Value:
    """Of a text that changes: its characters, where they are few."""
    if isinstance(value.hint, TEXTS):
        found = host_functions.characters(cap, value)
        if found is None:
            raise NeedsConcrete(value)
        return SeqIterV(TupleV(found), kind="other")
    raise _no_iterable(value)


def _opaque_iter(cap: Capture, value: OpaqueV) -> Value:
    raise Break("iterator", f"iteration over a {type_of(value).__name__}")


def _const_iter(cap: Capture, value: Const) -> Value:
    obj = value.value
    inside = opened(cap, value)
    if is_object(inside):
        return get_iter(cap, inside)
    if isinstance(obj, tuple) and type(obj).__iter__ is tuple.__iter__:
        return SeqIterV(TupleV([from_python(cap, x) for x in obj]))
    if isinstance(obj, range):
        return CountIterV(Const(obj.start), Const(obj.stop), Const(obj.step))
    if isinstance(obj, (str, bytes)) or (isinstance(obj, type) and hasattr(type(obj), "__iter__")):
        items: Any = obj
        kind = "other" if isinstance(obj, type) else "forward"
        return SeqIterV(TupleV([from_python(cap, x) for x in items]), kind=kind, text=value)
    try:
        iter(obj) if not hasattr(type(obj), "__next__") else None
    except TypeError as error:
        raise Raised(Const(error)) from None
    except ours(Exception) as error:  # what it says may depend on its state
        raise Break("iterator", f"iteration over a {type(obj).__name__}, which raises {type(error).__name__}") from None
    raise Break("iterator", f"iteration over a {type(obj).__name__}")


def _by_getitem(cap: Capture, value: ObjectV) -> Value:
    refuses = resolve(cap, value.cls, "__iter__")[1] is None  # `__iter__ = None`
    if refuses or not hasattr(value.cls, "__getitem__"):
        raise Raised(Const(TypeError(f"{name_in_errors(value.cls)!r} object is not iterable")))
    return StreamV("getitem", [value], state={"index": 0})


def table_iter(table: Any, kind: str) -> Value:
    """An iterator over a dict (its keys, values or items) or a set; it notices changes of size."""
    return StreamV("table", [table], state={"kind": kind, "index": 0, "keys": keys_of(table)})


def keys_of(table: Any) -> list[Any]:
    """The keys of a dict, the elements of a set; of attributes their order does not count before they are asked for."""
    return in_any_order(table.items)


def elements(cap: Capture, view: ViewV) -> list[Value]:
    """What a view of a dict shows now."""
    return [_element(cap, view.table, key, view.kind) for key in view.table.items]


def _element(cap: Capture, table: Any, key: Any, kind: str) -> Value:
    if kind == "keys":
        return key_value(cap, key)
    item = table.items[key] = realize(cap, table.items[key])
    return item if kind == "values" else TupleV([key_value(cap, key), item])


def key_value(cap: Capture, key: Any) -> Value:
    """The Value of a dict's key or a set's element."""
    made = from_python(cap, bare(key))
    return opened(cap, made) if is_const(made) else made


def advance(cap: Capture, it: Value) -> Value | None:
    """`next(it)`, or None when it is exhausted."""
    step = kind(it).next
    if step is None:
        raise Break("iterator", f"next() of a {type(it).__name__}")
    return step(cap, it)


def _next_seq(cap: Capture, it: SeqIterV) -> Value | None:
    mutating(cap, it)
    if it.since != getattr(it.seq, "changes", 0):
        raise Raised(Const(RuntimeError("deque mutated during iteration")))
    if it.ended or not 0 <= it.index < len(it.seq.items):
        it.ended = True
        return None
    item = it.seq.items[it.index] = realize(cap, it.seq.items[it.index])
    it.index += -1 if it.kind == "reversed" else 1
    return item


def _next_count(cap: Capture, it: CountIterV) -> Value | None:
    current, stop, step = it.current, it.stop, it.step
    if stop is not None and not _before(cap, it, current, stop, step):
        return None
    mutating(cap, it)
    it.current = binary(cap, operator.add, current, step)
    return current


ROUNDS_ASKED = 3  # so many rounds a loop over a symbolic size goes before the size is a constant


def left_of(cap: Capture, it: CountIterV) -> Value | None:
    """How far a range is from its end, where sizes say so."""
    is_sized = is_size(it.stop) or is_size(it.current)
    return size_values.arithmetic(cap, operator.sub, it.stop, it.current) if is_sized else None


def _before(cap: Capture, it: CountIterV, current: Value, stop: Value, step: Value) -> bool:
    """Whether a range has another element. With a symbolic end the first rounds are decided one by one, for what is
    left may become one node yet (see `rolled_loops`)."""
    left = left_of(cap, it)
    if is_const(step) and left is not None and (is_const(left) or it.asked < ROUNDS_ASKED):
        it.asked += 1
        more = size_values.compare(cap, operator.gt if step.value > 0 else operator.lt, left, Const(0))
        return more.value  # type: ignore[union-attr]
    stop, step, current = (size_values.known(cap, v) for v in (stop, step, current))
    if any(map(is_graph_number, (current, stop, step))):
        raise Break("branch", "the end of a range that only the arrays tell")
    assert is_const(current) and is_const(stop) and is_const(step)
    return current.value < stop.value if step.value > 0 else current.value > stop.value


def _next_generator(cap: Capture, it: GeneratorV) -> Value | None:
    if not hasattr(type_of(it), "__next__"):
        raise Raised(Const(TypeError(f"{type_of(it).__name__!r} object is not an iterator")))
    return resume(cap, it, Const(None))


def _next_object(cap: Capture, it: ObjectV) -> Value | None:
    try:
        method = cap.special(it, "__next__")
        if method is None:
            raise Raised(Const(TypeError(f"{it.cls.__name__!r} object is not an iterator")))
        return cap.call(method, [])
    except Raised as raised:
        if issubclass(type_of(raised.value), StopIteration):
            return None
        raise


def iterate(cap: Capture, value: Value) -> Iterator[Value]:
    """All elements, one after the other (a Python iterator over Values)."""
    row = kind(value).elements
    yield from rest(cap, get_iter(cap, value)) if row is None else row(cap, value)


def _of_array(cap: Capture, value: ArrayV) -> Iterable[Value]:
    return arrays.unpack(cap, value) if ndarrays.is_jax_array(value) else rest(cap, get_iter(cap, value))


define(SequenceV, Kind(elements=lambda cap, v: list(items_of(cap, v))))
define(ArrayV, Kind(elements=_of_array))


def rest(cap: Capture, it: Value) -> Iterator[Value]:
    while True:
        cap.count(STEPS_AN_ITEM)
        item = advance(cap, it)
        if item is None:
            return
        yield item


def listed(cap: Capture, value: Value) -> list[Value]:
    """All elements, as `list` and `tuple` take them: an instance is asked for its length first."""
    if not is_object(value):
        return list(iterate(cap, value))
    it = get_iter(cap, value)
    for name in ("__len__", "__length_hint__"):
        method = cap.special(value, name)
        try:
            if method is not None:
                cap.call(method, [])
                break
        except Raised as raised:
            if not issubclass(type_of(raised.value), TypeError):
                raise
    return list(rest(cap, it))


# --- lazy combinations: kind → row(cap, stream) giving the next element or None


def _zip(cap: Capture, it: StreamV) -> Value | None:
    found: list[Value] = []
    for i, part in enumerate(it.parts):
        item = advance(cap, part)
        if item is None:
            if it.state.get("strict"):
                _check_strict(cap, it, i)
            return None
        found.append(item)
    return zipped(it, found) if it.parts else None


def zipped(it: StreamV, found: list[Value]) -> Value:
    """What `zip`, or an iterator over the rows of several arrays, gives of what each part gave."""
    many = it.state.get("many")
    return TupleV(found) if many is None else many.value(found)


def _check_strict(cap: Capture, it: StreamV, i: int) -> None:
    """Part `i` is at its end: all others must be."""
    if i > 0:
        raise _uneven(i, "shorter")
    for k, part in enumerate(it.parts[1:], 1):
        if advance(cap, part) is not None:
            raise _uneven(k, "longer")


def _uneven(i: int, how: str) -> Raised:
    others = "argument 1" if i == 1 else f"arguments 1-{i}"
    return Raised(Const(ValueError(f"zip() argument {i + 1} is {how} than {others}")))


def _enumerate(cap: Capture, it: StreamV) -> Value | None:
    item = advance(cap, it.parts[0])
    if item is None:
        return None
    return TupleV([advance(cap, it.parts[1]), item])


def _rows(cap: Capture, it: StreamV) -> Value | None:
    at = advance(cap, it.parts[0])
    return None if at is None else alike_items.row(cap, it, at)


def _map(cap: Capture, it: StreamV) -> Value | None:
    args: list[Value] = []
    for part in it.parts:
        item = advance(cap, part)
        if item is None:
            return None
        args.append(item)
    assert it.fn is not None
    return cap.call(it.fn, args)


def _filter(cap: Capture, it: StreamV) -> Value | None:
    while (item := advance(cap, it.parts[0])) is not None:
        none = stands_for(it.fn, None)
        if truth(cap, item if none or it.fn is None else cap.call(it.fn, [item])):
            return item
    return None


def _chain(cap: Capture, it: StreamV) -> Value | None:
    while it.parts:
        item = advance(cap, it.parts[0])
        if item is not None:
            return item
        del it.parts[0]
    return None


def _table(cap: Capture, it: StreamV) -> Value | None:
    table, keys, index = it.parts[0], it.state["keys"], it.state["index"]
    if index < 0:
        return None
    if len(table.items) != len(keys):
        it.state["index"] = -1
        kind = "Set" if isinstance(table, SetV) else "dictionary"
        raise Raised(Const(RuntimeError(f"{kind} changed size during iteration")))
    if is_unordered(table.items) and "any order" not in it.state:
        table.items.ask()
    it.state["index"] = index + 1 if index < len(keys) else -1
    if index == len(keys):
        return None
    if keys[index] not in table.items:
        raise Raised(Const(RuntimeError("dictionary keys changed during iteration")))
    return _element(cap, table, keys[index], it.state["kind"])


def _getitem(cap: Capture, it: StreamV) -> Value | None:
    index = it.state["index"]
    if index < 0:
        return None
    if index == it.state.get("stop"):  # of data, whose length is known
        it.state["index"] = -1
        return None
    it.state["index"] = index + 1
    getitem = cap.special(it.parts[0], "__getitem__")
    assert getitem is not None
    try:
        return cap.call(getitem, [Const(index)])
    except Raised as raised:
        if issubclass(type_of(raised.value), (IndexError, StopIteration)):
            it.state["index"] = -1
            return None
        raise


def _slice(cap: Capture, it: StreamV) -> Value | None:
    state = it.state
    while state["position"] < state["next"]:
        if advance(cap, it.parts[0]) is None:
            return None
        state["position"] += 1
    if state["stop"] is not None and state["next"] >= state["stop"]:
        return None
    item = advance(cap, it.parts[0])
    state["position"] += 1
    state["next"] += state["step"]
    if state["stop"] is not None:
        state["next"] = min(state["next"], state["stop"])
    return item


def _call_until(cap: Capture, it: StreamV) -> Value | None:
    if it.fn is None:
        return None
    item = cap.call(it.fn, [])
    if equal(cap, item, it.parts[0]):
        it.fn = None
        return None
    return item


def _repeat(cap: Capture, it: StreamV) -> Value | None:
    left = it.state["left"]
    if left is None:
        return it.parts[0]
    it.state["left"] = max(left - 1, 0)
    return it.parts[0] if left > 0 else None


STREAMS: dict[str, Any] = {
    "zip": _zip, "enumerate": _enumerate, "map": _map, "filter": _filter, "chain": _chain, "getitem": _getitem,
    "table": _table, "rows": _rows,
    "islice": _slice, "call": _call_until, "repeat": _repeat,
}


def _next_stream(cap: Capture, it: StreamV) -> Value | None:
    mutating(cap, it)
    cap.count(STEPS_AN_ITEM)
    return STREAMS[it.kind](cap, it)


for _cls, _next in ((GivenIterV, existing_iterators.advance), (SeqIterV, _next_seq), (CountIterV, _next_count),
                    (StreamV, _next_stream)):
    define(_cls, Kind(iter=_itself, next=_next))  # type: ignore[arg-type]
define(GeneratorV, Kind(iter=_generator_iter, next=_next_generator))
define(ObjectV, Kind(iter=_object_iter, next=_next_object))
define(TupleV, Kind(iter=lambda cap, v: SeqIterV(v)))
for _listed in (ListV, RowsV):
    define(_listed, Kind(iter=lambda cap, v: alike_items.iterator(cap, v) or SeqIterV(v)))
define(DictV, Kind(iter=lambda cap, v: table_iter(v, "keys")))
define(SetV, Kind(iter=lambda cap, v: table_iter(v, "keys")))
define(ViewV, Kind(iter=lambda cap, v: table_iter(v.table, v.kind)))
define(RangeV, Kind(iter=lambda cap, v: CountIterV(v.start, v.stop, v.step)))
define(ArrayV, Kind(iter=_array_iter))
define(NdArrayV, Kind(iter=_numpy_iter))
define(Const, Kind(iter=_const_iter))
define(LibraryV, Kind(iter=_library_iter))
define(OpaqueV, Kind(iter=_opaque_iter))
define(ScalarV, Kind(iter=_scalar_iter))
