"""Python numbers of a loop's rounds that need all their bits: Python computes those of all rounds before the loop runs.

The Graph holds Python's ints where JAX's are large enough (see `graph_scalars`), and no floats: these have 64 bits. In
a loop that is a node, what a number is made of is an expression of the round: of the range's own numbers, of floats
that rounds hand on, of constants and of numbers that change from call to call. `Rounds` evaluates the expressions, by
Python's own arithmetic; the Graph gets a table of them, of which each round reads its row.

    for i in range(n):
        x = x + h * f(x, i * h)     # Apply(mul, (Element(0, 1), Given(0)))
        h *= 0.9                    # State(0): from Given(0) on by Apply(mul, (State(0), 0.9))

That none of the numbers is of another type, and that none raises, is a guard; it and the table share one evaluation.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np

from dynacomp.capture.arithmetic import graph_scalars
from dynacomp.capture.arithmetic.moving_slices import Line
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.numpy_errors import ignoring
from dynacomp.capture.control_flow.iterations import Again, Changed
from dynacomp.capture.control_flow.loop_state import State as Carried
from dynacomp.capture.control_flow.merge import Differs, select
from dynacomp.capture.graph.avals import Aval, aval_of
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.graph.sizes import canonical, is_symbolic
from dynacomp.capture.numbers import size_values
from dynacomp.capture.numbers.applied import Given
from dynacomp.capture.numbers.graph_inputs import add_input
from dynacomp.capture.numbers.host_functions import as_scalar
from dynacomp.capture.rows.stored_rows import Target
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import NumberV, ScalarV
from dynacomp.capture.values.constant import Const, is_const, is_exactly
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.questions import is_graph_number, is_scalar
from dynacomp.capture.values.value import Value, now
from dynacomp.capture.wrapping.constants import const_array

MOST_GIVEN = 12  # numbers from outside of the loop, see `_native/guard_numbers.c`
KINDS = (float, int, bool)
LINES: dict[Any, Callable[..., Line | None]] = {
    operator.add: lambda a, b: a + b, operator.iadd: lambda a, b: a + b, operator.mul: lambda a, b: a * b,
    operator.sub: lambda a, b: a + -b, operator.isub: lambda a, b: a + -b, operator.neg: lambda a: -a}


# --- expressions of the round


@dataclass(frozen=True)
class Element:
    """What a range gives: `first + round * step`."""

    first: Any
    step: int


@dataclass(frozen=True)
class State:
    """A number that rounds hand on, as a round finds it."""

    index: int


@dataclass(frozen=True)
class Apply:
    """`fn(*args)`."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    types: tuple[type, ...] = field(init=False)  # of literals: 1 is not 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(map(type, self.args)))

    def __repr__(self) -> str:
        return f"{self.fn.__module__}.{self.fn.__qualname__}{self.args!r}"


def _has_state(expr: Any) -> bool:
    return isinstance(expr, State) or isinstance(expr, Apply) and any(map(_has_state, expr.args))


def evaluated(expr: Any, k: int, states: list[Any], given: tuple[Any, ...]) -> Any:
    """An expression in round k."""
    match expr:
        case Apply() if expr.fn is select:  # what the other side would raise, nobody has asked for
            asked, yes, no = expr.args
            return evaluated(yes if evaluated(asked, k, states, given) else no, k, states, given)
        case Apply():
            return expr.fn(*(evaluated(a, k, states, given) for a in expr.args))
        case Element():
            return evaluated(expr.first, k, states, given) + k * expr.step
        case State():
            return states[expr.index]
        case Given():
            return given[expr.index]
    return expr


def _zeros(x: Any) -> Any:
    """What tells a number, or a tuple of such, from others that equal it: the signs of zeros."""
    return [str(v) for v in x if not v] if type(x) is tuple else x or str(x)


@dataclass(frozen=True)
class Rounds:
    """The numbers of a loop. states: what each begins with, and what a round makes of it; columns: what rounds need,
    and of which types."""

    states: tuple[tuple[Any, Any], ...]
    columns: tuple[Any, ...]
    types: tuple[type, ...]
    last: list[Any] = field(default_factory=list, compare=False, repr=False)  # one evaluation: what of, and its result

    def __call__(self, length: int, *given: Any) -> tuple[list[list[Any]], list[Any], list[Any]]:
        """The numbers of each column; the states as the last round finds them, and as it leaves them."""
        key = [(type(x), x, _zeros(x)) for x in (length, *given)]
        for known, found in self.last:
            if known == key:
                return found
        states: list[Any] = [evaluated(first, 0, [], given) for first, _ in self.states]
        rows, before = [], states
        for k in range(length):
            rows.append([evaluated(c, k, states, given) for c in self.columns])
            before, states = states, [evaluated(following, k, states, given) for _, following in self.states]
        found = [list(column) for column in zip(*rows)], before, states
        for kind, column in zip(self.types, found[0]):
            if any(type(x) is not kind for x in column):
                raise TypeError(f"a number of a loop that is no {kind.__name__}")
        self.last[:] = [(key, found)]
        return found


@dataclass(frozen=True)
class Table:
    """The columns of one type, as one array of a row for each round."""

    rounds: Rounds
    kind: type
    dtype: Any

    def __call__(self, length: int, *given: Any) -> np.ndarray:
        columns = self.rounds(length, *given)[0]
        own = [c for c, kind in zip(columns, self.rounds.types) if kind is self.kind]
        if self.kind is int and not all(graph_scalars.fits(min(c), max(c)) for c in own):
            raise OverflowError("an int of a loop that JAX does not hold")
        return ignoring(np.array, own, self.dtype).T


@dataclass(frozen=True)
class Last:
    """A number as it is behind the loop: a state there, or what an expression was in the last round."""

    rounds: Rounds
    expr: Any
    is_left: bool  # the state that the expression is, as the last round leaves it

    def __call__(self, length: int, *given: Any) -> Any:
        _, before, behind = self.rounds(length, *given)
        return evaluated(self.expr, length - 1, behind if self.is_left else before, given)


@dataclass(frozen=True)
class Column:
    """What an expression is in each round."""

    rounds: Rounds

    def __call__(self, length: int, *given: Any) -> tuple[Any, ...]:
        return tuple(self.rounds(length, *given)[0][0])


# --- while capturing


@dataclass(frozen=True, eq=False)
class Series:
    """What a NumberV is in each round; `now`: in the first one."""

    loop: LoopNumbers
    expr: Any
    now: Any

    def line(self) -> Line | None:
        """It as a line, where it is one of sizes and constants."""
        return self.loop.line(self.expr)

    def reach(self) -> tuple[Any, Any] | None:
        """The least and the greatest int that it is in any round, as sizes; None where that is not known."""
        line = self.line()
        if line is None:
            return None
        ends = line.at, line.at + (self.loop.length - 1) * line.by
        return ends if line.by >= 0 else ends[::-1]

    @property
    def is_handed_on(self) -> bool:
        """Whether it is made of what the round before has left."""
        return _has_state(self.expr)


@dataclass(eq=False)
class LoopNumbers:
    """The numbers of one loop, of `length` rounds. used: for each expression its placeholder in the body."""

    cap: Capture
    length: Any
    state: Carried
    given: list[ScalarV] = field(default_factory=list)
    states: list[list[Any]] = field(default_factory=list)  # what each begins with, and what a round makes of it
    used: dict[Any, NumberV] = field(default_factory=dict)
    elements: list[Element] = field(default_factory=list)

    def element(self, first: Value, step: int, item: NumberV) -> None:
        """Notes what a range's number is in each round, if Python knows where the range begins."""
        with contextlib.suppress(Differs):
            self.elements.append(Element(self.expr_of(first), step))
            item.series = Series(self, self.elements[-1], now(first))

    def counted(self) -> Iterator[Line]:
        """What the loop counts."""
        return (line for x in self.elements if (line := self.line(x)) is not None)

    def handed_on(self, v: Value) -> NumberV:
        """A float that rounds change, as a round finds it."""
        self.states.append([self.expr_of(v), None])
        return self.number(State(len(self.states) - 1), now(v))  # type: ignore[return-value]

    def stores(self, v: ListV, target: Target) -> NoReturn:
        """The next attempt has the list ready to take what rounds store at a number that they count."""
        raise Again(Changed([v], {v: 0}, stored={v: target}))

    def series_of(self, v: Any) -> Series | None:
        """What Python makes of a number in each round of this loop, if it does."""
        series = getattr(v, "series", None)
        return series if series is not None and series.loop is self else None

    def expr_of(self, v: Any) -> Any:
        """An operand as an expression; Differs where it is none."""
        v = as_scalar(self.cap, v)
        series = self.series_of(v)
        if series is not None:
            return series.expr
        if is_exactly(v, int, float, bool):
            return v.value
        if not is_scalar(v) or type(v.hint) not in (*KINDS, tuple):
            raise Differs("a number that Python does not know before the loop")
        known = next((i for i, g in enumerate(self.given) if g.source == v.source), None)
        if known is None:
            self.given.append(v)
        return Given(len(self.given) - 1 if known is None else known)

    def series(self, fn: Any, *operands: Any) -> Series | None:
        """What `fn` makes of numbers in each round; None where Python does not know."""
        try:
            return Series(self, Apply(fn, tuple(map(self.expr_of, operands))), fn(*map(_now, operands)))
        except ours(Exception):  # what Python refuses in the first round, and Differs
            return None

    def applied(self, fn: Any, *operands: Any) -> NumberV | None:
        """That as a number; None where it is no number that one table holds."""
        found = self.series(fn, *operands)
        return None if found is None else self.number(found.expr, found.now)

    def number(self, expr: Any, at_first: Any) -> NumberV | None:
        kind = type(at_first)
        if kind not in KINDS or len(self.given) > MOST_GIVEN:
            return None
        if expr not in self.used:
            aval = aval_of(kind())
            low, high = graph_scalars.limits() if kind is int else (0, 1)
            self.used[expr] = NumberV(self.state.place(aval, "number"), aval, kind, low, high,
                                      series=Series(self, expr, at_first))
        return self.used[expr]

    def line(self, expr: Any) -> Line | None:
        """An expression as `at + round * by`; None where it is no such one."""
        match expr:
            case Element():
                first = self.line(expr.first)
                return None if first is None else Line(first.at, expr.step)
            case Given():
                source = self.given[expr.index].source
                return Line(canonical(source.expr), 0) if isinstance(source, S.SizeOf) else None
            case Apply() if expr.fn in LINES:
                found = [self.line(a) for a in expr.args]
                return None if None in found else LINES[expr.fn](*found)  # type: ignore[no-any-return]
        return Line(expr, 0) if type(expr) is int else None

    # --- the node

    def rounds(self) -> Rounds:
        return Rounds(tuple(map(tuple, self.states)), tuple(self.used),  # type: ignore[arg-type]
                      tuple(v.kind for v in self.used.values()))

    def placeholders(self) -> list[Node]:
        """What the body gets of a row, type by type."""
        return [v.node for kind in KINDS for v in self.used.values() if v.kind is kind]

    def tables(self) -> Iterator[tuple[type, Node]]:
        """The inputs of the Graph that hold the numbers."""
        rounds = self.rounds()
        for kind in KINDS:
            if any(v.kind is kind for v in self.used.values()):
                dtype = aval_of(kind()).dtype
                yield kind, self.input(Table(rounds, kind, dtype), dtype, rounds.types.count(kind))

    def input(self, table: Table, dtype: Any, width: int) -> Node:
        found = self.now(table)
        if self.is_constant:
            return const_array(self.cap, jnp.asarray(found)).node  # type: ignore[attr-defined]
        source = S.Host(repr(table), self.arguments(), table)
        self.cap.guards.add("is_type", source, np.ndarray)
        known = self.cap.numbers.scalar_nodes
        if source not in known:
            known[source] = add_input(self.cap, source, Aval((self.length, width), dtype))
        return known[source]

    @property
    def is_constant(self) -> bool:
        return not self.given and not is_symbolic(self.length)

    def arguments(self) -> tuple[Any, ...]:
        length = size_values.of_expr(self.cap, self.length)
        return tuple(v.value if is_const(v) else v.source for v in (
            as_scalar(self.cap, length), *self.given))  # type: ignore[attr-defined]

    def now(self, fn: Any) -> Any:
        """What a function of the loop's numbers is in this call; Differs where it raises."""
        try:
            return fn(now(size_values.of_expr(self.cap, self.length)), *(g.hint for g in self.given))
        except ours(Exception) as error:
            raise Differs("numbers of a loop that Python refuses") from error

    def behind(self, expr: Any, is_left: bool = False) -> Value:
        """A number of the last round, or a state that it leaves, behind the loop."""
        last = Last(self.rounds(), expr, is_left)
        found = self.now(last)
        if self.is_constant:
            return Const(found)
        source = S.Host(repr(last), self.arguments(), last)
        self.cap.guards.add("is_type", source, type(found))
        return ScalarV(found, source=source)


    def column(self, of: Series) -> Value:
        """The numbers of all rounds, as a tuple (see `given_rows`)."""
        made = Column(Rounds(tuple(map(tuple, self.states)), (of.expr,), (type(of.now),)))  # type: ignore[arg-type]
        return ScalarV(self.now(made), source=S.Host(repr(made), self.arguments(), made))


def _now(v: Any) -> Any:
    return v.series.now if is_graph_number(v) else now(v)
