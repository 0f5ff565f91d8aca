"""Dicts that the code was given, of which only what is asked for is guarded: whether a key is there, an item, how many
there are (see `changing_contents`).

    if word not in table: table[word] = len(table)     # guard: the table has this key (or not); len is an input
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dynacomp.capture._native import iterated
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.graph.avals import ARRAY_TYPE
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.questions import is_dict, is_list, is_set, is_value
from dynacomp.capture.values.value import Lazy, Value
from dynacomp.capture.wrapping.builder import is_plain_instance
from dynacomp.capture.wrapping.builtin_subclasses import own_iter
from dynacomp.capture.wrapping.changing_contents import in_parts, reading
from dynacomp.capture.wrapping.keyed_tables import ChangingKey, Keyed, as_constant

ITEMS = (ARRAY_TYPE, int, float, bool, complex, str, dict, list, tuple)
FIRST = (int, str, bytes)  # keys that change of which guards say the type
MISSING = object()


def entry_of(table: dict[Any, Any], key: Any) -> Any:
    """What is there: a `__missing__` would make it, and put it there."""
    found = dict.get(table, key, MISSING)
    if found is MISSING:
        raise KeyError(key)
    return found


def first_of(table: dict[Any, Any]) -> Any:
    """The key that stands first."""
    for key in own_iter(table):
        return key
    raise KeyError("no key")


def entries_in_order(table: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """In the order that the dict shows: an OrderedDict has one of its own."""
    return [(key, dict.__getitem__(table, key)) for key in own_iter(table)]


def held_as(key: Any, keys: Iterable[Any]) -> Any:
    """The constant among the keys of a table that equals this one: `True` where it was stored under that, and 1 is
    asked for."""
    return next((k for k in keys if is_literal(k) and k == key), key) if is_literal(key) else key


def is_found_anywhere(obj: Any) -> bool:
    """Whether guards ask of an item under a key that changes what they would ask of any argument."""
    return obj is None or type(obj) in ITEMS or is_plain_instance(obj)


def count(cap: Capture, v: Value) -> tuple[Lazy, int] | None:
    """How many elements a list or dict of which not all is known had, and how many more it has; None for others."""
    if is_list(v) and v.unseen is not None and in_parts(cap, v.source):
        return Lazy(list.__len__(v.real), S.Count(v.source)), len(v.appended)  # type: ignore[arg-type]
    if is_dict(v) and isinstance(v.items, Entries) and not v.items.whole:
        return Lazy(dict.__len__(v.items.table), S.Count(v.items.source)), v.items.more()
    if is_set(v) and v.unread is not None and in_parts(cap, v.source):
        return Lazy(len(v.real), S.Count(v.source)), 0  # type: ignore[arg-type]
    return None


class Entries(Keyed):
    """The `items` of the DictV that stands for the dict `table`, found at `source`, of which only the keys that were
    asked for are guarded, until all are. gone: keys of the table that were taken out, if only for a while; moved: those
    that were put at its end; there: its ChangingKeys that the table has."""

    def __init__(self, cap: Any, table: dict[Any, Any], source: S.Source) -> None:
        super().__init__(cap)
        self.table, self.source, self.whole = table, source, False
        self.gone: list[Any] = []
        self.moved: list[Any] = []
        self.there: list[ChangingKey] = []

    def look(self) -> None:
        """Called before the table is asked for anything."""

    def all_wanted(self) -> None:
        """Called before all keys are guarded."""
        reading(self.cap, self.source)

    def _fill(self) -> None:
        self.look()
        if self.whole:
            return
        self.settle()
        self.all_wanted()
        self.whole = True
        self.cap.guards.add("keys", self.source, tuple(own_iter(self.table)))
        seen = dict(dict.items(self))
        dict.clear(self)
        dict.update(self, {k: seen.pop(k) if k in seen else Lazy(x, S.Key(self.source, k))
                           for k, x in entries_in_order(self.table) if k not in self.gone and k not in self.moved})
        dict.update(self, seen)

    def settle(self) -> None:
        super().settle()
        self.gone, self.moved = [as_constant(k) for k in self.gone], [as_constant(k) for k in self.moved]
        self.there.clear()

    def known(self) -> Any:
        """The values under keys that were asked for."""
        return dict.values(self)

    def known_keys(self) -> list[Any]:
        return [*dict.__iter__(self), *self.gone]

    def more(self) -> int:
        """How many keys there are now beyond those of the table."""
        return sum(k in self.gone or not self._was_there(k) for k in dict.__iter__(self)) - len(self.gone)

    def _was_there(self, key: Any) -> bool:
        return key in self.there if type(key) is ChangingKey else dict.__contains__(self.table, key)

    def _given(self, key: Any) -> S.Source:
        """Where the item under a key is, while nothing is stored there."""
        if type(key) is ChangingKey:
            return S.At("at", (self.source, key.asked.source), entry_of)
        return S.Key(self.source, key)

    def taken(self) -> tuple[list[Any], list[tuple[Any, Any]], list[Any]]:
        """The keys of the table that go, the entries that are stored, and which keys of those go to its end."""
        return list(self.gone), [(k, x) for k, x in dict.items(self) if k in self.gone or k in self.moved
                                 or x.source is None or x.source != self._given(k)], list(self.moved)

    def first(self) -> Lazy | None:
        """The key that stands first, which is another in each call; None where that is to be looked at whole."""
        key = next(own_iter(self.table), None)
        if self.whole or self.gone or self.moved or type(key) not in FIRST:
            return None
        return Lazy(key, S.At("first", (self.source,), first_of))

    def move(self, key: Any) -> None:
        """Puts a key that is there at the end, as `OrderedDict.move_to_end` does."""
        asked = self.place(key)
        given = asked not in self.gone and self._was_there(asked)
        own = held_as(asked, own_iter(self.table) if given else dict.__iter__(self))
        if given and own not in self.moved:
            self.moved.append(own)
        item = super().pop(asked)
        with self.own(own):
            dict.__setitem__(self, own, item)

    def _place_changing(self, key: ChangingKey) -> Any:
        """Of some items guards tell only under one key what they are: that is a constant."""
        own = super()._place_changing(key)
        if own is not key or self.whole or is_found_anywhere(dict.get(self.table, key.asked.hint)):
            return own
        return self.place(key.constant())

    def __contains__(self, key: object) -> bool:
        self.look()
        own = self.place(key)
        if self.whole or super().__contains__(own):
            return super().__contains__(own)
        if type(own) is ChangingKey:
            return own not in self.gone and self._find(own)
        if is_value(key) or key != key:  # whose hash or equality is the program's code; NaN
            self._fill()
            return super().__contains__(key)
        if own in self.gone:
            return False
        if not dict.__contains__(self.table, own):
            self.cap.guards.add("missing_key", self.source, own)
            return False
        self.cap.guards.add("has_key", self.source, own)
        dict.__setitem__(self, own, Lazy(dict.__getitem__(self.table, own), S.Key(self.source, own)))
        return True

    def _find(self, key: ChangingKey) -> bool:
        """Whether the table has a key that changes."""
        if not self.ask("contains", dict.__contains__, ScalarV(self.table, source=self.source), key.asked):
            return False
        self.there.append(key)
        with self.own(key):
            dict.__setitem__(self, key, Lazy(dict.__getitem__(self.table, key.asked.hint), self._given(key)))
        return True

    def __getitem__(self, key: Any) -> Any:
        if key not in self:
            raise KeyError(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__contains__(key)  # whether it is there already decides how many there are
        super().__setitem__(key, value)

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def pop(self, key: Any, *default: Any) -> Any:
        if key not in self:
            return dict.pop(self, None, *default)
        own = self.place(key)
        if not self.whole and own not in self.gone and self._was_there(own):
            self.gone.append(own)
        if own in self.moved:
            self.moved.remove(own)
        found = super().pop(own)
        if type(own) is ChangingKey:  # with which other keys are compared as before
            self.changing.append(own)
        return found


def _whole(name: str) -> Callable[..., Any]:
    """A method of dict that needs all keys."""
    def method(self: Entries, *args: Any) -> Any:
        self._fill()
        return getattr(dict, name)(self, *args)
    return method


for _name in ("__len__", "__iter__", "__reversed__", "__eq__", "__or__", "__ror__", "keys", "values", "items",
              "popitem", "clear", "copy"):
    setattr(Entries, _name, _whole(_name))


class ClassEntries(Entries):
    """The `items` of the DictV for `cls.__dict__` and `vars(cls)`: what a class has of its own, guarded name by name.

        "forward" in base.__dict__                     # guard: the class has this very `forward`, or none
        [k for k in vars(cls) if k[0] != "_"]          # guard: these are the class's names, in this order

    A class gains names while the program runs (caches, registries), so that only code which goes through all of them
    depends on all of them.
    """

    def look(self) -> None:
        if any(iterated(vars(cls)) is self.table for cls, _ in self.cap.effects.classes.values()):
            raise Break("store", "the __dict__ of a class whose attributes the captured code has changed")

    def all_wanted(self) -> None:
        """Classes change rarely, and Python could not tell either."""
