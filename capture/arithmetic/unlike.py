"""What equals nothing of another kind: a number is never None, a text, a class or a tuple, whatever number it is.

Python asks `__eq__` of both operands; the built-in ones leave all but their own kind to the other, and where both do,
only an object itself is equal. So `axis == None` and `size in ("same", None, 3)` say nothing of a number that changes.
"""

from __future__ import annotations

import operator
import sys
import types
from typing import Any

from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.value import NotConstant, Value, type_of
from dynacomp.capture.wrapping.class_attrs import resolve

# Whose methods a class has → the kind that they compare with; an object's own know only the object itself.
KINDS: dict[type, str] = {
    int: "number", float: "number", complex: "number", str: "text", object: "object", tuple: "tuple", list: "list",
    type(None): "none", dict: "dict", set: "set", frozenset: "set", slice: "slice", range: "range",
    types.BuiltinFunctionType: "function", types.MethodType: "method"}
if not sys.flags.bytes_warning:  # which makes Python say that they were compared with texts
    KINDS[bytes] = "bytes"


def compare(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """`==` or `!=` of two Values of which one is a number or a text that changes; None where it may decide."""
    if op is not operator.eq and op is not operator.ne:
        return None
    try:
        left, right = (_kind(cap, type_of(v)) for v in (a, b))
    except NotConstant:
        return None
    return None if left is None or right is None or left == right else Const(op is operator.ne)


def _kind(cap: Capture, cls: type) -> str | None:
    """What instances of a class compare with; None where that is not known."""
    found = {KINDS.get(resolve(cap, cls, method)[0] or object) for method in ("__eq__", "__ne__")}
    return found.pop() if len(found) == 1 else None
