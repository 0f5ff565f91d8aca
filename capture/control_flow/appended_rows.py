"""What the rounds of a loop append to lists, when the loop is one node: rows of arrays, which fill the lists behind it.

    for x in xs:
        outs.append((h, i))     # two rows a round: the node gives two stacks, and `outs` holds a Run of them
"""

from __future__ import annotations

import itertools
from typing import Any

from dynacomp.capture.control_flow.branches import Leaf
from dynacomp.capture.control_flow.iterations import Iteration
from dynacomp.capture.control_flow.merge import Differs, Slot
from dynacomp.capture.kinds import grown_lists
from dynacomp.capture.kinds.grown_lists import shape_of
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.grown_items import Run
from dynacomp.capture.values.value import Value


def appended_rows(loop: Iteration, ends: list[Leaf]) -> tuple[dict[ListV, tuple[Any, ...]], list[Slot]]:
    """What a round appends to each list that grows, as shapes; the slots of the arrays and numbers in them."""
    found: dict[ListV, tuple[Any, ...]] = {}
    rows: list[Slot] = []
    made: list[list[Value]] = [[] for _ in ends]  # lists and dicts of a round, on each way
    for v in loop.fronts:
        columns: list[list[Any]] = [[] for _ in ends]
        shapes = {tuple(shape_of(loop.cap, x, loop.body.serial, column, own) for x in loop.appended(v, leaf))
                  for leaf, column, own in zip(ends, columns, made)}
        if len(shapes) != 1:
            raise Differs("items of several kinds")
        found[v] = shapes.pop()
        rows += [Slot(list(values), values[0]) for values in zip(*columns)]
    if any(v.aval != row.aval for row in rows for v in row.values):
        raise Differs("arrays of another shape, dtype or weak type")
    return found, rows


def fill(loop: Iteration, rounds: Any, shapes: dict[ListV, tuple[Any, ...]], stacks: list[ArrayV]) -> None:
    """The lists that grow hold what all rounds have appended."""
    left = iter(stacks)
    for v, of_round in shapes.items():
        own = list(itertools.islice(left, sum(len(list(shape.leaves())) for shape in of_round)))
        run = Run(rounds, of_round, own)
        grown_lists.fill(loop.cap, v, loop.fronts[v], run)
