"""`cls.__dict__` and `vars(cls)`: what a class has of its own, guarded name by name.

    "forward" in base.__dict__                     # guard: the class has this very `forward`, or none
    [k for k in vars(cls) if k[0] != "_"]          # guard: these are the class's names, in this order

A class gains names while the program runs (caches, registries), so that only code which goes through all of them
depends on all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynacomp.capture._native import iterated
from dynacomp.capture.base.errors import Break
from dynacomp.capture.symbolic import sources as S
from dynacomp.capture.symbolic.values import Lazy


class Entries(dict[str, Any]):
    """The `items` of the DictV that stands for the class dictionary `table`, found at `source`. `wrap` makes the Value
    of an entry."""

    def __init__(self, cap: Any, table: dict[str, Any], source: S.Source, wrap: Callable[..., Any]) -> None:
        super().__init__()
        self.cap, self.table, self.source, self.wrap, self.whole = cap, table, source, wrap, False

    def _look(self) -> None:
        if any(iterated(vars(cls)) is self.table for cls, _ in self.cap.effects.classes.values()):
            raise Break("store", "the __dict__ of a class whose attributes the captured code has changed")

    def _fill(self) -> None:
        self._look()
        if not self.whole:
            self.whole = True
            self.cap.guards.add("keys", self.source, tuple(self.table))
            seen = dict(super().items())
            super().clear()
            super().update({k: seen.get(k) or Lazy(x, S.Key(self.source, k)) for k, x in self.table.items()})

    def __contains__(self, name: object) -> bool:
        self._look()
        if self.whole or super().__contains__(name):
            return super().__contains__(name)
        if name not in self.table:
            self.cap.guards.add("missing_key", self.source, name)
            return False
        self[name] = self.wrap(self.cap, self.table[name], S.Key(self.source, name))  # type: ignore[index]
        return True

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:  # type: ignore[override]
        return self[name] if name in self else default

    def __len__(self) -> int:
        self._fill()
        return super().__len__()

    def __iter__(self) -> Any:
        self._fill()
        return super().__iter__()

    def keys(self) -> Any:
        self._fill()
        return super().keys()

    def values(self) -> Any:
        self._fill()
        return super().values()

    def items(self) -> Any:
        self._fill()
        return super().items()
