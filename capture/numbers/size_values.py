"""Symbolic sizes as Python ints: arithmetic, and comparisons that become guards.

A `SizeV` pairs a `Size` (see `sizes`) with its value in this call. What Python does with ints that stays an
expression of sizes stays one; comparisons are decided by the values at hand, and guarded.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jax.errors import InconclusiveDimensionOperation

from dynacomp.capture.base.errors import Break
from dynacomp.capture.graph import sizes
from dynacomp.capture.graph.size_evaluation import evaluate
from dynacomp.capture.graph.size_scope import LEAST
from dynacomp.capture.graph.sizes import Size, canonical, is_symbolic, names
from dynacomp.capture.symbolic.lessons import Frozen
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ScalarV, SizeV
from dynacomp.capture.values.constant import Const, is_exactly
from dynacomp.capture.values.questions import is_scalar, is_size
from dynacomp.capture.values.value import Value, is_changing, now

ARITHMETIC = {op.__name__: op for op in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)}
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
LARGEST = 1 << 62  # beyond, guards could not compute the expression


def symbol(cap: Capture, place: S.Source, value: int, rule: Any = True, least: int = LEAST) -> Size:
    """The symbol of what is found at `place`; `rule`: True, or the least and the greatest value that the entry
    serves (None: any)."""
    known = next((name for name, source in cap.sizes.dims.items() if source == place), None)
    if known is not None:
        return cap.sizes.scope.symbol(known)
    name = f"s{len(cap.sizes.dims)}"
    cap.sizes.dims[name] = place
    made = cap.sizes.scope.symbol(name, value, least)
    cap.guards.add("symbol", place, name, least)
    if rule is not True:
        bound(cap, name, *rule)
    return made


def of_int(cap: Capture, source: S.Source, value: int) -> Value:
    """An int that changes as a symbolic size, or as the negative of one."""
    if value > 0:
        return of_expr(cap, symbol(cap, source, value, least=1))
    cap.guards.add("scalar", source, "int")
    return of_expr(cap, -symbol(cap, S.Host("neg", (source,), operator.neg), -value, least=1))


def may_become(cap: Capture, value: ScalarV) -> list[S.Source]:
    """The changing Python ints that an int is made of and that the next attempt can have as symbolic sizes, or the
    negatives of some: none where one of them must be a constant."""
    found, lessons = value.source.numbers() if value.source else (), cap.lessons
    if type(value.hint) is not int or any(s in lessons.fixed for s in found):
        return []
    known = cap.numbers.changing
    return [s for s in found if s not in lessons.sized and type(known.get(s)) is int and known[s] != 0]


def may_count(cap: Capture, value: ScalarV) -> list[str]:
    """The ints that Python computes in each call (`int(n * 0.5)`) which can be sizes that have a symbol of their own:
    of `max(lengths) - len(x)` the first part, so that sizes cancel out, and where that did not do the whole."""
    if not isinstance(value.source, S.Host) or type(value.hint) is not int:
        return []
    parts = [repr(p) for p in _terms(value.source)]
    return [p for p in parts if p not in cap.lessons.counts] or [p for p in (repr(value.source),) if (
        p not in cap.lessons.counts)]


def _terms(source: Any) -> Iterator[S.Host]:
    """What Python computes below an expression that sizes can be, too."""
    if isinstance(source, S.Host) and source.fn not in ARITHMETIC.values():
        yield source
    elif isinstance(source, S.Host):
        for a in source.args:
            yield from _terms(a)


def counted(cap: Capture, value: Value | None) -> Value | None:
    """An int that Python computes as the size that it was found to be; any other Value as it is."""
    if not cap.lessons.counts or not is_scalar(value) or type(value.hint) is not int or (
            not cap.lessons.counts.get(repr(value.source))):
        return value
    return as_size(cap, value)


def as_size(cap: Capture, value: ScalarV) -> Value:
    """An int that Python computes in each call as a size that has a symbol of its own."""
    assert value.source is not None
    if value.hint:
        return of_int(cap, value.source, value.hint)
    cap.guards.add("eq", value.source, 0)
    return Const(0)


def bound(cap: Capture, name: str, least: int | None, most: int | None) -> None:
    """The entry serves these sizes only: guarded, by the answers, and known from then on."""
    made = cap.sizes.scope.symbol(name)
    if least is not None and not made >= least or most is not None and not made <= most:
        return  # a size outside of what was promised gets an entry for such sizes
    cap.sizes.scope.bound(name, least, most)


def of_expr(cap: Capture, expr: Any) -> Value:
    """An expression as the program sees it: a plain int where it is one."""
    expr = canonical(expr)
    return Const(expr) if isinstance(expr, int) else SizeV(expr, cap.sizes.scope.value(expr))


def source_of(cap: Capture, value: SizeV) -> S.Source:
    """Where the number is found, in each call."""
    return S.SizeOf(value.expr, tuple((name, cap.sizes.dims[name]) for name in sorted(names(value.expr))))


def arithmetic(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """`op` of two ints of which at least one is symbolic; None where it is no expression of sizes."""
    name = op.__name__
    row = ARITHMETIC.get(name[1:] if name.startswith("i") else name) or (_power if name.strip("i") == "pow" else None)
    if row is None or not (is_int(a) and is_int(b)):
        return None
    if row in (operator.floordiv, operator.mod) and not is_positive(expr_of(b)):
        return None
    found = row(expr_of(a), expr_of(b))
    if found is None or is_symbolic(found) and abs(cap.sizes.scope.value(found)) > LARGEST:
        return None
    return of_expr(cap, found)


def is_positive(expr: Any) -> bool:
    """Whether a size is above zero by what is known of it: of other divisors Python makes the quotient."""
    return expr >= 1 if isinstance(expr, int) else bool(expr.scope.known_sign(expr - 1))


def extreme(cap: Capture, op: str, items: Sequence[Value]) -> Value | None:
    """The "max" or "min" of ints of which at least one is symbolic; None for other operands. Nothing is compared: one
    entry serves the sizes on both sides. None, too, where the sizes at hand are to decide (`takes_sides`)."""
    if cap.lessons.takes_sides or not all(map(is_int, items)) or not any(map(is_changing, items)):
        return None
    return of_expr(cap, functools.reduce(functools.partial(sizes.extreme, op), map(expr_of, items)))


def larger(cap: Capture, a: Value, b: Value) -> Value:
    """The larger of two ints of which one at least is symbolic."""
    return of_expr(cap, sizes.extreme("max", expr_of(a), expr_of(b)))


def _power(base: Any, exponent: Any) -> Any:
    small = type(exponent) is int and 0 <= exponent <= 8
    return base ** exponent if small else None


def compare(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """A comparison, decided by this call's sizes and guarded; None for other operands."""
    if op not in COMPARISONS or not (is_int(a) and is_int(b)):
        return None
    return Const(_decided(cap, op, expr_of(a), expr_of(b)))


def _decided(cap: Capture, op: Any, a: Any, b: Any) -> bool:
    """The comparison of two expressions, and that it was asked, where what is known of the sizes did not tell."""
    relations = len(cap.sizes.scope.relations)
    with cap.sizes.scope.decides():
        found = bool(op(a, b))
    if len(cap.sizes.scope.relations) > relations:
        cap.numbers.decisions.add((op, a, b))
    return found


def compare_openly(cap: Capture, op: Any, a: Value, b: Value) -> Value | None:
    """A comparison that Python makes in each call, where what is known of the sizes does not decide it: a program that
    keeps or returns it, multiplies by it or gives it to JAX needs no entry for each side. A condition on it is
    `answered`, or left open (`control_flow.openings`)."""
    if op not in COMPARISONS or not (is_int(a) and is_int(b)):
        return None
    try:
        with cap.sizes.scope.decides(), cap.sizes.scope.undecided():
            return Const(op(expr_of(a), expr_of(b)))
    except InconclusiveDimensionOperation:
        source = S.Host(op.__name__, tuple(source_of(cap, v) if is_size(v) else now(v) for v in (a, b)), op)
        return None if repr(source) in cap.lessons.decided else ScalarV(op(now(a), now(b)), source=source)


def answered(cap: Capture, source: Any) -> bool | None:
    """What such a comparison, or `not` one, comes to, decided by this call's sizes after all; None of other numbers."""
    if isinstance(source, S.Host) and source.fn is operator.not_:
        found = answered(cap, source.args[0])
        return None if found is None else not found
    if not isinstance(source, S.Host) or source.fn not in COMPARISONS or not all(
            isinstance(a, S.SizeOf) or type(a) is int for a in source.args):
        return None
    return _decided(cap, source.fn, *(canonical(a.expr) if isinstance(a, S.SizeOf) else a for a in source.args))


def concrete(cap: Capture, value: SizeV, asked_by: str = "") -> Const:
    """The size as a plain int: from now on this entry serves this value of it only. What asks for it (in words; ""
    is a loop, which has to know) is left to Python once there are many entries."""
    if asked_by and not isinstance(canonical(value.expr), int) and cap.progress.top_step not in cap.lessons.breaks and (
            cap.root.policy.changes_often(S.Host("size", (), int))):
        raise Break("size_constant", asked_by)
    with cap.sizes.scope.decides():
        assert value.expr == value.hint
    return Const(value.hint)


def known(cap: Capture, value: Any, asked_by: str = "") -> Any:
    """A size as a plain int (see `concrete`); any other Value as it is."""
    return concrete(cap, value, asked_by) if is_size(value) else value


def is_int(v: Value) -> bool:
    return is_size(v) or is_exactly(v, int)


def expr_of(v: Any) -> Any:
    return canonical(v.expr) if is_size(v) else v.value


def takes_sides(cap: Capture, found: Iterable[Size]) -> bool:
    """Learns, once, that a `min` or `max` among these sizes is decided by the sizes at hand: `min(n, 8)` may be a
    constant where `n` is none."""
    extremes = any(a.op in sizes.EXTREMES for size in found for a in sizes.atoms(canonical(size)))
    first = extremes and not cap.lessons.takes_sides
    cap.lessons.takes_sides = cap.lessons.takes_sides or first
    return first


def made_one(cap: Capture, found: Iterable[Size]) -> bool:
    """Whether some of these sizes are equal in this call though nothing says so, which are one from now on: JAX looks
    how many different shapes there are, and asks no size for it (`jnp.stack` of slices)."""
    scope, of_value = cap.sizes.scope, dict[int, Size]()
    known = [(evaluate(size, scope.values), size) for size in found]
    with scope.decides():
        pairs = [(of_value.setdefault(value, size), size) for value, size in known if value is not None]
        apart: list[Any] = [operator.sub(one, size) for one, size in pairs if one.terms != size.terms]
        answers = [*map(scope.is_zero, apart)]
    return any(answers)


def pins(cap: Capture, found: Iterable[Size]) -> bool:
    """Learns, once, that ints which Python computes of changing numbers are constants where JAX is given them, the
    numbers are not: `x.sum(i % 2)` needs an entry for each axis, none for each `i`."""
    computed = {str(size) for size in found if _is_computed(size) and not any(
        isinstance(cap.sizes.dims[name], S.Dim) for name in names(size))}
    new = computed - cap.lessons.pinned
    cap.lessons.pinned |= new
    return bool(new)


def _is_computed(size: Size) -> bool:
    ((mono, k), *others) = size.terms
    return bool(others) or k != 1 or len(mono) != 1 or mono[0][1] != 1 or mono[0][0].op != sizes.SYMBOL


def argument(cap: Capture, value: SizeV) -> Any:
    """What a call of JAX is given."""
    expr = canonical(value.expr)
    pinned = is_symbolic(expr) and str(expr) in cap.lessons.pinned
    return concrete(cap, value, f"{expr} as a constant").value if pinned else expr


def freeze(cap: Capture, found: Iterable[Size], what: str, compiled: bool = False, hosted: bool = False) -> None:
    """Learns that these sizes must be constants: the next attempt has them so. Where one of them has had many values
    already, what needs it is left to Python: what follows is compiled once for all. `compiled`: nothing in the
    program asks for it, but what compiles the Graph. `hosted`: a library asks that runs the program's code out of
    sight, where no frame is captured: left to Python, a whole model would run eagerly."""
    found = list(map(canonical, found))
    if takes_sides(cap, found):
        return
    places = [(name, cap.sizes.dims[name]) for name in sorted({n for size in found for n in names(size)})]
    if pins(cap, found):
        return
    if not (compiled or hosted) and cap.progress.top_step not in cap.lessons.breaks and any(
            cap.root.policy.changes_often(place) for _, place in places):
        raise Break("size_constant", what)
    for name, place in places:
        if isinstance(place, S.Dim):
            value = cap.sizes.scope.value(cap.sizes.scope.symbol(name))
            cap.lessons.frozen[place] = Frozen(what, cap.progress.last_where or cap.where(), value, compiled)
        elif repr(place) in cap.lessons.counts:
            cap.lessons.counts[repr(place)] = False
        else:
            numbers = place.numbers()
            cap.lessons.fixed.add(*numbers)
            cap.lessons.sized.discard(*numbers)
