"""Folding: what depends on constants alone is computed while capturing.

What gives another result, or does more, each time that it runs is left to Python: arithmetic that reads a
context of the thread, and what warns.

    >>> fold(cap, operator.add, Const(1), Const(2))
    Const(value=3)
"""

from __future__ import annotations

import enum
import operator
import re
import types
from decimal import Decimal
from typing import Any

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.numpy_errors import raising
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.values.constant import Const, is_const, peek
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.iterators import SeqIterV
from dynacomp.capture.values.value import Value, as_python
from dynacomp.capture.wrapping.class_prototypes import Recipe, add, is_made, made_class, refuse
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.immutability import SHOWING, is_changeable

MATCHES = type(re.finditer("", ""))
# Operators whose result on Decimals depends on the context, in which they leave flags.
ROUNDING = {id(fn) for fn in (
    *(vars(operator)[prefix + name] for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
      for prefix in ("", "i")), operator.neg, operator.pos, operator.abs, abs, divmod, pow, round)}


COMPARING = {id(fn) for fn in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)}


def _compares_exactly(number: Any) -> bool:
    """Whether comparing a Decimal with this leaves no flag: floats do, and what is no number."""
    return type(number) is Decimal and not number.is_nan() or type(number) not in (Decimal, float, complex)


# Operators of these do nothing but compute, and say nothing. (Bytes that meet strings may warn, `~True` does.)
SILENT = {int, float, str, type(None)}
OPERATORS = {id(fn) for fn in vars(operator).values() if type(fn) is types.BuiltinFunctionType}


def _check_made(cap: Capture, fn: Any, values: tuple[Value, ...], found: Any) -> None:
    """What is computed of a class of the capture's own must be the same for the class of each call."""
    cls = made_class(cap, type(found))
    if cls is not None and issubclass(type(found), enum.Enum) and not is_made(cap, found):  # several flags
        add(cap, Recipe(found, Const(found), operator.call, (cls.value, Const(found._value_)), {}))
    of_members = all(issubclass(type(peek(v)), enum.Enum) for v in values if is_const(v) and is_made(cap, peek(v)))
    if not (found is None or isinstance(found, (str, bool, type)) or is_made(cap, found) or fn is len
            or of_members and is_literal(found)):
        refuse(cap, values, getattr(fn, "__name__", "what is computed"))


def fold(cap: Capture, fn: Any, *values: Value) -> Value:
    """`fn` on constants, now; its exceptions are the program's."""
    args = [as_python(v) for v in values]
    if id(fn) in OPERATORS and SILENT.issuperset(map(type, args)):
        try:
            return Const(fn(*args))
        except ours(Exception) as error:
            raise Raised(Const(error)) from None
    if any(is_const(v) and (v.source is not None and is_changeable(v.value) or issubclass(
            type(v.value), SHOWING)) for v in values):
        raise Break("opaque", "an object that is known by its identity alone")
    if any(type(a) is Decimal for a in args) and (
            id(fn) in ROUNDING or id(fn) in COMPARING and not all(map(_compares_exactly, args))):
        raise Break("effect", "decimal arithmetic, which reads its context and leaves flags there")
    try:
        name, places = getattr(fn, "__name__", "what is computed"), (globals(), getattr(fn, "__globals__", {}))
        with OPERATIONS.folding(cap, name, *places):
            found = raising(fn, *args)
        if type(found) is MATCHES:
            return SeqIterV(TupleV([from_python(cap, match) for match in found]), kind="other", seen=True)
    except FloatingPointError:
        raise Break("effect", "NumPy has a warning to give") from None
    except Break:
        raise
    except ours(Exception) as error:
        raise Raised(Const(error)) from None
    if cap.known.made:
        _check_made(cap, fn, values, found)
    if hasattr(type(found), "__next__") or type(found) in (bytearray, memoryview):
        raise Break("iterator", f"a new {type(found).__name__}, which changes as it is used")
    if issubclass(type(found), type) and all(found is not a for a in args):
        cap.known.folded[id(found)] = found
    made = from_python(cap, found)
    if is_const(made) and all(made.value is not a for a in args) and is_changeable(made.value):
        raise Break("call", f"a new {type(found).__qualname__}, which may change")
    return made
