"""Containers whose content changes from call to call: after a few entries for one, the graph breaks where it is read
whole.

A guard on the length of a list, or on the keys of a dict, holds for one content. A list of token ids or a table of
what was seen so far has another in each call; what Python makes of it (a number, an array, an item) is compiled for.
Before that, once another content came, only what the program asks for is guarded: whether a key is there, an item,
how many there are, which is a number that changes (see `partial_tables` for dicts).

    last = log[-1]      # guard: none but what the item is
"""

from __future__ import annotations

from dataclasses import dataclass

from dynacomp.capture.base.errors import Break
from dynacomp.capture.symbolic.guards import Guard
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.value import Lazy, Value

GUARDS = ("len", "keys", "names", "set", "set_layout", "content")  # the kinds that hold for one content
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


def item_at(cap: Capture, v: ListV, index: int) -> Value | Lazy | None:
    """`v[index]` of a list of which not all is known; None where it is to be looked at whole."""
    if -len(v.appended) <= index < 0:  # the program's own, whatever stood there before
        return v.appended[index]  # type: ignore[no-any-return]
    length = list.__len__(v.real)
    if not -len(v.appended) - length <= index < length or not in_parts(cap, v.source):
        return None
    before = index if index >= 0 else index + len(v.appended)
    return Lazy(v.real[before], S.Item(v.source, before))  # type: ignore[arg-type]
