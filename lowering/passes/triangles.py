"""Arrays that are made of positions alone and have one value on one side of a line and another beyond it: the masks
of causal attention, whatever their sizes are, and however `tril`, `arange` and comparisons spell them.

    i >= j,   ~(j > i),   tril(ones((n, n))) == 1,   i - j > -1

Each is known from what it is at each place, without computing it: an integer that grows evenly along each dimension,
or one of two numbers, as such an integer is negative or not. Pointwise Ops of numbers and of arrays with two sides of
one line are computed once for each side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynacomp.capture.graph.graph import Graph, Node, node_at
from dynacomp.lowering.primitives.exact import evaluate

LARGEST = 1 << 20  # offsets beyond could wrap around at the end of int32
WIDE = ("int32", "int64")


@dataclass(frozen=True)
class Line:
    """steps[0] * position along dimension 0 + steps[1] * ... + offset."""

    steps: tuple[int, ...]
    offset: int = 0

    def plus(self, other: Line, sign: int = 1) -> Line:
        """The sum, of two of as many dimensions, or the difference."""
        steps = tuple(a + sign * b for a, b in zip(self.steps, other.steps))
        return Line(steps, self.offset + sign * other.offset)

    @property
    def otherwise(self) -> Line:
        """What is not negative where this is."""
        return Line(tuple(-n for n in self.steps), -self.offset - 1)


@dataclass(frozen=True)
class Form:
    """What an array is at each place: `sides[0]` where `line` is not negative and `sides[1]` where it is; without sides
    the integer `line`, of one of the types `WIDE`; without a line a number, `sides[0]`."""

    line: Line | None
    sides: tuple[Any, ...] = ()

    @property
    def ramp(self) -> Line | None:
        """What grows evenly."""
        return None if self.sides else self.line

    @property
    def canonical(self) -> Form:
        """The same with a line that grows along the first dimension along which it changes."""
        if self.line is None or next((n for n in self.line.steps if n), 0) >= 0:
            return self
        return Form(self.line.otherwise, self.sides[::-1])

    def along(self, places: Sequence[int | None]) -> Form:
        """With other dimensions: for each the one that it was, or None."""
        if self.line is None:
            return self
        steps = tuple(0 if d is None else self.line.steps[d] for d in places)
        return replace(self, line=replace(self.line, steps=steps))


Rule = Callable[[Node, list[Form]], Form | None]


def forms(graph: Graph) -> dict[Node, Form]:
    """What is known so of the nodes of a primitive Graph; the others are missing."""
    found: dict[Node, Form] = {}
    for node in graph.calls:
        rule = _RULES.get(getattr(node.target, "name", ""))
        args = [] if rule is None else [_operand(node, place, found) for place in range(len(node.args))]
        form = None if rule is None or None in args else rule(node, [a for a in args if a])
        if form is not None:
            found[node] = form
    return found


def is_lower(form: Form, row: int, column: int, inside: bool) -> bool:
    """Whether an array is `inside` (as a truth value) where `row >= column`, two of its dimensions, and the opposite
    elsewhere."""
    if form.line is None or not form.sides:
        return False
    steps = [0] * len(form.line.steps)
    steps[row], steps[column] = 1, -1
    wanted, has = Form(Line(tuple(steps)), (inside, not inside)).canonical, form.canonical
    return (has.line, tuple(map(bool, has.sides))) == (wanted.line, wanted.sides)


def _operand(node: Node, place: int, found: dict[Node, Form]) -> Form | None:
    below, value = node_at(node, place), node.args[place]
    if below is not None:
        return found.get(below)
    return Form(None, (value, value)) if isinstance(value, np.generic) else None


# --- rules


def _iota(node: Node, args: list[Form]) -> Form | None:
    dimension, rank = node.kwargs["dimension"], len(node.kwargs["shape"])
    return Form(Line(tuple(int(d == dimension) for d in range(rank)))) if str(node.kwargs["dtype"]) in WIDE else None


def _broadcast(node: Node, args: list[Form]) -> Form:
    dims, below = node.kwargs["broadcast_dimensions"], node_at(node)
    of = {} if below is None else {place: d for d, place in enumerate(dims) if below.aval.shape[d] != 1}
    return args[0].along([of.get(place) for place in range(len(node.kwargs["shape"]))])


def _reshape(node: Node, args: list[Form]) -> Form | None:
    """One that moves dimensions of one element."""
    below = node_at(node)
    if below is None or args[0].line is None:
        return args[0]
    solid = [d for d, n in enumerate(below.aval.shape) if n != 1]
    if [below.aval.shape[d] for d in solid] != [n for n in node.aval.shape if n != 1]:
        return None
    rest = iter(solid)
    return args[0].along([None if n == 1 else next(rest) for n in node.aval.shape])


def _transpose(node: Node, args: list[Form]) -> Form:
    return args[0].along(node.kwargs["permutation"])


def _converted(node: Node, args: list[Form]) -> Form | None:
    if args[0].ramp:
        return args[0] if str(node.kwargs["new_dtype"]) in WIDE else None
    return _pointwise(node, args)


def _added(sign: int) -> Rule:
    def rule(node: Node, args: list[Form]) -> Form | None:
        lines = _lines(args)
        if lines is None:
            return _pointwise(node, args)
        made = lines[0].plus(lines[1], sign)
        return Form(made) if abs(made.offset) <= LARGEST and max(map(abs, made.steps), default=0) <= 1 else None
    return rule


def _compared(turn: int, strict: int) -> Rule:
    """turn: 1 where the first is the larger one, -1 where it is the smaller one."""
    def rule(node: Node, args: list[Form]) -> Form | None:
        lines = _lines(args)
        if lines is None:
            return _pointwise(node, args)
        larger, smaller = lines[::turn]
        line = larger.plus(smaller, -1)
        return Form(replace(line, offset=line.offset - strict), (np.True_, np.False_))
    return rule


def _lines(args: list[Form]) -> list[Line] | None:
    """Operands of which one is a ramp and the other one, too, or an integer."""
    rank = next((len(a.ramp.steps) for a in args if a.ramp), None)
    lines = [_line(a, rank or 0) for a in args]
    return None if rank is None or None in lines else [line for line in lines if line]


def _line(form: Form, rank: int) -> Line | None:
    if form.line is not None:
        return form.ramp
    value = form.sides[0]
    return Line((0,) * rank, int(value)) if isinstance(value, np.integer) and abs(int(value)) <= LARGEST else None


def _pointwise(node: Node, args: list[Form]) -> Form | None:
    """Once for each side, where all operands have the same line, or are numbers."""
    args = [a.canonical for a in args]
    lines = {a.line for a in args if a.line is not None}
    if len(lines) > 1 or any(a.ramp for a in args):
        return None
    sides = [evaluate(node.target, [a.sides[side] for a in args], node.kwargs)[()] for side in (0, 1)]
    return Form(lines.pop() if lines else None, tuple(sides))


_RULES: dict[str, Rule] = {
    "iota": _iota, "broadcast_in_dim": _broadcast, "reshape": _reshape, "transpose": _transpose,
    "convert_element_type": _converted, "add": _added(1), "sub": _added(-1),
    "ge": _compared(1, 0), "gt": _compared(1, 1), "le": _compared(-1, 0), "lt": _compared(-1, 1),
    **dict.fromkeys(("and", "or", "xor", "not", "eq", "ne", "mul", "neg", "max", "min", "select_n"), _pointwise)}
