"""Elements that change from call to call, in sets: one gets `Members` beside its elements once such a key is added or
taken out, or anything is of a set that has other elements in each call (see `wrapping.partial_sets`).

    if n not in seen: seen.add(n)       # visited sets, names that were used
    if len({a.ndim, b.ndim, n}) == 1: ...
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from dynacomp.capture.arithmetic.operators import truth
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.kinds.given_items import changing_key
from dynacomp.capture.kinds.iteration import iterate
from dynacomp.capture.kinds.keys import hashable, key_of, members_of, missing_key
from dynacomp.capture.kinds.membership import MOST, is_key
from dynacomp.capture.numbers import dynamic_scalars
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import mutating, removing
from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import SetV, laid_out, layout_of
from dynacomp.capture.values.questions import is_dict, is_set, is_value
from dynacomp.capture.values.standing import IdV
from dynacomp.capture.values.value import Value, existing
from dynacomp.capture.wrapping.changing_contents import in_parts
from dynacomp.capture.wrapping.keyed_tables import ChangingKey
from dynacomp.capture.wrapping.partial_sets import SHRUNK, Members


def asked(cap: Capture, v: SetV, item: Value) -> Value | None:
    """Whether `item` is in a set of which not all is looked at; None of others."""
    known = v.parts or _given(v) if _id_of(item) else v.parts
    if known is None or not (_id_of(item) or is_key(item) or changing_key(cap, item)):
        return None
    return known.has(_key_of(cap, item))  # type: ignore[no-any-return]


def _given(v: SetV) -> Members | None:
    """What the call was given, where nobody has looked into it."""
    return Members(ScalarV(v.real, source=v.source)) if v.unread is not None else None


def _id_of(item: Value) -> ScalarV | None:
    """The id of an object that existed before the call is a number, another one in each process; None for others."""
    real = existing(item.obj) if isinstance(item, IdV) else None
    if real is None or item.obj.source is None:  # type: ignore[attr-defined]
        return None
    return dynamic_scalars.host("id", id, ScalarV(real, source=item.obj.source))  # type: ignore[attr-defined,return-value]


def _key_of(cap: Capture, item: Value) -> Any:
    number = _id_of(item)
    return key_of(cap, item) if number is None else ChangingKey(item, number, lambda: item)


def _is_noted(cap: Capture, v: SetV, item: Value, added: bool) -> bool:
    """Notes a change of such a set; False of others: all elements and this one are constants then."""
    if not _open(cap, v, item):
        return False
    mutating(cap, v)
    v.parts = v.parts.then(_key_of(cap, item), added)
    return True


def _open(cap: Capture, v: SetV, item: Value) -> bool:
    """Whether nobody needs to look at all of the set because of this element."""
    changes = changing_key(cap, item) is not None or v.unread is not None and _id_of(item) is not None
    if changes or is_key(item):
        v.parts = v.parts or _opened(cap, v, changes)
    return (changes or is_key(item)) and v.parts is not None and len(v.parts.log) < MOST


def _opened(cap: Capture, v: SetV, changes: bool) -> Members | None:
    if v.cls is not set or v.holder is not None or v.real is not None and v.dirty:
        return None
    if v.unread is None and not (changes and len(v.members) <= MOST and all(map(is_literal, v.members))):
        return None
    if v.real is None:
        return Members(Const(tuple(v.members)))
    return Members(ScalarV(v.real, source=v.source)) if changes or in_parts(cap, v.source) else None


@contextlib.contextmanager
def _logged(cap: Capture, v: SetV, key: Any, added: bool) -> Iterator[None]:
    """A change that the log of the set has, as long as it has all of them."""
    log = v.log if v.members is not None else None  # with what was noted before
    mutating(cap, v)
    yield
    v.log = None if log is None or is_value(key) else (*log, (key, added))


def add(cap: Capture, v: SetV, item: Value) -> None:
    if not _is_noted(cap, v, item, True):
        key = hashable(cap, item)
        with _logged(cap, v, key, True):
            v.members.add(key)


def discard(cap: Capture, v: SetV, item: Value) -> None:
    if not _is_noted(cap, v, item, False):
        key = hashable(cap, item)
        with _logged(cap, v, key, False):
            v.members.discard(key)


def remove(cap: Capture, v: SetV, item: Value) -> None:
    there = v.parts.has(_key_of(cap, item)) if _open(cap, v, item) else None
    key = hashable(cap, item) if there is None else None
    if not (key in v.members if there is None else truth(cap, there)):
        raise missing_key(item)
    if there is None or not _is_noted(cap, v, item, False):
        key = hashable(cap, item) if there is not None else key
        with _logged(cap, v, key, False):
            v.members.remove(key)


def clear(cap: Capture, v: SetV) -> None:
    if v.unread is not None:
        v.parts = v.parts or Members(ScalarV(v.real, source=v.source))  # so that the change looks at none of it
    removing(cap, v)
    emptied = v.real is not None and v.holder is None
    v.unread, v.parts = None, Members(Const(()), emptied=True) if emptied else None
    v.items = set()


def update(cap: Capture, v: SetV, *others: Value) -> None:
    _one_after_the_other(cap, v, "update", add, others)


def difference_update(cap: Capture, v: SetV, *others: Value) -> None:
    for other in others:
        _one_after_the_other(cap, v, "difference_update", discard, (other,))
        if v.dirty and not _at_once(other):
            _shrink(v)


def _shrink(v: SetV) -> None:
    """Python then lets go of the places of elements that are gone, where these are many: the order is another one."""
    if v.parts is not None:
        v.parts = v.parts.after(SHRUNK)
        return
    v.members.difference_update(())
    v.log = None if v.log is None else (*v.log, SHRUNK)


def _one_after_the_other(cap: Capture, v: SetV, name: str, by_item: Any, others: tuple[Value, ...]) -> None:
    for other in others:
        if _at_once(other):
            change(cap, v, name, other)
        else:
            for item in iterate(cap, other):
                by_item(cap, v, item)


def intersection_update(cap: Capture, v: SetV, *others: Value) -> None:
    change(cap, v, "intersection_update", *others)


def symmetric_difference_update(cap: Capture, v: SetV, other: Value) -> None:
    change(cap, v, "symmetric_difference_update", other)


def _at_once(other: Value) -> bool:
    """Whether a set takes these at once: it makes room for all of them first, so that the order is another one."""
    return is_set(other) or is_dict(other) and other.cls is dict


def change(cap: Capture, v: SetV, name: str, *others: Value) -> None:
    """A method of sets that changes one by all of `others`; the log has the keys of each, and what they are in."""
    log = v.log if v.members is not None else None
    operands = [_operand(cap, other) for other in others]
    keys = tuple(map(tuple, operands))
    mutating(cap, v)
    getattr(v.members, name)(*operands)
    plain = not any(other is v for other in others) and not any(map(_is_symbolic, chain(*keys)))
    how = (name, *map(_made_as, others, operands))
    v.log = (*log, (keys, how)) if log is not None and plain else None


def _is_symbolic(key: Any) -> bool:
    return is_value(key) or type(key) is ChangingKey


def _operand(cap: Capture, other: Value) -> Any:
    """What a set is changed by at once. It walks another set through its places: where those are is guarded."""
    if is_set(other):
        return laid_out(other)
    return members_of(cap, other) if _at_once(other) else tuple(members_of(cap, other))


def _made_as(other: Value, operand: Any) -> str | bytes:
    """How `runtime.change_set` makes it anew: of a set that has other places than one made of its elements, those."""
    if is_set(other):
        return layout_of(operand, type(operand)) or "set"
    return ("dict" if is_dict(other) else "set") if _at_once(other) else "tuple"


def made_of(cap: Capture, items: Iterable[Value], **how: Any) -> SetV:
    """A new set of these, put in one by one."""
    made = SetV(set(), **how)
    for item in items:
        add(cap, made, item)
    return made
