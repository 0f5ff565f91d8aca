"""Pure functions of numbers and strings that change from call to call: Python computes them in each call.

`math.sqrt(n)`, `float(n)`, `np.log(n)`, `f"{loss:.3f}"`, `n.bit_length()`, `name.split("/")` of a number that changes,
a symbolic size among them, stay what they are: host expressions (`sources.Host`), computed by replacement code and by
guards. A row says between which bounds of its arguments a function cannot raise; where this call's arguments lie
within them the bounds become guards, and the function is not called outside of them. Any other function gets the
number as a constant, as before.

    >>> row_of(math.sqrt)
    ((0, 1e+300),)
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.identity_table import IdentityTable
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.numbers import dynamic_scalars, scalar_ranges, size_values
from dynacomp.capture.numbers.dynamic_scalars import TEXTS
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import ScalarV, SizeV
from dynacomp.capture.values.constant import Const, is_exactly
from dynacomp.capture.values.containers import ListV, TupleV
from dynacomp.capture.values.questions import is_plain_tuple, is_scalar, is_sequence, is_size, is_slice
from dynacomp.capture.values.value import Value, is_changing, now

Bounds = tuple[float, float]
ANY: Bounds = (-math.inf, math.inf)
LARGE: Bounds = (-1e300, 1e300)
INT64: Bounds = (-(1 << 62), 1 << 62)
NATURAL: Bounds = (0, 1 << 62)
CHANGING = (ScalarV, SizeV)
OF_NUMERALS = {int: "int", float: "float"}  # which take texts that say a number
OF_TEXTS = (str, repr, ascii, format, sys.intern)  # which take strings too, the last one nothing else
MOST_ITEMS, MOST_SORTED = 64, 16  # of which `max` takes one in each call; which `sorted`, `split` give for each
LONGEST = 1 << 16  # characters of a text that is repeated

_MATH: dict[Any, tuple[Bounds, ...]] = {
    **{fn: (bounds,) for fn, bounds in dynamic_scalars.OF_MATH.items()},
    math.trunc: ((-1e12, 1e12),), math.fabs: (LARGE,), math.degrees: ((-1e290, 1e290),), math.radians: (LARGE,),
    math.isfinite: (LARGE,), math.isinf: (LARGE,), math.isnan: (LARGE,), math.asin: ((-1, 1),), math.acos: ((-1, 1),),
    math.sinh: ((-700, 700),), math.cosh: ((-700, 700),), math.asinh: (LARGE,), math.acosh: ((1, 1e300),),
    math.atanh: ((-0.999, 0.999),), math.erf: (LARGE,), math.erfc: (LARGE,), math.gamma: ((0.01, 170),),
    math.lgamma: ((0.01, 1e300),), math.cbrt: (LARGE,), math.exp2: ((-1000, 1000),), math.isqrt: (NATURAL,),
    math.factorial: ((0, 100),), math.atan2: (LARGE, LARGE), math.copysign: (LARGE, LARGE),
    math.hypot: ((-1e150, 1e150), (-1e150, 1e150)), math.gcd: (INT64, INT64), math.lcm: (INT64, INT64),
    math.comb: ((0, 64), (0, 64)), math.perm: ((0, 64), (0, 64)), math.ldexp: ((-1e30, 1e30), (-500, 500)),
    math.fmod: (LARGE, (1e-300, 1e300)), math.remainder: (LARGE, (1e-300, 1e300)),
}
_BUILTINS: dict[Any, tuple[Bounds, ...]] = {
    float: (LARGE,), int: ((-1e15, 1e15),), complex: (LARGE, LARGE), round: (LARGE, (-300, 300)), str: (ANY,),
    repr: (ANY,), ascii: (ANY,), format: (ANY, ANY), sys.intern: (ANY,), hex: (INT64,), oct: (INT64,), bin: (INT64,),
    ord: (ANY,), chr: ((0, sys.maxunicode),),
}
_UFUNCS = (
    "absolute", "add", "arctan", "arctan2", "cbrt", "ceil", "copysign", "cos", "degrees", "divide", "equal", "exp",
    "exp2", "expm1", "fabs", "floor", "floor_divide", "greater", "greater_equal", "hypot", "isfinite", "isinf", "isnan",
    "less", "less_equal", "log", "log10", "log1p", "log2", "maximum", "minimum", "mod", "multiply", "negative",
    "not_equal", "positive", "radians", "rint", "sign", "sin", "sqrt", "square", "subtract", "tan", "tanh", "trunc")
_WHOLE = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
_NUMPY: dict[Any, tuple[Bounds, ...]] = {
    **{getattr(np, name): (INT64,) * getattr(np, name).nin for name in _UFUNCS},
    **{kind: ((int(np.iinfo(kind).min), int(np.iinfo(kind).max)),) for kind in _WHOLE},
    **dict.fromkeys((np.float16, np.float32, np.float64), ((-60000, 60000),)),
}
_TEXT_METHODS = ("capitalize", "casefold", "center", "count", "endswith", "expandtabs", "find", "isalnum", "isalpha",
                 "isdecimal", "isdigit", "islower", "isnumeric", "isspace", "istitle", "isupper", "ljust", "lower",
                 "lstrip", "removeprefix", "removesuffix", "replace", "rfind", "rjust", "rstrip", "startswith", "strip",
                 "swapcase", "title", "upper", "zfill")
_CUTS = ("split", "rsplit", "splitlines", "partition", "rpartition")  # methods that give parts
_METHODS: dict[tuple[type, str], Any] = {
    **{(kind, name): getattr(kind, name) for kind in TEXTS for name in _TEXT_METHODS if hasattr(kind, name)},
    (bytes, "hex"): bytes.hex,
    **{(int, name): getattr(int, name) for name in ("bit_length", "bit_count", "conjugate", "__index__", "__int__")},
    **{(float, name): getattr(float, name) for name in ("is_integer", "hex", "conjugate")},
    (int, "__float__"): float, (float, "__float__"): float,
}
ROWS = IdentityTable()
for _fn, _bounds in (*_MATH.items(), *_BUILTINS.items(), *_NUMPY.items()):
    ROWS[_fn] = _bounds


def row_of(fn: Any) -> tuple[Bounds, ...] | None:
    """The bounds of a function's arguments; None where it has no row."""
    return ROWS.get(fn)


def call(cap: Capture, fn: Any, args: Sequence[Value], kwargs: Any = ()) -> Value | None:
    """`fn(*args)` as a host expression; None where it is none: nothing changes, or an argument is no number."""
    if kwargs or not any(map(is_changing, args)):
        return None
    bounds = row_of(fn)
    if bounds is None or len(args) > len(bounds) or not all(map(_is_plain, args)):
        return None
    if fn is ord:
        return _ordinal(cap, *args)
    if fn in OF_NUMERALS and len(args) == 1 and type(now(args[0])) in TEXTS:
        return _parsed(cap, fn, args[0])
    if fn not in OF_TEXTS and any(type(now(a)) in TEXTS for a in args) or fn is int and is_size(args[0]):
        return None
    if fn is sys.intern and type(now(args[0])) is not str:
        return None
    return _hosted(cap, fn, args, bounds)


def _ordinal(cap: Capture, text: Value) -> Value | None:
    """`ord(text)`: that it is one character is guarded."""
    if type(now(text)) not in TEXTS or len(now(text)) != 1:
        return None
    return _hosted(cap, ord, [text], (ANY,)) if _are_so_many(cap, dynamic_scalars.host("len", len, text)) else None


def method(cap: Capture, obj: Value, name: str, args: Sequence[Value]) -> Value | None:
    """`obj.name(*args)` of a number or a string, of which some change; None where it is no host expression."""
    if name == "join" and len(args) == 1 and is_sequence(args[0]) and type(now(obj)) is str:
        return joined(cap, obj, cap.items(args[0]))
    if name in _CUTS and type(now(obj)) in TEXTS:
        return _cut(cap, name, obj, args)
    fn = _METHODS.get((type(now(obj)), name))
    if fn is None or not all(map(_is_plain, (obj, *args))):
        return None
    return _hosted(cap, fn, (obj, *args), (ANY,) * (1 + len(args)))


def _parsed(cap: Capture, fn: Any, text: Value) -> Value | None:
    """`int(text)`: that it says a number is guarded."""
    if not is_numeral(OF_NUMERALS[fn], now(text)):
        return None
    asked = dynamic_scalars.host(name_of(is_numeral), is_numeral, Const(OF_NUMERALS[fn]), text)
    dynamic_scalars.guarded(cap, asked)  # type: ignore[arg-type]
    return _hosted(cap, fn, [text], (ANY,))


def item(cap: Capture, text: Value, key: Value) -> Value | None:
    """`text[i]`, where there is such a character, and `text[i:j]`, likewise."""
    if type(now(text)) not in TEXTS:
        return None
    if type(now(key)) is int:
        asked = dynamic_scalars.host(name_of(has_item), has_item, text, as_scalar(cap, key))
        return _hosted(cap, operator.getitem, [text, key], (ANY, ANY)) if dynamic_scalars.guarded(
            cap, asked) else None  # type: ignore[arg-type]
    ends = _ends(key)
    known = all(type(now(x)) in (int, type(None)) for x in ends) and is_exactly(ends[2], int, type(None))
    return _hosted(cap, cut_out, [text, *ends], (ANY,) * 4) if known and now(ends[2]) != 0 else None


def chosen(cap: Capture, items: Sequence[Value], index: Value) -> Value | None:
    """`items[index]` of numbers or strings of one exact type, the index changing, where there is such an item."""
    kinds = {type(now(v)) for v in items}
    if len(items) > MOST_ITEMS or len(kinds) != 1 or not kinds <= {int, float, str} or type(now(index)) is not int:
        return None
    return _hosted(cap, nth, [index, *items], (ANY,) * (1 + len(items))) if within(cap, index, len(items)) else None


def within(cap: Capture, index: Value, length: int) -> bool:
    """Whether so many items have one there, which is guarded."""
    return dynamic_scalars.guarded(cap, is_one(as_scalar(cap, index), length))  # type: ignore[arg-type]


def is_one(index: Value, length: int) -> Value:
    """The same as a truth that changes."""
    return dynamic_scalars.host(name_of(is_within), is_within, index, Const(length))


def place(keys: Sequence[Any], key: Value) -> Value | None:
    """Where a key that changes stands among constants, behind all where it is none of them; None among too many."""
    known = 0 < len(keys) <= MOST_ITEMS and all(type(k) in (int, bool, *TEXTS) for k in keys)
    return dynamic_scalars.host(name_of(place_among), place_among, key, *map(Const, keys)) if known else None


def _ends(key: Value) -> list[Value]:
    """Where a slice starts and stops, and its step; three constants that are none of those for other keys."""
    if is_slice(key):
        return [key.start, key.stop, key.step]
    given = key.value if is_exactly(key, slice) else slice("", "", "")
    return [Const(given.start), Const(given.stop), Const(given.step)]


def _cut(cap: Capture, name: str, text: Value, how: Sequence[Value]) -> Value | None:
    """`text.split(...)` and the like, likewise: the list, or tuple, of parts. How many there
    are is guarded; None where that changes too often."""
    if not all(map(_is_plain, how)):
        return None
    try:
        found = getattr(now(text), name)(*map(now, how))
    except ours(Exception):
        return None
    if not _are_so_many(cap, dynamic_scalars.host(name_of(count_of), count_of, Const(name), text, *how)):
        return None
    parts: list[Any] = [dynamic_scalars.host(name_of(part_of), part_of, Const(i), Const(name), text, *how)
                        for i in range(len(found))]
    return ListV(parts) if type(found) is list else TupleV(parts)


def _are_so_many(cap: Capture, count: Value) -> bool:
    """Guards how many parts there are; False where that changes too often."""
    if now(count) > MOST_SORTED or cap.root.policy.changes_often(count.source):  # type: ignore[arg-type]
        return False
    asked = dynamic_scalars.host("eq", operator.eq, count, Const(now(count)))
    return dynamic_scalars.guarded(cap, asked)  # type: ignore[arg-type]


def characters(cap: Capture, text: Value) -> list[Value] | None:
    """What iteration over a text gives; None of long ones. Break where there were too many entries already."""
    if len(now(text)) > MOST_SORTED:
        return None
    if not _are_so_many(cap, dynamic_scalars.host("len", len, text)):
        raise Break("scalar_constant", "iteration over a text")
    return [dynamic_scalars.host("getitem", operator.getitem, text, Const(i)) for i in range(len(now(text)))]


def concatenated(cap: Capture, parts: Sequence[Value]) -> Value | None:
    """`"".join(parts)` of strings of which some change."""
    return _hosted(cap, concat, parts, (ANY,) * len(parts)) if all(type(now(p)) is str for p in parts) else None


def joined(cap: Capture, between: Value, parts: Sequence[Value]) -> Value | None:
    """`between.join(parts)`, likewise."""
    known = all(type(now(p)) is str for p in (between, *parts)) and any(map(is_changing, parts))
    return _hosted(cap, _join, (between, *parts), (ANY,) * (1 + len(parts))) if known else None


def percent(cap: Capture, text: Value, values: Value) -> Value | None:
    """`text % values`, likewise."""
    given = [cap.realize(v) for v in values.items] if is_plain_tuple(values) else [values]
    if type(now(text)) is not str or not any(map(is_changing, given)) or not all(map(_is_plain, given)):
        return None
    return _hosted(cap, _percent, (text, *given), (ANY,) * (1 + len(given)))


def extreme(cap: Capture, pick: Any, items: Sequence[Value]) -> Value | None:
    """`max(*items)` or `min(*items)` of ints, of floats or of strings, of which some change: one entry serves whichever
    it is. None of others, whose kind would depend on that, and where the values at hand are to decide."""
    known = _are_alike(cap, items) and len(items) <= MOST_ITEMS
    return _hosted(cap, pick, items, (ANY,) * len(items)) if known else None


def in_order(cap: Capture, items: Sequence[Value], reverse: bool) -> list[Value] | None:
    """`sorted(items)`, likewise."""
    if not _are_alike(cap, items) or len(items) > MOST_SORTED:
        return None
    found = [_hosted(cap, ranked, (Const(i), Const(reverse), *items), (ANY,) * (2 + len(items)))
             for i in range(len(items))]
    return None if None in found else found  # type: ignore[return-value]


def exact_sum(cap: Capture, items: Sequence[Value]) -> Value | None:
    """`math.fsum(items)` of floats of which some change."""
    known = _are_alike(cap, items) and type(now(items[0])) is float and len(items) <= MOST_ITEMS
    return _hosted(cap, fsum_of, items, ((-1e290, 1e290),) * len(items)) if known else None


def _are_alike(cap: Capture, items: Sequence[Value]) -> bool:
    """Whether these are values of one exact kind that Python puts in order, of which some change."""
    kinds = {type(now(v)) for v in items}
    known = len(kinds) == 1 and kinds <= {int, float, str} and any(map(is_changing, items))
    return known and not cap.lessons.takes_sides


def contained(cap: Capture, text: Value, part: Value) -> Value | None:
    """`part in text`, likewise."""
    known = all(type(now(v)) is str for v in (text, part)) and any(map(is_changing, (text, part)))
    return _hosted(cap, operator.contains, (text, part), (ANY, ANY)) if known else None


def repeated(cap: Capture, a: Value, b: Value) -> Value | None:
    """`text * n`, likewise."""
    text, times = (a, b) if type(now(a)) is str else (b, a)
    if type(now(text)) is not str or type(now(times)) is not int or not abs(now(times)) * len(now(text)) < LONGEST:
        return None
    return _hosted(cap, operator.mul, (text, times), (ANY, (-LONGEST, LONGEST)))


def _hosted(cap: Capture, fn: Any, args: Sequence[Value], bounds: Sequence[Bounds]) -> Value | None:
    """The host expression, under guards that hold its arguments within the bounds."""
    try:
        given = [_quiet(cap, as_scalar(cap, a)) for a in args]
    except ArithmeticError:
        return None
    limits = [(sign, a, limit) for a, (low, high) in zip(given, bounds) if is_scalar(a)
              and type(a.hint) is not str for sign, limit in (("ge", low), ("le", high)) if abs(limit) != math.inf]
    try:
        found = dynamic_scalars.host(name_of(fn), fn, *given)
    except Break:  # it raises: as a constant it raises the program's exception
        return None
    return size_values.counted(cap, found) if scalar_ranges.holds(cap, limits) else None


def name_of(fn: Any) -> str:
    """What a function is called in a Host: no two are called alike."""
    owner = getattr(fn, "__objclass__", None)
    module = owner.__name__ if owner is not None else "numpy" if isinstance(fn, np.ufunc) else fn.__module__
    return fn.__name__ if module == "_operator" else f"{module}.{fn.__name__.strip('_')}"


def as_index(cap: Capture, value: Value) -> Value:
    """A NumPy int that changes as the int that `operator.index` makes of it; other Values are themselves."""
    if not is_scalar(value) or not isinstance(value.hint, np.integer):
        return value
    return call(cap, int, [value]) or value


def _quiet(cap: Capture, value: Value) -> Value:
    """A number of NumPy's as guards may ask for it, see `dynamic_scalars.strict`; any other Value as it is."""
    if not is_scalar(value) or not dynamic_scalars.is_numpy_number(value.hint):
        return value
    return ScalarV(value.hint, source=dynamic_scalars.strict(cap, value.source)[0])


def as_scalar(cap: Capture, value: Value) -> Value:
    """A symbolic size as any other number that changes; other Values are themselves."""
    return ScalarV(value.hint, source=size_values.source_of(cap, value)) if is_size(value) else value


def _is_plain(value: Value) -> bool:
    """A number or string: exact, or NumPy's."""
    return type(now(value)) in dynamic_scalars.PLAIN or dynamic_scalars.is_numpy_number(now(value))


def ranked(rank: int, reverse: bool, *items: Any) -> Any:
    return sorted(items, reverse=reverse)[rank]


def is_numeral(kind: str, text: Any) -> bool:
    """Whether `float(text)` is a number, or `int(text)` one that is not too large for a Graph."""
    try:
        found = {"int": int, "float": float}[kind](text)
    except ValueError:
        return False
    return kind == "float" or abs(found) <= NATURAL[1]


def has_item(text: Any, index: int) -> bool:
    return -len(text) <= index < len(text)


def is_within(index: int, length: int) -> bool:
    return -length <= index < length


def place_among(key: Any, *keys: Any) -> int:
    return {k: n for n, k in reversed([*enumerate(keys)])}.get(key, len(keys))


def nth(index: int, *items: Any) -> Any:
    return items[index]


def cut_out(text: Any, *ends: Any) -> Any:
    return text[slice(*ends)]


def count_of(cut: str, text: Any, *how: Any) -> int:
    return len(getattr(text, cut)(*how))


def part_of(index: int, cut: str, text: Any, *how: Any) -> Any:
    return getattr(text, cut)(*how)[index]


def fsum_of(*items: float) -> float:
    return math.fsum(items)


def concat(*parts: str) -> str:
    """What an f-string makes of its parts."""
    return "".join(parts)


def _join(between: str, *parts: str) -> str:
    return between.join(parts)


def _percent(text: str, *values: Any) -> str:
    return text % values
