"""Lists that a call is given, of another length in each call, as rows (see `wrapping.given_lists`).

    for r, logp in zip(rewards, logps): ...     # one loop of the Graph
    jnp.array(rewards), rewards[::-1]

`whole` tells `alike_items` that their items are rows, as of a list that loops have filled. The stack of a column of
numbers is a ScalarV, the tuple of them as Python has them, and an input of the Graph where JAX takes it as an array:
loops compute with Python's own floats (see `loop_numbers`).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.capture.arithmetic import graph_scalars
from dynacomp.capture.base.errors import Break
from dynacomp.capture.bodies.subgraphs import localise
from dynacomp.capture.graph.avals import Aval, aval_of, weakly
from dynacomp.capture.numbers import dynamic_scalars, size_values
from dynacomp.capture.numbers.applied import Applied, Given
from dynacomp.capture.numbers.graph_inputs import add_input, symbolic_dims
from dynacomp.capture.numbers.host_functions import as_scalar
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import emit_node
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV, ScalarV
from dynacomp.capture.values.constant import is_exactly
from dynacomp.capture.values.containers import RangeV
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


@dataclass(frozen=True)
class Objects:
    """What the items of a list, or parts of them at this place in each, are themselves."""

    path: tuple[Any, ...]

    def __call__(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(functools.reduce(operator.getitem, self.path, item) for item in items)


def _paths(of: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in an item each column lies."""
    if not isinstance(of, given_lists.Many):
        yield path
    for n, part in enumerate(of.parts if isinstance(of, given_lists.Many) else ()):
        yield from _paths(part, (*path, of.keys[n] if of.keys else n))


def parts(cap: Capture, v: Value) -> list[Any] | None:
    """What a list that changes from call to call holds, as a Run and what the program has appended; None for others,
    and where the items are not alike."""
    columns = given_lists.columns(cap, v)
    if columns is None:
        return None
    made, found, places = columns
    length = size_values.symbol(cap, S.Count(v.source), list.__len__(v.real), least=2)  # type: ignore[arg-type, attr-defined]
    firsts = _first(made.of, S.Item(v.source, 0))  # type: ignore[arg-type, attr-defined]
    paths = list(_paths(made.of))
    weak_types = [getattr(Objects(path)(v.real[:1])[0], "weak_type", False) for path in paths]  # type: ignore[attr-defined]
    stacks = [_column(cap, place, x, length, first, weak)
              for place, x, first, weak in zip(places, found, firsts, weak_types)]
    for stack, path in zip(stacks, paths):
        if not is_scalar(stack):
            own = Objects(path)
            source = S.Host(repr(own), (v.source,), own)  # type: ignore[arg-type]
            cap.numbers.originals[stack.node] = ScalarV(own(v.real), source=source)  # type: ignore[attr-defined]
    return [Run(length, (_shape(made.of, iter(range(len(found)))),), stacks), *v.appended]  # type: ignore[attr-defined]


def _shape(of: Any, places: Iterator[int]) -> Shape:
    if isinstance(of, given_lists.Many):
        return Many(of.cls, tuple(_shape(part, places) for part in of.parts), of.keys, given=True)
    return Leaf(next(places), of.kind if isinstance(of, given_lists.Numbers) else None)


def _first(of: Any, place: Any) -> Iterator[S.Source]:
    """Where what the columns begin with lies: the sizes that it had are known from when the list was read whole."""
    for n, part in enumerate(of.parts if isinstance(of, given_lists.Many) else ()):
        yield from _first(part, S.Key(place, of.keys[n]) if of.keys else S.Item(place, n))
    if not isinstance(of, given_lists.Many):
        yield place


def _column(cap: Capture, source: S.Host, found: Any, length: Any, first: S.Source, weak_type: bool) -> Any:
    if isinstance(found, tuple):
        return ScalarV(found, source=source)
    dims = symbolic_dims(cap, found[0], first)
    made = _input(cap, source, Aval((length, *dims), found.dtype))
    if not weak_type:
        return made
    aval = Aval(made.aval.shape, found.dtype, True)
    return ArrayV(emit_node(cap, weakly, ((made.node,), {}), aval), aval)


def _input(cap: Capture, source: S.Host, aval: Aval) -> ArrayV:
    known = cap.numbers.scalar_nodes.get(source)
    if known is None:
        cap.guards.add("ndarray", source, tuple(d if isinstance(d, int) else None for d in (None, *aval.shape[1:])),
                       np.dtype(aval.dtype))
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
    """The type of numbers that Python knows before the call, or of one in all rows; None for other items."""
    if is_fixed(shape):
        return next((kind for kind in given_lists.NUMBERS if is_exactly(shape.value, kind)), None)
    return shape.number if is_leaf(shape) and is_scalar(stacks[0]) else None


def as_column(cap: Capture, part: Any, kind: type) -> tuple[Shape, list[Any]] | None:
    """A number of this type that Python knows before the call, or a Run of one, as a column of numbers; None for other
    parts of a list."""
    shape, length = (part.shapes[0], part.length) if is_run(part) else (Fixed(part), 1)
    number = as_scalar(cap, shape.value) if is_fixed(shape) else None
    if is_run(part) and len(part.shapes) > 1 or not (
            is_scalar(number) and type(number.hint) is kind or is_exactly(number, kind)):
        return None
    times = as_scalar(cap, size_values.of_expr(cap, length))
    return Leaf(0, kind), [dynamic_scalars.host("repeated", repeated, number, times)]


def repeated(number: Any, times: int) -> tuple[Any, ...]:
    return (number,) * times


def of_range(cap: Capture, v: RangeV) -> Run | None:
    """The numbers of a range, which Python counts before the call; None where there are none now."""
    ends = [as_scalar(cap, x) for x in (v.start, v.stop, v.step)]
    if not all(is_scalar(x) or is_exactly(x, int) for x in ends):
        return None
    column: Any = dynamic_scalars.host("counted", counted, *ends)
    if not column.hint:
        return None
    return run_of(cap, column, int)


def run_of(cap: Capture, column: ScalarV, kind: type) -> Run:
    """Numbers of this type that Python knows before the call, one at least in this call."""
    return Run(length_of(cap, column), (Leaf(0, kind),), [column])


def length_of(cap: Capture, column: ScalarV) -> Any:
    """How many numbers of a column there are: one at least in this call, none in others."""
    return size_values.symbol(cap, S.Host("items", (column.source,), len), len(column.hint), least=0)


def counted(start: int, stop: int, step: int) -> tuple[int, ...]:
    return tuple(range(start, stop, step))


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


GIVEN = "given"  # an end that changes


@dataclass(frozen=True)
class Cut:
    """`items[start:stop:step]` of these numbers, or of those that come first; the ends that change come behind."""

    ends: tuple[Any, ...]
    items: tuple[Any, ...] | None = None

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        items, given = (self.items, given) if self.items is not None else (given[0], given[1:])
        ends = iter(given)
        return items[slice(*[next(ends) if end == GIVEN else end for end in self.ends])]  # type: ignore[no-any-return]


def cut(column: Any, ends: list[Any]) -> ScalarV:
    """A part of a column, or of a tuple of numbers that are known, whose ends are constants and numbers that change."""
    known = tuple(GIVEN if is_scalar(x) else x.value for x in ends)
    made = Cut(known) if is_scalar(column) else Cut(known, column)
    return dynamic_scalars.host(repr(made), made, *filter(is_scalar, (column, *ends)))  # type: ignore[return-value]


def keep_objects(cap: Capture, stack: ArrayV, rows: ArrayV, part: Callable[[ScalarV], ScalarV | None]) -> None:
    """Notes which arrays that the call was given some rows of a stack are, where `part` says it of all of them."""
    own = cap.numbers.originals.get(stack.node)
    found = None if own is None else part(own)
    if found is not None:
        cap.numbers.originals[rows.node] = found


def keep_picked(cap: Capture, loop: Any, picked: list[ArrayV], length: Any, rows: ArrayV) -> None:
    """Notes it of what the rounds of a loop (whose State is `loop`) have appended: `picked`, the same on each way
    through the body, of a row that this loop counts, not one around it."""
    stack, k = picked[0].row or (None, None)
    own = cap.numbers.originals.get(stack)  # type: ignore[arg-type]
    series = k.series if is_graph_number(k) else None
    line = series.line() if series is not None and series.loop.state is loop else None
    if own is not None and line is not None and all(v is picked[0] for v in picked):
        at, by, count = (as_scalar(cap, size_values.of_expr(cap, x)) for x in (line.at, line.by, length))
        cap.numbers.originals[rows.node] = dynamic_scalars.host("picked", of_rounds, own, at, by, count)  # type: ignore[assignment]


def of_rounds(items: tuple[Any, ...], at: int, by: int, count: int) -> tuple[Any, ...]:
    return tuple(items[at + by * k] for k in range(count))


def part_of(column: ScalarV, index: slice) -> ScalarV | None:
    """`column[index]`; None where no row is left now, or the ends change."""
    if not all(x is None or type(x) is int for x in (index.start, index.stop, index.step)) or not column.hint[index]:
        return None
    made = Applied(operator.getitem, (Given(0), index), {})
    return ScalarV(column.hint[index], source=S.Host(repr(made), (column.source,), made))
