"""Changes to mutable Values that can be taken back.

What a side of a branch changes is only true on that side. `save(body, value)` notes how an object
that is older than the side was before its first change there; when the side has run, `take_back`
restores those objects and gives their changed states, for `merge` to make one of both sides'.

    Watch               what older objects differ after a stretch of code from what they were before it
    parts(value)        a mutable Value as a shape that can be compared, and the Values that it holds
    put(value, held)    the same object with other Values in it
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.key_order import in_any_order
from dynacomp.capture.values.constant import is_const, stands_for
from dynacomp.capture.values.containers import DictV, ListV, SetV
from dynacomp.capture.values.iterators import CountIterV, SeqIterV, StreamV
from dynacomp.capture.values.kind import WITHOUT, Kind, define, kind
from dynacomp.capture.values.objects import DELETED, CellV, ObjectV
from dynacomp.capture.values.questions import is_object
from dynacomp.capture.values.standing import PrivateV
from dynacomp.capture.values.value import Value, existing, next_serial

State = dict[str, tuple[Any, Any]]  # attribute → the object there, and a copy of its content
CONTENT = (list, dict, set)


def snapshot(value: Value) -> State:
    """How a mutable Value is now; Break for kinds whose changes cannot be taken back."""
    if not is_mutable(value) or getattr(value, "view", None) is not None or getattr(value, "owner", None) is not None:
        raise Break("effect_in_body", f"a {type(value).__name__.removesuffix('V').lower()} that one side changes")
    real = getattr(value, "real", None)
    return {name: (held, copy.copy(held) if isinstance(held, CONTENT) and held is not real else None)
            for name, held in vars(value).items()}


def restore(value: Value, state: State) -> None:
    for name, (held, content) in state.items():
        if content is not None:
            held.clear()
            held.extend(content) if isinstance(held, list) else held.update(content)
        vars(value)[name] = held


def save(body: Any, value: Value) -> None:
    """Must be called before a side (`body`) changes an object that is older than itself."""
    if value not in body.saved:
        body.saved[value] = snapshot(value)


def take_back(body: Any) -> dict[Value, State]:
    """Undoes what a side has changed; the changed states by object."""
    changed = {value: detached(value) for value in body.saved}
    for value, state in body.saved.items():
        restore(value, state)
    return changed


def detached(value: Value) -> State:
    """A snapshot whose containers are its own: it outlives the restoring of older states."""
    return {name: (copy.copy(held) if content is not None else held, content)
            for name, (held, content) in snapshot(value).items()}


@contextlib.contextmanager
def in_state(value: Value, state: State | None) -> Iterator[None]:
    """The object as it was in `state`, for as long as somebody looks."""
    before = snapshot(value)
    if state is not None:
        restore(value, state)
    try:
        yield
    finally:
        restore(value, before)


class Watch:
    """Notes the objects that a stretch of code changes and that are older than it; `changed` says whether any differs
    in the end. What is put on a stack and taken off again does not."""

    def __init__(self) -> None:
        self.birth = next_serial()
        self.outside = False  # whether something changed that no Value stands for
        self.before: dict[Value, Any] = {}

    def is_older(self, value: Value) -> bool:
        return value.serial < self.birth or getattr(value, "real", None) is not None

    def note(self, value: Value) -> None:
        """Must be called before `value` changes."""
        if value not in self.before and self.is_older(value):
            self.before[value] = _content(value)

    @property
    def changed(self) -> bool:
        return self.outside or any(then is None or _differs(value, then) for value, then in self.before.items())


def _content(value: Any) -> Any:
    """What a mutable Value holds, by identity, for comparison; None for kinds that are not looked into."""
    if getattr(value, "view", None) is not None or getattr(value, "owner", None) is not None:
        return None
    row = kind(value).content
    return None if row is None else row(value)


class Read(dict[str, int]):
    """The attributes of an object: of one that existed those that were read, then or now."""


def _differs(value: Any, then: Any) -> bool:
    now = _content(value)
    if type(then) is Read and now is not None:
        gone = {name for name, x in value.attrs.items() if x is DELETED}
        return any(now.get(name) != then.get(name) or name in gone for name in value.written | then.keys())
    return bool(now != then)


def _held(x: Any) -> int:
    """One number for one object, whether it was looked at or not."""
    real = existing(x)
    return id(x if real is None and not stands_for(x, None) else real)


# --- mutable Values as data


def parts(value: Any) -> tuple[Any, list[Any]]:
    return kind(value).parts(value)  # type: ignore[misc]


def put(value: Any, held: list[Any]) -> None:
    kind(value).put(value, held)  # type: ignore[misc]


class SpoiledV(Value):
    """What an iterator goes through whose position depends on an array: whoever looks breaks the graph."""

    @property
    def items(self) -> list[Any]:
        raise Break("branch", "an iterator that is further on one side than on the other")


def _spoil(v: SeqIterV) -> None:
    """Makes an iterator unusable: loops that have ended drop theirs, others must not go on with it."""
    v.seq = SpoiledV()


def _spoil_stream(v: StreamV) -> None:
    v.parts = [SpoiledV()] * max(1, len(v.parts))


define(SeqIterV, Kind(spoil=_spoil))
define(StreamV, Kind(spoil=_spoil_stream))


def note_written(value: Any, states: list[State]) -> None:
    """An object's attributes count as written where they are in any of its states."""
    if is_object(value):
        value.written.update(*(state["written"][1] for state in states))


def is_mutable(value: Any) -> bool:
    return kind(value).parts is not None


def clone(value: Any) -> Any:
    """A new object like `value`, born now."""
    made = copy.copy(value)
    for name, held in vars(made).items():
        if isinstance(held, CONTENT):
            vars(made)[name] = copy.copy(held)
    made.serial = next_serial()
    return made


def _list(v: ListV) -> tuple[Any, list[Any]]:
    items = v.appended if v.is_open else v.items
    return (v.cls, v.extra, v.changes, id(v.front), v.unseen is None, len(items)), list(items)


def _put_list(v: ListV, held: list[Any]) -> None:
    (v.appended if v.is_open else v.items)[:] = held


def _dict(v: DictV) -> tuple[Any, list[Any]]:
    there = in_any_order(v.items)
    return (v.cls, id(v.factory), tuple(there)), [v.items[key] for key in there]


def _put_dict(v: DictV, held: list[Any]) -> None:
    v.items.update(zip(in_any_order(v.items), held))


def _set(v: SetV) -> tuple[Any, list[Any]]:
    return (v.cls, tuple(v.members) if v.parts is None else (tuple(v._members), *v.parts.log)), []


def _object(v: ObjectV) -> tuple[Any, list[Any]]:
    there = tuple(n for n, x in v.attrs.items() if x is not DELETED)
    gone = tuple(n for n, x in v.attrs.items() if x is DELETED)
    return (v.cls, there, gone, {*v.moved}, id(v.payload), tuple(map(id, v.ctor))), [v.attrs[n] for n in there]


def _put_object(v: ObjectV, held: list[Any]) -> None:
    there = [n for n, x in v.attrs.items() if x is not DELETED]
    v.attrs.update(zip(there, held))


def _cell(v: CellV) -> tuple[Any, list[Any]]:
    return v.content is None, [] if v.content is None else [v.content]


def _put_cell(v: CellV, held: list[Any]) -> None:
    v.content = held[0] if held else None


def _seq_iter(v: SeqIterV) -> tuple[Any, list[Any]]:
    return (id(v.seq), v.index, v.kind, v.ended), []


def _count_iter(v: CountIterV) -> tuple[Any, list[Any]]:
    return (_fixed(v.stop), _fixed(v.step)), [v.current]


def _put_count_iter(v: CountIterV, held: list[Any]) -> None:
    v.current = held[0]


def _fixed(v: Any) -> Any:
    return v.value if is_const(v) else id(v)


def _stream(v: StreamV) -> tuple[Any, list[Any]]:
    return (v.kind, tuple(map(id, v.parts)), id(v.fn), tuple(v.state.items())), []


def _nothing(v: Any, held: list[Any]) -> None:
    """What holds no Values that could be others."""


for _cls, _parts, _put in ((SetV, _set, _nothing), (SeqIterV, _seq_iter, _nothing), (StreamV, _stream, _nothing),
                           (CountIterV, _count_iter, _put_count_iter)):
    define(_cls, Kind(parts=_parts, put=_put))
define(ListV, Kind(parts=_list, put=_put_list, content=lambda v: (
    id(v.front), *map(_held, v.items if v.front is None else v.appended))))
define(DictV, Kind(parts=_dict, put=_put_dict, content=lambda v: tuple(
    (k, _held(v.items[k])) for k in in_any_order(v.items))))
define(CellV, Kind(parts=_cell, put=_put_cell, content=lambda v: (_held(v.content),)))
define(ObjectV, Kind(parts=_object, put=_put_object, content=lambda v: Read(
    (name, _held(x)) for name, x in v.attrs.items() if x is not DELETED)))
define(PrivateV, Kind(parts=WITHOUT, put=WITHOUT, content=WITHOUT))  # what they hold is in C
