"""One list, dict or struct that is found at two places: two Values, for as long as nothing tells it from two like it.

    target = params                         # a network and its target begin as one tree
    loss(params, target, batch)             # which is read at both places: no entry of its own

A change at one place would be seen at the other, and a deep copy of both has one object at two places, too. Where such
a thing comes, the capture begins again, and what is one object is one Value, guarded to be.
"""

from __future__ import annotations

from typing import Any

from jax._src.tree_util import _registry as REGISTRY

from dynacomp.capture.base.classes import entries
from dynacomp.capture.base.errors import Restart
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.containers import DictV, ListV
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.value import Value


def may_be(cap: Capture, obj: Any, first: Any) -> bool:
    """Whether what was found before may have another Value at another place."""
    if cap.lessons.tells_twins or getattr(first, "dirty", False) or getattr(first, "written", ()):
        return False
    if type(first) in (DictV, ListV):
        return type(obj) in (dict, list)
    return type(first) is ObjectV and first.payload is None and is_struct(type(obj))


def is_struct(cls: type) -> bool:
    """Whether that is a dataclass which is frozen, or a tree of JAX's, as the modules of Equinox and the structs of
    Flax: hardly anybody stores in its instances, and who compares two looks at what they hold."""
    params = entries(cls).get("__dataclass_params__")
    return params is not None and (params.frozen or cls in REGISTRY)


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
