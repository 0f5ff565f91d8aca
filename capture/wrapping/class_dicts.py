"""`cls.__dict__` and `vars(cls)`: what a class has of its own, guarded name by name.

    "forward" in base.__dict__                     # guard: the class has this very `forward`, or none
    [k for k in vars(cls) if k[0] != "_"]          # guard: these are the class's names, in this order

A class gains names while the program runs (caches, registries), so that only code which goes through all of them
depends on all of them.
"""

from __future__ import annotations

from dynacomp.capture._native import iterated
from dynacomp.capture.base.errors import Break
from dynacomp.capture.wrapping.changing_contents import Entries


class ClassEntries(Entries):
    """The `items` of the DictV that stands for the dictionary of a class."""

    def look(self) -> None:
        if any(iterated(vars(cls)) is self.table for cls, _ in self.cap.effects.classes.values()):
            raise Break("store", "the __dict__ of a class whose attributes the captured code has changed")

    def all_wanted(self) -> None:
        """Classes change rarely, and Python could not tell either."""
