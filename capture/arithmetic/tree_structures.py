"""Structures of trees compared: `jax.tree.structure(a) == jax.tree.structure(b)`.

What classes keep beside their leaves stands in such a structure as the capture knows it. A function that is made anew
in each call is known by its code there, through the object that holds it: whether two of them are one function is
asked, and guarded, before the structures are compared.

    step = lambda x: x * k  # anew in each call
    jax.tree.structure(State(x, step)) == jax.tree.structure(State(y, step))
"""

from __future__ import annotations

from typing import Any

from dynacomp.capture.arithmetic.identity import same_object
from dynacomp.capture.base.errors import Break
from dynacomp.capture.bodies.treedef_contents import in_structure
from dynacomp.capture.reconstruct.structures import replaced
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const, is_const, peek
from dynacomp.capture.values.questions import is_value
from dynacomp.capture.values.value import Value, existing, type_of
from dynacomp.capture.wrapping.immutability import TREEDEF, says_literals


def comparable(cap: Capture, a: Value, b: Value) -> tuple[Value, Value]:
    """Two structures with one Value in place of each function; two other Values as they are. Break where a structure
    from outside, which keeps objects, meets one that keeps Values."""
    if {type_of(a), type_of(b)} != {TREEDEF} or not is_const(a) or not is_const(b):
        return a, b
    if (a.source is None) != (b.source is None):
        if not says_literals(existing(a if a.source is not None else b)):
            raise Break("operator", "tree structures that keep objects beside their leaves")
        return a, b
    if not any(in_structure(v.value, Const) for v in (a, b)):
        return a, b
    functions: list[Const] = []
    made = [Const(replaced(v.value, lambda held: _as_one(cap, functions, held))) for v in (a, b)]
    return made[0], made[1]


def _as_one(cap: Capture, functions: list[Const], held: Any) -> Any:
    """The first of `functions` that is the same, where `held` is a function, or stands for one."""
    if not callable(peek(held) if is_const(held) else held) or is_value(held) and not is_const(held):
        return held
    fn = held if is_const(held) else Const(held)
    known = next((other for other in functions if same_object(cap, other, fn)), None)
    if known is None:
        functions.append(fn)
    return known or fn
