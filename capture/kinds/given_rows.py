"""Lists that a call is given, of another length in each call, as rows (see `wrapping.given_lists`).

    for r, logp in zip(rewards, logps): ...     # one loop of the Graph
    jnp.array(rewards), rewards[::-1]

`whole` tells `alike_items` that their items are rows, as of a list that loops have filled. The stack of a column of
numbers is a ScalarV, the tuple of them as Python has them, and an input of the Graph where JAX takes it as an array:
loops compute with Python's own floats (see `loop_numbers`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.capture.arithmetic import graph_scalars
from dynacomp.capture.base.errors import Break
from dynacomp.capture.bodies.subgraphs import localise
from dynacomp.capture.graph.avals import Aval, aval_of
from dynacomp.capture.numbers import dynamic_scalars, size_values
from dynacomp.capture.numbers.applied import Applied, Given
from dynacomp.capture.numbers.graph_inputs import add_input
from dynacomp.capture.numbers.host_functions import as_scalar
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import emit_node
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV, ScalarV
from dynacomp.capture.values.constant import is_exactly
from dynacomp.capture.values.grown_items import Fixed, Leaf, Many, Run, Shape, is_fixed, is_leaf, is_run
from dynacomp.capture.values.questions import is_graph_number, is_scalar
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping import given_lists


@dataclass(frozen=True)
class Stacked:
    """A column as JAX takes it; an int that it does not hold raises OverflowError."""

    dtype: Any

    def __call__(self, items: tuple[Any, ...]) -> np.ndarray:
        return np.array(items, self.dtype)


def whole(cap: Capture, v: Value) -> Run | None:
    """All items of a list that changes from call to call as a Run; None for others, and where they are not alike."""
    columns = given_lists.columns(cap, v)
    if columns is None:
        return None
    made, found, places = columns
    length = size_values.symbol(cap, S.Count(v.source), list.__len__(v.real), least=2)  # type: ignore[arg-type, attr-defined]
    stacks = [_column(cap, place, x, length) for place, x in zip(places, found)]
    return Run(length, (_shape(made.of, iter(range(len(found)))),), stacks)


def _shape(of: Any, places: Iterator[int]) -> Shape:
    if isinstance(of, given_lists.Many):
        return Many(of.cls, tuple(_shape(part, places) for part in of.parts))
    return Leaf(next(places), of.kind if isinstance(of, given_lists.Numbers) else None)


def _column(cap: Capture, source: S.Host, found: Any, length: Any) -> Any:
    if isinstance(found, tuple):
        return ScalarV(found, source=source)
    return _input(cap, source, Aval((length, *found.shape[1:]), found.dtype))


def _input(cap: Capture, source: S.Host, aval: Aval) -> ArrayV:
    known = cap.numbers.scalar_nodes.get(source)
    if known is None:
        cap.guards.add("ndarray", source, (None, *aval.shape[1:]), np.dtype(aval.dtype))
        known = cap.numbers.scalar_nodes[source] = add_input(cap, source, aval)
    made = emit_node(cap, jnp.array, ((localise(cap, known),), {}), aval)  # it comes as an array of NumPy's
    return ArrayV(made, aval)


# --- columns of numbers


def as_array(cap: Capture, stack: Any, length: Any) -> ArrayV | None:
    """A column as an array; None for ints that JAX does not hold."""
    if not is_scalar(stack):
        return stack  # type: ignore[no-any-return]
    first = stack.hint[0]
    made = Stacked(jax.dtypes.canonicalize_dtype(first.dtype) if isinstance(first, np.ndarray) else aval_of(
        type(first)(0)).dtype)
    try:
        made(stack.hint)
    except OverflowError:
        return None
    return _input(cap, S.Host(repr(made), (stack.source,), made), Aval((length, *np.shape(first)), made.dtype))


def number_kind(shape: Shape, stacks: list[Any]) -> type | None:
    """The type of numbers that Python knows before the call; None for other items."""
    return shape.number if is_leaf(shape) and is_scalar(stacks[0]) else None


def as_column(cap: Capture, part: Any, kind: type) -> tuple[Shape, list[Any]] | None:
    """A constant of this type, or a Run of one, as a column of numbers; None for other parts of a list."""
    shape, length = (part.shapes[0], part.length) if is_run(part) else (Fixed(part), 1)
    if is_run(part) and len(part.shapes) > 1 or not is_fixed(shape) or not is_exactly(shape.value, kind):
        return None
    times = as_scalar(cap, size_values.of_expr(cap, length))
    return Leaf(0, kind), [dynamic_scalars.host("repeated", repeated, shape.value, times)]


def repeated(number: Any, times: int) -> tuple[Any, ...]:
    return (number,) * times


def number_at(cap: Capture, column: ScalarV, k: Value) -> Value:
    """The number in row `k`, as Python has it."""
    if isinstance(column.hint[0], np.ndarray):
        raise Break("leaves", "iteration over NumPy arrays")
    k = as_scalar(cap, k)
    if not is_graph_number(k):
        found = size_values.counted(cap, dynamic_scalars.host("getitem", operator.getitem, column, k))
        assert found is not None
        return found
    found = graph_scalars.each_round(operator.getitem, column, k)
    if found is None:
        raise Break("branch", "a number of a list at a place that the graph computes")
    return found


def part_of(column: ScalarV, index: slice) -> ScalarV | None:
    """`column[index]`; None where no row is left now, or the ends change."""
    if not all(x is None or type(x) is int for x in (index.start, index.stop, index.step)) or not column.hint[index]:
        return None
    made = Applied(operator.getitem, (Given(0), index), {})
    return ScalarV(column.hint[index], source=S.Host(repr(made), (column.source,), made))
