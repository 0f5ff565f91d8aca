"""Containers whose content changes from call to call: after a few entries for one, the graph breaks where it is read.

A guard on the length of a list, or on the keys of a dict, holds for one content. A list of token ids or a table of
what was seen so far has another in each call; what Python makes of it (a number, an array, an item) is compiled for.
"""

from __future__ import annotations

from dataclasses import dataclass

from dynacomp.capture.base.errors import Break
from dynacomp.capture.symbolic import sources as S
from dynacomp.capture.symbolic.guards import Guard
from dynacomp.capture.symbolic.machine import Capture

GUARDS = ("len", "keys", "set")  # the kinds that hold for one content


@dataclass(frozen=True)
class Content(S.Source):
    """What the container at `base` holds."""

    base: S.Source

    def __repr__(self) -> str:
        return f"content({self.base!r})"


def reading(cap: Capture, source: S.Source) -> None:
    """Must be called before the content of a container is guarded whole; Break where it changes too often."""
    if cap.may_break and cap.root.policy.changes_often(Content(source)):
        raise Break("contents", repr(source))


def content_of(origin: Guard | S.Source | None) -> str:
    """The container whose content a guard asks for, in words; "" for other guards."""
    return repr(Content(origin.source)) if isinstance(origin, Guard) and origin.kind in GUARDS and origin.source else ""
