"""The state of a loop that becomes a node: what its iterations carry from one to the next.

`State.inside(v)` is a Value as the loop's body finds it: arrays, ints and bools in it are
placeholders, everything else is fixed. `State.made` compares what an iteration made of it: a carried
array keeps its Aval, an int provably stays one that JAX holds, what is fixed is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax

from dynacomp.capture.arithmetic import graph_scalars
from dynacomp.capture.bodies.subgraphs import Body
from dynacomp.capture.control_flow.merge import Differs, is_same_constant
from dynacomp.capture.graph.avals import Aval, aval_of
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.reconstruct.array_identity import origin_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import ArrayV, NumberV, SizeV
from dynacomp.capture.values.constant import Const, is_exactly, object_of
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_graph_array, is_number, is_tuple
from dynacomp.capture.values.value import Value, type_of

COUNT, STRIDE = 1 << 29, 4  # ints begin a loop below COUNT and grow by STRIDE an iteration: 2^27 of them fit


@dataclass(eq=False)
class Carried:
    """One array or number of the loop's state: what it is at first, and in the body."""

    initial: Any
    inside: Any

    def after(self, node: Node) -> Any:
        """What it is behind the loop."""
        return kind(self.inside).carried.behind(self.inside, node)


@dataclass(eq=False)
class State:
    """The carried arrays and numbers, in the order of the placeholders."""

    cap: Capture
    body: Body
    carried: list[Carried] = field(default_factory=list)
    rebuilds: bool = False  # dicts and lists are carried by what they hold (see `rebuilt`)
    changes: dict[Value, Any] = field(default_factory=dict)  # the states in which the way at hand leaves older objects
    claimed: set[Value] = field(default_factory=set)  # the dicts and lists that it has made anew
    kept: dict[Value, bool] = field(default_factory=dict)  # stand-ins for such: whether rounds leave them there

    def place(self, aval: Aval, name: str) -> Node:
        node = self.body.builder.placeholder(name, aval)
        self.cap.graph.owner[node], self.cap.graph.homes[node] = self.body.level, self.body.serial
        return node

    def carry(self, initial: Any, inside: Any) -> Any:
        self.carried.append(Carried(initial, inside))
        return inside

    def inside(self, v: Any, bounds: tuple[int, int] | None = None) -> Any:
        """A Value as the body finds it: its arrays, ints and bools are placeholders."""
        v = self.cap.realize(v)
        row = kind(v).carried
        return v if row is None else row.inside(self, v, bounds)

    def rebuilt(self, v: Any) -> Any:
        """The same, its dicts and lists by what they hold."""
        self.rebuilds = True
        try:
            return self.inside(v)
        finally:
            self.rebuilds = False

    def carry_array(self, v: ArrayV, bounds: Any = None) -> ArrayV:
        if not (v.real is None or isinstance(v.real, jax.Array)):
            raise Differs("a NumPy array")
        made = self.carry(v, ArrayV(self.place(v.aval, "carried"), v.aval, joined=True))
        origin = origin_of(self.cap, v)
        if object_of(origin) != 0:
            made.origin = self.carry_number(origin, (0, 1 << 16))
        return made

    def carry_constant(self, v: Any, bounds: tuple[int, int] | None) -> Any:
        return self.carry_number(v, bounds) if is_exactly(v, int, bool) else v

    def carry_size(self, v: SizeV, bounds: tuple[int, int] | None) -> Any:
        return self.carry_number(v, bounds) if bounds else v

    def carry_tuple(self, v: TupleV, bounds: Any) -> TupleV:
        return TupleV([self.inside(x) for x in self.cap.items(v)], v.cls, of_row=v.of_row)

    def carry_number(self, v: Any, bounds: tuple[int, int] | None) -> NumberV:
        if graph_scalars.is_rounded(v):
            return v
        cls = type_of(v)
        aval = aval_of(cls())
        node = self.place(aval, "number")
        if cls is not int:
            return self.carry(v, NumberV(node, aval, cls))
        low, high = bounds or (-2 * COUNT, 2 * COUNT)
        at_first = graph_scalars.span(v)
        if not graph_scalars.fits(low - STRIDE, high + STRIDE) or not (bounds or _within(at_first, -COUNT, COUNT)):
            raise Differs("integers that JAX does not hold")
        return self.carry(v, NumberV(node, aval, int, low, high, None if bounds else (node, 0, 0)))

    # --- the same walk over what an iteration, or the whole loop, has made of a Value

    def made(self, inside: Any, v: Any, found: list[Any]) -> None:
        """Adds to `found` what the carried arrays and numbers in `inside` have become in `v`."""
        v = None if v is None else self.cap.realize(v)
        row = kind(inside).carried
        if not (row.made if row is not None and row.made is not None else is_unchanged)(self, inside, v, found):
            raise Differs("what a loop carries")

    def made_array(self, inside: ArrayV, v: Any, found: list[Any]) -> bool:
        if not is_graph_array(v) or v.aval != inside.aval or not (v.real is None or isinstance(v.real, jax.Array)):
            return False
        found.append(v)
        self._made_origin(inside, v, found)
        return True

    def made_number(self, inside: NumberV, v: Any, found: list[Any]) -> bool:
        found.append(v)
        return _is_next(inside, v)

    def made_tuple(self, inside: TupleV, v: Any, found: list[Any]) -> bool:
        if not is_tuple(v) or v.cls is not inside.cls or len(v.items) != len(inside.items) or (
                v.of_row is not inside.of_row):
            return False
        for a, b in zip(inside.items, self.cap.items(v)):
            self.made(a, b, found)
        return True

    def _made_origin(self, inside: ArrayV, v: ArrayV, found: list[Any]) -> None:
        origin = origin_of(self.cap, v)
        if inside.origin is not None:
            found.append(origin)
        elif object_of(origin) != 0:
            raise Differs("an existing array")

    def after(self, inside: Any, results: dict[int, Any]) -> Any:
        """A Value of the body's beginning as it is behind the loop."""
        row = kind(inside).carried
        return inside if row is None or row.after is None else row.after(self, inside, results)

    def array_after(self, inside: ArrayV, results: dict[int, Any]) -> Any:
        made = results[id(inside)]
        if inside.origin is not None and inside.node not in self.cap.effects.donated:
            made.origin = results[id(inside.origin)]
            made.origin.low, made.origin.high = 0, len(self.cap.graph.candidates)
        return made

    def tuple_after(self, inside: TupleV, results: dict[int, Any]) -> TupleV:
        return TupleV([self.after(x, results) for x in inside.items], inside.cls, of_row=inside.of_row)


@dataclass(frozen=True)
class Carrying:
    """How a loop carries one kind of Value. inside: what the body finds. made: whether what an iteration has made of
    that is like it; None: the same. after: what it is behind the loop; behind: of one array or number that a node
    gives. copy: another one of the same placeholder."""

    inside: Callable[[State, Any, Any], Any]
    made: Callable[[State, Any, Any, list[Any]], bool] | None = None
    after: Callable[[State, Any, dict[int, Any]], Any] | None = None
    behind: Callable[[Any, Node], Any] | None = None
    copy: Callable[[Any], Any] | None = None


def is_unchanged(state: State, inside: Any, v: Any, found: list[Any]) -> bool:
    return v is inside or is_same_constant(inside, v)


def _number_behind(v: NumberV, node: Node) -> NumberV:
    return NumberV(node, v.aval, v.kind, v.low - STRIDE, v.high + STRIDE) if v.kind is int else NumberV(
        node, v.aval, v.kind)


define(ArrayV, Kind(carried=Carrying(
    State.carry_array, State.made_array, State.array_after, lambda v, node: ArrayV(node, v.aval, joined=True),
    lambda v: ArrayV(v.node, v.aval))))
define(NumberV, Kind(carried=Carrying(
    State.carry_number, State.made_number, lambda state, v, results: results[id(v)], _number_behind,
    lambda v: NumberV(v.node, v.aval, v.kind, v.low, v.high))))
define(TupleV, Kind(carried=Carrying(State.carry_tuple, State.made_tuple, State.tuple_after)))
define(Const, Kind(carried=Carrying(State.carry_constant)))
define(SizeV, Kind(carried=Carrying(State.carry_size)))


def _within(span: tuple[int, int], low: int, high: int) -> bool:
    return low <= span[0] and span[1] <= high


def _is_next(inside: NumberV, v: Any) -> bool:
    """Whether a carried number may be `v` after an iteration: an int stays in its range, or moves little."""
    if graph_scalars.is_rounded(v) or not is_number(v) or type_of(v) is not inside.kind:
        return False
    if inside.kind is not int:
        return inside.kind is bool or not is_exactly(v, float)
    steps = getattr(v, "steps", None)
    return _within(graph_scalars.span(v), inside.low, inside.high) or (
        steps is not None and steps[0] is inside.node and _within(steps[1:], -STRIDE, STRIDE))
