"""New lists that loops of the Graph fill: what each round appends is a row of arrays, one for all rounds.

    outs = []
    for x in xs:                    # one node, whatever the length of xs
        h = cell(h, x)
        outs.append((h, i))         # Run(length, (Many(tuple, (Leaf(0), Leaf(1))),), stacks)
    return jnp.stack(...), len(outs), outs[-1]

The list's `front` is a `Grown`: the items that it had before, and a `Run` for each loop. Its length is a size,
items at either end are rows, JAX's functions that put a list together take the arrays as they are. Whoever wants all
items gets them one by one, and the entry serves one length. While the loop's body runs, the front is a `Growing`, of
which only the last items can be seen.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.arithmetic import graph_scalars
from dynacomp.capture.arithmetic.operators import binary, truth
from dynacomp.capture.arithmetic.subscripts import subscript
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.avals import Aval, is_numpy_dtype
from dynacomp.capture.graph.sizes import Size, canonical, is_symbolic
from dynacomp.capture.numbers import size_values
from dynacomp.capture.rows import given_rows
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import ArrayV, NumberV
from dynacomp.capture.values.constant import Const, is_const, is_exactly
from dynacomp.capture.values.containers import DictV, ListV, RangeV, RowsV
from dynacomp.capture.values.grown_items import Fixed, Front, Leaf, Many, Run, Shape, is_run, parts_of
from dynacomp.capture.values.questions import (
    is_graph_array,
    is_graph_number,
    is_list,
    is_number,
    is_scalar,
    is_size,
    is_tuple,
)
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping import ndarrays
from dynacomp.capture.wrapping.keyed_tables import settled

SHOWN = 4  # last items of a list that the body of a loop which fills it may look at


def item_of(cap: Capture, run: Run, shape: Shape, k: Value) -> Value:
    """What round k appended."""
    def row_of(leaf: Leaf) -> Value:
        return leaf_at(cap, run.stacks[leaf.index], leaf, k)

    def together(many: Many, parts: Iterator[Value]) -> Value:
        return many.value(list(parts))

    return shape.fold(row_of, lambda fixed: fixed.value, together)


def sliced(cap: Capture, stack: Any, index: slice) -> Any:
    """Some of the rows of a stack; None where that is not known to be one part for all calls."""
    if is_scalar(stack):
        return given_rows.part_of(stack, index)
    found: Any = subscript(cap, stack, Const(index))
    given_rows.keep_objects(cap, stack, found, lambda own: given_rows.part_of(own, index))
    return found


def leaf_at(cap: Capture, stack: Any, shape: Leaf, k: Value) -> Value:
    """The array or number that row `k` of a stack is."""
    if is_scalar(stack):
        return given_rows.number_at(cap, stack, k)
    row: Any = subscript(cap, stack, k)
    if shape.number is None:
        return ArrayV(row.node, row.aval, joined=True, row=(stack.node, k))  # the list has its object, which no row is
    if shape.number is int:
        return graph_scalars.made_int(cap, row, shape.low, shape.high)
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
    settled = True

    @property
    def parts(self) -> list[Any]:
        return self.all_parts

    def held(self) -> list[Any]:
        return [x for part in self.parts for x in (part.held() if is_run(part) else [part])]

    def __call__(self) -> list[Any]:
        return [x for part in self.parts for x in (all_items(self.cap, part) if is_run(part) else [part])]

    def count(self, v: ListV) -> Value:
        runs = [*of_class(Run, self.parts)]
        others = len(self.parts) - len(runs) + len(v.appended)
        return size_values.of_expr(self.cap, sum((r.length * len(r.shapes) for r in runs), others))

    def item(self, v: ListV, index: int) -> Value | None:
        cap, parts, back = self.cap, parts_of(v), index < 0
        left = -index - 1 if back else index
        for part in reversed(parts) if back else parts:
            if not is_run(part):
                if not left:
                    return part  # type: ignore[no-any-return]
                left -= 1
                continue
            if is_mutable(part) or not is_symbolic(part.length):
                return None
            k, j = divmod(left, len(part.shapes))
            rows = size_values.of_expr(cap, part.length)
            if not truth(cap, binary(cap, operator.gt, rows, Const(k))):
                return None
            place = binary(cap, operator.sub, rows, Const(k + 1)) if back else Const(k)
            return item_of(cap, part, part.shapes[-1 - j if back else j], place)
        return None


@dataclass(eq=False)
class Onto(Grown):
    """The items of a list that existed before, which nobody has looked into, and to which loops have appended: `parts`
    looks, `all_parts` is what was added."""

    unseen: Any = None
    seen: list[Any] | None = None

    @property
    def parts(self) -> list[Any]:
        if self.seen is None:
            self.seen = list(self.unseen())
        return [*self.seen, *self.all_parts]

    def held(self) -> list[Any]:
        return [x for part in self.all_parts for x in (part.held() if is_run(part) else [part])]


def is_unseen(v: ListV) -> bool:
    """Whether nobody has looked into what a list held that existed before."""
    return v.unseen is not None or isinstance(v.front, Onto)


def onto(cap: Capture, v: ListV, more: list[Any]) -> Onto:
    """The front of such a list behind which these parts come."""
    added = v.front.all_parts if v.front is not None else []
    unseen, seen = (v.unseen, None) if v.front is None else (v.front.unseen, v.front.seen)
    return Onto(cap, [*added, *v.appended, *more], unseen, seen)


@dataclass(eq=False)
class Growing(Front):
    """The items of a list while a round of the loop that fills it runs: its last ones, as that round finds them.
    wanted: how many of them the body asked for in vain. hidden: all that the list held before the loop. turned: the
    body puts each item before the others (`outs.insert(0, x)`)."""

    tail: list[Any]
    hidden: list[Any]
    wanted: int = 0
    turned: bool = False
    settled = False

    @property
    def grows(self) -> bool:  # type: ignore[override]
        return not self.turned

    def held(self) -> list[Any]:
        return self.hidden

    @property
    def parts(self) -> list[Any]:
        raise Break("branch", "a list that a loop fills, in the loop")

    def __call__(self) -> list[Any]:
        raise Break("branch", "a list that a loop fills, in the loop")

    def count(self, v: ListV) -> Value:
        raise Break("branch", "the length of a list that a loop fills, in the loop")

    def put_first(self, v: ListV, x: Value) -> bool:
        """`v.insert(0, x)`; False where the round has put others at the end, or the list existed before."""
        self.turned = self.turned or not v.appended and v.real is None
        v.appended += [x] if self.turned else []
        return self.turned

    def item(self, v: ListV, index: int) -> Value | None:
        known = [*self.tail, *v.appended]
        if self.turned or 0 <= index or -index > SHOWN + len(v.appended):
            return None
        self.wanted = max(self.wanted, -index - len(v.appended))
        return known[index] if -index <= len(known) else None

    def filled(self, cap: Capture, v: ListV, run: Run) -> Front:
        """The front behind the loop, whose rounds have put `run` into the list."""
        if is_unseen(v):
            return onto(cap, v, [run])
        if not self.turned:
            return Grown(cap, [*parts_of(v), run])
        return Grown(cap, [backwards(cap, run), *parts_of(v)])


# --- what a round has appended


def shape_of(cap: Capture, item: Value, birth: int, leaves: list[Any], made: list[Value], known: bool = False) -> Any:
    """An item of a round as a shape; its arrays and numbers are added to `leaves`, its lists and dicts to `made`. Break
    where it has none, or has one of those in two places. known: also floats that Python knows in each round."""
    item = cap.realize(item)
    if ndarrays.is_jax_array(item) and is_numpy_dtype(item.aval.dtype):
        if item.real is not None or cap.graph.homes.get(item.node, -1) < birth:
            return Fixed(item)
        leaves.append(item)
        return Leaf(len(leaves) - 1)
    if is_graph_number(item) and not (graph_scalars.is_rounded(item) and not known or cap.root.traced):
        leaves.append(item)
        return Leaf(len(leaves) - 1, item.kind, item.low, item.high)
    if any(item is other for other in made):
        raise Break("branch", "a list in two places of what a loop fills")
    young = item.serial >= birth and item.source is None
    new_list = young and type(item) is ListV and item.cls is list and not item.is_open
    new_dict = young and type(item) is DictV and item.cls is dict and item.owner is None and item.shows is None
    made += [item] if new_list or new_dict else []
    if is_tuple(item) or new_list:
        parts = tuple(shape_of(cap, x, birth, leaves, made, known) for x in cap.items(item))  # type: ignore[attr-defined]
        return Many(item.cls, parts, given=getattr(item, "of_row", False))  # type: ignore[attr-defined]
    if new_dict:
        settled(item.items)  # type: ignore[attr-defined]
        return Many(dict, tuple(shape_of(cap, x, birth, leaves, made, known) for x in item.items.values()),  # type: ignore[attr-defined]
                    tuple(item.items), item.of_row)  # type: ignore[attr-defined]
    if is_const(item) or not young and not is_number(item):
        return Fixed(item)
    raise Break("branch", "an item of a list that a loop fills")


def rows_aval(length: Any, of: Any) -> Aval:
    """What the rows of all rounds are together."""
    return Aval((length, *of.aval.shape), of.aval.dtype, of.aval.weak_type)


# --- what the program asks for


def is_mutable(run: Run) -> bool:
    """Whether items of a run can be changed: they must be the same ones whenever they are looked at."""
    no = lambda shape: False
    return any(shape.fold(no, no, lambda many, parts: many.cls is list or many.cls is dict and not many.given or any(
        parts)) for shape in run.shapes)


def copied(cap: Capture, v: ListV | RowsV) -> ListV | None:
    """A new list of the items of one that loops have filled, or of one that changes from call to call; None for other
    lists."""
    parts = given_rows.parts(cap, v) if v.front is None else parts_of(v) if v.front.settled else None
    if parts is None or any(map(is_mutable, of_class(Run, parts))):
        return None
    return ListV([], front=Grown(cap, parts))


def of_rows(cap: Capture, v: Value) -> ListV | None:
    """`list(v)` of a list that loops have filled, of a range whose ends change, or of an array with a symbolic number
    of rows; None for others."""
    if is_list(v) or isinstance(v, RowsV):
        return copied(cap, v)
    if isinstance(v, RangeV):
        run = given_rows.of_range(cap, v)
        return None if run is None else ListV([], front=Grown(cap, [run]))
    if not ndarrays.is_jax_array(v) or not isinstance(rows := (v.aval.shape or (0,))[0], Size):
        return None
    return ListV([], front=Grown(cap, [Run(rows, (Leaf(0),), [v])]))


def extended(cap: Capture, *lists: Value) -> Grown | None:
    """What a list holds that is several ones together, of which loops have filled one; None for others."""
    parts: list[Any] = []
    for v in lists:
        given = given_rows.parts(cap, v)
        if given is None and (not is_list(v) or v.cls is not list or v.real is not None or not (
                v.front is None or v.front.settled)):
            return None
        parts += parts_of(v) if given is None else given  # type: ignore[arg-type]
    runs = [*of_class(Run, parts)]
    return None if not runs or any(map(is_mutable, runs)) else Grown(cap, parts)


def extension(cap: Capture, v: ListV, xs: Value) -> Front | None:
    """The front of `v` behind `v.extend(xs)`, of a list of rows; None where the items are put there one by one."""
    more = of_rows(cap, xs) or xs
    if v.real is None:
        return extended(cap, v, more)
    added = extended(cap, more) if is_unseen(v) else None
    return None if added is None else onto(cap, v, added.all_parts)


def repeated(cap: Capture, v: Value, times: Value) -> ListV | None:
    """`[0] * n` of a size that changes, two at least; None for others, and for items that can be changed."""
    if not is_list(v) or v.cls is not list or v.is_open or not is_size(times) or not is_symbolic(canonical(times.expr)):
        return None
    items = [*map(cap.realize, v.items)]
    if not items or not all(is_exactly(x, int, float, bool, str, type(None)) or is_graph_array(x) for x in items):
        return None
    if not truth(cap, binary(cap, operator.ge, times, Const(2))):
        return None
    return ListV([], front=Grown(cap, [Run(canonical(times.expr), tuple(map(Fixed, items)), [])]))


def backwards(cap: Capture, run: Run) -> Run:
    """The same rows from the last to the first."""
    return Run(run.length, run.shapes[::-1], [sliced(cap, stack, slice(None, None, -1)) for stack in run.stacks])


def fill(cap: Capture, v: ListV, growing: Growing, run: Run) -> None:
    """A list behind a loop holds what the rounds have put there, besides what it held before."""
    front = growing.filled(cap, v, run)
    put(v, front)


def put(v: ListV, front: Front) -> None:
    """Gives a list, whose change is noted, other items."""
    v.unseen, v.front, v.items, v.appended = None, front, [], []
