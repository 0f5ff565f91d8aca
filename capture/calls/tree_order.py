"""Which trees look otherwise once JAX has taken them apart and put them together: dicts come back with their keys in
order.

    jax.jit(list)({"w": w, "b": b})     # ["b", "w"]

A program shows that where it goes through a dict: it splits a key of random numbers for each entry, say. Nothing is
guarded for the look: whoever goes through a dict guards its keys, in their order.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from dynacomp.capture.base.classes import own_dict
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.containers import DictV
from dynacomp.capture.values.grown_items import is_run
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_dict, is_lazy, is_object, is_sequence, is_value
from dynacomp.capture.wrapping.builder import is_plain_instance
from dynacomp.capture.wrapping.keyed_tables import ChangingKey

ORDERED = (dict, collections.defaultdict)  # an OrderedDict comes back as it was
DEPTH = 16


def comes_back_otherwise(cap: Capture, tree: Any, depth: int = DEPTH) -> bool:
    """Whether a dict in this Value, or in what it stands for, has its keys in another order than JAX puts them in."""
    tree = cap.known.objects.get(id(tree.obj), tree.obj) if is_lazy(tree) else tree
    if not depth:
        return False
    if not is_value(tree):
        return _real(cap, tree, depth)
    real = getattr(tree, "real", None)
    if real is not None and not (getattr(tree, "dirty", False) or getattr(tree, "written", ())):
        return _real(cap, real, depth)
    if is_dict(tree):
        return _in_other_order(tree) or _any(cap, tree.items.values(), depth)
    if is_sequence(tree):
        return _sequence(cap, tree, depth)
    return is_object(tree) and _any(cap, _parts(tree), depth)


def _any(cap: Capture, parts: Iterable[Any], depth: int) -> bool:
    return any(comes_back_otherwise(cap, part, depth - 1) for part in parts)


def _parts(v: ObjectV) -> list[Any]:
    return [*v.attrs.values(), *([] if v.payload is None else [v.payload])]


def _in_other_order(v: DictV) -> bool:
    keys = list(v.items)
    return any(type(k) is ChangingKey for k in keys) or v.cls in ORDERED and _unsorted(keys)


def _unsorted(keys: list[Any]) -> bool:
    try:
        return sorted(keys) != keys
    except TypeError:  # which JAX refuses
        return True


def _sequence(cap: Capture, v: Any, depth: int) -> bool:
    front = getattr(v, "front", None)
    if front is None:
        parts = v.items if getattr(v, "unseen", None) is None else [v.real, *v.appended]
    else:
        parts = [*front.parts, *v.appended] if front.settled else []
    runs = [part for part in parts if is_run(part)]
    return any(shape.fold(_no, _no, _is_unsorted) for run in runs for shape in run.shapes) or _any(
        cap, [part for part in parts if not is_run(part)], depth)


def _no(_: Any) -> bool:
    return False


def _is_unsorted(many: Any, parts: Iterable[bool]) -> bool:
    return any([*parts]) or many.cls is dict and _unsorted(list(many.keys))


def _real(cap: Capture, obj: Any, depth: int) -> bool:
    """The same of an object as it was before the call; of one in it that the program has changed, as it is now."""
    kind = type(obj)
    if kind in ORDERED and _unsorted(list(obj)):
        return True
    if issubclass(kind, dict):
        held: Iterable[Any] = dict.values(obj)
    elif issubclass(kind, (tuple, list)):
        held = tuple.__iter__(obj) if issubclass(kind, tuple) else list.__iter__(obj)
    else:
        held = list(own_dict(obj).values()) if is_plain_instance(obj) else ()
    return any(comes_back_otherwise(cap, cap.known.objects.get(id(x), x), depth - 1) for x in held)
