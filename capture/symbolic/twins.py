"""One list or dict that is found at two places: two Values, for as long as nothing tells it from two that are equal.

    target = params                         # a network and its target begin as one tree
    loss(params, target, batch)             # which is read at both places: no entry of its own

A change at one place would be seen at the other, and a deep copy of both has one object at two places, too. Where such
a thing comes, the capture begins again, and what is one object is one Value, guarded to be.
"""

from __future__ import annotations

from typing import Any

from dynacomp.capture.base.errors import Restart
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.containers import DictV, ListV
from dynacomp.capture.values.value import Value


def may_be(cap: Capture, obj: Any, first: Any) -> bool:
    """Whether a container that was found before may have another Value at another place."""
    return type(obj) in (dict, list) and type(first) in (DictV, ListV) and not (cap.lessons.tells_twins or first.dirty)


def note(cap: Capture, obj: Any, first: Value, second: Value) -> Value:
    """`second` stands for the object at its own place from now on."""
    assert second.source is not None
    cap.known.twins[id(obj), second.source] = second
    cap.known.are_twins |= {id(first), id(second)}
    return second


def told_apart(cap: Capture, value: Value) -> None:
    """Must be called before anything is done to a Value that may show at another place; Restart where it would."""
    if id(value) in cap.known.are_twins:
        cap.lessons.tells_twins = True
        raise Restart
