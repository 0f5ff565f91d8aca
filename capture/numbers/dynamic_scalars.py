"""Python numbers that change from call to call: arithmetic on them stays in Python.

A `ScalarV` enters the Graph as a weakly typed 0-d array when JAX consumes it. Python's own
arithmetic on it is exact (64 bits and more), so it is done in Python, by the replacement code,
before the program runs (`sources.Host`). Only operations that cannot raise are moved there, or cannot under
guards (`scalar_ranges`); others break the graph, and code that needs the number as a constant fixes it
(`NeedsConcrete`).

A NumPy scalar that changes (`for t in np.linspace(0, 1, 100)`) is such a number too. It enters the
Graph with its own dtype, not weakly typed, and NumPy's own arithmetic on it stays NumPy's.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.numpy_errors import ignoring
from dynacomp.capture.numbers import size_values
from dynacomp.capture.numbers.applied import Applied, Given, quiet_below
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import BuiltinMethodV
from dynacomp.capture.values.computed import NeedsConcrete, ScalarV
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.questions import is_scalar
from dynacomp.capture.values.value import Value, is_changing, now

NEVER_RAISE = {op.__name__: op for op in (
    operator.add, operator.sub, operator.mul, operator.lt, operator.le, operator.gt, operator.ge, operator.eq,
    operator.ne, operator.and_, operator.or_, operator.xor)}
NONZERO_RIGHT = {op.__name__: op for op in (operator.truediv, operator.floordiv, operator.mod)}
OF_COMPLEX = ("add", "sub", "mul", "eq", "ne")  # what never raises where one of the two is a complex number of Python's
UNARY = {op.__name__: op for op in (operator.neg, operator.pos, operator.abs, operator.invert)}
TRUTHS = (*size_values.COMPARISONS, operator.not_, bool)
QUIET = ("lt", "le", "gt", "ge", "eq", "ne", "truth", "not_", "neg", "pos", "abs")
METHODS = ("all", "any", "astype", "clip", "conj", "item", "round", "tolist", "__int__", "__float__", "__index__")
LONGEST = 96  # operations in one expression of numbers that change
TEXTS = (str, bytes)
PLAIN = (int, float, bool, *TEXTS)
HALF_MAX = 65_504  # the greatest float16: Python's numbers below it become NumPy's of any type of floats
SMALL = 1 << 40  # ints beyond this, and floats made of them, are not moved


OF_MATH: dict[Any, tuple[float, float]] = {  # function of `math` → the arguments between which it cannot raise
    math.sin: (-1e300, 1e300), math.cos: (-1e300, 1e300), math.tan: (-1e300, 1e300), math.tanh: (-1e300, 1e300),
    math.atan: (-1e300, 1e300), math.exp: (-700, 700), math.expm1: (-700, 700), math.sqrt: (0, 1e300),
    math.log: (1e-300, 1e300), math.log2: (1e-300, 1e300), math.log10: (1e-300, 1e300), math.log1p: (0, 1e300),
    math.floor: (-1e12, 1e12), math.ceil: (-1e12, 1e12)}
INPLACE = {"iand": "and_", "ior": "or_", "ixor": "xor", "ilshift": "lshift", "irshift": "rshift"}


def plain_name(op: Any) -> str:
    """The name of an operator, whether it works in place or not."""
    name = op.__name__
    return INPLACE.get(name) or (name[1:] if name.startswith("i") and name != "invert" else name)


def binary(op: Any, a: Value, b: Value) -> Value | None:
    """`a op b` for numbers of which one changes; None when the other is no number."""
    name, plain = op.__name__, plain_name(op)
    if _is_text(a) and type(now(a)) is type(now(b)) and plain in ("add", "eq", "ne"):
        return host(plain, NEVER_RAISE[plain], a, b)
    if complex in (type(now(a)), type(now(b))):
        return _of_complex(plain, a, b)
    if not (is_number(a) and is_number(b)):
        return None
    if _may_overflow(a, b) or _may_overflow(b, a):
        raise Break("scalar", f"{name} of a NumPy scalar and a Python int that changes from call to call")
    if plain in NEVER_RAISE and moderate(a) and moderate(b):
        return host(plain, NEVER_RAISE[plain], a, b)
    if plain in NONZERO_RIGHT and is_const(b) and b.value != 0 and moderate(a):
        return host(plain, NONZERO_RIGHT[plain], a, b)
    if plain == "pow" and is_numpy_number(now(a)) and is_const(b) and b.value >= 0:
        return host(plain, operator.pow, a, b)
    raise Break("scalar", f"{name} of Python numbers that change from call to call")


def _of_complex(plain: str, a: Value, b: Value) -> Value | None:
    """Python's arithmetic where one of the two is complex; None where it may raise, or is NumPy's."""
    if not {type(now(a)), type(now(b))} <= {bool, int, float, complex} or not (moderate(a) and moderate(b)):
        return None
    if plain in OF_COMPLEX:
        return host(plain, NEVER_RAISE[plain], a, b)
    return host(plain, operator.truediv, a, b) if plain == "truediv" and is_const(b) and b.value != 0 else None


def unary(op: Any, value: ScalarV) -> Value:
    if type(value.hint) is complex and op.__name__ not in ("neg", "pos"):  # its absolute value may be out of range
        raise NeedsConcrete(value)
    if op.__name__ not in UNARY:
        raise Break("scalar", f"{op.__name__} of a Python number that changes from call to call")
    return host(op.__name__, op, value)


def as_bool(cap: Capture, value: ScalarV) -> Value | None:
    """`bool(value)` of a number of Python's; None for other things."""
    kind = type(value.hint)
    return value if kind is bool else settled(cap, host("truth", bool, value)) if kind in (int, float) else None


def negation(cap: Capture, value: ScalarV) -> Value:
    """`not value` of a truth."""
    return settled(cap, host("not_", operator.not_, value))


def settled(cap: Capture, value: Any) -> Any:
    """A truth that was found to be needed as a constant, as it is in this call; any other Value as it is."""
    needed = is_scalar(value) and type(value.hint) is bool and repr(value.source) in cap.lessons.decided
    return Const(decided(cap, value)) if needed else value


def truths_of(source: Any) -> set[str] | None:
    """The truths that a number is made of (`int(n > 3)`); None where it is made of something else, too."""
    if not isinstance(source, S.Host):
        return None if isinstance(source, S.Source) else set()
    if source.fn in TRUTHS:
        return {repr(source)}
    found = list(map(truths_of, source.args))
    return None if None in found else set().union(*found)  # type: ignore[arg-type]


def decided(cap: Capture, value: ScalarV) -> bool:
    """The truth of a changing number, as it is in this call: see `guarded`. Break where such conditions took too many
    entries already, but for those on strings: they name one of a few ways."""
    answer = size_values.answered(cap, value.source)
    if answer is not None:
        return answer
    cap.numbers.decisions.add(value.source)
    if _asked_again(cap, value.source) or cap.root.policy.changes_often(_truth(value)) and not is_of_text(
            cap, value.source):
        raise Break("scalar_branch", CONDITION)
    return guarded(cap, value)


def _asked_again(cap: Capture, source: Any) -> bool:
    """Whether the content of an array decides in several rounds of a loop: each way through it would be an entry."""
    if not is_of_array(cap, source):
        return False
    place = cap.where()
    again = place in cap.numbers.places
    cap.numbers.places.add(place)
    return again


def is_of_array(cap: Capture, source: Any) -> bool:
    """Whether the content of a NumPy array that exists before the call is part of what is at `source`."""
    if isinstance(source, S.Host):
        return any(is_of_array(cap, a) for a in source.args)
    return isinstance(cap.numbers.changing.get(source) if isinstance(source, S.Source) else source, np.ndarray)


CONDITION = "a condition on a Python number that changes from call to call"


def is_of_text(cap: Capture, source: Any) -> bool:
    """Whether strings and bytes alone decide what is at `source`."""
    if isinstance(source, S.Host):
        return all(is_of_text(cap, a) for a in source.args)
    if type(source) is tuple:  # the keys of a table that is asked for one
        return all(type(known) in TEXTS for known in source)
    return type(cap.numbers.changing.get(source) if isinstance(source, S.Source) else source) in TEXTS


def _truth(value: ScalarV) -> S.Host:
    return S.Host("truth", (value.source,), bool)


def pins(cap: Capture, value: ScalarV) -> bool:
    """Learns, once, that what Python computes of changing numbers is a constant where JAX is given it, the numbers are
    not: `x.astype(kinds[i % 2])` needs an entry for each of the two, none for each `i`. Not of the content of arrays,
    and not where the code has many entries already."""
    source = value.source
    if not isinstance(source, S.Host) or type(value.hint) not in (int, bool, str) or (
            repr(source) in cap.lessons.pinned) or is_of_array(cap, source) or pinned_often(cap, source):
        return False
    cap.lessons.pinned.add(repr(source))
    return True


@dataclass(frozen=True)
class Pinned(S.Source):
    """A question: how many values a number had that Python computes and that is a constant where JAX gets it."""

    base: S.Source

    def __repr__(self) -> str:
        return f"pinned({self.base!r})"


def pinned_often(cap: Capture, source: Any) -> bool:
    """Whether such a number had so many values that the graph breaks."""
    return bool(cap.root.policy.changes_often(Pinned(source)))


def pinned(cap: Capture, value: ScalarV) -> Const | None:
    """Such a number as it is in this call, in all calls that the entry serves; None of others."""
    if repr(value.source) not in cap.lessons.pinned:
        return None
    assert value.source is not None
    cap.guards.add("eq", value.source, value.hint)
    cap.numbers.scalars[Pinned(value.source)] = value.hint
    return Const(value.hint)


def pin(cap: Capture, stack: list[Any]) -> None:
    """Such a number on top of the stack is the constant from where it is computed: `range((1, 2, 4)[i % 3])`."""
    constant = pinned(cap, stack[-1]) if is_scalar(stack[-1]) and isinstance(stack[-1].source, S.Host) else None
    if constant is not None:
        stack[-1] = constant


OPERATIONS.pin = pin


def guarded(cap: Capture, value: ScalarV) -> bool:
    """The truth of a changing number, which is to be the same in all calls that the entry serves. Break where NumPy's
    arithmetic warns."""
    asked = _truth(value)
    if is_numpy_number(value.hint):
        try:
            asked = strict(cap, asked)[0]
        except ArithmeticError:
            raise Break("scalar_branch", CONDITION) from None
    answer = bool(value.hint)
    cap.guards.add("eq", asked, answer)
    return answer


def strict(cap: Capture, source: Any) -> tuple[Any, Any]:
    """A number that changes, its arithmetic on NumPy's scalars raising where NumPy would warn, so that a guard that
    computes it fails without a word; and what it is now."""
    if isinstance(source, S.SizeOf):
        return source, cap.sizes.scope.value(source.expr)
    if not isinstance(source, S.Host) or source in cap.numbers.changing:
        return source, cap.numbers.changing.get(source, source)
    args, values = zip(*(strict(cap, a) for a in source.args))
    found = ignoring(source.fn, *values)
    same = S.Host(source.op, args, source.fn)
    if not any(map(is_numpy_number, values)) or _is_quiet(same):
        return same, found
    fn = Applied(source.fn, [Given(i) for i in range(len(args))], {}, quiet_below=quiet_below(found))
    return S.Host(repr(fn), args, fn), fn(*values)


def is_for_guards(cap: Capture, source: S.Source | None) -> bool:
    """Whether guards can compute what is at `source`: all but what Python makes of other things than its own numbers
    and strings. NumPy's arithmetic may warn, which the steps of guards never do: Applied raises then."""
    while source is not None:
        if isinstance(source, S.Host):
            return isinstance(source.fn, Applied) or type(_plain_value(cap, source)) in PLAIN
        source = S.base_of(source)
    return True


def _plain_value(cap: Capture, source: Any) -> Any:
    """What a number is now that is made of Python's own numbers and strings alone; None of others."""
    if isinstance(source, S.SizeOf):
        return cap.sizes.scope.value(source.expr)
    if not isinstance(source, S.Host):
        return cap.numbers.changing.get(source) if isinstance(source, S.Source) else source
    values = [_plain_value(cap, a) for a in source.args]
    return source.fn(*values) if all(type(v) in PLAIN for v in values) else None


def _is_quiet(source: Any, largest: float = HALF_MAX) -> bool:
    """Whether NumPy computes this without a warning, so that a guard may: comparisons with moderate numbers."""
    if isinstance(source, S.Host):
        largest = max((_quiet_below(a) for a in source.args), default=0) or HALF_MAX
        return bool(_quiet_below(source)) or source.op in QUIET and all(_is_quiet(a, largest) for a in source.args)
    return isinstance(source, (S.Source, str, np.generic)) or source != source or abs(source) <= largest


def _quiet_below(source: Any) -> float:
    """Up to which Python number NumPy compares it without a warning, if that is known: see `host_arrays.Applied`."""
    return getattr(source.fn, "quiet_below", 0) if isinstance(source, S.Host) else 0


def attribute(value: ScalarV, name: str) -> Value:
    """What all NumPy scalars of a type share, or a method; anything else needs the number itself."""
    if name in ("dtype", "shape", "ndim", "size", "itemsize"):
        return Const(getattr(value.hint, name))
    if name in METHODS:
        return BuiltinMethodV(value, name)
    raise NeedsConcrete(value)


def host(name: str, op: Any, *values: Any) -> Value:
    """What `op` (the entry `name` of FUNCTIONS) makes of numbers, computed in Python in each call."""
    try:
        hint = ignoring(op, *map(now, values))  # NumPy warns when the program runs
    except ours(Exception) as error:
        raise Break("scalar", f"{name} raises {type(error).__name__}") from None
    source = S.Host(name, tuple(v.source if is_changing(v) else v.value for v in values), op)
    if source.size > LONGEST:  # `k = k + k` thirty times is written with 2**30 operations
        raise Break("scalar", f"more than {LONGEST} operations on Python numbers that change from call to call")
    return ScalarV(hint, source=source)


def length(value: ScalarV) -> Value:
    """`len` of a changing string."""
    if type(value.hint) not in TEXTS:
        raise NeedsConcrete(value)
    return host("len", len, value)


def _is_text(v: Value) -> bool:
    return type(now(v)) in TEXTS


def is_number(v: Value) -> bool:
    """A number that JAX takes, which may change."""
    return type(now(v)) in (int, float, bool) or is_numpy_number(now(v))


def is_numpy_number(x: Any) -> bool:
    """A NumPy scalar that is a number which JAX takes."""
    return isinstance(x, np.generic) and x.dtype.kind in "biuf"


def _may_overflow(a: Any, b: Any) -> bool:
    """Whether a later `b` may not fit the NumPy type of `a`: that raises."""
    return is_numpy_number(now(a)) and is_scalar(b) and type(b.hint) is int


def moderate(v: Any) -> bool:
    """Whether int-to-float conversions of such a number cannot overflow."""
    value = now(v)
    return isinstance(value, (float, complex)) or abs(value) < SMALL
