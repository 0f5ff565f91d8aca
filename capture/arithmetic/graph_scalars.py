"""Python numbers that the Graph computes: loop counters, flags set in a branch, `float(loss)`.

A `NumberV` is a Python int, bool or float whose value only the run knows. It stays in the Graph as
a scalar array for as long as what the program does with it is exactly what JAX does with the array:

- ints: arithmetic whose result provably fits JAX's own int (each NumberV knows its range);
- bools: `not`, comparison, jumps (see `branches`);
- floats: only their sign may change, and they may be compared: Python's floats have 64 bits;
- as an argument of JAX it is a weakly typed scalar, as Python's own numbers are.

Anything else breaks the graph. Where Python needs the number at the end, `int(x)`, `bool(x)` or
`float(x)` makes it of the array.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.capture.arithmetic import later
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.numpy_errors import ignoring
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bodies.placement import has_value
from dynacomp.capture.graph.avals import Aval, aval_of, is_numpy_dtype, weak
from dynacomp.capture.graph.sizes import bounds, canonical
from dynacomp.capture.numbers import size_values
from dynacomp.capture.numbers.dynamic_scalars import host, is_numpy_number
from dynacomp.capture.numbers.host_functions import as_scalar, row_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV, NumberV
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.iterators import CountIterV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_graph_number, is_number, is_scalar, is_size
from dynacomp.capture.values.value import Value, now, type_of
from dynacomp.capture.wrapping.ndarrays import is_jax_array

COMPARISONS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
               "eq": operator.eq, "ne": operator.ne}


def limits() -> tuple[int, int]:
    """The least and the greatest int that JAX takes from Python."""
    found = jnp.iinfo(aval_of(0).dtype)
    return int(found.min), int(found.max)


# --- where they come from


def from_array(cap: Capture, x: Value, kind: type, by_tracers: bool = True) -> NumberV | None:
    """`kind(x)` of a scalar array; None where the Graph cannot hold it, or eager JAX might refuse. by_tracers: a tracer
    that has a value says it, too; none is a float."""
    x = later.twin(cap, x) or x
    if not is_jax_array(x) or not has_value(cap, x.node, by_tracers):
        return None
    if cap.under_trace:
        x = library_call(cap, jax.lax.stop_gradient, [x])  # a number of Python's has no derivative
        assert is_jax_array(x)
    dtype = x.aval.dtype
    if x.aval.shape != () or not is_numpy_dtype(dtype):
        return None
    if kind is bool:
        return _bool(cap, x) if not jnp.issubdtype(dtype, jnp.complexfloating) else None
    if kind is float:
        return NumberV(x.node, x.aval, float) if jnp.issubdtype(dtype, jnp.floating) else None
    if dtype == bool:
        return made_int(cap, x, 0, 1)
    if kind is not int or not jnp.issubdtype(dtype, jnp.integer):
        return None
    low, high = int(jnp.iinfo(dtype).min), int(jnp.iinfo(dtype).max)
    return made_int(cap, x, low, high) if fits(low, high) else None


def kind_of(aval: Aval) -> type | None:
    """The type of `.item()` of an array."""
    if not is_numpy_dtype(aval.dtype):
        return None
    return (bool if aval.dtype == bool else int if jnp.issubdtype(aval.dtype, jnp.integer)
            else float if jnp.issubdtype(aval.dtype, jnp.floating) else None)


def _bool(cap: Capture, x: ArrayV) -> NumberV:
    return NumberV(x.node, x.aval, bool) if x.aval.dtype == bool else _made(cap, bool, operator.ne, x, Const(0))


def _made(cap: Capture, kind: type, fn: Any, *operands: Value) -> NumberV:
    """The number that `fn` computes of arrays."""
    result: Any = library_call(cap, fn, list(operands))
    return NumberV(result.node, result.aval, kind)


def made_int(cap: Capture, x: ArrayV, low: int, high: int, steps: Any = None) -> NumberV:
    node, aval = x.node, aval_of(0)
    if x.aval != aval:
        node = _made(cap, int, weak, x, Const(int)).node
    return NumberV(node, aval, int, low, high, steps)


def fits(low: int, high: int) -> bool:
    least, most = limits()
    return least <= low and high <= most


# --- arithmetic


def binary(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """`a op b`, one of them a NumberV; None where the other is no number. Break where Python's answer
    could differ from the array's."""
    name = op.__name__.strip("_")
    if name in COMPARISONS or any(v.series is not None for v in of_class(NumberV, (a, b))):
        a, b = as_scalar(cap, a), as_scalar(cap, b)
    if not (_is_operand(a) and _is_operand(b)):
        return later.arithmetic(cap, op, a, b) if is_size(a) or is_size(b) else None
    series = _each_round(op, a, b)
    if series is not None and (type(series.now) is float or is_rounded(a) or is_rounded(b)):
        return series.loop.number(series.expr, series.now)  # type: ignore[no-any-return]
    if name in COMPARISONS:
        found = _compare(cap, name, a, b)
    else:
        row = _ARITHMETIC.get(name.removeprefix("i") if name.startswith("i") and name != "invert" else name)
        unfit = any(is_scalar(v) or type_of(v) is float for v in (a, b))
        found = row(cap, a, b) if row is not None and not unfit else None
    if series is not None and is_graph_number(found):
        found.series = series
    elif series is not None and found is None:
        found = series.loop.number(series.expr, series.now)
    found = found or later.arithmetic(cap, op, a, b)
    if found is None:
        raise Break("leaves", f"{name} of Python numbers that are computed from arrays")
    return found


def _is_operand(v: Value) -> bool:
    return is_number(v) or is_scalar(v) and type(v.hint) in (int, bool, float)


def span(v: Any) -> tuple[int, int]:
    """The least and the greatest value of an int or bool."""
    row = kind(v).span
    return (int(least_of(v)), int(most_of(v))) if row is None else row(v)


define(NumberV, Kind(span=lambda v: (v.low, v.high)))


def held(cap: Capture, v: Any) -> tuple[int, int]:
    """The span of an int or bool that the Graph is to have; what changes from call to call is guarded to be in it."""
    if not is_scalar(v):
        return span(v)
    reach = limits()[1] // 2
    for name in ("ge", "le"):
        bound = reach if name == "le" else -reach
        if not COMPARISONS[name](v.hint, bound):
            return limits()[0] - 1, limits()[1] + 1  # more than fits
        cap.guards.add("eq", S.Host(name, (v.source, bound), COMPARISONS[name]), True)
    return -reach, reach


def _operand(v: Value) -> Value:
    return ArrayV(v.node, v.aval) if is_graph_number(v) else v


def _computed(cap: Capture, op: Any, a: Any, b: Any, bounds: list[int], steps: Any = None) -> NumberV | None:
    low, high = min(bounds), max(bounds)
    if not (fits(low, high) and fits(*span(a)) and fits(*span(b))):
        return None
    result: Any = library_call(cap, op, [_operand(a), _operand(b)])
    return made_int(cap, result, low, high, steps)


def _add(cap: Capture, a: Any, b: Any) -> NumberV | None:
    (p, q), (r, s) = span(a), span(b)
    steps = _moved(a, b, 1) or _moved(b, a, 1)
    return _computed(cap, operator.add, a, b, [p + r, q + s], steps)


def _sub(cap: Capture, a: Any, b: Any) -> NumberV | None:
    (p, q), (r, s) = span(a), span(b)
    return _computed(cap, operator.sub, a, b, [p - s, q - r], _moved(a, b, -1))


def _moved(v: Any, by: Any, sign: int) -> Any:
    """The steps of a counter that moves on."""
    if not (is_graph_number(v) and v.steps and is_const(by)):
        return None
    node, least, most = v.steps
    return node, least + sign * by.value, most + sign * by.value


def _mul(cap: Capture, a: Any, b: Any) -> NumberV | None:
    return _computed(cap, operator.mul, a, b, [x * y for x in span(a) for y in span(b)])


def _floordiv(cap: Capture, a: Any, b: Any) -> NumberV | None:
    if span(b)[0] <= 0:
        return None
    return _computed(cap, operator.floordiv, a, b, [x // y for x in span(a) for y in span(b)])


def _mod(cap: Capture, a: Any, b: Any) -> NumberV | None:
    return _computed(cap, operator.mod, a, b, [0, span(b)[1] - 1]) if span(b)[0] > 0 else None


def extreme(cap: Capture, pick: Any, items: Sequence[Any]) -> Value | None:
    """`max(*items)` or `min(*items)` of numbers of one type, of which the Graph computes some; None of others."""
    kinds = set(map(type_of, items))
    if kinds == {float}:
        return _extreme_float(cap, pick, items) or later.made(cap, pick, *items)
    if kinds != {int} or not any(is_graph_number(v) for v in items) or not all(is_number(v) for v in items):
        return None
    found = items[0]
    for v in items[1:]:
        bounds = [pick(ends) for ends in zip(span(found), span(v))]
        found = found and _computed(cap, _EXTREMES[pick], found, v, bounds)
    return found  # type: ignore[no-any-return]


def _extreme_float(cap: Capture, pick: Any, items: Sequence[Any]) -> Value | None:
    """The same of floats which the dtype of an array holds, all of them: each is asked, in turn, as Python does."""
    dtypes = {v.aval.dtype for v in items if is_graph_number(v)}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if dtype is None or not is_numpy_dtype(dtype) or any(is_rounded(v) for v in items) or not all(
            is_graph_number(v) or is_const(v) and _holds(dtype, v.value) for v in items):
        return None
    found = items[0]
    for v in items[1:]:
        asked = _compare(cap, _ASKED[pick], v, found) if is_graph_number(v) or is_graph_number(found) else Const(
            pick(found.value, v.value) is v.value)
        if is_const(asked):
            found = v if asked.value else found
        elif asked is None:
            return None
        else:
            found = _made(cap, float, jnp.where, *map(_operand, (asked, v, found)))
    return found  # type: ignore[no-any-return]


def _holds(dtype: Any, number: float) -> bool:
    return bool(ignoring(lambda: float(dtype.type(number)) == number or number != number))


_ASKED = {max: "gt", min: "lt"}
_EXTREMES = {max: jnp.maximum, min: jnp.minimum}


def _logic(op: Any) -> Any:
    def row(cap: Capture, a: Any, b: Any) -> NumberV | None:
        return _made(cap, bool, op, _operand(a), _operand(b)) if type_of(a) is type_of(b) is bool else None
    return row


_ARITHMETIC: dict[str, Any] = {
    "add": _add, "sub": _sub, "mul": _mul, "floordiv": _floordiv, "mod": _mod,
    "and": _logic(operator.and_), "or": _logic(operator.or_), "xor": _logic(operator.xor)}


# --- comparison


def _by_bounds(name: str, a: NumberV, b: Any) -> bool | None:
    """What a comparison of ints comes to wherever they lie within their bounds; None where that depends."""
    if not (a.kind is int and is_number(b) and type_of(b) is int):
        return None
    (p, q), (r, s) = span(a), span(b)
    always = {"lt": q < r, "le": q <= r, "gt": p > s, "ge": p >= s, "eq": p == q == r == s, "ne": q < r or p > s}
    never = {"lt": p >= s, "le": p > s, "gt": q <= r, "ge": q < r, "eq": q < r or p > s, "ne": p == q == r == s}
    return True if always[name] else False if never[name] else None


def reach(v: Any) -> tuple[Any, Any] | None:
    """The least and the greatest value of an int in all rounds of its loop, as sizes; None where they are not known."""
    if is_graph_number(v):
        return None if v.series is None else v.series.reach()  # type: ignore[no-any-return]
    known = canonical(v.source.expr) if isinstance(v.source, S.SizeOf) else size_values.expr_of(
        v) if size_values.is_int(v) else None
    return None if known is None else (known, known)


def never_negative(expr: Any) -> bool:
    """Whether a size is known to be zero or more in all calls."""
    expr = canonical(expr)
    return expr >= 0 if isinstance(expr, int) else expr.scope.known_sign(expr) is True


def _by_reach(name: str, a: NumberV, b: Any) -> bool | None:
    """The same of numbers that lie between sizes."""
    ends = [reach(a), reach(b)]
    if None in ends:
        return None
    (p, q), (r, s) = ends  # type: ignore[misc]
    less, more = never_negative(r - q - 1), never_negative(p - s - 1)
    always = {"lt": less, "le": never_negative(r - q), "gt": more, "ge": never_negative(p - s), "ne": less or more}
    never = {"lt": always["ge"], "le": more, "gt": always["le"], "ge": less, "eq": less or more}
    return True if always.get(name) else False if never.get(name) else None


def _compare(cap: Capture, name: str, a: Any, b: Any) -> Value | None:
    if not is_graph_number(a):
        return _compare(cap, _SWAPPED.get(name, name), b, a)
    known = _by_bounds(name, a, b)
    known = _by_reach(name, a, b) if known is None and a.kind is int else known
    if known is not None:
        return Const(known)
    if is_rounded(a) or is_rounded(b):
        return None
    if not is_graph_number(b):
        return _threshold(cap, name, a, b)
    return _asked(cap, name, a, b) if (a.kind is float) == (b.kind is float) else None


def _asked(cap: Capture, name: str, a: NumberV, b: Any) -> NumberV:
    return _made(cap, bool, COMPARISONS[name], _operand(a), _operand(b))


def _threshold(cap: Capture, name: str, a: NumberV, limit: Any) -> Value | None:
    """A comparison with a constant, or with a number that changes from call to call: Python finds the `Near` one."""
    if a.kind is not float:
        whole = type(now(limit)) is not float and fits(now(limit), now(limit))
        return _asked(cap, name, a, limit) if whole else None
    near = Near(name, a.aval.dtype)
    if is_scalar(limit):
        return _asked(cap, name, a, host(str(near), near, limit)) if is_numpy_number(near(0)) else None
    found = near(limit.value)
    return _asked(cap, name, a, Const(found)) if found == found else Const(name == "ne")


@dataclass(frozen=True)
class Near:
    """The number of a dtype that Python's own number, which may need more bits, is next to: numbers of that dtype
    compare with it as they do with Python's. NaN where none of them equals it, and that is asked.

    >>> Near("lt", np.dtype(np.float32))(0.1) > Near("le", np.dtype(np.float32))(0.1)
    True
    """

    name: str
    dtype: Any

    def __call__(self, limit: float) -> Any:
        try:
            near = ignoring(self.dtype.type, limit)
        except OverflowError:
            near = self.dtype.type(np.inf if limit > 0 else -np.inf)
        if float(near) == limit:
            return near
        if self.name in ("eq", "ne"):
            return self.dtype.type(np.nan)
        upwards = self.name in ("lt", "ge")
        wrong_side = float(near) < limit if upwards else float(near) > limit
        return np.nextafter(near, self.dtype.type(np.inf if upwards else -np.inf)) if wrong_side else near

    def __str__(self) -> str:
        return f"near_{self.name}_{self.dtype}"


_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def unary(cap: Capture, op: Any, v: NumberV) -> Value:
    """`-x`, `+x`, `abs(x)`."""
    name = op.__name__.strip("_")
    if v.series is not None and (v.kind is float or name not in ("neg", "pos")):
        exact = v.series.loop.applied(op, v)
        if exact is not None:
            return exact  # type: ignore[no-any-return]
    if v.kind is float and name in ("neg", "abs") and not is_rounded(v):
        return _made(cap, float, op, _operand(v))
    if v.kind is not float and name == "neg":
        found = binary(cap, operator.sub, Const(0), v)
        assert found is not None
        return found
    if name == "pos" and v.kind is not bool:
        return v
    raise Break("leaves", f"{name} of a Python number that is computed from arrays")


def truth(cap: Capture, v: NumberV) -> NumberV:
    """`bool(x)`."""
    found: Any = v if v.kind is bool else binary(cap, operator.ne, v, Const(v.kind()))
    return found


def negation(cap: Capture, v: NumberV) -> NumberV:
    """`not x`."""
    return _made(cap, bool, jnp.logical_not, _operand(truth(cap, v)))


def converted(cap: Capture, kind: type, v: NumberV) -> Value:
    """`int(x)`, `float(x)`, `bool(x)` of a number that the Graph computes."""
    if kind is v.kind:
        return v
    if kind is bool:
        return truth(cap, v)
    if kind is int and v.kind is bool:
        return made_int(cap, ArrayV(v.node, v.aval), 0, 1)
    exact = None if v.series is None else v.series.loop.applied(kind, v)
    if exact is not None:
        return exact  # type: ignore[no-any-return]
    raise Break("leaves", f"{kind.__name__}() of a Python {v.kind.__name__} that is computed from arrays")


# --- counting


def next_of_range(cap: Capture, it: CountIterV) -> tuple[NumberV, NumberV]:
    """Whether a range that the Graph counts has another element, and that element."""
    current, stop, step = it.current, it.stop, it.step
    if not (is_const(stop) and is_const(step) and is_graph_number(current)):
        raise Break("branch", "a range whose end depends on an array")
    more: Any = binary(cap, operator.lt if step.value > 0 else operator.gt, current, stop)
    return more, element(it)


def is_rounded(v: Any) -> bool:
    """Whether the array of a number may lack some of its bits."""
    return is_graph_number(v) and v.kind is float and v.series is not None


def _each_round(op: Any, *operands: Any) -> Any:
    """What Python makes of these numbers in every round of a loop (see `loop_numbers`); None where it does not know."""
    loops = [v.series.loop for v in of_class(NumberV, operands) if v.series is not None]
    return loops[0].series(op, *operands) if loops else None


def of_rounds(fn: Any, args: Sequence[Value], kwargs: Any) -> Value | None:
    """`fn(*args)` of numbers that Python knows in every round of a loop, and that `fn` takes; None for others."""
    return each_round(fn, *args) if row_of(fn) is not None and not kwargs else None


def each_round(fn: Any, *args: Value) -> Value | None:
    """`fn(*args)` of numbers that Python knows in every round of a loop; None for others."""
    series = _each_round(fn, *args)
    return None if series is None else series.loop.number(series.expr, series.now)


def most_of(stop: Value) -> Any:
    """The greatest value that the end of a range may have; None for one without an end."""
    last = size_values.expr_of(stop)
    return None if last is None else int(bounds(last)[1])


def least_of(stop: Value) -> Any:
    """The least value that it may have."""
    first = size_values.expr_of(stop)
    return None if first is None else int(bounds(first)[0])


def element(it: CountIterV) -> NumberV:
    """The next element of a range that the Graph counts, if it has one."""
    current, step = it.current, it.step
    low, high = current.low, current.high
    if it.stop is not None and step.value > 0:
        high = min(high, most_of(it.stop) - 1)
    elif it.stop is not None:
        low = max(low, least_of(it.stop) + 1)
    rises = it.stop is not None and step.value > 0
    below = size_values.expr_of(it.stop) if rises else None
    return NumberV(current.node, current.aval, int, low, high, current.steps, below=below)


def counted(cap: Capture, it: CountIterV, item: NumberV) -> Value:
    """The element after `item`."""
    following = binary(cap, operator.add, item, it.step)
    assert following is not None
    return following
