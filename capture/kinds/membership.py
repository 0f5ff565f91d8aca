"""`x in container` of numbers and texts that change from call to call, or of a set that holds others in each call.

    if step in {100, 200}: rate = rate / 10     # `step` another number in each call
    if n in seen: return x                      # of what the set holds only this is guarded

The question is asked in each call, and its answer guarded: two entries serve all numbers and all sets. Only among
literals, whose equality is Python's own.
"""

from __future__ import annotations

import operator
from typing import Any

from dynacomp.capture.base.literals import is_literal, leaves
from dynacomp.capture.kinds.given_items import KEYS, changing_key
from dynacomp.capture.numbers import dynamic_scalars
from dynacomp.capture.numbers.host_functions import as_scalar
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.constant import Const, is_const, is_exactly, is_known_literal
from dynacomp.capture.values.questions import is_plain_tuple, is_scalar, is_sequence, is_set, is_value
from dynacomp.capture.values.value import Value, as_python
from dynacomp.capture.wrapping.changing_contents import in_parts

CONSTANTS = (tuple, frozenset, range)
MOST = 256  # elements of a container that the code makes: each entry keeps them


def asked(cap: Capture, container: Value, item: Value) -> Value | None:
    """The answer, another in each call; None where it is a constant or the machine has to look at each element."""
    key = changing_key(cap, item) or _changing_float(cap, item)
    in_part = is_set(container) and container.unread is not None and in_parts(cap, container.source)
    if key is None and not (in_part and is_key(item)):
        return None
    among = _elements(cap, container)
    if among is None:
        return None
    return dynamic_scalars.host("contains", operator.contains, among, Const(as_python(item)) if key is None else key)


def _elements(cap: Capture, container: Value) -> Value | None:
    """What is asked: the container that the call is given, or its literals; None where it has something else."""
    if is_exactly(container, *CONSTANTS):
        return _literals(container.value)
    if is_set(container):  # the elements of one that nobody has read are literals
        given = container.unread is not None
        return ScalarV(container.real, source=container.source) if given else _literals(
            tuple(x for x in container.members if not _is_sole(x)))
    if not is_sequence(container) or container.cls not in (list, tuple) or getattr(container, "is_open", False):
        return None
    items = [cap.realize(x) for x in container.items] if len(container.items) <= MOST else [container]
    return _literals(tuple(x.value for x in items)) if all(map(is_known_literal, items)) else None  # type: ignore


def _is_sole(key: Any) -> bool:
    """Whether an element of a set, an object that exists, equals itself alone: no number or text does."""
    cls = type(key)
    return not is_value(key) and cls.__eq__ is object.__eq__ and cls.__hash__ is object.__hash__


def _changing_float(cap: Capture, item: Value) -> ScalarV | None:
    """A float that changes: the very object is looked for, as NaN is known by."""
    found = as_scalar(cap, item)
    return found if is_scalar(found) and type(found.hint) is float else None


def is_key(item: Value) -> bool:
    """A literal that equals itself, or a tuple of such: no NaN, and nothing that holds one."""
    if is_plain_tuple(item) and not is_const(item):
        return all(is_value(x) and is_key(x) for x in item.items)
    return is_known_literal(item) and all(type(x) in (*KEYS, type(None)) for x in leaves(item.value))


def _literals(elements: Any) -> Const | None:
    known = type(elements) is range or len(elements) <= MOST and all(map(is_literal, elements))
    return Const(elements) if known else None
