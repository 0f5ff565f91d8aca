"""The state of a loop that becomes a node: what its iterations carry from one to the next.

`State.inside(v)` is a Value as the loop's body finds it: arrays, ints and bools in it are
placeholders, everything else is fixed. `State.made` compares what an iteration made of it: a carried
array keeps its Aval, an int provably stays one that JAX holds, what is fixed is the same.
"""

from __future__ import annotations

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
from dynacomp.capture.symbolic.values import ArrayV, NumberV, SizeV, TupleV, is_exactly, is_number, object_of, type_of

COUNT, STRIDE = 1 << 29, 4  # ints begin a loop below COUNT and grow by STRIDE an iteration: 2^27 of them fit


@dataclass(eq=False)
class Carried:
    """One array or number of the loop's state: what it is at first, and in the body."""

    initial: Any
    inside: Any

    def after(self, node: Node) -> Any:
        """What it is behind the loop."""
        v = self.inside
        if isinstance(v, ArrayV):
            return ArrayV(node, v.aval, joined=True)
        return NumberV(node, v.aval, v.kind, v.low - STRIDE, v.high + STRIDE) if v.kind is int else NumberV(
            node, v.aval, v.kind)


@dataclass(eq=False)
class State:
    """The carried arrays and numbers, in the order of the placeholders."""

    cap: Capture
    body: Body
    carried: list[Carried] = field(default_factory=list)

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
        if isinstance(v, ArrayV):
            return self._array(v)
        if is_number(v) and not is_exactly(v, float) or isinstance(v, SizeV) and bounds:
            return self._number(v, bounds)
        return TupleV([self.inside(x) for x in self.cap.items(v)], v.cls) if isinstance(v, TupleV) else v

    def _array(self, v: ArrayV) -> ArrayV:
        if not (v.real is None or isinstance(v.real, jax.Array)):
            raise Differs("a NumPy array")
        made = self.carry(v, ArrayV(self.place(v.aval, "carried"), v.aval, joined=True))
        origin = origin_of(self.cap, v)
        if object_of(origin) != 0:
            made.origin = self._number(origin, (0, 1 << 16))
        return made

    def _number(self, v: Any, bounds: tuple[int, int] | None) -> NumberV:
        if graph_scalars.is_rounded(v):
            return v
        kind = type_of(v)
        aval = aval_of(kind())
        node = self.place(aval, "number")
        if kind is not int:
            return self.carry(v, NumberV(node, aval, kind))
        low, high = bounds or (-2 * COUNT, 2 * COUNT)
        at_first = graph_scalars.span(v)
        if not graph_scalars.fits(low - STRIDE, high + STRIDE) or not (bounds or _within(at_first, -COUNT, COUNT)):
            raise Differs("integers that JAX does not hold")
        return self.carry(v, NumberV(node, aval, int, low, high, None if bounds else (node, 0, 0)))

    # --- the same walk over what an iteration, or the whole loop, has made of a Value

    def made(self, inside: Any, v: Any, found: list[Any]) -> None:
        """Adds to `found` what the carried arrays and numbers in `inside` have become in `v`."""
        v = None if v is None else self.cap.realize(v)
        if isinstance(inside, ArrayV) and isinstance(v, ArrayV) and v.aval == inside.aval and (
                v.real is None or isinstance(v.real, jax.Array)):
            found.append(v)
            self._made_origin(inside, v, found)
        elif isinstance(inside, NumberV) and _is_next(inside, v):
            found.append(v)
        elif isinstance(inside, TupleV) and isinstance(v, TupleV) and v.cls is inside.cls and len(v.items) == len(
                inside.items):
            for a, b in zip(inside.items, self.cap.items(v)):
                self.made(a, b, found)
        elif isinstance(inside, (ArrayV, NumberV, TupleV)) or not (v is inside or is_same_constant(inside, v)):
            raise Differs("what a loop carries")

    def _made_origin(self, inside: ArrayV, v: ArrayV, found: list[Any]) -> None:
        origin = origin_of(self.cap, v)
        if inside.origin is not None:
            found.append(origin)
        elif object_of(origin) != 0:
            raise Differs("an existing array")

    def after(self, inside: Any, results: dict[int, Any]) -> Any:
        """A Value of the body's beginning as it is behind the loop."""
        if isinstance(inside, ArrayV):
            made = results[id(inside)]
            if inside.origin is not None:
                made.origin = results[id(inside.origin)]
                made.origin.low, made.origin.high = 0, len(self.cap.graph.candidates)
            return made
        if isinstance(inside, NumberV):
            return results[id(inside)]
        return TupleV([self.after(x, results) for x in inside.items], inside.cls) if isinstance(
            inside, TupleV) else inside


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
