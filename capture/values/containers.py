"""Values of containers: tuples, lists, dicts, sets, the views of dicts, slices and ranges.

Their items are Values (`Lazy` where nothing has looked at one yet); keys are what Python hashes.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dynacomp.capture._native import lay_out, set_layout
from dynacomp.capture.base.hashes import note_order
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.value import MutableV, NotConstant, Value, as_python, children


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
    of_row: bool = False  # it is an item of a given list: there is one, which the rows of the list do not know


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
class RowsV(TupleV):
    """A new tuple whose items are rows of arrays, behind a `front` until something looks at one by one of them."""

    front: Any = None
    unseen: ClassVar[Any] = None
    appended: ClassVar[tuple[Any, ...]] = ()

    @property
    def is_open(self) -> bool:
        """Whether nothing has."""
        return self.front is not None


def _row_items(self: Any) -> list[Any]:
    if self.is_open:
        self._items, self.front = list(self.front()), None
    return self._items

RowsV.items = property(_row_items, lambda self, items: setattr(self, "_items", items))  # type: ignore[assignment]


@dataclass(eq=False)
class DictV(MutableV):
    """A dict or a known subclass `cls`; keys are constants (`hashable` Python values)."""

    items: dict[Any, Any]
    cls: type = dict
    dirty: bool = False
    real: Any = None
    factory: Any = None  # a defaultdict's default_factory, a Value
    owner: Any = None  # the ObjectV or FunctionV whose `__dict__` this is, PartialV whose `keywords`: `items` is its
    shows: Any = None  # the DictV behind a mappingproxy that the captured code has made: `items` is its
    is_shown: bool = False  # a mappingproxy has its `items`
    lost: bool = False  # an entry has gone; one that came back stands where iterators will find it again
    of_row: bool = False  # it is an item of a given list, as in a TupleV: only to be read


@dataclass(eq=False)
class SetV(MutableV):
    """A set or frozenset. `items` is a real set, so that its order is the one that a loop sees; who does not ask for
    the order reads `members`, which is the same. Of an existing set nothing is guarded before that."""

    items: set[Any]
    cls: type = set
    dirty: bool = False
    real: Any = None
    is_own: Callable[[], bool] | None = None  # whether a library that promises steadiness has made it, and runs now
    unread: Callable[[], None] | None = None  # guards what an existing set holds
    unlaid: Callable[[], None] | None = None  # guards how it is laid out, which orders what is added to it
    parts: Any = None  # what is known of one of which not all is, and its changes: `Members` of `partial_sets`
    log: Any = ()  # what was added to an existing set and taken out, in that order; None where more was done to it
    _members: Any = field(init=False, repr=False)

    @property
    def members(self) -> Any:
        """The elements, guarded."""
        if self.unread is not None:
            self.unread()
            self.unread = None
        if self.parts is not None:
            parts, self.parts = self.parts, None
            self._members, self.log = parts.applied(self._members), parts.constants()
            if self.dirty and self._members is self.real:
                self._members = as_grown(self.real)
        return self._members


def as_grown(real: Any) -> set[Any]:
    """A copy that takes new elements as `real` does: one by set() has room of its own, another order then."""
    return lay_out(set(), tuple(iter(real)), set_layout(real))


def layout_of(elements: Any, cls: type = set) -> bytes | None:
    """How a set of constants is laid out; None where one that takes them one after the other is laid out so, too."""
    exact = type(elements) is cls
    if not exact or not all(map(is_literal, elements)):
        return None
    layout, anew = set_layout(elements), set(iter(elements))
    return None if set_layout(anew) == layout and [*anew] == [*elements] else layout


def laid_out(v: SetV) -> Any:
    """The elements, guarded with where each stands."""
    unlaid, v.unlaid = v.unlaid, None
    if unlaid is not None:
        unlaid()
    return v.items


def _in_order(self: Any) -> Any:
    if self.dirty and self.unlaid is not None:
        return laid_out(self)
    if self.is_own is None or not self.is_own():
        note_order(self.members)
    return self.members

SetV.items = property(_in_order, lambda self, items: setattr(self, "_members", items))  # type: ignore[assignment]


@dataclass(eq=False)
class ViewV(Value):
    """`table.keys()`, `.values()` or `.items()` (`kind`): what it shows is always the dict's now."""

    table: DictV
    kind: str

VIEW_TYPES: dict[tuple[bool, str], type] = {
    (table is not dict, kind): type(getattr(table(), kind)())
    for table in (dict, collections.OrderedDict) for kind in ("keys", "values", "items")}


@dataclass(eq=False)
class SliceV(Value):
    """A slice. `real`: the object itself, if it exists."""

    start: Value
    stop: Value
    step: Value
    real: Any = None


@dataclass(eq=False)
class RangeV(Value):
    """A range with at least one symbolic end; constant ranges are Consts. `real`: the object itself, if it exists."""

    start: Value
    stop: Value
    step: Value
    real: Any = None


def row_kind(value: Value) -> type:
    """The key of `value` in tables of methods and operators: its class here, for a deque its class there; a tuple of
    rows is a tuple."""
    if isinstance(value, TupleV):
        return TupleV
    return value.cls if type(value) is ListV and value.cls is not list else type(value)


def _tuple_as_python(v: TupleV) -> Any:
    items = [as_python(i) for i in v.items]
    if v.cls is tuple and type(v.real) is tuple and is_literal(v.real):
        return v.real  # a key of a dict that is made with it is this very tuple
    return tuple(items) if v.cls is tuple else v.cls(*items)


def _dict_as_python(v: DictV) -> Any:
    if v.cls is not dict or any(of_class(Value, v.items)):
        raise NotConstant(v)
    return {k: as_python(x) for k, x in v.items.items()}


def _set_as_python(v: SetV) -> Any:
    if v.parts is not None or any(of_class(Value, v.items)):
        raise NotConstant(v)
    return v.items if isinstance(v.items, v.cls) else v.cls(v.items)  # a copy may have another order


define(SequenceV, Kind(python_type=lambda v: v.cls, children=lambda v: v.items,
                       rebuild=lambda v, parts: v.cls(parts)))
define(TupleV, Kind(constant=_tuple_as_python))
define(ListV, Kind(constant=lambda v: v.cls(as_python(i) for i in v.items)))
define(DictV, Kind(python_type=lambda v: v.cls, constant=_dict_as_python,
                   children=lambda v: getattr(v.items, "known", v.items.values)()))
define(SetV, Kind(python_type=lambda v: v.cls, constant=_set_as_python))
define(ViewV, Kind(python_type=lambda v: VIEW_TYPES[v.table.cls is collections.OrderedDict, v.kind]))
define(SliceV, Kind(python_type=lambda v: slice, constant=lambda v: slice(*map(as_python, children(v))),
                    children=lambda v: (v.start, v.stop, v.step), rebuild=lambda v, parts: slice(*parts)))
define(RangeV, Kind(python_type=lambda v: range))
