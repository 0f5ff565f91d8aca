"""Values: what the symbolic machine's stack and variables hold.

One small class per kind of Python object that the machine understands. A Value is compared by
identity, as the object that it stands for; mutable ones (lists, dicts, objects, cells) are changed
in place and `side_effects` replays the changes on the real object. `source` says where an object that
existed before the call can be found; None means that the captured code made it.

Behaviour lives elsewhere, in rows: see `kind`.
"""

from __future__ import annotations

import collections
import functools
import itertools
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from dynacomp.capture.base.hashes import note_order
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.avals import Aval, class_of
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.symbolic.kind import Kind, define, kind
from dynacomp.capture.symbolic.sources import Source

next_serial: Callable[[], int] = itertools.count().__next__


@dataclass(eq=False)
class Value:
    """Base of all Values."""

    source: Source | None = field(default=None, kw_only=True)
    holder: Any = field(default=None, init=False)  # the ObjectV whose payload this is: they are one object
    serial: int = field(default_factory=next_serial, kw_only=True)  # order of birth
    payload = None  # of an ObjectV its built-in part


@dataclass(eq=False)
class Const(Value):
    """A real object: an immutable literal, or one known by identity (function, class, module).

    A function that is made anew for each call is known by its code: see `open_function`."""

    value: Any
    identify: Any = field(default=None, init=False)

    def __getattr__(self, name: str) -> Any:
        """The `value` of an open function: asked for only where it is not in the instance's dictionary."""
        if name != "value" or self.identify is None:
            raise AttributeError(name)
        identify, self.identify, self.value = self.identify, None, self.inside
        identify()
        return self.value


def open_function(fn: Any, source: Source, identify: Callable[[], None]) -> Const:
    """A function known by its code: `identify` guards its identity as soon as something looks at `value`; `peek`
    is for those who only ask what all such functions share."""
    made = Const(fn, source=source)
    made.identify, made.inside = identify, vars(made).pop("value")  # type: ignore[attr-defined]
    return made


def peek(value: Const) -> Any:
    """The object of a Const, without a guard on which one it is."""
    return value.value if value.identify is None else value.inside


def is_const(value: Any) -> TypeGuard[Const]:
    """Whether the object itself is known that a Value stands for."""
    return isinstance(value, Const)


def stands_for(value: Any, obj: Any) -> TypeGuard[Const]:
    """Whether `value` is the constant `obj`: None, NotImplemented."""
    return isinstance(value, Const) and peek(value) is obj


def holds(value: Any, kinds: Any) -> TypeGuard[Const]:
    """Whether `value` is a constant of these classes."""
    return isinstance(value, Const) and isinstance(peek(value), kinds)


def object_of(value: Any) -> Any:
    """The object of a Const; None of other Values."""
    return value.value if isinstance(value, Const) else None


def is_exactly(value: Any, *classes: type) -> TypeGuard[Const]:
    """Whether `value` is a constant of one of these classes, and of no subclass."""
    return isinstance(value, Const) and type(peek(value)) in classes


def is_known_literal(value: Any) -> TypeGuard[Const]:
    """Whether `value` is a constant that is its value: see `is_literal`."""
    return isinstance(value, Const) and is_literal(peek(value))


def is_open(value: Any) -> bool:
    """Whether `value` is a function known by its code alone."""
    return isinstance(value, Const) and value.identify is not None


@dataclass(eq=False)
class ArrayV(Value):
    """An array in the Graph."""

    node: Node
    aval: Aval
    real: Any = None  # the array itself, for an input: its device and sharding are read from here
    attrs: dict[str, Any] | None = None  # what the program has noted on an array that the Graph computes
    origin: Any = None  # where the Graph may have chosen an existing array: a NumberV says which: `array_identity`
    joined: bool = False  # the Graph chose it: it may be any array that the Graph has computed


@dataclass(eq=False)
class NdArrayV(Value):
    """A NumPy array that the captured code has made of constants: see `ndarrays`; or of numbers that change, with a
    recipe then: see `host_arrays`."""

    array: Any  # a real one, the capture's own
    base: Any = None  # the Value of the array whose memory it shows, if it is a view
    recipe: Any = None  # the host expression that makes it in each call; None: its content is the same in all

    @property
    def hint(self) -> Any:  # in this call, as of a number
        return self.array


@dataclass(eq=False)
class SizeV(Value):
    """A symbolic Python int: a `Size` (see `sizes`), and its value in this call."""

    expr: Any
    hint: int


@dataclass(eq=False)
class ScalarV(Value):
    """A Python int, float or bool that changes from call to call; `hint` is this call's value."""

    hint: Any


@dataclass(eq=False)
class NumberV(Value):
    """A Python int, bool or float (`kind`) that the Graph computes: a loop's counter, `float(loss)`.

    `node` is a scalar array of it; ints lie in [low, high]. `steps` = (Node, least, most): how far it is
    from the counter that a loop began its round with, where it is counted from one. `series`: what Python
    makes of it in each round of a loop (see `loop_numbers`). `below`: a size or int that it
    is known to be less than."""

    node: Node
    aval: Aval
    kind: type
    low: int = 0
    high: int = 1
    steps: Any = None
    series: Any = None
    below: Any = None


@dataclass(eq=False)
class OpaqueV(Value):
    """An existing object that may be passed on but not looked into: an iterator, a file."""

    obj: Any


class MutableV(Value):
    """What may exist already and be changed in place: there is one Value for each object, which notes that it has
    changed. (Instances note which attributes were written.)"""

    dirty: bool


class SequenceV(Value):
    """A tuple or a list: `items`, one after the other, of class `cls`."""

    items: Any
    cls: type


@dataclass(eq=False)
class TupleV(SequenceV):
    """A tuple, or an instance of a tuple subclass `cls` (a NamedTuple)."""

    items: list[Any]
    cls: type = tuple
    real: Any = None  # the tuple itself, if it exists already


@dataclass(eq=False)
class ListV(SequenceV, MutableV):
    """A list (or deque: `cls`).

    Of an existing list nothing is known until something looks at `items`: then `unseen()` gives its
    elements, and guards its length. Until then `appended` collects what is put at its end, so that a
    log that grows from call to call needs no new entry. So it is with a new list that a loop has filled: its items
    are behind a `front`, a `grown_items.Front`.
    """

    items: Any
    cls: type = list
    dirty: bool = False
    real: Any = None
    extra: Any = None  # a deque's maxlen
    changes: int = 0  # of a deque: how often it grew or shrank, which its iterators notice
    unseen: Any = None
    appended: list[Any] = field(default_factory=list)
    front: Any = None

    @property
    def is_open(self) -> bool:
        """Whether there are items that nothing has looked at one by one."""
        return self.unseen is not None or self.front is not None


def _list_items(self: Any) -> list[Any]:
    if self.is_open:
        self._items = [*(self.front or self.unseen)(), *self.appended]
        self.unseen, self.front, self.appended = None, None, []
    return self._items


ListV.items = property(_list_items, lambda self, items: setattr(self, "_items", items))  # type: ignore[assignment]


@dataclass(eq=False)
class DictV(MutableV):
    """A dict or a known subclass `cls`; keys are constants (`hashable` Python values)."""

    items: dict[Any, Any]
    cls: type = dict
    dirty: bool = False
    real: Any = None
    factory: Any = None  # a defaultdict's default_factory, a Value
    owner: Any = None  # the ObjectV whose `__dict__` this is (`items` is its `attrs`), or PartialV whose `keywords`
    shows: Any = None  # the DictV behind a mappingproxy that the captured code has made: `items` is its
    lost: bool = False  # an entry has gone; one that came back stands where iterators will find it again


@dataclass(eq=False)
class SetV(MutableV):
    """A set or frozenset. `items` is a real set, so that its order is the one that a loop sees; who does not ask for
    the order reads `members`, which is the same."""

    items: set[Any]
    cls: type = set
    dirty: bool = False
    real: Any = None
    members: Any = field(init=False, repr=False)


def _in_order(self: Any) -> Any:
    note_order(self.members)
    return self.members


SetV.items = property(_in_order, lambda self, items: setattr(self, "members", items))  # type: ignore[assignment]


@dataclass(eq=False)
class ViewV(Value):
    """`table.keys()`, `.values()` or `.items()` (`kind`): what it shows is always the dict's now."""

    table: DictV
    kind: str


@dataclass(eq=False)
class SliceV(Value):
    start: Value
    stop: Value
    step: Value


@dataclass(eq=False)
class RangeV(Value):
    """A range with at least one symbolic end; constant ranges are Consts. `real`: the object itself, if it exists."""

    start: Value
    stop: Value
    step: Value
    real: Any = None


@dataclass(eq=False)
class ObjectV(Value):
    """An instance of a class with a `__dict__` or `__slots__`.

    `attrs` overlays the real object's attributes (DELETED for removed ones); for an object that
    the captured code made (`real` is None, or a template built by a library: `fresh`), it is all
    there is. `payload` is the built-in part of an instance of a subclass of list, dict, int, ... (see
    `builtin_subclasses`): a Value of the built-in class itself, on which inherited methods act.
    """

    cls: type
    real: Any = None
    attrs: dict[str, Any] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)  # deleted and set again: they come last in its dict
    payload: Any = None
    unread: Any = None  # gives an existing object its payload when something first asks for it
    ctor: tuple[Value, ...] = ()  # arguments that `cls.__new__` was given (exceptions, ...)
    view: Any = None  # the DictV that stands for its `__dict__`, once the program has asked for it
    initialising: bool = False  # an Equinox module whose fields may be set, see `equinox_modules`


def _payload(self: Any) -> Any:
    if self.unread is not None:
        read, self.unread = self.unread, None
        self._payload = read(self)
    return self._payload


ObjectV.payload = property(_payload, lambda self, payload: setattr(self, "_payload", payload))  # type: ignore[assignment]


@dataclass(eq=False)
class CellV(MutableV):
    """A closure cell; `content` is None while it is empty."""

    content: Any = None
    real: Any = None
    dirty: bool = False


@dataclass(eq=False)
class FunctionV(Value):
    """A function that the captured code made (`def`, `lambda`, comprehension)."""

    code: types.CodeType
    globals: dict[str, Any]
    name: str
    qualname: str
    defaults: TupleV | None = None
    kwdefaults: DictV | None = None
    closure: tuple[CellV, ...] = ()
    special: dict[str, Any] = field(default_factory=dict)  # `__doc__` and the like, once somebody set them
    attrs: dict[str, Any] = field(default_factory=dict)
    cells: TupleV | None = None  # its `__closure__`, once somebody asks


@dataclass(eq=False)
class BoundV(Value):
    """A callable that is bound to something. real: the object itself, if it exists already."""

    real: Any = field(default=None, init=False)


@dataclass(eq=False)
class MethodV(BoundV):
    """A callable bound to `obj`; `name` is set for methods of built-in types."""

    func: Value
    obj: Value


@dataclass(eq=False)
class BuiltinMethodV(BoundV):
    """`obj.name` of a value that the machine models itself: a list's `append`, an array's `sum`."""

    obj: Value
    name: str


@dataclass(eq=False)
class SuperV(Value):
    cls: type
    obj: Value


@dataclass(eq=False)
class PartialV(BoundV):
    """`functools.partial` made by the captured code."""

    func: Value
    args: list[Value]
    kwargs: dict[str, Value]
    attrs: dict[str, Any] = field(default_factory=dict)
    table: Any = field(default=None, init=False)  # the DictV of its `keywords`, once the program has asked for them


@dataclass(eq=False)
class LibraryV(Value):
    """A library's non-array object computed from arrays: `x.at`, `x.at[i]`, `jax.grad(f)`, ...

    `make(*args, **kwargs)` rebuilds it, in a node, in bytecode or under a trace; `real` is a
    sample instance (with tracers or stand-ins inside) for reading its type, or None.
    """

    make: Any
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = field(default_factory=dict)
    real: Any = None
    fixed: bool = False  # made of constants alone: `real` is what the program would have
    node: Any = None  # what holds it where a transformation has passed it to a body
    lowered: dict[Any, Any] = field(default_factory=dict)  # body -> its form there as a node argument, once asked for
    entered: bool = False  # a context manager whose `__enter__` the program has called, without a `with` statement
    fields: dict[str, Value] = field(default_factory=dict)  # a named tuple: what was read of it, one object each time
    shell: Any = None  # a named tuple: one of its fields, once it was taken apart as a tree


@dataclass(frozen=True, eq=False)
class Lazy:
    """A container's element that nothing has looked at: no guard yet."""

    obj: Any
    source: Source


class _Deleted:
    def __repr__(self) -> str:
        return "DELETED"


DELETED = _Deleted()


class NotConstant(Exception):
    """A Value holds an array or something that only exists when the code runs."""

    def __str__(self) -> str:
        return type(self.args[0]).__name__.removesuffix("V").lower() if self.args else ""


class NeedsConcrete(Exception):
    """A changing Python number is needed as a constant: capture starts over with it fixed."""

    def __init__(self, value: ScalarV) -> None:
        super().__init__(value)
        self.value = value


def as_python(value: Any) -> Any:
    """The Python object that a constant Value stands for; raises NotConstant if there is none.

    Lists, dicts and sets come back as new objects: use it only where identity does not matter.
    """
    constant = kind(value).constant
    if constant is None:
        raise NotConstant(value)
    return constant(value)


def _tuple_as_python(v: TupleV) -> Any:
    items = [as_python(i) for i in v.items]
    if v.cls is tuple and type(v.real) is tuple and is_literal(v.real):
        return v.real  # a key of a dict that is made with it is this very tuple
    return tuple(items) if v.cls is tuple else v.cls(*items)


def _scalar(v: ScalarV) -> Any:
    raise NeedsConcrete(v)


def _library(v: LibraryV) -> Any:
    if not v.fixed:
        raise NotConstant(v)
    return v.real


def _dict_as_python(v: DictV) -> Any:
    if v.cls is not dict or any(of_class(Value, v.items)):
        raise NotConstant(v)
    return {k: as_python(x) for k, x in v.items.items()}


def _set_as_python(v: SetV) -> Any:
    if any(of_class(Value, v.items)):
        raise NotConstant(v)
    return v.items if isinstance(v.items, v.cls) else v.cls(v.items)  # a copy may have another order


def existing(value: Any) -> Any:
    """The object that `value` stands for, where it was there before the captured code; else None."""
    return kind(value).existing(value)  # type: ignore[misc]


def now(value: Any) -> Any:
    """What a constant, or a number or string that changes, is in this call; None for other Values."""
    row = kind(value).now
    return None if row is None else row(value)


def is_changing(value: Any) -> bool:
    """Whether `value` is a number or string of Python's that another call may have otherwise."""
    return kind(value).changes is True


def node_of(value: Any) -> Node | None:
    """The Node of the Graph that computes `value`, an array or a number; None of other Values."""
    row = kind(value).node
    return None if row is None else row(value)


def children(value: Any) -> Iterable[Any]:
    """What a tuple, list, dict or slice holds (nothing has looked at `Lazy` ones yet); none of other Values."""
    row = kind(value).children
    return () if row is None else row(value)


def row_kind(value: Value) -> type:
    """The key of `value` in tables of methods and operators: its class here, for a deque its class there."""
    return value.cls if type(value) is ListV and value.cls is not list else type(value)


def is_constant(value: Any) -> bool:
    try:
        as_python(value)
    except NotConstant:
        return False
    return True


def type_of(value: Value) -> type:
    """`type(value)` as the program would see it; NotConstant for values without a Python face."""
    python_type = kind(value).python_type
    if python_type is None:
        raise NotConstant(value)
    return python_type(value)


def _real_type(v: Any) -> type:
    if getattr(v, "real", None) is None:
        raise NotConstant(v)
    return type(v.real)


def _method_type(v: MethodV) -> type:
    return BOUND.get(type(peek(v.func) if is_const(v.func) else None), types.MethodType)


def _builtin_method_type(v: BuiltinMethodV) -> type:
    bases = () if isinstance(v.obj, LibraryV) else type_of(v.obj).__mro__
    bound = next((vars(base)[v.name] for base in bases if v.name in vars(base)), None)
    return BOUND.get(type(bound), types.BuiltinMethodType)


# What a descriptor in a class gives for an instance.
BOUND: dict[type, type] = {types.WrapperDescriptorType: types.MethodWrapperType,
                           types.MethodDescriptorType: types.BuiltinMethodType, types.FunctionType: types.MethodType}
VIEW_TYPES: dict[tuple[bool, str], type] = {
    (table is not dict, kind): type(getattr(table(), kind)())
    for table in (dict, collections.OrderedDict) for kind in ("keys", "values", "items")}


def _defined() -> None:
    """What each kind is."""
    define(Lazy, Kind(existing=lambda v: v.obj))
    define(Value, Kind(python_type=_real_type, existing=lambda v: getattr(v, "real", None)))
    define(Const, Kind(python_type=lambda v: type(peek(v)), constant=lambda v: v.value, existing=peek, now=peek))
    define(SequenceV, Kind(children=lambda v: v.items, rebuild=lambda v, parts: v.cls(parts)))
    define(DictV, Kind(children=lambda v: getattr(v.items, "known", v.items.values)()))
    define(SizeV, Kind(now=lambda v: v.hint, changes=True))
    for cls, constant in ((TupleV, _tuple_as_python), (DictV, _dict_as_python), (SetV, _set_as_python),
                          (ListV, lambda v: v.cls(as_python(i) for i in v.items)), (ObjectV, None)):
        define(cls, Kind(python_type=lambda v: v.cls, constant=constant))
    define(ObjectV, Kind(own_class=lambda v: v.cls))
    for face, made in ((int, SizeV), (range, RangeV), (types.CellType, CellV), (super, SuperV),
                       (types.FunctionType, FunctionV), (functools.partial, PartialV)):
        define(made, Kind(python_type=functools.partial(_always, face)))
    define(SliceV, Kind(python_type=lambda v: slice, constant=lambda v: slice(*map(as_python, children(v))),
                        children=lambda v: (v.start, v.stop, v.step), rebuild=lambda v, parts: slice(*parts)))
    define(ViewV, Kind(python_type=lambda v: VIEW_TYPES[v.table.cls is collections.OrderedDict, v.kind]))
    define(ArrayV, Kind(node=lambda v: v.node,
                        python_type=lambda v: class_of(v.aval) if v.real is None else type(v.real)))
    define(NdArrayV, Kind(python_type=lambda v: type(v.array)))
    define(ScalarV, Kind(python_type=lambda v: type(v.hint), constant=_scalar, now=lambda v: v.hint, changes=True))
    define(NumberV, Kind(python_type=lambda v: v.kind, node=lambda v: v.node))
    define(OpaqueV, Kind(python_type=lambda v: type(v.obj), existing=lambda v: v.obj))
    define(LibraryV, Kind(constant=_library))
    define(MethodV, Kind(python_type=_method_type))
    define(BuiltinMethodV, Kind(python_type=_builtin_method_type))


def _always(face: type, value: Value) -> type:
    return face


_defined()
