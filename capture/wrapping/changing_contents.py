"""Containers whose content changes from call to call: after a few entries for one, the graph breaks where it is read
whole.

A guard on the length of a list, or on the keys of a dict, holds for one content. A list of token ids or a table of
what was seen so far has another in each call; what Python makes of it (a number, an array, an item) is compiled for.
Before that, once another content came, only what the program asks for is guarded: whether a key is there, an item,
how many there are, which is a number that changes.

    if word not in table: table[word] = len(table)     # guard: the table has this key (or not); len is an input
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynacomp.capture._native import iterated
from dynacomp.capture.base.errors import Break
from dynacomp.capture.symbolic.guards import Guard
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.questions import is_dict, is_list, is_value
from dynacomp.capture.values.value import Lazy, Value

GUARDS = ("len", "keys", "names", "set")  # the kinds that hold for one content
ATTRIBUTES = (S.DictOf, S.ThreadDict)


@dataclass(frozen=True)
class Content(S.Source):
    """What the container at `base` holds."""

    base: S.Source

    def __repr__(self) -> str:
        return f"content({self.base!r})"


@dataclass(frozen=True)
class Part(S.Source):
    """A question: whether the container at `base` has had another content, so that it is guarded part by part."""

    base: S.Source


def reading(cap: Capture, source: S.Source) -> None:
    """Must be called before the content of a container is guarded whole; Break where it changes too often."""
    if cap.may_break and cap.root.policy.changes_often(Content(source)):
        raise Break("contents", repr(source))


def content_of(origin: Guard | S.Source | None) -> str:
    """The container whose content a guard asks for, in words; "" for other guards. Which attributes an object has, and
    in which order, is no content."""
    if not isinstance(origin, Guard) or origin.kind not in GUARDS or isinstance(origin.source, ATTRIBUTES):
        return ""
    return repr(Content(origin.source)) if origin.source else ""


def in_parts(cap: Capture, source: S.Source | None) -> bool:
    """Whether only what is asked for of this container is to be guarded."""
    return source is not None and cap.root.policy.changes_often(Part(source))


def count(cap: Capture, v: Value) -> tuple[Lazy, int] | None:
    """How many elements a list or dict of which not all is known had, and how many more it has; None for others."""
    if is_list(v) and v.unseen is not None and in_parts(cap, v.source):
        return Lazy(list.__len__(v.real), S.Count(v.source)), len(v.appended)  # type: ignore[arg-type]
    if is_dict(v) and isinstance(v.items, Entries) and not v.items.whole:
        return Lazy(len(v.items.table), S.Count(v.items.source)), v.items.more()
    return None


def item_at(cap: Capture, v: ListV, index: int) -> Value | Lazy | None:
    """`v[index]` of a list of which not all is known; None where it is to be looked at whole."""
    length = list.__len__(v.real)
    if not -len(v.appended) - length <= index < length or not in_parts(cap, v.source):
        return None
    before = index if index >= 0 else index + len(v.appended)
    return v.appended[index] if index < 0 <= before else Lazy(v.real[before], S.Item(v.source, before))  # type: ignore[arg-type]


class Entries(dict[Any, Any]):
    """The `items` of the DictV that stands for the dict `table`, found at `source`, of which only the keys that were
    asked for are guarded, until all are. gone: keys of the table that were taken out, if only for a while."""

    def __init__(self, cap: Any, table: dict[Any, Any], source: S.Source) -> None:
        super().__init__()
        self.cap, self.table, self.source, self.whole = cap, table, source, False
        self.gone: set[Any] = set()

    def look(self) -> None:
        """Called before the table is asked for anything."""

    def all_wanted(self) -> None:
        """Called before all keys are guarded."""
        reading(self.cap, self.source)

    def _fill(self) -> None:
        self.look()
        if self.whole:
            return
        self.all_wanted()
        self.whole = True
        self.cap.guards.add("keys", self.source, tuple(self.table))
        seen = dict(super().items())
        super().clear()
        super().update({k: seen.pop(k) if k in seen else Lazy(x, S.Key(self.source, k))
                        for k, x in self.table.items() if k not in self.gone})
        super().update(seen)

    def known(self) -> Any:
        """The values under keys that were asked for."""
        return super().values()

    def more(self) -> int:
        """How many keys there are now beyond those of the table."""
        return sum(k not in self.table or k in self.gone for k in super().__iter__()) - len(self.gone)

    def taken(self) -> tuple[list[Any], list[Any]]:
        """The keys of the table that go, and those under which something else is stored."""
        return list(self.gone), [k for k, x in super().items() if k in self.gone or x.source is None
                                 or x.source != S.Key(self.source, k)]

    def __contains__(self, key: object) -> bool:
        self.look()
        if self.whole or super().__contains__(key):
            return super().__contains__(key)
        if is_value(key) or key != key:  # whose hash or equality is the program's code; NaN
            self._fill()
            return super().__contains__(key)
        if key in self.gone:
            return False
        if key not in self.table:
            self.cap.guards.add("missing_key", self.source, key)
            return False
        self.cap.guards.add("has_key", self.source, key)
        super().__setitem__(key, Lazy(self.table[key], S.Key(self.source, key)))
        return True

    def __getitem__(self, key: Any) -> Any:
        if key not in self:
            raise KeyError(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__contains__(key)  # whether it is there already decides how many there are
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default

    def pop(self, key: Any, *default: Any) -> Any:
        if key in self and not self.whole and key in self.table:
            self.gone.add(key)
        return super().pop(key, *default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **kwargs: Any) -> None:
        for key, value in dict(*others, **kwargs).items():
            self[key] = value


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
