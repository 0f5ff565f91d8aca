"""Dicts with keys that change from call to call: their entries, as Values have them.

    log[f"loss_{epoch}"] = loss     # another key in each call, and the same entry serves all
    counts[k] = counts[k] + 1       # guard: the table that the call was given has such a key (or has none)

A key that changes is a `ChangingKey`. What stands under it depends on which other key of the table it equals, if any:
that is asked once, and the answer is guarded. So the keys of a `Keyed` table are known to differ. Whoever hashes such
a key without asking a table gets it as a constant, which then is all that the entry serves.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, KeysView
from typing import Any

from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.numbers import dynamic_scalars
from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.standing import HashedV
from dynacomp.capture.values.value import Value

MOST = 8  # changing keys in a table: each is compared with all others
MOST_KNOWN = 256  # keys with which one is compared


class ChangingKey(HashedV):
    """A number, a text or a tuple of such that is a key and changes: `asked` is its number, `constant` gives the key as
    this call has it, and guards that."""

    def __init__(self, value: Value, asked: ScalarV, constant: Callable[[], Any]) -> None:
        super().__init__(value, 0, operator.is_, by_id=True)
        self.asked, self.constant = asked, constant
        self.at_home = False  # whether a table asks that compares by itself
        self.fixed: Any = None  # the key as a constant, in a tuple, where somebody else asked

    def __hash__(self) -> int:
        if self.at_home:
            return object.__hash__(self)
        self.fixed = (self.constant(),)
        return hash(self.fixed[0])

    def __eq__(self, other: object) -> bool:
        if self is other or self.at_home or self.fixed is None:
            return self is other
        return bool(self.fixed[0] == (other.constant() if isinstance(other, ChangingKey) else other))


class Keyed(dict[Any, Any]):
    """The `items` of a DictV whose keys all differ in each call that the entry serves. changing: its ChangingKeys."""

    def __init__(self, cap: Any, items: Any = ()) -> None:
        super().__init__(items)
        self.cap = cap
        self.changing: list[ChangingKey] = []

    def place(self, key: Any) -> Any:
        """The key of this table that equals `key`; if none does, `key` itself."""
        if type(key) is ChangingKey:
            return self._place_changing(key)
        if self.changing and not is_literal(key):  # whose hash or equality is the program's code
            self.settle()
        return next((own for own in self.changing if self._equal(own, key)), key)

    def _place_changing(self, key: ChangingKey) -> Any:
        own = next((own for own in self.changing if own is key or own.asked.source == key.asked.source), None)
        if own is not None:
            return own
        known = tuple(k for k in self.known_keys() if type(k) is not ChangingKey)
        if len(self.changing) >= MOST or len(known) > MOST_KNOWN or not all(map(is_literal, known)):
            self.settle()
            return self.place(key.constant())
        own = next((own for own in self.changing if self._equal(own, key)), None)
        if own is None and known and self.ask("contains", operator.contains, Const(known), key.asked):
            own = next(k for k in known if k == key.asked.hint)
            self._are_equal(key.asked, Const(own))
        return key if own is None else own

    def known_keys(self) -> list[Any]:
        """The keys with which a changing one is compared."""
        return list(dict.__iter__(self))

    def ask(self, name: str, fn: Any, *args: Any) -> bool:
        """A question about changing keys, whose answer is guarded."""
        return dynamic_scalars.decided(self.cap, dynamic_scalars.host(name, fn, *args))  # type: ignore[arg-type]

    def _equal(self, own: ChangingKey, key: Any) -> bool:
        other = key.asked if type(key) is ChangingKey else Const(key)
        one, two = own.asked.hint, other.hint if type(key) is ChangingKey else key
        alike = type(one) is type(two) or all(type(x) in NUMBERS for x in (one, two))
        return alike and self._are_equal(own.asked, other)

    def _are_equal(self, one: Any, two: Any) -> bool:
        plain = type(one.hint) is not tuple  # of numbers and text, which guards compare without a call
        return self.ask("eq" if plain else "equal", operator.eq, one, two)

    def settle(self) -> None:
        """Makes constants of all keys: the entry serves these."""
        if not self.changing:
            return
        found = [(as_constant(k), x) for k, x in dict.items(self)]
        dict.clear(self)
        self.changing.clear()
        dict.update(self, found)

    @contextlib.contextmanager
    def _home(self, key: Any) -> Iterator[Any]:
        """`key` as it stands in this table, which may be hashed meanwhile."""
        own = self.place(key)
        if type(own) is not ChangingKey:
            yield own
            return
        own.at_home = True
        try:
            yield own
        finally:
            own.at_home = False

    def __iter__(self) -> Iterator[Any]:  # whoever copies it hashes its keys
        return super().__iter__()

    def __contains__(self, key: object) -> bool:
        with self._home(key) as own:
            return super().__contains__(own)

    def __getitem__(self, key: Any) -> Any:
        with self._home(key) as own:
            return super().__getitem__(own)

    def __setitem__(self, key: Any, value: Any) -> None:
        with self._home(key) as own:
            if type(own) is ChangingKey and not super().__contains__(own):
                self.changing.append(own)
            super().__setitem__(own, value)

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def __copy__(self) -> dict[Any, Any]:
        made = Keyed(self.cap)
        for key, item in dict.items(self):
            with made.own(key):
                dict.__setitem__(made, key, item)
        return made

    copy = __copy__  # type: ignore[assignment]

    @contextlib.contextmanager
    def own(self, key: Any) -> Iterator[None]:
        """A key that is known to be another than all others here may be put in meanwhile."""
        if type(key) is not ChangingKey:
            yield
            return
        self.changing.append(key)
        key.at_home = True
        try:
            yield
        finally:
            key.at_home = False

    def keys(self) -> Any:
        return KeysView(self)

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default

    def pop(self, key: Any, *default: Any) -> Any:
        with self._home(key) as own:
            if type(own) is ChangingKey and super().__contains__(own):
                self.changing.remove(own)
            return super().pop(own, *default)

    def popitem(self) -> tuple[Any, Any]:
        key, item = super().popitem()
        self.changing = [own for own in self.changing if own is not key]
        return key, item

    def clear(self) -> None:
        super().clear()
        self.changing.clear()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **kwargs: Any) -> None:
        for other in others:
            for key, value in other.items() if isinstance(other, dict) else other:
                self[key] = value
        for key, value in kwargs.items():
            self[key] = value


NUMBERS = (int, bool, float, complex)


def as_constant(key: Any) -> Any:
    """A key as others than tables of Values may have it: the entry serves this one then."""
    return key.constant() if type(key) is ChangingKey else key


def settled(items: dict[Any, Any]) -> dict[Any, Any]:
    """The entries of a DictV for who makes something else of its keys."""
    if isinstance(items, Keyed):
        items.settle()
    return items
