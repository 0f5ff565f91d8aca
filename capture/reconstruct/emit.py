"""Values back to real objects, as bytecode: the code that runs around a compiled Graph.

`Emitter.load(value)` appends instructions that leave the object on the stack. Objects that existed
before are found through their Source; new mutable ones are built once and kept in a temporary, so
that identity is preserved. Each kind's `Kind.emit` says how each kind of Value is built; most call a small
helper from `dynacomp.capture.reconstruct.runtime`.
"""

from __future__ import annotations

import enum
import marshal
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from bytecode import Instr

from dynacomp.capture._native import Held, dict_of, frozen_as, known_dict, known_set, lay_out, own_table, unhold
from dynacomp.capture.base.errors import GiveUp, Unbuildable
from dynacomp.capture.base.literals import is_literal, is_single
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.bytecode.code import VERSION
from dynacomp.capture.graph.avals import key_impl
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.numbers import host_arrays, size_values
from dynacomp.capture.reconstruct import runtime, structures, tracebacks
from dynacomp.capture.reconstruct.array_identity import candidates, chosen, first, object_of
from dynacomp.capture.reconstruct.emit_sources import load_globals, load_source
from dynacomp.capture.reconstruct.readers import reader
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import differs_since, leaving, leaving_apart, waits_for_effects
from dynacomp.capture.tracing.settings import maker
from dynacomp.capture.values.callables import BuiltinMethodV, FunctionV, MethodV, PartialV, SettingV, SuperV
from dynacomp.capture.values.computed import ArrayV, LibraryV, NdArrayV, NumberV, SizeV
from dynacomp.capture.values.constant import Const, is_const, is_known_literal, peek
from dynacomp.capture.values.containers import DictV, ListV, RangeV, RowsV, SetV, SliceV, TupleV, ViewV, layout_of
from dynacomp.capture.values.frames import NullV, TracebackV
from dynacomp.capture.values.grown_items import Run, holds_given, is_run, kinds_of, parts_of
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import CellV
from dynacomp.capture.values.questions import is_dict, is_lazy, is_made_array, is_scalar, is_value
from dynacomp.capture.values.standing import HashedV, IdV, bare
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping import ndarrays
from dynacomp.capture.wrapping.builder import is_plain_instance
from dynacomp.capture.wrapping.immutability import TREEDEF
from dynacomp.capture.wrapping.keyed_tables import ChangingKey

MAX_INSTRUCTIONS = 60_000  # of one replacement code object: some 4,000 objects that it builds


def _is_merged(obj: Any) -> bool:
    """Whether `bytecode` takes other constants with the same bytes for this one: `marshal` writes what has a
    buffer (NumPy's arrays and scalars) without its type."""
    try:
        marshal.dumps(obj)
    except ValueError:
        return False
    return not isinstance(obj, types.CodeType)


def _is_nan(obj: Any) -> bool:
    """A NaN, which is a key of its own in a dict: a code object has one constant for all of them."""
    return type(obj) in (float, complex) and obj != obj


@remembered
def hashes_its_own_way(cls: type) -> bool:
    """Whether Python code, or nothing, hashes instances of a class, or what they hold. Debuggers and profilers have
    code objects as keys, whose hash is that of their constants: there it would run, or raise."""
    own = cls.__hash__
    if own is object.__hash__ or issubclass(cls, enum.Enum):
        return False
    in_c = type(own) is types.WrapperDescriptorType and not cls.__flags__ & HEAP_TYPE
    return not in_c or issubclass(cls, (tuple, frozenset))


class Emitter:
    """Instructions under construction for one replacement code object."""

    def __init__(self, cap: Capture) -> None:
        self.cap = cap
        cap.emptied.append(self)
        self.out: list[Any] = []
        self.temps: dict[int, str] = {}
        self.outputs: dict[Node, int] = {}
        self.keep: list[Any] = []
        self.count = 0
        self.depth = 0
        self.filling = False
        self.frame_kept = False  # a traceback made here refers to the frame that makes it
        self.fills: list[Callable[[], None]] = []
        self.late: list[Callable[[], None]] = []  # what is done to new objects after the side effects
        self.making: set[int] = set()  # classes that are being made, see emit_classes.py

    def op(self, name: str, *arg: Any) -> None:
        if len(self.out) > MAX_INSTRUCTIONS:
            raise GiveUp("objects", f"code of more than {MAX_INSTRUCTIONS} instructions")
        self.out.append(Instr(name, *arg))

    def const(self, obj: Any) -> None:
        """Loads a constant; what leads back to the namespace of the code (see `load_globals`) is referred to
        weakly: a function of its own, a class; so are the program's objects that guards know by identity, such
        as the keys of a dict. The entry's guards die with them. What is the capture's own is made; a class that is
        computed of constants (`Float[Array, "n"]`) nobody else keeps."""
        if id(obj) in self.cap.known.made:
            self.made(obj)
        elif id(obj) in self.cap.known.anew:
            load_source(self, self.cap.known.anew[id(obj)])
        elif id(type(obj)) in self.cap.known.anew and isinstance(obj, tuple) and not type(obj).__dictoffset__:
            self.call(tuple.__new__, lambda: self.const(type(obj)), lambda: self.const(tuple(obj)))
        elif (isinstance(obj, type) and obj.__flags__ & HEAP_TYPE and id(obj) not in self.cap.known.folded) or (
                isinstance(obj, types.FunctionType) and self.cap.globals_source(obj.__globals__) is None) or (
                is_plain_instance(obj) and type(obj).__weakrefoffset__ and self.cap.guards.knows(obj)):
            self.call(runtime.Weak(obj))
        elif _is_nan(obj) or not is_literal(obj) and (hashes_its_own_way(type(obj)) or _is_merged(obj)):
            self.call(runtime.Kept(obj))
        else:
            self.op("LOAD_CONST", obj)

    def made(self, obj: Any) -> None:
        """Loads what a specimen stands for."""
        found = self.cap.known.made[id(obj)]
        if is_value(found):
            self.load(found)
        elif id(obj) in self.temps:
            self.op("LOAD_FAST", self.temps[id(obj)])
        else:
            self.depth += 1
            MADE[type(found)](self, found)
            self.depth -= 1
            self._fill()

    def temp(self, hint: str = "t") -> str:
        self.count += 1
        return f"${hint}{self.count}"

    def store_temp(self, hint: str = "t") -> str:
        name = self.temp(hint)
        self.op("STORE_FAST", name)
        return name

    def call(self, fn: Any, *args: Callable[[], None]) -> None:
        """`fn(*args)` for a constant `fn`; each argument is a function that loads it."""
        self.begin_call(lambda: self.const(fn))
        for arg in args:
            arg()
        self.end_call(len(args))

    def begin_call(self, load: Callable[[], None]) -> None:
        if VERSION < (3, 13):
            self.op("PUSH_NULL")
            load()
        else:
            load()
            self.op("PUSH_NULL")

    def end_call(self, n: int) -> None:
        if VERSION < (3, 12):
            self.op("PRECALL", n)
        self.op("CALL", n)

    def item(self, load: Callable[[], None], index: Any) -> None:
        load()
        self.const(index)
        self.op("BINARY_SUBSCR")

    # --- values

    def load(self, value: Any) -> None:
        """Leaves the object that `value` stands for on the stack."""
        if id(value) in self.temps:
            self.op("LOAD_FAST", self.temps[id(value)])
            return
        if is_lazy(value):
            load_source(self, value.source)
            return
        if value.holder is not None:
            self.load(value.holder)
            return
        if value.source is not None and not (is_const(value) and is_single(peek(value))):
            load_source(self, value.source)
            return
        emit = kind(value).emit
        if emit is None:
            raise Unbuildable(value)
        self.depth += 1
        emit(self, value)
        self.depth -= 1
        self._fill()

    def later(self, fill: Callable[[], None]) -> None:
        """What puts its content into a new object: done when the outermost object is there, so that a
        cycle finds every object once."""
        self.fills.append(fill)

    def _fill(self) -> None:
        if self.depth or self.filling:
            return
        self.filling = True
        while self.fills:
            self.fills.pop(0)()
            self.op("POP_TOP")
        self.filling = False

    def whole(self, value: Any) -> None:
        """`load` for code that looks into the object at once: it and all that it holds have their content."""
        before, self.depth, self.filling = (self.depth, self.filling), 0, False
        self.load(value)
        self._fill()
        self.depth, self.filling = before

    def remember(self, value: Any) -> None:
        """The object on the stack is `value`: later loads use the same one."""
        self.remember_as(value, value)

    def remember_as(self, obj: Any, value: Any) -> None:
        name = self.temps[id(obj)] = self.temp("v")
        self.keep.append(value)
        self.op("STORE_FAST", name)
        self.op("LOAD_FAST", name)

    def loads(self, values: Any) -> list[Callable[[], None]]:
        return [lambda v=v: self.load(v) for v in values]  # type: ignore[misc]

    def tuple(self, values: Any) -> None:
        values = list(values)
        for v in values:
            self.load(v)
        self.op("BUILD_TUPLE", len(values))

    def output(self, node: Node) -> int:
        """The position of `node` among the program's outputs."""
        return self.outputs.setdefault(node, len(self.outputs))


OUTPUTS = "$outputs"
INPUTS = "$inputs"  # an argument of replacement code, from the registers of its guards


def _const(e: Emitter, v: Const) -> None:
    """A string that equals another one, and is not it: code objects keep one of equal constants. Structures of trees
    get the objects of the call."""
    if type(v.value) is TREEDEF:
        if e.cap.known.anew_classes and structures.holds_class(v.value, e.cap.known.anew_classes):
            raise Unbuildable(v, "the structure of a tree of a class that each call makes anew")
        structure, held = structures.emptied(v.value, e.cap.known.shells)
        if held:
            e.call(structures.filled, lambda: e.const(structure), lambda: e.tuple(held))
            return
    if type(v.value) is str and sys.intern(v.value) is not v.value:
        e.call(unhold, lambda: e.const(Held(v.value)))
    else:
        e.const(v.value)


def _array(e: Emitter, v: ArrayV) -> None:
    leaving(e.cap, v)
    if v.origin is not None:
        _chosen(e, v)
        return
    if v.node in e.cap.graph.inputs:
        load_source(e, e.cap.graph.inputs[v.node])
        return
    if v.real is not None:
        _constant_array(e, v.real)
        e.remember(v)
        return
    given = object_of(e.cap, v)
    if given is not None:
        e.load(given)
        return

    def load() -> None:
        e.item(lambda: e.op("LOAD_FAST", OUTPUTS), e.output(v.node))

    if runtime.is_key(v.aval.dtype):
        e.call(runtime.wrap_key, load, lambda: e.const(key_impl(v.aval.dtype)))
        e.remember(v)
    else:
        load()


def _constant_array(e: Emitter, real: Any) -> None:
    """A constant of the Graph; NumPy arrays are mutable, so that each call gets its own."""
    if isinstance(real, np.ndarray):
        e.call(runtime.writeable, lambda: e.const(runtime.Content(real)))
    else:
        e.const(real)


def _ndarray(e: Emitter, v: NdArrayV) -> None:
    """A NumPy array of the capture's own: each call gets a fresh one, as it was when the capture ended."""
    if v.recipe is not None:
        if is_made_array(v.base) or host_arrays.is_viewed(e.cap, v):
            raise Unbuildable(v, "a NumPy array of changing shape that shares its memory with another")
        load_source(e, v.recipe)
    elif v.base is None:
        e.call(runtime.ndarray, lambda: e.const(runtime.Content(v.array)))
    else:
        e.call(runtime.ndarray_view, lambda: e.load(v.base), lambda: e.const(ndarrays.place(v)))
    e.remember(v)


def _chosen(e: Emitter, v: ArrayV) -> None:
    e.call(chosen, lambda: e.item(lambda: e.op("LOAD_FAST", OUTPUTS), e.output(v.origin.node)),
           lambda: e.load(ArrayV(v.node, v.aval)), lambda: e.const(first(v)), lambda: e.tuple(candidates(e.cap, v)))
    e.remember(v)


def _number(e: Emitter, v: NumberV) -> None:
    leaving(e.cap, v)
    e.call(reader(v.kind), lambda: e.item(lambda: e.op("LOAD_FAST", OUTPUTS), e.output(v.node)))
    e.remember(v)


def _size(e: Emitter, v: SizeV) -> None:
    load_source(e, size_values.source_of(e.cap, v))


def _rows(e: Emitter, v: RowsV) -> None:
    e.call(tuple, lambda: _items(e, v))
    e.remember(v)


def _tuple(e: Emitter, v: TupleV) -> None:
    if v.of_row:
        leaving_apart(e.cap)
    if v.cls is tuple:
        e.tuple(v.items)
    else:
        e.call(tuple.__new__, lambda: e.const(v.cls), lambda: e.tuple(v.items))
    e.remember(v)


def _list(e: Emitter, v: ListV) -> None:
    if v.cls is list:
        e.op("BUILD_LIST", 0)
    else:
        e.call(runtime.empty_list, lambda: e.const(v.cls), lambda: e.const(v.extra))
    e.remember(v)
    if v.front is not None or v.items:
        fill = list.extend if v.cls is list else runtime.fill_list
        e.later(lambda: e.call(fill, lambda: e.load(v), lambda: _items(e, v)))


def _items(e: Emitter, v: ListV | RowsV) -> None:
    """The items of a list, those that loops appended in runs."""
    if v.front is None:
        return e.tuple(v.items)
    load_parts(e, parts_of(v))


def load_parts(e: Emitter, parts: list[Any]) -> None:
    """Items, and what loops appended in runs, as one list."""
    e.call(runtime.joined_items, *(partial(_run, e, part) if is_run(part) else partial(
        e.tuple, [part]) for part in parts))


def own_stacks(cap: Capture, run: Run) -> list[Any]:
    """The stacks of a run for who makes its items: where these are arrays that the call was given, the objects
    themselves."""
    return [stack if is_scalar(stack) else cap.numbers.originals.get(stack.node, stack) for stack in run.stacks]


def _run(e: Emitter, run: Run) -> None:
    if holds_given(run):
        leaving_apart(e.cap)
    fixed: list[Value] = []
    specs = tuple(shape.spec(fixed) for shape in run.shapes)
    length = size_values.of_expr(e.cap, run.length)
    e.call(runtime.run_items, lambda: e.load(length), lambda: e.const(specs), lambda: e.const(kinds_of(run)),
           lambda: e.tuple(own_stacks(e.cap, run)), lambda: e.tuple(fixed))


def _dict(e: Emitter, v: DictV) -> None:
    if v.of_row:
        leaving_apart(e.cap)
    if getattr(v.owner, "table", None) is v:  # the named arguments of a partial
        e.call(getattr, lambda: e.load(v.owner), lambda: e.const("keywords"))
        e.remember(v)
        return
    if v.owner is not None:
        e.call(own_table, lambda: e.load(v.owner))
        e.remember(v)
        return
    if v.shows is not None:
        e.call(types.MappingProxyType, lambda: e.load(v.shows))
        e.remember(v)
        return
    e.call(runtime.empty_dict, lambda: e.const(v.cls), lambda: e.load(v.factory or Const(None)))
    e.remember(v)
    e.later(lambda: e.call(runtime.fill_dict, lambda: e.load(v), lambda: load_table(e, v.items)))


def load_table(e: Emitter, items: dict[Any, Any]) -> None:
    """A plain dict of these entries; keys with a hash of their own are not asked for it again."""
    digests = _digests(items)
    if digests is None:
        e.call(dict_of, lambda: load_keys(e, items), lambda: e.tuple(items.values()))
    else:
        e.call(known_dict, lambda: load_keys(e, items), lambda: e.const(digests), lambda: e.tuple(items.values()))


def load_elements(e: Emitter, items: Any) -> None:
    """The elements of a set, as a tuple or as a set that knew their hashes."""
    digests = _digests(items)
    if digests is None:
        load_keys(e, items)
    else:
        e.call(known_set, lambda: load_keys(e, items), lambda: e.const(digests))


def _digests(keys: Any) -> tuple[int | None, ...] | None:
    """The hashes of keys some of which are not to be asked for theirs; None: whichever the object has, once there
    is one."""
    if not any(type(k) is not ChangingKey for k in of_class(HashedV, keys)):  # those are numbers and texts
        return None
    return tuple(None if getattr(k, "by_id", is_value(k)) else hash(k) for k in keys)


def load_keys(e: Emitter, keys: Any) -> None:
    for key in keys:
        _load_key(e, key)
    e.op("BUILD_TUPLE", len(keys))


def _load_key(e: Emitter, key: Any) -> None:
    if is_value(key):
        e.whole(bare(key))
    else:
        e.const(key)


def load_changes(e: Emitter, log: tuple[tuple[Any, Any], ...]) -> None:
    """What was added to a set or taken out: keys, and how (see `runtime.change_set`)."""
    for key, how in log:
        if isinstance(how, bool):
            _load_key(e, key)
        else:
            for operand in key:
                load_keys(e, operand)
            e.op("BUILD_TUPLE", len(key))
    e.op("BUILD_TUPLE", len(log))
    e.const(tuple(how for _, how in log))
    e.op("BUILD_TUPLE", 2)


def _changed_set(e: Emitter, v: SetV) -> None:
    e.call(set, *([lambda: load_elements(e, v._members)] if v._members else []))
    e.remember(v)
    e.later(lambda: e.call(runtime.change_set, lambda: e.load(v), lambda: load_changes(e, v.parts.log)))


def _set(e: Emitter, v: SetV) -> None:
    if v.parts is not None:
        _changed_set(e, v)
        return
    if v.cls is not set or not v.items:
        _frozen_set(e, v)
        return
    e.call(set)
    e.remember(v)  # before its elements, which may lead back to it
    layout = layout_of(v.items)
    if layout is None:
        e.later(lambda: e.call(set.update, lambda: e.load(v), lambda: load_elements(e, v.items)))
    else:
        e.later(lambda: e.call(lay_out, lambda: e.load(v), lambda: load_elements(e, v.items), lambda: e.const(layout)))


def _frozen_set(e: Emitter, v: SetV) -> None:
    layout = layout_of(v.items, frozenset) if v.cls is frozenset else None
    if layout is None:
        e.call(v.cls, *([lambda: load_elements(e, v.items)] if v.items else []))
    else:
        e.call(frozen_as, lambda: load_elements(e, v.items), lambda: e.const(layout))
    e.remember(v)


def _slice(e: Emitter, v: SliceV) -> None:
    for part in (v.start, v.stop, v.step):
        e.load(part)
    e.op("BUILD_SLICE", 3)
    e.remember(v)


def _cell(e: Emitter, v: CellV) -> None:
    if v.real is not None:
        e.const(v.real)
        return
    e.call(types.CellType)
    e.remember(v)
    if v.content is not None:
        e.later(lambda: e.call(runtime.fill_cell, lambda: e.load(v), lambda: e.load(v.content)))


HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made at run time, by a class statement or a library



def _function(e: Emitter, v: FunctionV) -> None:
    none = Const(None)
    e.call(runtime.function, lambda: e.const(v.code), lambda: load_globals(e, v.globals),
           lambda: e.const((v.name, v.qualname)),
           lambda: e.load(v.defaults or none), lambda: e.load(v.kwdefaults or none), lambda: e.tuple(v.closure),
           lambda: e.tuple(v.attrs.values()), lambda: e.const(tuple(v.attrs)))
    e.remember(v)
    for name, value in v.special.items():
        put = partial(e.call, setattr, partial(e.load, v), partial(e.const, name), partial(e.load, value))
        if is_dict(value) or is_known_literal(value):  # a classmethod copies it
            put()
            e.op("POP_TOP")
        else:
            e.later(put)


def _partial(e: Emitter, v: PartialV) -> None:
    e.call(runtime.partial, lambda: e.load(v.func), lambda: e.tuple(v.args), lambda: e.const(tuple(v.kwargs)),
           lambda: e.tuple(v.kwargs.values()))
    e.remember(v)
    if v.noted is not None and not v.attrs:  # which stays itself within another one from then on
        e.later(lambda: e.call(own_table, lambda: e.load(v)))
    for name, attr in v.attrs.items():
        e.later(partial(e.call, setattr, partial(e.load, v), partial(e.const, name), partial(e.load, attr)))


def _library(e: Emitter, v: LibraryV) -> None:
    if waits_for_effects(e.cap, v) or differs_since(e.cap, v):
        raise Unbuildable(v, "a library's object made of what has changed since")
    if v.entered or v.once:
        raise Unbuildable(v, "a context manager that was entered" if v.entered else "what did more when it was made")
    e.call(runtime.call, lambda: e.const(maker(v)), lambda: e.whole(TupleV(list(v.args))),
           lambda: e.const(tuple(v.kwargs)), lambda: e.whole(TupleV(list(v.kwargs.values()))))
    e.remember(v)


def _traceback(e: Emitter, v: TracebackV) -> None:
    e.frame_kept = True

    def frame() -> None:
        e.begin_call(lambda: e.call(tracebacks.function, lambda: e.const(tracebacks.stand_in(v.code, v.last)),
                                    lambda: load_globals(e, v.globals)))
        e.end_call(0)

    e.call(types.TracebackType, lambda: e.load(v.inner), frame, lambda: e.const(v.offset), lambda: e.const(v.line))
    e.remember(v)


def made(fn: Any, *parts: Callable[[Any], Any]) -> Callable[[Emitter, Any], None]:
    """A row: the object is `fn(*parts)`, each part a Value that is read off the Value."""
    def row(e: Emitter, v: Any) -> None:
        e.call(fn, *e.loads(part(v) for part in parts))
        e.remember(v)
    return row


MADE: dict[type, Callable[[Emitter, Any], None]] = {}  # kind of recipe → how it is followed, see emit_classes.py

for _cls, _emit in (
    (Const, _const), (ArrayV, _array), (NdArrayV, _ndarray), (SizeV, _size), (NumberV, _number), (TupleV, _tuple),
    (RowsV, _rows), (ListV, _list), (DictV, _dict), (SetV, _set), (SliceV, _slice), (CellV, _cell),
    (FunctionV, _function), (PartialV, _partial), (LibraryV, _library), (TracebackV, _traceback),
):
    define(_cls, Kind(emit=_emit))  # type: ignore[arg-type]
define(IdV, Kind(emit=lambda e, v: e.call(id, lambda: e.load(v.obj))))
define(RangeV, Kind(emit=made(range, lambda v: v.start, lambda v: v.stop, lambda v: v.step)))
define(SettingV, Kind(python_type=lambda v: runtime.Leaving, emit=made(runtime.entered, lambda v: v.manager)))
define(MethodV, Kind(emit=made(runtime.method, lambda v: v.func, lambda v: v.obj)))
define(BuiltinMethodV, Kind(emit=made(getattr, lambda v: v.obj, lambda v: Const(v.name))))
define(SuperV, Kind(emit=made(super, lambda v: Const(v.cls), lambda v: v.obj)))
define(ViewV, Kind(emit=made(runtime.view, lambda v: v.table, lambda v: Const(v.kind))))
define(NullV, Kind(emit=lambda e, v: e.op("PUSH_NULL")))
