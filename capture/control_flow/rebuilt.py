"""Dicts and lists that each round of a loop makes anew: the parameters and the state that a training step gives.

    for _ in range(steps):
        params = {name: p - rate * grads[name] for name, p in params.items()}

Where a round ends with another dict than it began with, of the same keys, the loop carries what is in it. The body
finds a stand-in, and behind the loop stands a new dict. That is what Python does as long as nobody can tell which dict
it was: a round changes no stand-in (the first round has the dict from before the loop), does not ask whether it `is`
another one, and puts each dict that it makes in one place. A loop that does otherwise is no node. What a new dict
takes over from the one before, in its place (`{**state, "step": n}`), is the object from before the loop.
"""

from __future__ import annotations

from typing import Any

from dynacomp.capture.control_flow.loop_state import Carrying, State, is_unchanged
from dynacomp.capture.symbolic import undo_log
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.containers import DictV, ListV
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.questions import is_dict, is_list, is_tuple
from dynacomp.capture.values.value import Value


def holds_table(cap: Capture, v: Value) -> bool:
    """Whether a dict or a list can be made anew in there."""
    v = cap.realize(v)
    return _is_plain(v) or is_tuple(v) and any(holds_table(cap, x) for x in cap.items(v))


def _is_plain(v: Any) -> bool:
    if is_dict(v):
        return v.cls is dict and v.owner is None and v.shows is None and v.factory is None
    return is_list(v) and v.cls is list and v.front is None and v.extra is None


def _keys(v: Any) -> list[Any]:
    return [(type(k), k) for k in v.items] if is_dict(v) else [len(v.items)]


def _held(v: Any) -> list[Value]:
    return list(v.items.values() if is_dict(v) else v.items)


def _like(v: Any, held: list[Value]) -> Any:
    return DictV(dict(zip(v.items, held))) if is_dict(v) else ListV(held)


def _inside(state: State, v: Any, bounds: Any) -> Any:
    if not state.rebuilds or not _is_plain(v):
        return v
    made = _like(v, [state.inside(x) for x in _held(v)])
    made.serial = state.body.serial - 1  # so that what changes it shows
    state.body.stand_ins[made] = v
    return made


def _made(state: State, inside: Any, v: Any, found: list[Any]) -> bool:
    if inside not in state.body.stand_ins:
        return is_unchanged(state, inside, v, found)
    kept = v is inside
    if state.kept.setdefault(inside, kept) != kept or not kept and not _is_new(state, inside, v):
        return False
    state.claimed.add(v)
    with undo_log.in_state(v, state.changes.get(v)):
        if not _is_plain(v) or _keys(v) != _keys(inside):
            return False
        held = _held(v)
    for a, b in zip(_held(inside), held):
        state.made(a, b, found)
    return True


def _is_new(state: State, inside: Any, v: Any) -> bool:
    """Whether a round has made it, and put it in no other place."""
    made_here = type(v) is type(inside) and v.serial >= state.body.serial and v.source is None and v.real is None
    return made_here and v not in state.claimed


def _after(state: State, inside: Any, results: dict[int, Any]) -> Any:
    if inside not in state.body.stand_ins:
        return inside
    if state.kept[inside]:
        return state.body.stand_ins[inside]
    return _like(inside, [state.after(x, results) for x in _held(inside)])


for _kind in (DictV, ListV):
    define(_kind, Kind(carried=Carrying(_inside, _made, _after)))
