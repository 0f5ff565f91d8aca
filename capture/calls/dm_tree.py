"""`tree` (dm-tree), whose structures are looked at by C++: its functions in C as Python, which the machine enters, put
into the table when the program first calls one. Its functions in Python are entered, and call these.

Where the C++ would warn or raise, Python runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, MappingView, Sequence
from typing import Any

from dynacomp.capture.base.errors import Break
from dynacomp.capture.calls.calls import BUILTINS, FIRST_CALLED, call
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.questions import is_list
from dynacomp.capture.values.value import Value, as_python

TEXTS = (str, bytes, bytearray)


# --- its functions in Python; `None` where only the C++ knows


def is_attrs(obj: Any) -> bool:
    return hasattr(obj, "__attrs_attrs__")


def is_sequence(obj: Any) -> bool | None:
    """Whether it has parts. Of sets the C++ warns, once in a process."""
    if isinstance(obj, set):
        return None
    return isinstance(obj, (Mapping, MappingView)) or is_attrs(obj) or (
        isinstance(obj, Sequence) and not isinstance(obj, TEXTS))


def is_namedtuple(obj: Any, strict: bool) -> bool:
    if not isinstance(obj, tuple) or strict and type(obj).__base__ is not tuple:
        return False
    fields = getattr(obj, "_fields", None)
    return isinstance(fields, Sequence) and all(isinstance(name, TEXTS) for name in fields)


def same_namedtuples(a: Any, b: Any) -> bool | None:
    """Whether two named tuples are of classes that look the same."""
    if not (is_namedtuple(a, False) and is_namedtuple(b, False)):
        return None
    return type(a).__name__ == type(b).__name__ and a._fields == b._fields


def parts(obj: Any) -> list[Any]:
    """The parts of what `is_sequence`, in the order of `flatten`."""
    if isinstance(obj, Mapping):
        return [obj[key] for key in sorted(obj.keys())]
    if is_attrs(obj) and not isinstance(obj, MappingView):
        return [getattr(obj, attribute.name) for attribute in obj.__attrs_attrs__]
    return list(obj)


def flatten(obj: Any) -> list[Any] | None:
    found = is_sequence(obj)
    if not found:
        return None if found is None else [obj]
    leaves = []
    for part in parts(obj):
        inside = flatten(part)
        if inside is None:
            return None
        leaves += inside
    return leaves


def are_alike(a: Any, b: Any, check_types: bool) -> bool | None:
    """Whether two structures are the same beyond doubt."""
    nested = is_sequence(a)
    if nested is None or nested is not is_sequence(b):
        return None
    if not nested:
        return True
    if check_types and not (same_namedtuples(a, b) or type(a) is type(b) and not is_namedtuple(a, False)):
        return None
    if check_types and isinstance(a, Mapping) and sorted(a.keys()) != sorted(b.keys()):
        return None
    these, those = parts(a), parts(b)
    if len(these) != len(those):
        return None
    for one, other in zip(these, those):
        if not are_alike(one, other, check_types):
            return None
    return True


# --- as rows


def _entered(name: str, fn: Callable[..., Any], result: Value | None = None) -> Callable[..., Value]:
    def row(cap: Capture, *args: Value) -> Value:
        found = call(cap, Const(fn), list(args), {})
        if not is_list(found) and as_python(found) is None:
            raise Break("call", f"tree.{name} of what its C++ warns of or refuses")
        return found if result is None else result
    return row


ROWS = {
    "is_attrs": _entered("is_attrs", is_attrs), "is_sequence": _entered("is_sequence", is_sequence),
    "is_namedtuple": _entered("is_namedtuple", is_namedtuple), "flatten": _entered("flatten", flatten),
    "same_namedtuples": _entered("same_namedtuples", same_namedtuples),
    "assert_same_structure": _entered("assert_same_structure", are_alike, Const(None)),
}


def _register() -> None:
    native = sys.modules["tree._tree"]
    BUILTINS.update({getattr(native, name): row for name, row in ROWS.items() if hasattr(native, name)})


FIRST_CALLED["tree._tree"] = _register
