"""New lists that loops of the Graph fill: what each round appends is a row of arrays, one for all rounds.

    outs = []
    for x in xs:                    # one node, whatever the length of xs
        h = cell(h, x)
        outs.append((h, i))         # Run(length, (Many(tuple, (Leaf(0), Leaf(1))),), stacks)
    return jnp.stack(...), len(outs), outs[-1]

The list's `unseen` front is a `Grown`: the items that it had before, and a `Run` for each loop. Its length is a size,
items at either end are rows, JAX's functions that put a list together take the arrays as they are. Whoever wants all
items gets them one by one, and the entry serves one length. While the loop's body runs, the front is a `Growing`, of
which only the last items can be seen.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from dynacomp.capture.arithmetic import graph_scalars
from dynacomp.capture.arithmetic.operators import binary, subscript, truth
from dynacomp.capture.base.errors import Break
from dynacomp.capture.graph.avals import Aval, is_numpy_dtype
from dynacomp.capture.graph.sizes import Size
from dynacomp.capture.numbers import size_values
from dynacomp.capture.symbolic.grown_items import Fixed, Front, Leaf, Many, Run, parts_of
from dynacomp.capture.symbolic.iterator_values import CountIterV, StreamV, counters
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.values import (
    ArrayV,
    Const,
    DictV,
    ListV,
    NumberV,
    SizeV,
    TupleV,
    Value,
    is_exactly,
    is_number,
)
from dynacomp.capture.tracing.trace_call import library_call
from dynacomp.capture.wrapping import ndarrays

SHOWN = 4  # last items of a list that the body of a loop which fills it may look at


def item_of(cap: Capture, run: Run, shape: Any, k: Value) -> Value:
    """What round k appended."""
    if isinstance(shape, Fixed):
        return shape.value
    if isinstance(shape, Leaf):
        row: Any = subscript(cap, run.stacks[shape.index], k)
        return ArrayV(row.node, row.aval, joined=True) if shape.number is None else number_of(cap, row, shape)
    parts = [item_of(cap, run, part, k) for part in shape.parts]
    if shape.cls is dict:
        return DictV(dict(zip(shape.keys, parts)))
    return ListV(parts) if shape.cls is list else TupleV(parts, shape.cls)


def number_of(cap: Capture, row: Any, shape: Leaf) -> NumberV:
    """The number that a row is."""
    if shape.number is int:
        return graph_scalars.made_int(cap, row, shape.low, shape.high)
    assert shape.number is not None
    return NumberV(row.node, row.aval, shape.number)


def all_items(cap: Capture, run: Run) -> Iterator[Value]:
    """All that a loop appended; the entry serves this number of rounds alone."""
    length: Any = size_values.known(cap, size_values.of_expr(cap, run.length), "all items of a list").value
    for k in range(length):
        yield from (item_of(cap, run, shape, Const(k)) for shape in run.shapes)


@dataclass(eq=False)
class Grown(Front):
    """The items of a list behind the loops that filled it."""

    cap: Capture
    all_parts: list[Any]

    @property
    def parts(self) -> list[Any]:
        return self.all_parts

    def held(self) -> list[Any]:
        return [x for part in self.parts for x in (part.held() if isinstance(part, Run) else [part])]

    def __call__(self) -> list[Any]:
        return [x for part in self.parts for x in (all_items(self.cap, part) if isinstance(part, Run) else [part])]

    def count(self, v: ListV) -> Value:
        runs = [part for part in self.parts if isinstance(part, Run)]
        others = len(self.parts) - len(runs) + len(v.appended)
        return size_values.of_expr(self.cap, sum((r.length * len(r.shapes) for r in runs), others))


@dataclass(eq=False)
class Growing(Front):
    """The items of a list while a round of the loop that fills it runs: its last ones, as that round finds them.
    wanted: how many of them the body asked for in vain. hidden: all that the list held before the loop."""

    tail: list[Any]
    hidden: list[Any]
    wanted: int = 0

    def held(self) -> list[Any]:
        return self.hidden

    @property
    def parts(self) -> list[Any]:
        raise Break("branch", "a list that a loop fills, in the loop")

    def __call__(self) -> list[Any]:
        raise Break("branch", "a list that a loop fills, in the loop")

    def count(self, v: ListV) -> Value:
        raise Break("branch", "the length of a list that a loop fills, in the loop")


# --- what a round has appended


def shape_of(cap: Capture, item: Value, birth: int, leaves: list[Any], made: list[Value]) -> Any:
    """An item of a round as a shape; its arrays and numbers are added to `leaves`, its lists and dicts to `made`. Break
    where it has none, or has one of those in two places."""
    item = cap.realize(item)
    if isinstance(item, ArrayV) and not isinstance(item.real, np.ndarray) and is_numpy_dtype(item.aval.dtype):
        if item.real is not None or cap.graph.homes.get(item.node, -1) < birth:
            return Fixed(item)
        leaves.append(item)
        return Leaf(len(leaves) - 1)
    if isinstance(item, NumberV) and not (graph_scalars.is_rounded(item) or cap.root.traced):
        leaves.append(item)
        return Leaf(len(leaves) - 1, item.kind, item.low, item.high)
    if any(item is other for other in made):
        raise Break("branch", "a list in two places of what a loop fills")
    young = item.serial >= birth and item.source is None
    is_list = young and type(item) is ListV and item.cls is list and item.unseen is None
    is_dict = young and type(item) is DictV and item.cls is dict and item.owner is None and item.shows is None
    made += [item] if is_list or is_dict else []
    if isinstance(item, TupleV) or is_list:
        return Many(item.cls, tuple(shape_of(cap, x, birth, leaves, made) for x in cap.items(item)))  # type: ignore[attr-defined]
    if is_dict:
        return Many(dict, tuple(shape_of(cap, x, birth, leaves, made) for x in item.items.values()),  # type: ignore[attr-defined]
                    tuple(item.items))  # type: ignore[attr-defined]
    if isinstance(item, Const) or not young and not is_number(item):
        return Fixed(item)
    raise Break("branch", "an item of a list that a loop fills")


def rows_aval(length: Any, of: Any) -> Aval:
    """What the rows of all rounds are together."""
    return Aval((length, *of.aval.shape), of.aval.dtype, of.aval.weak_type)


# --- what the program asks for


def item_at(cap: Capture, v: ListV, index: int) -> Value | None:
    """`v[index]`, None where all items have to be looked at."""
    if isinstance(v.unseen, Growing):
        return _shown(v, v.unseen, index)
    if not isinstance(v.unseen, Grown):
        return None
    parts, back = parts_of(v), index < 0
    left = -index - 1 if back else index
    for part in reversed(parts) if back else parts:
        if not isinstance(part, Run):
            if not left:
                return part
            left -= 1
            continue
        if _is_mutable(part) or not isinstance(part.length, Size):
            return None
        k, j = divmod(left, len(part.shapes))
        rows = size_values.of_expr(cap, part.length)
        if not truth(cap, binary(cap, operator.gt, rows, Const(k))):
            return None
        place = binary(cap, operator.sub, rows, Const(k + 1)) if back else Const(k)
        return item_of(cap, part, part.shapes[-1 - j if back else j], place)
    return None


def _shown(v: ListV, front: Growing, index: int) -> Value | None:
    known = [*front.tail, *v.appended]
    if 0 <= index or -index > SHOWN + len(v.appended):
        return None
    front.wanted = max(front.wanted, -index - len(v.appended))
    return known[index] if -index <= len(known) else None


def row_at(cap: Capture, v: Value, key: Value) -> Value | None:
    """`v[key]` by a number that changes, of a list whose items are alike; None for other lists and keys, and where the
    number may be none of a row."""
    if not (isinstance(v, ListV) and isinstance(v.unseen, Grown) and isinstance(key, (NumberV, SizeV))):
        return None
    run = whole(cap, v)
    if run is None or _is_mutable(run) or not _is_within(cap, key, run.length):
        return None
    return item_of(cap, run, run.shapes[0], key)


def _is_within(cap: Capture, key: NumberV | SizeV, length: Any) -> bool:
    """Whether a number counts one of so many rows."""
    if isinstance(key, NumberV):
        room = None if key.below is None else length - key.below
        return key.low >= 0 and room is not None and (room >= 0 if isinstance(room, int) else bool(
            room.scope.known_sign(room)))
    count = size_values.of_expr(cap, length)
    return truth(cap, binary(cap, operator.ge, key, Const(0))) and truth(cap, binary(cap, operator.lt, key, count))


def _is_mutable(run: Run) -> bool:
    """Whether items of a run can be changed: they must be the same ones whenever they are looked at."""
    def holds(shape: Any) -> bool:
        return isinstance(shape, Many) and (shape.cls in (list, dict) or any(map(holds, shape.parts)))
    return any(map(holds, run.shapes))


def copied(cap: Capture, v: ListV) -> ListV | None:
    """A new list of the items of one that loops have filled; None for other lists."""
    if not isinstance(v.unseen, Grown) or any(isinstance(p, Run) and _is_mutable(p) for p in v.unseen.parts):
        return None
    return ListV([], unseen=Grown(cap, parts_of(v)))


def of_rows(cap: Capture, v: Value) -> ListV | None:
    """`list(v)` of a list that loops have filled, or of an array with a symbolic number of rows; None for others."""
    if isinstance(v, ListV):
        return copied(cap, v)
    if not isinstance(v, ArrayV) or ndarrays.is_numpy(v) or not isinstance(rows := (v.aval.shape or (0,))[0], Size):
        return None
    return ListV([], unseen=Grown(cap, [Run(rows, (Leaf(0),), [v])]))


# --- lists whose items are alike, as rows of arrays


def whole(cap: Capture, v: Value) -> Run | None:
    """All items of a list as one run of one item a round, where they are alike; None for other lists."""
    if not (isinstance(v, ListV) and isinstance(v.unseen, Grown)):
        return None
    length: Any = size_values.expr_of(v.unseen.count(v))
    found = [_columns(cap, part) for part in parts_of(v)]
    if any(part is None or part[0] != found[0][0] for part in found):  # type: ignore[index]
        return None
    shapes, columns = zip(*found)  # type: ignore[arg-type]
    stacks = [_joined(cap, list(column)) for column in zip(*columns)]
    return None if None in stacks else Run(length, (functools.reduce(_widened, shapes),), stacks)  # type: ignore[arg-type]


def _columns(cap: Capture, part: Any) -> tuple[Any, list[ArrayV]] | None:
    """One item, or a Run of such, as one shape for all, and its stacks, in the order of the shape's leaves."""
    if not isinstance(part, Run):
        leaves: list[Any] = []
        part = Run(1, (shape_of(cap, part, 0, leaves, []),), [_spread(cap, v, 1) for v in leaves])
    shapes, columns = zip(*(_renumbered(cap, part, shape) for shape in part.shapes))
    if any(shape != shapes[0] for shape in shapes):
        return None
    if len(shapes) == 1:
        return shapes[0], columns[0]
    stacks = [library_call(cap, interleaved, list(column)) for column in zip(*columns)]
    return functools.reduce(_widened, shapes), stacks  # type: ignore[return-value]


def interleaved(*stacks: Any) -> Any:
    """The rows of several arrays: the first ones of all, then the second ones, ..."""
    found = jnp.stack(stacks, 1)
    return found.reshape(found.shape[0] * found.shape[1], *found.shape[2:])


def _spread(cap: Capture, v: Any, length: Any) -> ArrayV:
    """So many rows that are all the same array or number."""
    shape = Const((length, *v.aval.shape)) if isinstance(length, int) else TupleV(
        [size_values.of_expr(cap, d) for d in (length, *v.aval.shape)])
    return library_call(cap, jnp.broadcast_to, [ArrayV(v.node, v.aval), shape])  # type: ignore[return-value]


def _renumbered(cap: Capture, run: Run, shape: Any) -> tuple[Any, list[ArrayV]]:
    """A shape by itself, and the stacks of its leaves; arrays that are the same in each round are leaves, too."""
    if isinstance(shape, Leaf):
        return dataclasses.replace(shape, index=0), [run.stacks[shape.index]]
    if isinstance(shape, Fixed):
        return (Leaf(0), [_spread(cap, shape.value, run.length)]) if isinstance(shape.value, ArrayV) else (shape, [])
    stacks: list[ArrayV] = []
    parts = []
    for part in shape.parts:
        made, of_part = _renumbered(cap, run, part)
        parts.append(_moved(made, len(stacks)))
        stacks += of_part
    return Many(shape.cls, tuple(parts), shape.keys), stacks


def _moved(shape: Any, by: int) -> Any:
    if isinstance(shape, Leaf):
        return dataclasses.replace(shape, index=shape.index + by)
    return Many(shape.cls, tuple(_moved(p, by) for p in shape.parts), shape.keys) if isinstance(shape, Many) else shape


def _widened(a: Any, b: Any) -> Any:
    """One of two equal shapes, with bounds for the numbers of both."""
    if isinstance(a, Leaf):
        return dataclasses.replace(a, low=min(a.low, b.low), high=max(a.high, b.high))
    return Many(a.cls, tuple(map(_widened, a.parts, b.parts)), a.keys) if isinstance(a, Many) else a


def _joined(cap: Capture, column: list[ArrayV]) -> ArrayV | None:
    """The rows of several stacks, one after the other."""
    if len({(v.aval.dtype, v.aval.weak_type) for v in column}) > 1 or any(
            v.aval.shape[1:] != column[0].aval.shape[1:] for v in column):
        return None
    return column[0] if len(column) == 1 else library_call(cap, jnp.concatenate, [TupleV(column)])  # type: ignore[return-value]


def stacked(cap: Capture, v: Value, nested: bool = False) -> ArrayV | None:
    """The items of a list, arrays or numbers (with `nested`: or lists and tuples of such), as the rows of one array;
    None for other lists."""
    run = whole(cap, v)
    return None if run is None else _together(cap, run, run.shapes[0], nested)


def _together(cap: Capture, run: Run, shape: Any, nested: bool) -> ArrayV | None:
    if isinstance(shape, Leaf):
        return run.stacks[shape.index]
    if nested and isinstance(shape, Fixed) and is_exactly(shape.value, int, float, bool):
        return library_call(cap, jnp.full, [size_values.of_expr(cap, run.length), shape.value])  # type: ignore[return-value]
    if not nested or not isinstance(shape, Many) or shape.cls not in (list, tuple):
        return None
    parts = [_together(cap, run, part, nested) for part in shape.parts]
    if not parts or None in parts or len({p.aval.shape for p in parts}) > 1:  # type: ignore[union-attr]
        return None
    return library_call(cap, jnp.stack, [TupleV(parts), Const(1)])  # type: ignore[return-value]


def taken(cap: Capture, v: Value, index: slice) -> ListV | None:
    """`v[index]` of a list whose items are alike; None for other lists."""
    run = whole(cap, v)
    if run is None or not run.stacks or _is_mutable(run):
        return None
    stacks: list[Any] = [subscript(cap, stack, Const(index)) for stack in run.stacks]
    return ListV([], unseen=Grown(cap, [Run(stacks[0].aval.shape[0], run.shapes, stacks)]))


def unpacked(cap: Capture, v: Value, before: int, after: int) -> list[Value] | None:
    """The parts of `a, *rest, z = v`, of a list or array with a symbolic number of items; None for others, and where
    there are too few."""
    rows = of_rows(cap, v)
    if rows is None or not truth(cap, binary(cap, operator.ge, rows.unseen.count(rows), Const(before + after))):
        return None
    items = [item_at(cap, rows, k) for k in (*range(before), *range(-after, 0))]
    rest = taken(cap, rows, slice(before, -after or None))
    return None if rest is None or None in items else [*items[:before], rest, *items[before:]]  # type: ignore[list-item]


def extended(cap: Capture, *lists: Value) -> Grown | None:
    """What a list holds that is several ones together, of which loops have filled one; None for others."""
    parts: list[Any] = []
    for v in lists:
        if not isinstance(v, ListV) or v.cls is not list or v.real is not None or not (
                v.unseen is None or isinstance(v.unseen, Grown)):
            return None
        parts += parts_of(v)
    runs = [part for part in parts if isinstance(part, Run)]
    return None if not runs or any(map(_is_mutable, runs)) else Grown(cap, parts)


def put(v: ListV, front: Front) -> None:
    """Gives a list, whose change is noted, other items."""
    v.unseen, v.items, v.appended = front, [], []


# --- iteration


def iterator(cap: Capture, v: ListV, back: bool = False) -> Value | None:
    """`iter(list)`, or that of its items from the end: over the rows, where the items are alike; None for others."""
    run = whole(cap, v)
    stream = None if run is None else _stream(cap, v, run, run.shapes[0], back)
    if stream is not None:
        stream.state["list"] = v  # what Python goes through, where it goes on
    return stream


def _stream(cap: Capture, v: ListV, run: Run, shape: Any, back: bool) -> StreamV | None:
    """The items of one round after the other: arrays and numbers, or tuples of such."""
    if isinstance(shape, Leaf):
        length = size_values.of_expr(cap, run.length)
        count = CountIterV(binary(cap, operator.sub, length, Const(1)), Const(-1), Const(-1)) if back else CountIterV(
            Const(0), length, Const(1))
        return StreamV("rows", [count, run.stacks[shape.index]],
                       state={"of": v, "was": (v.unseen, len(v.appended)), "shape": shape})
    if not isinstance(shape, Many) or shape.cls is not tuple:
        return None
    parts = [_stream(cap, v, run, part, back) for part in shape.parts]
    return StreamV("zip", parts) if parts and None not in parts else None


def row(cap: Capture, it: StreamV, at: Value) -> Value:
    """The row that an iterator over rows gives next; one over a list sees what becomes of it."""
    found = subscript(cap, it.parts[1], at)
    v: Any = it.state.get("of")
    if v is None:
        return found
    if it.state["was"] != (v.unseen, len(v.appended)):
        raise Break("iterator", "a list that changes while a loop goes through it")
    return found if it.state["shape"].number is None else number_of(cap, found, it.state["shape"])


def goes_on(it: Value) -> bool:
    """Whether an iterator gives a symbolic number of items that a loop of the Graph may work with."""
    def is_float(v: Any) -> bool:
        return isinstance(v, StreamV) and (getattr(v.state.get("shape"), "number", None) is float or any(
            map(is_float, v.parts)))
    return any(isinstance(c.stop, SizeV) or isinstance(c.current, SizeV) for c in counters(it)) and not is_float(it)
