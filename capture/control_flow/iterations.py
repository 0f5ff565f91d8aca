"""One iteration of a loop, run symbolically with placeholders for what it carries.

The names that the loop binds are carried, and the older objects that its body changes: which these
are shows when the body runs, so that it may run several times (`settled`). `loops` and `rolled_loops`
make nodes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from dynacomp.capture.arithmetic.graph_scalars import is_rounded, least_of, most_of
from dynacomp.capture.bodies.subgraphs import Body
from dynacomp.capture.bytecode.code import Decoded
from dynacomp.capture.bytecode.control_flow_graph import live, written
from dynacomp.capture.control_flow.branches import Leaf, Side, Start, explore
from dynacomp.capture.control_flow.loop_state import State
from dynacomp.capture.control_flow.merge import Differs, Slot
from dynacomp.capture.control_flow.rebuilt import holds_table
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.rows.grown_lists import Growing
from dynacomp.capture.rows.stored_rows import Target
from dynacomp.capture.symbolic import undo_log
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.symbolic.side_effects import keeping, mutating, note_changed
from dynacomp.capture.values.constant import is_const
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.iterators import CountIterV
from dynacomp.capture.values.questions import is_graph_number, is_list, is_number, is_size
from dynacomp.capture.values.value import Value, is_changing, now, type_of

MAX_PASSES = 6  # to find the objects that a body changes


class Again(Exception):
    """The body changes objects that were not carried, or appends to lists that were: `Changed` says which, too."""


Place = str | tuple[Value, int]  # a local name, or an older object and the position of one of its parts


@dataclass
class Changed:
    """The older objects that an iteration changes. growing: the new lists among them to which it only appends, and how
    many of their last items it looks at. numbers: the places of numbers that it changes and that Python computes for
    all rounds: floats, and ints that decide between floats. rebuilt: of dicts and lists that it makes anew. stored: of
    those that grow the ones into which it stores at a number that the loop counts."""

    values: list[Value]
    growing: dict[ListV, int] = field(default_factory=dict)
    numbers: tuple[Place, ...] = ()
    rebuilt: tuple[Place, ...] = ()
    stored: dict[ListV, Target] = field(default_factory=dict)

    def note(self, more: Changed) -> None:
        self.values += [v for v in more.values if v not in self.values]
        self.growing.update(more.growing)
        self.numbers += more.numbers
        self.rebuilt += more.rebuilt
        self.stored.update(more.stored)


@dataclass(frozen=True)
class Plan:
    """Which loop: an iteration runs from `start` to one of `again`, or leaves to one of `stops`; `asked`
    values lie on the stack then that do not when it begins. `names` are the local names carried."""

    names: tuple[str, ...]
    start: Start
    again: frozenset[int]
    stops: frozenset[int]
    asked: int


def bound_names(code: Decoded, body: Iterable[int], *places: int) -> tuple[str, ...]:
    """The local names that a loop binds and that somebody reads at one of these places."""
    bound = frozenset().union(*(written(code.instrs[i]) for i in body))
    return tuple(sorted(bound & frozenset().union(*(live(code, place) for place in places))))


def restored(code: Decoded) -> frozenset[str]:
    """The names that comprehensions bind for a while in the frame around them (PEP 709), and leave as they were."""
    return frozenset(i.argval for i in code.instrs if i.name == "LOAD_FAST_AND_CLEAR")


def settled(run: Callable[[Changed], Any], counts: Iterable[Value] = ()) -> Any:
    """`run(changed)` with all the objects that an iteration changes, `counts` among them."""
    changed = Changed([*counts])
    for _ in range(MAX_PASSES):
        try:
            return run(changed)
        except Again as again:
            changed.note(again.args[0])
    raise Differs("a body that changes ever more objects")


class Iteration:
    """One iteration from the frame as it is, as the body of a node."""

    keeps_rounds = False  # whether the node may give what each round has made

    def __init__(self, cap: Capture, frame: Frame, plan: Plan, changed: Changed, name: str) -> None:
        self.cap, self.frame, self.plan, self.changed = cap, frame, plan, changed
        cap.emptied.append(self)
        self.body = Body.inside(cap, name, is_side=True)
        self.state = State(cap, self.body)
        self.unbound = [n for n in plan.names if n not in frame.locals]
        if not restored(frame.code).issuperset(self.unbound):
            raise Differs("a name that the first iteration binds")
        self.locals = {n: self.inside(n, frame.locals[n]) for n in plan.names if n in frame.locals}
        self.fronts: dict[ListV, Growing] = {}  # of the lists that grow
        self.held: dict[Value, list[Any]] = {}  # changing object → what it holds when an iteration begins
        self.shapes: dict[Value, Any] = {}  # the shape that it has then
        self.written: dict[Value, list[undo_log.State]] = {}  # the states in which iterations leave those objects
        self.claimed: list[set[Value]] = []  # the dicts and lists that each way makes anew

    def inside(self, place: Place, v: Value, bounds: tuple[int, int] | None = None) -> Value:
        """A local, or what an older object holds, as an iteration finds it."""
        if place in self.changed.rebuilt:
            return self.state.rebuilt(v)  # type: ignore[no-any-return]
        return self.state.inside(v, bounds)  # type: ignore[no-any-return]

    def range_of(self, it: CountIterV) -> tuple[int, int] | None:
        """Between which numbers a count goes in this loop, its end included; None: any."""
        return range_of(it)

    @contextmanager
    def begun(self) -> Iterator[None]:
        """The changing objects hold placeholders, as when an iteration begins."""
        for v in self.changed.values:
            keeping(self.cap, v)  # the sides around this one shall find it, and not what it holds meanwhile
        before = {v: undo_log.snapshot(v) for v in self.changed.values}
        tails = {v: self.tail(v, n) for v, n in self.changed.growing.items()}
        try:
            for v in self.changed.values:
                note_changed(v)  # what the call was given there is only what the first iteration finds
                if v in tails:
                    self.held[v] = [self.state.inside(x) for x in tails[v]]
                    hidden = v.items if not v.is_open else [*(v.front.held() if v.front else ()), *v.appended]
                    self.fronts[v] = v.front = self.front_of(v, self.held[v], hidden)
                    v.items, v.appended, v.unseen = [], [], None
                    continue
                bounds = self.range_of(v) if isinstance(v, CountIterV) else None
                self.shapes[v], parts = undo_log.parts(v)
                self.held[v] = [self.inside((v, i), x, bounds) for i, x in enumerate(parts)]
                undo_log.put(v, self.held[v])
            yield
        finally:
            for v, state in before.items():
                opened = is_opened(v, state) and v not in tails
                undo_log.restore(v, state)
                if opened:
                    self.cap.items(v)  # the next attempt carries what it holds

    def front_of(self, v: ListV, tail: list[Value], hidden: list[Any]) -> Growing:
        """The front of a list while the body runs."""
        return Growing(tail, hidden)

    def tail(self, v: ListV, count: int) -> list[Value]:
        """The last items of a list before the loop."""
        found = [v.front.item(v, -k) if v.front is not None else v.items[-k:][0] if k <= len(
            v.items) else None for k in range(count, 0, -1)]
        if None in found:
            raise Differs("a list of too few items")
        return [self.cap.realize(x) for x in found]

    def run(self) -> Side:
        def prepare(copy: Frame) -> None:
            copy.locals.update(self.locals)
            self.plan.start.prepare(copy)

        try:
            return explore(self.cap, self.frame, Start(self.plan.start.index, prepare),
                           self.plan.stops | self.plan.again, self.body)
        finally:
            asked = {v: f.wanted for v, f in self.fronts.items() if f.wanted > len(f.tail)}
            if asked:
                raise Again(Changed([], asked))

    def check(self, ends: list[Leaf], again: list[bool]) -> None:
        """Every object that an iteration changes must be carried."""
        if not any(again):
            raise Differs("a loop that never goes round")
        if any(n in leaf.side.frame.locals for leaf in ends for n in self.unbound):
            raise Differs("a name that the first iteration binds")
        older = [v for leaf, goes_on in zip(ends, again) if goes_on for v in leaf.changes
                 if v.serial < self.body.serial or getattr(v, "real", None) is not None]
        if not self.body.stand_ins.keys().isdisjoint(older):
            raise Differs("a dict or list that is changed and made anew")
        missing = [v for v in dict.fromkeys(older) if v not in self.held]
        if missing:
            raise Again(Changed(missing))
        self.written = {v: [leaf.changes[v] for leaf in ends if v in leaf.changes] for v in self.held}

    def carried(self, ends: list[Leaf], again: list[bool]) -> list[Slot]:
        """The slots of what is carried; where an iteration leaves the loop, it is as at its beginning."""
        self.claimed = []
        columns = [self.made(leaf) if goes_on else [c.inside for c in self.state.carried]
                   for leaf, goes_on in zip(ends, again)]
        return [Slot(list(values), c.inside) for c, values in zip(self.state.carried, zip(*columns))]

    def made(self, leaf: Leaf) -> list[Any]:
        """What the carried arrays and numbers are at the end of an iteration."""
        found: list[Any] = []
        self.state.changes, self.state.claimed = leaf.changes, set()
        rebuilt = [place for place, inside, v in self.ends(leaf) if self.is_rebuilt(place, inside, v, found)]
        if rebuilt:
            raise Again(Changed([], rebuilt=tuple(rebuilt)))
        self.claimed.append(self.state.claimed)
        frame, base = leaf.side.frame, self.frame.stack
        if len(frame.stack) != len(base) + self.plan.asked or any(a is not b for a, b in zip(frame.stack, base)):
            raise Differs("the stack")
        return found

    def ends(self, leaf: Leaf) -> Iterator[tuple[Place, Any, Any]]:
        """Where an iteration finds what, and what it leaves there."""
        for name, inside in self.locals.items():
            yield name, inside, leaf.side.frame.locals.get(name)
        for v, held in self.held.items():
            yield from (((v, i), inside, part) for i, (inside, part) in enumerate(zip(held, self.parts(v, leaf))))

    def is_rebuilt(self, place: Place, inside: Any, v: Any, found: list[Any]) -> bool:
        """Whether an iteration makes dicts and lists at a place anew, so that the next attempt carries what they hold;
        else what it has made there is added to `found`. (A node that may go no round leaves the one from before the
        loop.)"""
        try:
            self.note_made(place, inside, v, found)
        except Differs:
            if v is inside or place in self.changed.rebuilt or not self.keeps_rounds or not holds_table(
                    self.cap, inside):
                raise
            return True
        return False

    def note_made(self, place: Place, inside: Any, v: Any, found: list[Any]) -> None:
        """Adds to `found` what an iteration has made of what it has found at a place."""
        if place in self.changed.numbers:
            return
        if self.keeps_rounds and v is not inside and (is_float(inside) and is_float(v) or _counts_on(inside, v)):
            raise Again(Changed([], {}, (place,)))
        try:
            self.state.made(inside, v, found)
        except Differs:
            if self.keeps_rounds and is_graph_number(inside) and is_number(v) and type_of(v) is inside.kind:
                raise Again(Changed([], {}, (place,))) from None  # an int that the Graph cannot carry
            raise

    def places(self) -> Iterator[tuple[Place, Any]]:
        """Where an iteration finds something that others may have changed, and what."""
        yield from self.locals.items()
        for v, held in self.held.items():
            yield from (((v, i), inside) for i, inside in enumerate(held))

    def parts(self, v: Value, leaf: Leaf) -> list[Any]:
        """What an object holds at the end of an iteration, in the order of what it held when it began."""
        if v in self.fronts:
            front = self.fronts[v]
            if front.turned and front.tail:
                raise Differs("a list that grows at its front, read at its end")
            return [*front.tail, *self.appended(v, leaf)][-len(front.tail):] if front.tail else []
        shape, _ = undo_log.parts(v)
        if shape != self.shapes[v]:
            raise Again(Changed([]))  # an iteration has looked into a given list
        with undo_log.in_state(v, leaf.changes.get(v)):
            now, parts = undo_log.parts(v)
        if now != shape:
            if self.keeps_rounds and may_grow(v) and now[:3] == shape[:3] and now[-1] > shape[-1]:
                raise Again(Changed([], {v: 0}))  # type: ignore[dict-item]
            raise Differs("a container that changes its size")
        return parts

    def appended(self, v: ListV, leaf: Leaf) -> list[Any]:
        """What an iteration has put at the end of a list that grows."""
        with undo_log.in_state(v, leaf.changes.get(v)):
            if v.front is not self.fronts[v]:
                raise Differs("a list that was looked at")
            if v in self.changed.stored and not v.appended:
                raise Differs("a list into which not every round stores")
            return list(v.appended)

    def settle(self, nodes: list[Node], known: Mapping[Place, Value] = MappingProxyType({})) -> None:
        """Brings the frame behind the loop, whose results are `nodes`; `known`: Python's own numbers there."""
        results = {id(c.inside): c.after(node) for c, node in zip(self.state.carried, nodes)}

        def after(place: Place, v: Any) -> Value:
            return known[place] if place in known else self.state.after(v, results)  # type: ignore[no-any-return]

        self.frame.locals = {**self.frame.locals, **{n: after(n, v) for n, v in self.locals.items()}}
        for v, held in self.held.items():
            mutating(self.cap, v)
            if v in self.fronts:
                continue
            undo_log.put(v, [after((v, i), x) for i, x in enumerate(held)])
            undo_log.note_written(v, self.written.get(v, []))


def _counts_on(inside: Any, v: Any) -> bool:
    """Whether an int that changes from call to call becomes another one: the Graph carries ints that begin as known."""
    return is_changing(inside) and type(now(inside)) is type_of(v) is int


def is_float(v: Any) -> bool:
    """Whether a Value is a float of Python's that Python knows in each round."""
    return type(now(v)) is float or is_rounded(v)


def may_grow(v: Value) -> bool:
    """Whether a loop may append to an object and become a node: a new list, or one that nobody has looked into."""
    return is_list(v) and v.cls is list and (v.real is None or v.is_open) and v.extra is None


def is_opened(v: Value, then: undo_log.State) -> bool:
    """Whether somebody has looked into a given list since it was so."""
    return is_list(v) and not v.is_open and then["unseen"][0] is not None


def range_of(it: CountIterV) -> tuple[int, int] | None:
    """Between which numbers a range counts, its end included. None: not known, as where its step changes."""
    if not all(is_const(v) or is_size(v) for v in (it.current, it.stop)) or most_of(it.stop) is None:
        return None
    if not is_const(it.step):
        return None
    (least, first), (end, stop) = ((least_of(v), most_of(v)) for v in (it.current, it.stop))
    step = it.step.value
    if step > 0:
        return min(least, end), max(first, stop + step - 1)
    return min(least, end + step + 1), max(first, stop)
