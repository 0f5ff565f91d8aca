"""Instances of Python classes back to real objects, as bytecode: their `Kind.emit`.

An object is made by the `__new__` of its built-in base, never by its class, whose code has run
already on the symbolic machine. Then come the content that it has as a list, dict, ... and its attributes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dynacomp.capture._native import arrange, set_attribute
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.reconstruct.emit import Emitter, load_elements, load_table
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import DictV, ListV, SetV, layout_of
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import DELETED, ObjectV
from dynacomp.capture.wrapping.builtin_subclasses import IMMUTABLE, built_in_base, payload_base
from dynacomp.capture.wrapping.class_attrs import hides_entry, lookup


def emit_object(e: Emitter, v: ObjectV) -> None:
    base: Any = payload_base(v.cls)
    if issubclass(v.cls, BaseException):
        e.call(runtime.new_exception, partial(e.const, built_in_base(v.cls).__new__), partial(e.const, v.cls),
               partial(e.tuple, v.ctor))
    elif base in IMMUTABLE:
        e.call(base.__new__, partial(e.const, v.cls), partial(e.load, v.payload))
    else:
        e.call((base or built_in_base(v.cls)).__new__, partial(e.const, v.cls))
    e.remember(v)
    if base is not None and base not in IMMUTABLE:
        fill: Any = kind(v.payload).fill
        e.later(partial(fill, e, v.payload))
    there: list[str] = []
    for name, attr in v.attrs.items():
        if attr is not DELETED:
            e.later(partial(_put, e, v, name, attr, there))


def _put(e: Emitter, v: ObjectV, name: str, attr: Any, there: list[str]) -> None:
    """Sets an attribute, behind those that are `there`. What it holds may have needed whole objects, for whose sake
    the later ones are there before it: the last to come puts all of them into their order."""
    put = runtime.write_entry if hides_entry(v.cls, name) else set_attribute
    e.call(put, partial(e.load, v), partial(e.const, name), partial(e.load, attr))
    there.append(name)
    if len(there) < sum(value is not DELETED for value in v.attrs.values()):
        return
    wanted = tuple(n for n, value in v.attrs.items() if value is not DELETED and _is_entry(v.cls, n))
    if wanted != tuple(n for n in there if _is_entry(v.cls, n)):  # where all lie in slots, there is no dict
        e.op("POP_TOP")
        e.call(arrange, partial(e.load, v), partial(e.const, wanted))


def _is_entry(cls: type, name: str) -> bool:
    """Whether an attribute stands in the dict of the instances, not in a place that a descriptor knows."""
    return hides_entry(cls, name) or not hasattr(type(lookup(cls, name)[1]), "__set__")


# The items of a new object of a built-in class's subclass: the payload is loaded as the object that holds it.
define(ListV, Kind(fill=lambda e, v: e.call(
    runtime.fill_sequence, partial(e.load, v), partial(e.const, v.extra), partial(e.tuple, v.items))))
define(SetV, Kind(fill=lambda e, v: e.call(
    runtime.replace_set, partial(e.load, v), partial(load_elements, e, v.items), partial(e.const, layout_of(v.items)))))
define(DictV, Kind(fill=lambda e, v: e.call(
    runtime.fill_table, partial(e.load, v), partial(e.load, v.factory or Const(None)),
    partial(load_table, e, v.items))))


define(ObjectV, Kind(emit=emit_object))
