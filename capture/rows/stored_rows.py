"""New lists into which each round of a loop stores an item at the number that the loop counts, when it is one node.

    out = [None] * n
    for t in range(n):                      # or from the end
        out[t] = cell(out[t - 1], x[t])     # behind the loop: a Run of all that was stored

While the loop's body runs, the front of the list is a `Storing`: a round sees what it and the rounds just before it
have stored. What the list held at those places gives way to the rows; what stands before and behind them stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dynacomp.capture.arithmetic.moving_slices import Line
from dynacomp.capture.arithmetic.operators import count_of
from dynacomp.capture.base.errors import Break
from dynacomp.capture.graph.sizes import canonical
from dynacomp.capture.numbers import size_values
from dynacomp.capture.rows import alike_items
from dynacomp.capture.rows.grown_lists import Growing, Grown, backwards, put
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.grown_items import Fixed, Run, is_fixed, is_run, parts_of
from dynacomp.capture.values.questions import is_graph_number, is_list
from dynacomp.capture.values.value import Value

MOST_ITEMS = 64  # before and behind the rows, one by one


@dataclass(frozen=True)
class Target:
    """Where rounds store: the number `line` of the loop whose body lies `level` deep. guessed: the body has read the
    list before it stored anything there."""

    line: Line
    level: int
    guessed: bool = field(default=False, compare=False)

    def first(self, rounds: Any) -> Any:
        """The first place that has a row, of so many rounds."""
        return self.line.at if self.line.by > 0 else self.line.at - rounds + 1


@dataclass(eq=False)
class Storing(Growing):
    """The items of a list while a round runs that stores one of them. was: a list like it before the loop. before,
    behind: the parts around the rows."""

    cap: Capture = field(kw_only=True)
    target: Target = field(kw_only=True)
    length: Any = field(kw_only=True)
    was: ListV = field(kw_only=True)
    before: list[Any] = field(kw_only=True)
    behind: list[Any] = field(kw_only=True)
    grows = False

    def count(self, v: ListV) -> Value:
        return size_values.of_expr(self.cap, self.length)

    def put_first(self, v: ListV, x: Value) -> bool:
        return False

    def item(self, v: ListV, index: int) -> Value | None:
        return None

    def item_at(self, v: ListV, key: Value, target: Target) -> Value | None:
        """What the list holds at the number of this round, or of one just before it."""
        back = (self.target.line.at - target.line.at) * self.target.line.by
        if target.level != self.target.level or target.line.by != self.target.line.by or not isinstance(back, int):
            return None
        if back > 0:
            self.wanted = max(self.wanted, back)
            return self.tail[-back] if back <= len(self.tail) else None
        if back == 0 and v.appended:
            return v.appended[0]  # type: ignore[no-any-return]
        alike = _repeated(parts_of(self.was)) if back == 0 else None
        return alike_items.row_at(self.cap, self.was, key) if alike is None else alike.value

    def filled(self, cap: Capture, v: ListV, run: Run) -> Grown:
        return Grown(cap, [*self.before, run if self.target.line.by > 0 else backwards(cap, run), *self.behind])


def target_of(key: Value) -> Target | None:
    """The place that a number of a loop is, going by one from round to round; None for other Values."""
    if not is_graph_number(key) or key.series is None:
        return None
    line = key.series.line()
    return Target(line, key.series.loop.state.body.level) if line is not None and abs(line.by) == 1 else None


def store(cap: Capture, v: ListV, key: Value, value: Value) -> bool:
    """`v[key] = value` in a loop that is to be one node, if that is a row of it."""
    target = target_of(key)
    if v.cls is not list or v.real is not None:
        return False
    if target is None:
        return size_values.is_int(key) and _store_apart(cap, v, size_values.expr_of(key), value)
    if not isinstance(v.front, Storing):
        if v.front is None or v.front.settled:
            key.series.loop.stores(v, target)  # type: ignore[attr-defined]
        return False
    if v.front.target != target:
        if v.front.target.guessed and not v.appended:
            key.series.loop.stores(v, target)  # type: ignore[attr-defined]
        raise Break("branch", "a list into which a loop stores at several places")
    mutating(cap, v)
    v.appended[:] = [value]
    return True


def _store_apart(cap: Capture, v: ListV, index: Any, value: Value) -> bool:
    """Another item in a list that loops have filled; False where it is not known to be one of them, or in place of a
    row."""
    if v.front is None or not v.front.settled:
        return False
    length: Any = size_values.expr_of(count_of(cap, v))
    at = index if index >= 0 else length + index
    if not (at >= 0 and at < length):
        return False
    before, behind = _split(cap, v, at), _split(cap, v, at + 1)
    if before is None or behind is None:
        return False
    mutating(cap, v)
    put(v, Grown(cap, [*before[0], value, *behind[1]]))
    return True


def item_at(cap: Capture, v: Value, key: Value) -> Value | None:
    """`v[key]` in such a loop; None for other lists, and for places of which nothing is known."""
    front = getattr(v, "front", None)
    target = target_of(key) if isinstance(front, Storing) else None
    return None if target is None else front.item_at(v, key, target)  # type: ignore[union-attr]


def guess(cap: Capture, v: Value, key: Value) -> None:
    """A loop that reads a new list around the number which it counts stores there, too, as far as is known: the next
    attempt sees."""
    target = target_of(key)
    if target is None or not is_list(v) or v.cls is not list or v.real is not None or v.front is not None and not (
            v.front.settled):
        return
    loop = key.series.loop  # type: ignore[attr-defined]
    line = next((x for x in loop.counted() if x.by == target.line.by), None)
    if line is not None and v.serial < loop.state.body.serial:
        loop.stores(v, Target(line, target.level, True))


# --- the loop


def storing(cap: Capture, v: ListV, target: Target, rounds: Any, tail: list[Value],
            hidden: list[Any]) -> Storing | None:
    """The front of a list for the body of a loop of so many rounds; None where these would store behind its end, or
    what is around the rows is not known."""
    length: Any = size_values.expr_of(count_of(cap, v))
    first = target.first(rounds)
    if not (first >= 0 and first + rounds <= length):
        return None
    before, behind = _split(cap, v, first), _split(cap, v, first + rounds)
    if before is None or behind is None:
        return None
    was = ListV(list(v.items) if v.front is None else [], front=v.front, appended=list(v.appended))
    return Storing(tail, hidden, cap=cap, target=target, length=length, was=was, before=before[0], behind=behind[1])


def tail(cap: Capture, v: ListV, target: Target, count: int) -> list[Value] | None:
    """What the list holds before the loop where rounds before the first would have stored; None where that is not
    known."""
    length: Any = size_values.expr_of(count_of(cap, v))
    places = [target.line.at - k * target.line.by for k in range(count, 0, -1)]
    found = [p if isinstance(p, int) else canonical(p - length) for p in places]
    if not all(isinstance(p, int) and (p < 0 or p is q and p < length) for p, q in zip(found, places)):
        return None
    try:
        items = [v.items[p] if v.front is None else v.front.item(v, p) for p in found]  # type: ignore[call-overload]
    except IndexError:
        return None
    return None if None in items else [cap.realize(x) for x in items]


def _split(cap: Capture, v: ListV, at: Any) -> tuple[list[Any], list[Any]] | None:
    """The parts of a list before a place and from there on; None where that place is among rows that differ."""
    left: list[Any] = []
    right = _collapsed(parts_of(v))
    while at > 0:
        part = right.pop(0)
        count = canonical(part.length * len(part.shapes)) if is_run(part) else 1
        if not is_zero(count - at) and not count <= at:
            shape = part.shapes[0]
            if len(part.shapes) > 1 or not is_fixed(shape):
                return None
            return [*left, *_some(cap, shape, at)], [*_some(cap, shape, count - at), *right]
        left.append(part)
        at = canonical(at - count)
    return left, right


def _collapsed(parts: list[Any]) -> list[Any]:
    """Items that are all one constant or object as one run."""
    alike = _repeated(parts)
    return parts if alike is None or any(map(is_run, parts)) else [Run(len(parts), (alike,), [])]


def is_zero(count: Any) -> bool:
    """Whether a size is zero in all calls."""
    return isinstance(canonical(count), int) and canonical(count) == 0


def _some(cap: Capture, of: Fixed, count: Any) -> list[Any]:
    """The same item so many times."""
    if isinstance(count, int):
        return [of.value] * count if count <= MOST_ITEMS else [Run(count, (of,), [])]
    if count >= 2:
        return [Run(count, (of,), [])]
    return [of.value] * size_values.known(cap, size_values.of_expr(cap, count), "the end of a list").value


def _repeated(parts: list[Any]) -> Fixed | None:
    """What all items of a list are, where that is one constant or object."""
    shapes = [x for part in parts for x in (part.shapes if is_run(part) else [Fixed(part)])]
    return shapes[0] if shapes and is_fixed(shapes[0]) and all(x == shapes[0] for x in shapes) else None
