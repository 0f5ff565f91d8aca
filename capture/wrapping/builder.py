"""From real objects to Values: what the frame finds outside itself, with the guards it implies.

`wrap(cap, obj, source)` is the one way in. Each type has a row in `WRAPPERS`; what has none is an
instance of a Python class (`ObjectV`) or an opaque object known by identity. Elements of containers
stay `Lazy` until something looks at them, so that unused ones are not guarded.
"""

from __future__ import annotations

import collections
import enum
import functools
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.ref
import numpy as np
from jax._src.core import OpaqueTraceState
from jax._src.earray import EArray
from jax._src.linear_util import Store, WrappedFun
from jax._src.random.prng import PRNGKeyArray as KEY_TYPE
from jax._src.util import HashablePartial

from dynacomp.capture._native import CompiledFunction
from dynacomp.capture.base.classes import fields, has_dict, module_name, mro, own_dict
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.inside_tracers import shows
from dynacomp.capture.base.key_order import in_any_order
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.marks import Mark
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.graph.avals import ARRAY_TYPE, Aval, divided, key_impl
from dynacomp.capture.graph.size_scope import LEAST
from dynacomp.capture.numbers import size_values
from dynacomp.capture.numbers.dynamic_scalars import TEXTS, is_numpy_number
from dynacomp.capture.numbers.graph_inputs import add_input, outer_builder, own, symbolic_dims
from dynacomp.capture.numbers.told_sizes import TELLING, AtSizes, nth_told, told
from dynacomp.capture.symbolic import twins
from dynacomp.capture.symbolic.libraries import is_library, is_pure_module
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import BoundV, BuiltinMethodV, MethodV, PartialV
from dynacomp.capture.values.computed import ArrayV, LibraryV, NeedsConcrete, ScalarV
from dynacomp.capture.values.constant import Const, is_const, open_function
from dynacomp.capture.values.containers import DictV, ListV, RangeV, SliceV, TupleV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import CellV, ObjectV, OpaqueV
from dynacomp.capture.values.questions import is_scalar
from dynacomp.capture.values.value import Lazy, MutableV, Value
from dynacomp.capture.wrapping.alike_classes import by_content, guard_type
from dynacomp.capture.wrapping.alike_objects import (
    TRACED,
    AlikeAt,
    Said,
    alike,
    holds_constants,
    in_short,
    is_known_by_content,
)
from dynacomp.capture.wrapping.builtin_subclasses import (
    NUMBERS,
    is_bare_named_tuple,
    own_iter,
    payload_base,
    read_payload,
)
from dynacomp.capture.wrapping.changing_contents import reading
from dynacomp.capture.wrapping.immutability import TREEDEF, is_changeable, is_python_class, says_constants
from dynacomp.capture.wrapping.keyed_tables import settled


def wrap(cap: Capture, obj: Any, source: S.Source) -> Value:
    """The Value of an object found at `source`; mutable objects get one Value however often found."""
    known = cap.known.objects.get(id(obj))
    if known is not None:
        if known.source is None or known.source == source:
            return known
        if not twins.may_be(cap, obj, known):
            cap.guards.add("same", source, known.source)
            return known
        return cap.known.twins.get((id(obj), source)) or twins.note(cap, obj, known, WRAPPERS.get(
            type(obj), _wrap_other)(cap, obj, source))
    row = WRAPPERS.get(type(obj), _wrap_other)
    try:
        value = row(cap, obj, source)
    except Break:  # finding an object never breaks; looking into this one will
        return opaque(cap, obj, source)
    found = kind(value).found
    if found is not None:
        found(cap, obj, value)
    return value


def remember(cap: Capture, obj: Any, value: Value) -> None:
    """From now on `value` stands for the existing object wherever it is met."""
    cap.known.objects[id(obj)] = value
    cap.known.keep.append(obj)


def _kept(cap: Capture, obj: Any, value: Any) -> None:
    value.real = obj
    cap.known.keep.append(obj)


define(MutableV, Kind(found=remember))
define(ObjectV, Kind(found=remember))
define(BoundV, Kind(found=_kept))


def realize(cap: Capture, item: Any) -> Value:
    """A container's element as a Value, looked at (and guarded) now."""
    return wrap(cap, item.obj, item.source) if isinstance(item, Lazy) else item


def items_of(cap: Capture, value: Any) -> list[Value]:
    """All elements of a TupleV or ListV."""
    if len(value.items) > MAX_LOOKED_AT and any(of_class(Lazy, value.items)):
        raise Break("opaque", f"{len(value.items)} elements, too many to guard one by one")
    value.items[:] = [realize(cap, i) for i in value.items]
    return value.items


def entries_of(cap: Capture, value: DictV, use: Callable[[Value], Any], by_name: bool = False) -> dict[Any, Any]:
    """`use` of all entries of a dict, in its order; they are looked at in the order in which JAX takes it apart. So a
    dict whose keys come in another order in the next call, as those of a tree that was put together, makes the same
    Graph, which is not compiled again. by_name: nobody sees the order."""
    items = settled(value.items)
    keys = in_any_order(items) if by_name else list(items)
    order = sorted(keys) if all(type(k) is str for k in keys) else keys
    used = {k: use(realize(cap, value.items[k])) for k in order}
    return {k: used[k] for k in keys}


# --- rows


def _number(cap: Capture, obj: Any, source: S.Source) -> Value:
    """An int, float, complex, string, bytes or NumPy scalar: a constant until it is seen to change."""
    if isinstance(source, S.Count) and source in cap.sizes.dims.values():
        return size_values.of_int(cap, source, obj)
    if not is_big(obj) and not is_fixed(cap, source) and (
            cap.root.policy.scalar(source, obj) or bool(cap.lessons.counted) and repr(source) in cap.lessons.counted):
        if type(obj) is int and source in cap.lessons.sized and obj:
            return size_values.of_int(cap, source, obj)
        if type(obj) in (*TEXTS, complex) or isinstance(obj, np.generic):
            cap.guards.add("is_type", source, type(obj))
        else:
            cap.guards.add("scalar", source, type(obj).__name__)
        cap.numbers.changing[source] = obj
        return ScalarV(obj, source=source)
    cap.numbers.scalars[source] = obj
    return _literal(cap, obj, source)


def is_fixed(cap: Capture, source: S.Source) -> bool:
    """Whether a number that changes is to be a constant all the same."""
    return source in cap.lessons.fixed or cap.lessons.all_fixed and not cap.root.policy.changes_often(source)


def is_big(obj: Any) -> bool:
    """An int that no array holds, so that none stands for it."""
    return type(obj) is int and obj.bit_length() > 63


def _literal(cap: Capture, obj: Any, source: S.Source) -> Value:
    cap.guards.add("eq", source, obj)
    return Const(obj, source=source)


def _identity(cap: Capture, obj: Any, source: S.Source) -> Value:
    cap.guards.add("is", source, obj)
    return Const(obj, source=source)


def _treedef(cap: Capture, obj: Any, source: S.Source) -> Value:
    """The structure of a tree, often made anew, is what it says."""
    if not says_constants(obj):
        return _wrap_other(cap, obj, source)
    cap.guards.add("tree", source, obj)
    return Const(obj, source=source)


def _function(cap: Capture, obj: Any, source: S.Source) -> Value:
    """A function that comes with the call may be a new one each time: see Const. So may one of the program's that a
    global object holds, once it has been another."""
    opens = S.belongs_to_call(source) or not is_library(obj) and _was_another(cap, obj, source)
    return _opened(cap, obj, source) if opens else _identity(cap, obj, source)


def _was_another(cap: Capture, obj: Any, source: S.Source) -> bool:
    mark = Mark(obj)
    cap.numbers.scalars.setdefault(source, mark)
    return cap.root.policy.scalar(source, mark)


def _jitted(cap: Capture, obj: Any, source: S.Source) -> Value:
    """So may what `jax.jit` makes, or `jax.custom_vjp`."""
    return _opened(cap, obj, source) if S.belongs_to_call(source) else one_object(cap, obj, source)


def _compiled(cap: Capture, obj: Any, source: S.Source) -> Value:
    """And so may one of our compiled functions, which is the function in it, with the same options."""
    if not S.belongs_to_call(source):
        return one_object(cap, obj, source)
    made = _opened(cap, obj, source)
    cap.guards.add("is", S.Slot(source, "key", CompiledFunction.__dict__["key"]), obj.key)
    return made


def inside_compiled(cap: Capture, compiled: CompiledFunction, source: S.Source) -> Value:
    """The function in a compiled one."""
    return wrap(cap, compiled.__wrapped__, S.Slot(source, "__wrapped__", CompiledFunction.__dict__["__wrapped__"]))


def _opened(cap: Capture, obj: Any, source: S.Source) -> Const:
    cap.guards.add("is_type", source, type(obj))
    return open_function(obj, source, lambda: cap.guards.add("is", source, obj))


def _tuple(cap: Capture, obj: Any, source: S.Source) -> Value:
    guard_type(cap, type(obj), source)
    reading(cap, source)
    items = [Lazy(x, S.Item(source, i)) for i, x in enumerate(tuple.__iter__(obj))]
    cap.guards.add("len", source, len(items))
    return TupleV(items, type(obj), real=obj, source=source)


def _list(cap: Capture, obj: Any, source: S.Source) -> Value:
    guard_type(cap, type(obj), source)

    def elements() -> list[Any]:
        if list.__len__(obj) > 1:  # one entry each, besides that for all others
            reading(cap, source)
        items = [Lazy(x, S.Item(source, i)) for i, x in enumerate(list.__iter__(obj))]
        cap.guards.add("len", source, len(items))
        return items

    return ListV([], type(obj), real=obj, unseen=elements, source=source)


def _deque(cap: Capture, obj: Any, source: S.Source) -> Value:
    """Guarding `maxlen` also tells the C side which type a deque is, before its elements are read."""
    cap.guards.add("is_type", source, type(obj))
    reading(cap, source)
    maxlen = MAXLEN.__get__(obj)
    items = [Lazy(x, S.Item(source, i)) for i, x in enumerate(own_iter(obj))]
    cap.guards.add("eq", S.Get(source, "maxlen"), maxlen)
    cap.guards.add("len", source, len(items))
    return ListV(items, type(obj), real=obj, extra=maxlen, source=source)


MAX_LOOKED_AT = 8192  # elements of an existing list or tuple that are looked at together
MAXLEN: Any = collections.deque.__dict__["maxlen"]


def _method(cap: Capture, obj: Any, source: S.Source) -> Value:
    cap.guards.add("is_type", source, type(obj))
    func = wrap(cap, obj.__func__, S.Get(source, "__func__"))
    return MethodV(func, wrap(cap, obj.__self__, S.Get(source, "__self__")), source=source)


def _partial(cap: Capture, obj: Any, source: S.Source) -> PartialV:
    cap.guards.add("is_type", source, type(obj))
    parts: list[Any] = [wrap(cap, member.__get__(obj), S.Slot(source, name, member))
                        for name, member in PARTIAL.items()]  # past what a subclass may say of them
    func, args, kwargs = parts
    kwargs.items.update({k: realize(cap, v) for k, v in kwargs.items.items()})
    noted: Any = functools.partial.__reduce__(obj)[2][3] or {}  # which makes no dict where there is none
    attrs = {name: Lazy(found, S.Attr(source, name)) for name, found in noted.items()}
    return PartialV(func, items_of(cap, args), kwargs.items, attrs, source=source)


PARTIAL: dict[str, Any] = {name: vars(functools.partial)[name] for name in ("func", "args", "keywords")}


def _partial_of_a_tree(cap: Capture, obj: Any, source: S.Source) -> Value:
    """One of `jax.tree_util` is what it is made of: its arrays may be of this call, or traced."""
    known = _partial(cap, obj, source)
    return LibraryV(type(obj), (known.func, *known.args), known.kwargs, real=obj, source=source)


def _builtin(cap: Capture, obj: Any, source: S.Source) -> Value:
    """A built-in function is known by its identity; a bound method, often made anew, by its object and name."""
    owner = obj.__self__
    of_module = owner is None or isinstance(owner, (types.ModuleType, type)) or type(owner).__name__.startswith(PYBIND)
    if of_module or is_python_class(type(owner)):
        return _identity(cap, obj, source)
    cap.guards.add("is_type", source, type(obj))
    cap.guards.add("eq", S.Get(source, "__name__"), obj.__name__)
    return BuiltinMethodV(wrap(cap, owner, S.Get(source, "__self__")), obj.__name__, source=source)


PYBIND = "pybind11_detail_function_record"  # the class of `__self__` of a function that pybind11 has made


def _range(cap: Capture, obj: range, source: S.Source) -> Value:
    """A range is its three numbers."""
    cap.guards.add("is_type", source, range)
    parts = [wrap(cap, member.__get__(obj), S.Slot(source, name, member)) for name, member in RANGE.items()]
    for part in parts:
        if is_scalar(part):
            raise NeedsConcrete(part)
    if all(map(is_const, parts)):
        return Const(obj, source=source)
    start, stop, step = parts
    return RangeV(start, stop, step, obj, source=source)


def _slice(cap: Capture, obj: slice, source: S.Source) -> Value:
    """A slice is its two ends and its step, whatever they are: often made anew, with ends that change."""
    cap.guards.add("is_type", source, slice)
    start, stop, step = (wrap(cap, member.__get__(obj), S.Slot(source, name, member))
                         for name, member in SLICE.items())
    if all(is_const(part) and is_literal(part.value) for part in (start, stop, step)):
        return Const(obj, source=source)
    return SliceV(start, stop, step, obj, source=source)


RANGE: dict[str, Any] = {name: vars(range)[name] for name in ("start", "stop", "step")}
SLICE: dict[str, Any] = {name: vars(slice)[name] for name in ("start", "stop", "step")}


def _cell(cap: Capture, obj: Any, source: S.Source) -> Value:
    cap.guards.add("is_type", source, types.CellType)
    try:
        content = Lazy(obj.cell_contents, S.Get(source, "cell_contents"))
    except ValueError:
        cap.guards.add("empty", source)
        content = None
    return CellV(content, real=obj, source=source)


def _array(cap: Capture, obj: Any, source: S.Source) -> Value:
    known = cap.known.arrays.get((id(obj), source))
    if known is not None:  # one that was looked at before, in a dict that was passed as a whole
        return known
    if obj.is_deleted() or any(v.real is obj for v in cap.effects.donated.values()):
        raise Break("deleted", "an array that was donated or deleted")
    if is_wide(obj.dtype):
        cap.guards.add("array", source, (None,) * obj.ndim, obj.dtype, bool(obj.weak_type), obj.sharding, obj.committed)
        return OpaqueV(obj, source=source)
    sharding = divided(jax.typeof(obj))
    dims = symbolic_dims(cap, obj, source) if sharding is None else obj.shape
    guard_shape = tuple(d if isinstance(d, int) else None for d in dims)
    cap.guards.add("array", source, guard_shape, obj.dtype, bool(obj.weak_type), obj.sharding, obj.committed)
    aval = Aval(dims, obj.dtype, bool(obj.weak_type), sharding=sharding)
    cap.sizes.real_shapes[source] = tuple(obj.shape)
    found = cap.known.arrays[id(obj), source] = ArrayV(add_input(cap, source, aval), aval, real=obj, source=source)
    return found


def is_wide(dtype: Any) -> bool:
    """Whether an array has 64 bits where JAX is set to 32, made under `jax.enable_x64(True)`, say: some operations keep
    its width and some do not, and none of them does when it is traced. Python runs what computes with it."""
    return bool(jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True) != dtype)


def _tracer(cap: Capture, obj: Any, source: S.Source) -> Value:
    """An array that JAX traces, where it transforms a caller of the captured frame. Nothing is asked of the tracer
    itself, so that the program serves whatever transformation comes."""
    if not cap.root.traced:
        raise Break("tracer", "a value that a JAX transformation is tracing")
    if obj.aval.is_high:
        raise Break("tracer", f"a traced value of the type {type(obj.aval).__name__}, which is no array")
    if divided(obj.aval) is not None:
        raise Break("tracer", "a traced value that is divided on a mesh of explicit axes")
    dims = symbolic_dims(cap, obj, source)
    cap.guards.add("tracer", source, tuple(d if isinstance(d, int) else None for d in dims), obj.dtype,
                   bool(obj.aval.weak_type))
    aval = Aval(dims, obj.dtype, bool(obj.aval.weak_type))
    cap.sizes.real_shapes[source] = tuple(obj.shape)
    cap.known.shown[source] = shows(obj)
    return ArrayV(add_input(cap, source, aval), aval, source=source)


def _key_array(cap: Capture, obj: Any, source: S.Source) -> Value:
    """A typed PRNG key enters the Graph as its raw data, wrapped by a node."""
    cap.guards.add("is_type", source, type(obj))
    impl = key_impl(obj.dtype)
    cap.guards.add("is", S.Attr(source, "_impl"), obj._impl)
    raw = cast(ArrayV, _array(cap, obj._base_array, S.Attr(source, "_base_array")))
    aval = Aval(raw.aval.shape[:len(obj.shape)], obj.dtype)
    node = outer_builder(cap).call(jax.random.wrap_key_data, (raw.node,), {"impl": impl}, aval, cap.where())
    return ArrayV(own(cap, node), aval, real=obj, source=source)


def _ndarray(cap: Capture, obj: Any, source: S.Source) -> Value:
    """A NumPy array is an input too; only JAX functions may consume it (see `arrays`)."""
    if obj.dtype.hasobject or type(obj) is not np.ndarray:
        return _identity(cap, obj, source)
    dims = symbolic_dims(cap, obj, source)
    cap.guards.add("ndarray", source, tuple(d if isinstance(d, int) else None for d in dims), obj.dtype)
    aval = Aval(dims, jax.dtypes.canonicalize_dtype(obj.dtype))
    cap.sizes.real_shapes[source] = obj.shape
    return ArrayV(add_input(cap, source, aval), aval, real=obj, source=source)


def _generator(cap: Capture, obj: Any, source: S.Source) -> Value:
    return OPERATIONS.wrap_generator(cap, obj, source) or opaque(cap, obj, source)


def opaque(cap: Capture, obj: Any, source: S.Source) -> Value:
    guard_type(cap, type(obj), source)
    return OpaqueV(obj, source=source)


def _wrap_other(cap: Capture, obj: Any, source: S.Source) -> Value:
    cls: Any = type(obj)  # never isinstance: it asks objects for their `__class__`, which may run their code
    if cls is type and by_content(cap, obj, source):
        return Const(obj, source=source)
    if issubclass(cls, (type, types.ModuleType, enum.Enum)):
        return _identity(cap, obj, source)
    if cls in weakref.ProxyTypes or issubclass(cls, np.ndarray):  # of another class, it says; of changing content
        return opaque(cap, obj, source)
    if issubclass(cls, (np.generic, np.dtype)):
        return (_number if is_numpy_number(obj) and obj.dtype != bool else _literal)(cap, obj, source)
    if issubclass(cls, jax.core.Tracer):
        return (opaque if isinstance(obj, jax.ref.Ref) else _tracer)(cap, obj, source)
    if is_bare_named_tuple(type(obj)):
        return _tuple(cap, obj, source)
    if payload_base(type(obj)) is not None and (
            payload_base(type(obj)) in NUMBERS or not _is_library_leaf(obj)):
        row = WRAPPERS[payload_base(type(obj))]  # type: ignore[index]
        return _instance(cap, obj, source, unread=lambda held: read_payload(cap, row, held))
    if cls in CUSTOM:
        return _jitted(cap, obj, source)
    if issubclass(cls, (threading.local, BaseException)) or (
            is_plain_instance(obj) and (not _is_library_leaf(obj) or is_made_anew(cap, obj, source))):
        return _instance(cap, obj, source)
    if any(hasattr(type(obj), name) for name in CHANGING):
        return opaque(cap, obj, source)
    if is_changeable(obj) and not is_python_class(type(obj)) and not callable(obj):
        return opaque(cap, obj, source)
    return one_object(cap, obj, source)


# Methods of objects that change as they are used: iterators, and what JAX 0.10 asks for the type of its state (`Box`).
CHANGING = ("__next__", "__anext__", "__await__", "cur_qdd")


def _instance(cap: Capture, obj: Any, source: S.Source, **how: Any) -> Value:
    """An instance of a Python class. One whose attributes are seen elsewhere, too, is left to Python: its dictionary
    is another object's, one that the program has in its hands, or (`self.__dict__ = self`) the object itself."""
    table = own_dict(obj)
    if has_dict(type(obj)) and (
            table is obj or id(table) in cap.known.objects or cap.known.tables.setdefault(id(table), obj) is not obj):
        return opaque(cap, obj, source)
    guard_type(cap, type(obj), source)
    return ObjectV(type(obj), real=obj, source=source, **how)


def is_made_anew(cap: Capture, obj: Any, source: S.Source) -> bool:
    """Whether another such object came from there in an earlier call: an optimiser that the program makes in each
    call is known by what it holds. Those of JAX itself (shardings, functions with rules) have rows of their own."""
    if module_name(type(obj)).partition(".")[0] == "jax":
        return False
    was_another = _was_another(cap, obj, source)
    return was_another and S.belongs_to_call(source)


def one_object(cap: Capture, obj: Any, source: S.Source) -> Value:
    """An object that never changes, known by its identity until others come in its place: one that is only looked at
    (a date, a weak reference) at once; what is called, after many. One of JAX's (a pullback's jaxpr) is known by what
    it says, while that changes seldom."""
    if type(obj) in TELLING and not holds_constants(obj) and (sized := of_sizes(cap, obj, source)) is not None:
        return sized
    mark = Mark(obj)  # no address: one made anew often stands where the last one stood
    tells, said = is_known_by_content(obj), Said(source)
    looked_at = not is_pure_module(module_name(type(obj))) and (
        not callable(obj) or issubclass(type(obj), weakref.ReferenceType)) or holds_constants(obj)
    if S.belongs_to_call(source) and (
            cap.root.policy.changes_often(source) or tells and cap.root.policy.changes_often(said)
            or looked_at and cap.root.policy.scalar(source, mark)):
        return opaque(cap, obj, source)
    if not tells or type(obj) in TRACED:  # what stands beside them is as it was
        cap.numbers.scalars[source] = mark
    if tells:
        cap.numbers.scalars[said] = in_short(obj)
        cap.guards.add("alike", source, obj, alike)
        return Const(obj, source=source)
    return _identity(cap, obj, source)


def of_sizes(cap: Capture, obj: Any, source: S.Source) -> Value | None:
    """An object of JAX that tells sizes, of which earlier calls had others: it is made anew of those of each call. None
    where all are as they were, or must be constants."""
    if is_fixed(cap, source):
        return None
    sizes = told(obj)
    places = {n: sizes.index(n) for n in dict.fromkeys(sizes) if type(n) is int and n >= LEAST}
    # The first one, the second one, ... by which they are known: in other calls it may stand elsewhere.
    known = {n: S.Host("told", (source, f"size {i}"), nth_told) for i, n in enumerate(places)}
    varying = tuple(n for n in places if cap.root.policy.scalar(known[n], n))
    cap.numbers.scalars.update((known[n], n) for n in places if n not in varying)
    if not varying:
        return None
    made = AtSizes(obj, varying)
    cap.guards.add("alike", source, obj, AlikeAt(made))
    symbols = [size_values.symbol(cap, S.Host("told", (source, places[n]), nth_told), n) for n in varying]
    return LibraryV(made, tuple(size_values.of_expr(cap, s) for s in symbols), real=made(*symbols), source=source)


JITTED: type = type(jax.jit(lambda: None))
# functions with rules, and what `ravel_pytree` gives to go back: a program may make them anew in each call
CUSTOM = (jax.custom_vjp, jax.custom_jvp, HashablePartial)
RECORDS = (OpaqueTraceState,)  # objects of JAX that are made anew all the time: known by their content


def _is_library_leaf(obj: Any) -> bool:
    """An object of a pure library that is no pytree (`jax.custom_jvp`, a sharding): taken whole. One that holds arrays
    (`x.at`) is what it holds: it is of this call, and the arrays may be traced."""
    if not is_pure_module(module_name(type(obj))) or type(obj) in RECORDS or not jax.tree_util.all_leaves([obj]):
        return False
    return not any(issubclass(type(x), (ARRAY_TYPE, jax.core.Tracer)) for x in fields(obj).values())


def own_source(obj: Any, source: S.Source, name: str) -> S.Source:
    """Where the entry `name` of that dictionary is found, the object being at `source`."""
    return S.Key(S.ThreadDict(source), name) if issubclass(type(obj), threading.local) else S.Attr(
        source, str.__str__(name))


IMMUTABLE = ("typing", "typing_extensions")  # whose objects say what a type is, and never change
def is_plain_instance(obj: Any) -> bool:
    """An instance of a class written in Python, whose state is its `__dict__` and `__slots__`; a SimpleNamespace."""
    cls: Any = type(obj)
    if cls is types.SimpleNamespace:
        return True
    if not is_python_class(cls) or module_name(cls) in IMMUTABLE:
        return False
    return module_name(cls).partition(".")[0] != "jaxlib" and _solid_base(cls) in (object, types.SimpleNamespace)


@remembered
def _solid_base(cls: type) -> type:
    """The nearest built-in ancestor that gives the instance its C layout."""
    for base in mro(cls):
        if not base.__flags__ & (1 << 9):
            if base.__basicsize__ > object.__basicsize__ or base is object:
                return base
    return object


WRAPPERS: dict[type, Callable[[Capture, Any, S.Source], Value]] = {
    **dict.fromkeys((int, float, complex, *TEXTS), _number),
    **dict.fromkeys((bool, type(None), type(Ellipsis),
                     type(NotImplemented)), _literal),
    slice: _slice,
    range: _range,
    tuple: _tuple,
    list: _list,
    collections.deque: _deque,
    types.FunctionType: _function,
    TREEDEF: _treedef,
    JITTED: _jitted,
    CompiledFunction: _compiled,
    types.MethodType: _method,
    functools.partial: _partial,
    jax.tree_util.Partial: _partial_of_a_tree,
    types.BuiltinFunctionType: _builtin,
    types.CellType: _cell,
    types.GeneratorType: _generator,
    types.CoroutineType: _generator,
    types.TracebackType: opaque,
    types.FrameType: opaque,
    jax.ref.Ref: opaque,  # written to in place: Python makes each read and write
    WrappedFun: opaque,  # notes what its one call gave, in a Store
    Store: opaque,
    EArray: opaque,  # of a dtype of the program's own
    ARRAY_TYPE: _array,
    KEY_TYPE: _key_array,
    np.ndarray: _ndarray,
}


OPERATIONS.items = items_of
OPERATIONS.realize = realize
