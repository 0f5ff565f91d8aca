"""Lists that loops of the Graph have filled with items that are alike, as rows of arrays: nobody looks at the items
one by one, and one entry serves lists of any length.

    outs[1:], outs[k]          # slices and rows of the stacks, `k` a number that changes
    first, *rest = outs
    jnp.stack(outs)            # the stack itself
    for h, i in outs: ...      # a loop over the rows of two arrays

`whole` says whether the items are alike (see `grown_lists` for lists of which they are not).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp

from dynacomp.capture.arithmetic import graph_scalars
from dynacomp.capture.arithmetic.operators import binary, count_of, truth
from dynacomp.capture.arithmetic.subscripts import subscript
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.numbers import dynamic_scalars, size_values
from dynacomp.capture.numbers.host_functions import as_scalar
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.rows import given_rows
from dynacomp.capture.rows.grown_lists import Grown, is_mutable, item_of, leaf_at, of_rows, shape_of, sliced
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV, NumberV, ScalarV, SizeV
from dynacomp.capture.values.constant import Const, is_exactly, stands_for
from dynacomp.capture.values.containers import ListV, RowsV, TupleV
from dynacomp.capture.values.grown_items import Fixed, Leaf, Many, Run, Shape, is_leaf, is_run, parts_of
from dynacomp.capture.values.iterators import CountIterV, SeqIterV, StreamV, counters, is_sized
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.questions import (
    is_graph_array,
    is_graph_number,
    is_list,
    is_scalar,
    is_size,
    is_slice,
    is_stream,
)
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping import given_lists

# --- all items as one run


def whole(cap: Capture, v: Value) -> Run | None:
    """All items of a list as one run of one item a round, where they are alike; None for other lists."""
    front = getattr(v, "front", None)
    if front is not None and not front.settled:
        return None
    parts = given_rows.parts(cap, v) if front is None else parts_of(v)  # type: ignore[arg-type]
    if parts is None or len(parts) == 1 and front is None:
        return None if parts is None else parts[0]
    length: Any = size_values.expr_of(count_of(cap, v))
    found = [_columns(cap, part) for part in parts]
    kinds = {kind for part in found if part is not None and (kind := given_rows.number_kind(*part)) is not None}
    if len(kinds) == 1 and len({part and part[0] for part in found}) > 1:
        found = [given_rows.as_column(cap, part, *kinds) or other for part, other in zip(parts, found)]
    if any(part is None or part[0] != found[0][0] for part in found):  # type: ignore[index]
        return None
    shapes, columns = zip(*found)  # type: ignore[arg-type]
    stacks = [_joined(cap, list(column)) for column in zip(*columns)]
    return None if None in stacks else Run(length, (functools.reduce(_widened, shapes),), stacks)  # type: ignore[arg-type]


def _columns(cap: Capture, part: Any) -> tuple[Any, list[ArrayV]] | None:
    """One item, or a Run of such, as one shape for all, and its stacks, in the order of the shape's leaves."""
    if not is_run(part):
        leaves: list[Any] = []
        part = Run(1, (shape_of(cap, part, 0, leaves, []),), [_spread(cap, v, 1) for v in leaves])
    shapes, columns = zip(*(_renumbered(cap, part, shape) for shape in part.shapes))
    if any(shape != shapes[0] for shape in shapes):
        return None
    if len(shapes) == 1:
        return shapes[0], columns[0]
    stacks = [_interleaved(cap, list(column)) for column in zip(*columns)]
    return None if None in stacks else (functools.reduce(_widened, shapes), stacks)  # type: ignore[return-value]


def _interleaved(cap: Capture, column: list[Any]) -> Any:
    """The rows of several stacks in turn; None where Python knows those of some alone."""
    if all(map(is_scalar, column)):
        return dynamic_scalars.host("in_turn", in_turn, *column)
    return None if any(map(is_scalar, column)) else library_call(cap, interleaved, column)


def in_turn(*columns: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(itertools.chain.from_iterable(zip(*columns)))


def interleaved(*stacks: Any) -> Any:
    """The rows of several arrays: the first ones of all, then the second ones, ..."""
    found = jnp.stack(stacks, 1)
    return found.reshape(found.shape[0] * found.shape[1], *found.shape[2:])


def _spread(cap: Capture, v: Any, length: Any) -> ArrayV:
    """So many rows that are all the same array or number."""
    shape = Const((length, *v.aval.shape)) if isinstance(length, int) else TupleV(
        [size_values.of_expr(cap, d) for d in (length, *v.aval.shape)])
    return library_call(cap, jnp.broadcast_to, [ArrayV(v.node, v.aval), shape])  # type: ignore[return-value]


def _renumbered(cap: Capture, run: Run, shape: Shape) -> tuple[Shape, list[ArrayV]]:
    """A shape by itself, and the stacks of its leaves; arrays that are the same in each round are leaves, too."""
    stacks: list[ArrayV] = []

    def noted(stack: ArrayV, leaf: Leaf) -> Shape:
        stacks.append(stack)
        return dataclasses.replace(leaf, index=len(stacks) - 1)

    def spread(fixed: Fixed) -> Shape:
        return noted(_spread(cap, fixed.value, run.length), Leaf(0)) if is_graph_array(fixed.value) else fixed

    made: Shape = shape.fold(lambda leaf: noted(run.stacks[leaf.index], leaf), spread,
                             lambda many, parts: dataclasses.replace(many, parts=tuple(parts)))
    return made, stacks


def _widened(a: Shape, b: Shape) -> Shape:
    """One of two equal shapes, with bounds for the numbers of both."""
    others = b.leaves()

    def wide(leaf: Leaf) -> Leaf:
        other = next(others)
        return dataclasses.replace(leaf, low=min(leaf.low, other.low), high=max(leaf.high, other.high))

    return a.map(wide)


def _joined(cap: Capture, column: list[Any]) -> Any:
    """The rows of several stacks, one after the other; None where they are not alike."""
    if len(column) == 1:
        return column[0]
    if all(map(is_scalar, column)):
        return functools.reduce(functools.partial(dynamic_scalars.host, "joined", operator.add), column)
    if any(map(is_scalar, column)) or len({(v.aval.dtype, v.aval.weak_type) for v in column}) > 1 or any(
            v.aval.shape[1:] != column[0].aval.shape[1:] for v in column):
        return None
    return library_call(cap, jnp.concatenate, [TupleV(column)])


def stacked(cap: Capture, v: Value, nested: bool = False) -> ArrayV | None:
    """The items of a list, arrays or numbers (with `nested`: or lists and tuples of such), as the rows of one array;
    None for other lists."""
    run = whole(cap, v)
    return None if run is None else _together(cap, run, run.shapes[0], nested)


def _together(cap: Capture, run: Run, shape: Shape, nested: bool) -> ArrayV | None:
    def repeated(fixed: Fixed) -> Any:
        if not nested or not is_exactly(fixed.value, int, float, bool):
            return None
        return library_call(cap, jnp.full, [size_values.of_expr(cap, run.length), fixed.value])

    def beside(many: Many, made: Iterator[Any]) -> Any:
        if not nested or many.cls not in (list, tuple):
            return None
        parts = list(made)
        if not parts or None in parts or len({p.aval.shape for p in parts}) > 1:
            return None
        return library_call(cap, jnp.stack, [TupleV(parts), Const(1)])

    return shape.fold(lambda leaf: given_rows.as_array(cap, run.stacks[leaf.index], run.length), repeated, beside)


# --- what the program asks for


def holds_rows(v: Value) -> bool:
    """Whether this is a list, or a tuple of rows."""
    return is_list(v) or isinstance(v, RowsV)


def of_numbers(cap: Capture, fn: Any, v: Value, *others: Value) -> Value | None:
    """`fn(items, *others)` of a list of numbers that Python knows before the call; None for others."""
    known = holds_rows(v) and all(is_exactly(x, *given_lists.NUMBERS) or is_scalar(x) or is_size(x) for x in others)
    run = whole(cap, v) if known else None
    if run is None or not is_leaf(run.shapes[0]) or run.shapes[0].number is None or not is_scalar(run.stacks[0]):
        return None
    found = dynamic_scalars.host(fn.__name__, fn, run.stacks[0], *(as_scalar(cap, x) for x in others))
    return size_values.counted(cap, found)


def as_data(cap: Capture, v: Any) -> Value | None:
    """A list of numbers that Python knows before the call, or of NumPy's arrays, as something that changes, for a
    function of NumPy's; None for others."""
    run = whole(cap, v)
    if run is None or not is_leaf(run.shapes[0]) or not is_scalar(run.stacks[0]):
        return None
    column = run.stacks[0]
    source = S.Host("list", (column.source,), list)
    cap.numbers.changing[source] = list(column.hint)
    return ScalarV(list(column.hint), source=source)


def row_at(cap: Capture, v: Value, key: Value) -> Value | None:
    """`v[key]` by a number that changes, of a list whose items are alike; None for other lists and keys, and where the
    number may be none of a row."""
    if not (is_graph_number(key) or is_size(key)):
        return None
    run = whole(cap, v)
    if run is None or is_mutable(run) or _has_host_arrays(run) or not _is_within(cap, key, run.length):
        return None
    return item_of(cap, run, run.shapes[0], key)


def _has_host_arrays(run: Run) -> bool:
    """Whether items are arrays of NumPy's, of which Python knows each."""
    return any(leaf.number is None and is_scalar(run.stacks[leaf.index]) for shape in run.shapes for leaf in
               shape.leaves())


def _is_within(cap: Capture, key: NumberV | SizeV, length: Any) -> bool:
    """Whether a number counts one of so many rows."""
    if is_graph_number(key):
        ends = graph_scalars.reach(key)
        if ends is not None and graph_scalars.never_negative(ends[0]) and graph_scalars.never_negative(
                length - ends[1] - 1):
            return True
        room = None if key.below is None else length - key.below
        return key.low >= 0 and room is not None and (room >= 0 if isinstance(room, int) else bool(
            room.scope.known_sign(room)))
    count = size_values.of_expr(cap, length)
    return truth(cap, binary(cap, operator.ge, key, Const(0))) and truth(cap, binary(cap, operator.lt, key, count))


def taken(cap: Capture, v: Value, index: slice) -> Any:
    """`v[index]` of a list, or tuple of rows, whose items are alike; None for others."""
    run = whole(cap, v)
    if run is None or not run.stacks or is_mutable(run):
        return None
    stacks = [sliced(cap, stack, index) for stack in run.stacks]
    return None if None in stacks else _like(v, Grown(cap, [Run(_length(cap, run, index, stacks), run.shapes, stacks)]))


def _like(v: Value, front: Grown) -> ListV | RowsV:
    """A new list or tuple, as `v` is one, of what is behind a front."""
    return ListV([], front=front) if is_list(v) else RowsV([], front=front)


def as_tuple(cap: Capture, v: Any) -> TupleV:
    """A tuple of what a new list holds: of rows where none of its items can be changed."""
    if v.front is None or not v.front.settled or any(map(is_mutable, of_class(Run, parts_of(v)))):
        return TupleV(cap.items(v))
    return RowsV([], front=Grown(cap, parts_of(v)))


def cut(cap: Capture, v: Value, key: Value) -> ListV | RowsV | None:
    """`v[a:b]` of a list whose items are alike, or are numbers, or of a tuple of rows, where the ends change; None for
    others."""
    if not is_slice(key) or not holds_rows(v):
        return None
    ends = [as_scalar(cap, x) for x in (key.start, key.stop, key.step)]
    known = all(is_scalar(x) and type(x.hint) is int or is_exactly(x, int, type(None)) for x in ends)
    if not known or not any(map(is_scalar, ends)):
        return None
    run = whole(cap, v)
    if run is None:
        return _cut_constants(cap, v, ends) if is_list(v) else None
    if not run.stacks or is_mutable(run):
        return None
    stacks: list[Any] = [given_rows.cut(stack, ends) if is_scalar(stack) else _cut_stack(cap, stack, key, ends)
                         for stack in run.stacks]
    if any(is_scalar(stack) and not stack.hint for stack in stacks):
        return None
    rows = next((stack.aval.shape[0] for stack in stacks if is_graph_array(stack)), None)
    length = given_rows.length_of(cap, stacks[0]) if rows is None else rows
    return _like(v, Grown(cap, [Run(length, run.shapes, stacks)]))


def _cut_stack(cap: Capture, stack: ArrayV, key: Value, ends: list[Any]) -> Any:
    found: Any = subscript(cap, stack, key)
    given_rows.keep_objects(cap, stack, found, lambda own: given_rows.cut(own, ends))
    return found


def _cut_constants(cap: Capture, v: ListV, ends: list[Any]) -> ListV | None:
    items: Any = [] if v.is_open or v.cls is not list else [*map(cap.realize, v.items)]
    kind = next((kind for kind in given_lists.NUMBERS if items and all(is_exactly(x, kind) for x in items)), None)
    if kind is None:
        return None
    column = given_rows.cut(tuple(x.value for x in items), ends)
    return ListV([], front=Grown(cap, [given_rows.run_of(cap, column, kind)])) if column.hint else None


def in_order(cap: Capture, v: Value, key: Value, reverse: bool) -> ListV | None:
    """`sorted(v, reverse=reverse)` of a list of numbers that Python knows before the call; None for others."""
    run = whole(cap, v) if holds_rows(v) and stands_for(key, None) else None
    if run is None or not is_leaf(run.shapes[0]) or run.shapes[0].number is None or not is_scalar(run.stacks[0]):
        return None
    column = dynamic_scalars.host("in_order", _backwards if reverse else _in_order, run.stacks[0])
    return ListV([], front=Grown(cap, [Run(run.length, run.shapes, [column])]))


def _in_order(items: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(items))


def _backwards(items: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(items, reverse=True))


def _length(cap: Capture, run: Run, index: slice, taken: list[Any]) -> Any:
    """How many rows a slice of a run has."""
    rows: Any = next((stack for stack in taken if is_graph_array(stack)), None)
    if rows is None and (index.start, index.stop, index.step) in ((None, None, None), (None, None, -1)):
        return run.length
    if rows is None:
        some = library_call(cap, jnp.arange, [size_values.of_expr(cap, run.length)])  # which nothing else asks for
        rows = subscript(cap, some, Const(index))
    return rows.aval.shape[0]


def unpacked(cap: Capture, v: Value, before: int, after: int) -> list[Value] | None:
    """The parts of `a, *rest, z = v`, of a list or array with a symbolic number of items; None for others, and where
    there are too few."""
    rows = of_rows(cap, v)
    if rows is None or not truth(cap, binary(cap, operator.ge, rows.front.count(rows), Const(before + after))):
        return None
    items = [rows.front.item(rows, k) for k in (*range(before), *range(-after, 0))]
    rest = taken(cap, rows, slice(before, -after or None))
    return None if rest is None or None in items else [*items[:before], rest, *items[before:]]  # type: ignore[list-item]


def transposed(cap: Capture, v: Value) -> Value | None:
    """`zip(*v)` of a list of tuples that are alike, which gives tuples of rows; None for other lists."""
    run = whole(cap, v) if is_list(v) else None
    shape = run.shapes[0] if run is not None and not is_mutable(run) else None
    if run is None or not isinstance(shape, Many) or shape.keys or not shape.parts:
        return None
    columns: list[Value] = [RowsV([], front=Grown(cap, [_own(run, part)])) for part in shape.parts]
    now = ListV([], front=Grown(cap, [run]))
    return SeqIterV(TupleV(columns), kind="other", maker=(runtime.transposed, [now], {}), seen=True)


def _own(run: Run, part: Shape) -> Run:
    """A part of what the rounds of a run made, by itself."""
    stacks: list[Any] = []

    def noted(leaf: Leaf) -> Leaf:
        stacks.append(run.stacks[leaf.index])
        return dataclasses.replace(leaf, index=len(stacks) - 1)

    return Run(run.length, (part.map(noted),), stacks)


# --- iteration


def iterator(cap: Capture, v: ListV | RowsV, back: bool = False) -> Value | None:
    """`iter(list)`, or that of its items from the end: over the rows, where the items are alike; None for others."""
    run = whole(cap, v)
    stream = None if run is None else _stream(cap, v, run, run.shapes[0], back)
    if stream is not None:
        stream.state["list"] = v  # what Python goes through, where it goes on
    return stream


def _stream(cap: Capture, v: ListV | RowsV, run: Run, shape: Shape, back: bool) -> StreamV | None:
    """The items of one round after the other: arrays and numbers, or tuples of such, named ones among them, or dicts
    that the call was given."""
    def rows(leaf: Leaf) -> StreamV | None:
        if leaf.number is None and is_scalar(run.stacks[leaf.index]):
            return None  # arrays of NumPy's
        length = size_values.of_expr(cap, run.length)
        count = CountIterV(binary(cap, operator.sub, length, Const(1)), Const(-1), Const(-1)) if back else CountIterV(
            Const(0), length, Const(1))
        return StreamV("rows", [count, run.stacks[leaf.index]],
                       state={"of": v, "was": _state(v), "shape": leaf})

    def tuples(many: Many, made: Iterator[StreamV | None]) -> StreamV | None:
        is_read = issubclass(many.cls, tuple) or many.cls is dict and many.given
        parts = list(made) if is_read else []
        known = parts and None not in parts
        return StreamV("zip", parts, state={"many": many}) if known else None  # type: ignore[arg-type]

    return shape.fold(rows, lambda fixed: None, tuples)


def row(cap: Capture, it: StreamV, at: Value) -> Value:
    """The row that an iterator over rows gives next; one over a list sees what becomes of it."""
    v: Any = it.state.get("of")
    if v is None:
        return subscript(cap, it.parts[1], at)
    if it.state["was"] != _state(v):
        raise Break("iterator", "a list that changes while a loop goes through it")
    return leaf_at(cap, it.parts[1], it.state["shape"], at)


def _state(v: ListV | RowsV) -> tuple[Any, ...]:
    """What is another one once a list has changed, or was looked into."""
    return v.front, v.unseen, len(v.appended)


def goes_on(it: Value) -> bool:
    """Whether an iterator gives a symbolic number of items that a loop of the Graph may work with."""
    def is_float(v: Any) -> bool:
        return is_stream(v) and (getattr(v.state.get("shape"), "number", None) is float and not
                                           is_scalar(v.parts[1]) or any(map(is_float, v.parts)))
    return is_sized(counters(it)) and not is_float(it)


for _cls in (ListV, RowsV):
    define(_cls, Kind(numbers=as_data))
