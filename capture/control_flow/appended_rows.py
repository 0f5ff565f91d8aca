"""What the rounds of a loop append to lists, when the loop is one node: rows of arrays, which fill the lists behind it.

    for x in xs:
        outs.append((h, i))     # two rows a round: the node gives two stacks, and `outs` holds a Run of them
        rates.append(rate)      # floats that Python knows in each round are a tuple that Python makes before the call
"""

from __future__ import annotations

import itertools
from typing import Any

from dynacomp.capture.arithmetic.graph_scalars import is_rounded
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.control_flow.branches import Leaf
from dynacomp.capture.control_flow.iterations import Iteration
from dynacomp.capture.control_flow.loop_numbers import Series
from dynacomp.capture.control_flow.merge import Differs, Slot
from dynacomp.capture.rows import given_rows, grown_lists
from dynacomp.capture.rows.grown_lists import shape_of
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.grown_items import Run
from dynacomp.capture.values.questions import is_graph_array

Row = Slot | Series  # of a leaf of what a round appends


def appended_rows(loop: Iteration, ends: list[Leaf]) -> tuple[dict[ListV, tuple[Any, ...]], list[Row]]:
    """What a round appends to each list that grows, as shapes; the slots of the arrays and numbers in them, in order,
    and what Python makes of numbers that it knows."""
    found: dict[ListV, tuple[Any, ...]] = {}
    rows: list[Row] = []
    made = [[*loop.body.stand_ins, *claimed] for claimed in loop.claimed]  # lists and dicts of a round, on each way
    for v in loop.fronts:
        columns: list[list[Any]] = [[] for _ in ends]
        shapes = {tuple(shape_of(loop.cap, x, loop.body.serial, column, own, True) for x in loop.appended(v, leaf))
                  for leaf, column, own in zip(ends, columns, made)}
        if len(shapes) != 1:
            raise Differs("items of several kinds")
        found[v] = shapes.pop()
        rows += [_row(loop, values) for values in zip(*columns)]
    if any(v.aval != row.aval for row in of_class(Slot, rows) for v in row.values):
        raise Differs("arrays of another shape, dtype or weak type")
    return found, rows


def _row(loop: Iteration, values: tuple[Any, ...]) -> Row:
    """A leaf, from what it is on each way through the body."""
    if not any(map(is_rounded, values)):
        return Slot(list(values), values[0])
    found = [v.series for v in values]
    if any(s is None or s.loop.state is not loop.state or s.expr != found[0].expr for s in found):
        raise Differs("a float that Python does not know in each round")
    return found[0]  # type: ignore[no-any-return]


def fill(loop: Iteration, rounds: Any, shapes: dict[ListV, tuple[Any, ...]], rows: list[Row],
         stacks: list[ArrayV]) -> None:
    """The lists that grow hold what all rounds have appended; `stacks` is what the node gives for the slots."""
    for row, stack in zip(of_class(Slot, rows), stacks):
        if is_graph_array(row.merged):
            given_rows.keep_picked(loop.cap, loop.state, row.values, rounds, stack)
    left = iter(stacks)
    columns = iter([next(left) if isinstance(row, Slot) else row.loop.column(row) for row in rows])
    for v, of_round in shapes.items():
        own = list(itertools.islice(columns, sum(len(list(shape.leaves())) for shape in of_round)))
        run = Run(rounds, of_round, own)
        grown_lists.fill(loop.cap, v, loop.fronts[v], run)
