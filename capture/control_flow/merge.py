"""One Value for what different ways through the code have made of it.

A `Join` has a column for each way. `value(items)` is the Value that stands for `items[k]` when way
`k` was taken: the same object on all ways, or a `Slot` for the arrays and numbers that differ (which
the caller's node will choose), or a container of such. `Differs` is raised where there is none:
other classes, shapes, dtypes, weak types, other constants, another pattern of identities.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax

from dynacomp.capture.arithmetic import graph_scalars
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.avals import Aval, aval_of
from dynacomp.capture.numbers import dynamic_scalars, host_functions
from dynacomp.capture.reconstruct.array_identity import origin_of
from dynacomp.capture.symbolic import undo_log
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.computed import ArrayV, NumberV, ScalarV
from dynacomp.capture.values.constant import is_const, is_exactly
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_graph_array, is_lazy, is_number, is_object, is_scalar, is_tuple
from dynacomp.capture.values.value import Value, is_changing, node_of, now, type_of


class Differs(Exception):
    """The ways cannot become one."""


@dataclass(eq=False)
class Slot:
    """An array or number that depends on the way: its Value on each (or a function that makes the
    node's argument there), and the Value for all, whose node the caller sets."""

    values: list[Any]
    merged: Any

    @property
    def aval(self) -> Aval:
        return self.merged.aval


@dataclass(eq=False)
class Join:
    """since: Nodes and objects that are younger belong to one way only. states: per way, the states
    of the older mutable objects that it changed. asked: the number that changes and decides which of two ways is
    taken, if one does: Python chooses between their numbers, too. condition: what decides which of two ways is taken;
    where Python knows it in each round of a loop, it chooses between floats of 64 bits, which the Graph has none of."""

    cap: Capture
    since: int
    states: list[dict[Value, undo_log.State]]
    asked: ScalarV | None = None
    condition: NumberV | None = None
    slots: list[Slot] = field(default_factory=list)
    made: dict[tuple[int, ...], Value] = field(default_factory=dict)
    partner: dict[tuple[int, int], Value] = field(default_factory=dict)

    def value(self, items: list[Any]) -> Any:
        if any(v is None for v in items):
            raise Differs("a name that one way leaves unbound")
        if all(is_lazy(v) for v in items) and all(v.obj is items[0].obj for v in items):
            return items[0]
        items = [self.cap.realize(v) for v in items]
        for fits, row in _ROWS:
            if all(map(fits, items)):
                return row(self, items)
        if all(v is items[0] for v in items) and not self.is_young(items[0]):
            return items[0]
        raise Differs("objects")

    def is_young(self, v: Value) -> bool:
        return v.serial >= self.since and v.source is None and getattr(v, "real", None) is None

    def is_inner(self, v: Any) -> bool:
        """Whether an array was computed on one of the ways."""
        return self.cap.graph.homes.get(v.node, -1) >= self.since

    def slot(self, items: list[Any], merge: Callable[[], Any]) -> Any:
        for known in self.slots:
            if all(map(_is_same, known.values, items)):
                return known.merged
        if any(self._is_twin(a, b) for known in self.slots for a, b in zip(known.values, items)):
            raise Differs("one new array in two places")
        self.slots.append(Slot(items, merge()))
        return self.slots[-1].merged

    def _is_twin(self, a: Any, b: Any) -> bool:
        """Whether a way puts one array of its own in two places, which what is chosen would tell apart."""
        return is_graph_array(a) and _is_same(a, b) and a.real is None and self.is_inner(a)

    def parts(self, way: int, v: Value) -> tuple[Any, list[Any]]:
        if is_object(v):
            self._fill(v)
        with undo_log.in_state(v, self.states[way].get(v)):
            return undo_log.parts(v)

    def _fill(self, v: ObjectV) -> None:
        """Attributes that one way wrote are read on the others, where nothing had asked for them. Those that the object
        had before come first on all ways, in one order: to write them changes none, if they were not deleted."""
        states = [state[v] for state in self.states if v in state]
        for name in dict.fromkeys(name for state in states for name in state["attrs"][0]):
            self.cap.instance_attribute(v, name)
        moved = {name for state in states for name in state["moved"][0]}
        for attrs in [state["attrs"][1] for state in states]:
            whole = {**v.attrs, **attrs}
            first = {name: whole[name] for name in v.attrs if name not in moved}
            ordered = {**first, **attrs, **whole}
            attrs.clear()
            attrs.update(ordered)

    def in_place(self) -> Iterator[tuple[Value, Callable[[], None]]]:
        """The older objects that some way changed, each with what brings it to its joined state."""
        for v in dict.fromkeys(v for state in self.states for v in state):
            if v.serial < self.since or getattr(v, "real", None) is not None:
                found = [self.parts(way, v) for way in range(len(self.states))]
                spoil = kind(v).spoil
                if spoil is not None and any(shape != found[0][0] for shape, _ in found):
                    yield v, functools.partial(spoil, v)
                    continue
                held = self._held(found)
                states = [state[v] for state in self.states if v in state]
                yield v, lambda v=v, held=held, states=states: _settle(v, states, held)  # type: ignore[misc]

    def _held(self, found: list[tuple[Any, list[Any]]]) -> list[Any]:
        if any(shape != found[0][0] for shape, _ in found):
            raise Differs("containers")
        return [self.value(list(row)) for row in zip(*(held for _, held in found))]


def _settle(v: Any, states: list[undo_log.State], held: list[Any]) -> None:
    """Brings an object into a changed state (it is dirty now, ...), with other Values in it."""
    undo_log.restore(v, states[0])
    undo_log.put(v, held)
    undo_log.note_written(v, states)


def _is_same(a: Any, b: Any) -> bool:
    if a is b or is_same_constant(a, b):
        return True
    computed = type(a) is type(b) and node_of(a) is not None and node_of(a) is node_of(b)
    return computed and getattr(a, "real", None) is getattr(b, "real", None)


# --- kinds of Value


def _arrays(join: Join, items: list[Any]) -> Any:
    first = items[0]
    if all(v.node is first.node for v in items) and not join.is_inner(first):
        return first
    if any(v.aval != first.aval or not (v.real is None or isinstance(v.real, jax.Array)) for v in items):
        raise Differs("arrays of another shape, dtype or weak type")
    origins: list[Any] = [origin_of(join.cap, v) for v in items]
    origin = origins[0] if all(is_same_constant(v, origins[0]) for v in origins) else _numbers(join, origins)
    if is_exactly(origin, int):
        return join.cap.graph.candidates[origin.value - 1] if origin.value else join.slot(
            items, lambda: ArrayV(first.node, first.aval, joined=True))
    return join.slot(items, lambda: ArrayV(first.node, first.aval, origin=origin, joined=True))


def _constants(join: Join, items: list[Any]) -> Any:
    if all(is_same_constant(v, items[0]) for v in items):
        return items[0]
    if join.asked is not None:
        return _changing(join, items)
    if all(type(v.value) is type(items[0].value) in (int, bool) for v in items):
        return _numbers(join, items)
    return _in_each_round(join, items)


def _changing(join: Join, items: list[Any]) -> Any:
    """A number or string that changes from call to call: the same on all ways, or one of two, as Python finds."""
    scalars = [host_functions.as_scalar(join.cap, v) for v in items]
    if all(is_scalar(v) and v.source == scalars[0].source for v in scalars):
        return items[0]
    if join.asked is None:
        return _counted(join, scalars)
    kinds = {type(now(v)) for v in scalars}
    if len(kinds) > 1 or not kinds <= {int, float, bool, str}:
        raise Differs("changing numbers")
    return dynamic_scalars.host("select", select, join.asked, *scalars)


def _counted(join: Join, items: list[Any]) -> Any:
    """An int or bool of which some ways have what changes from call to call, where an array decides between them: how
    often a branch was taken, say. The Graph has the ints, which are guarded to be far from what JAX does not hold, so
    that it can count on."""
    kinds = {type_of(v) for v in items}
    if is_of_round(join) or len(kinds) > 1 or not kinds <= {int, bool}:
        return _in_each_round(join, items)
    kind = kinds.pop()
    spans = [graph_scalars.held(join.cap, v) for v in items] if kind is int else [(0, 1)]
    low, high = min(s[0] for s in spans), max(s[1] for s in spans)
    if not graph_scalars.fits(low, high):
        raise Differs("integers that JAX does not hold")
    return join.slot(items, lambda: NumberV(None, aval_of(kind()), kind, low, high))  # type: ignore[arg-type]


def is_of_round(join: Join) -> bool:
    """Whether Python knows in each round of a loop which way is taken."""
    return join.condition is not None and join.condition.series is not None


def select(asked: bool, yes: Any, no: Any) -> Any:
    """What `yes if asked else no` gives, both being known."""
    return yes if asked else no


def is_same_constant(a: Any, b: Any) -> bool:
    """A function made anew in each call, which both ways hold, is not looked at: that would guard its identity."""
    return is_const(a) and (a is b or is_const(b) and is_equal(a.value, b.value))


def is_equal(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and is_literal(a) and repr(a) == repr(b))


def _numbers(join: Join, items: list[Any]) -> Any:
    first = items[0]
    node = getattr(first, "node", None)  # of a constant
    if node and all(getattr(v, "node", None) is node for v in items) and not join.is_inner(first):
        return first
    kinds = {type_of(v) for v in items}
    if len(kinds) != 1 or any(map(_is_inexact, items)):
        return _in_each_round(join, items)
    if any(v.series is not None and v.series.is_handed_on for v in of_class(NumberV, items)):
        return _in_each_round(join, items)
    kind = kinds.pop()
    if kind is int and not all(graph_scalars.fits(*graph_scalars.span(v)) for v in items):
        raise Differs("integers that JAX does not hold")
    return join.slot(items, lambda: _number(kind, items, node))


def _in_each_round(join: Join, items: list[Any]) -> Any:
    """One of two numbers, which Python chooses for each round of a loop before it runs."""
    series = None if join.condition is None else join.condition.series
    is_known = series is not None and all(is_number(v) or type(now(v)) in (int, float, bool) for v in items)
    found = series.loop.applied(select, join.condition, *items) if is_known else None  # type: ignore[union-attr]
    if found is None:
        for body in join.cap.bodies:
            body.undecided = getattr(join.condition, "node", None)
        raise Differs("constants, or numbers of several types, or floats of 64 bits")
    if found.kind is int and all(map(is_number, items)):  # what changes from call to call may be any int
        spans = [graph_scalars.span(v) for v in items]
        found.low, found.high = (max(found.low, min(s[0] for s in spans)), min(found.high, max(s[1] for s in spans)))
    return found


def _is_inexact(v: Any) -> bool:
    return graph_scalars.is_rounded(v) or is_exactly(v, float)


def _number(kind: type, items: list[Any], node: Any) -> NumberV:
    if kind is float:
        return NumberV(node, aval_of(0.0), float)
    spans = [graph_scalars.span(v) for v in items]
    low, high = min(s[0] for s in spans), max(s[1] for s in spans)
    return NumberV(node, aval_of(kind()), kind, low, high, _steps(items))


def _steps(items: list[Any]) -> Any:
    found: list[Any] = [getattr(v, "steps", None) for v in items]
    if any(s is None or s[0] is not found[0][0] for s in found):
        return None
    return found[0][0], min(s[1] for s in found), max(s[2] for s in found)


def _tuples(join: Join, items: list[Any]) -> Any:
    if any(v.cls is not items[0].cls or len(v.items) != len(items[0].items) for v in items):
        raise Differs("tuples")
    if all(v is items[0] for v in items) and not join.is_young(items[0]):
        return items[0]
    rows = zip(*(join.cap.items(v) for v in items))
    return TupleV([join.value(list(row)) for row in rows], items[0].cls, of_row=any(v.of_row for v in items))


def _objects(join: Join, items: list[Any]) -> Any:
    """New mutable objects: one on each way, the same ones wherever the ways have the same one."""
    if all(v is items[0] for v in items) and not join.is_young(items[0]):
        return items[0]
    key = tuple(map(id, items))
    if key in join.made:
        return join.made[key]
    if any(type(v) is not type(items[0]) or not join.is_young(v) or (way, id(v)) in join.partner or
           getattr(v, "of_row", False) for way, v in enumerate(items)):
        raise Differs("objects")
    with undo_log.in_state(items[0], join.states[0].get(items[0])):
        made = join.made[key] = undo_log.clone(items[0])
    join.partner.update({(way, id(v)): made for way, v in enumerate(items)})
    undo_log.put(made, join._held([join.parts(way, v) for way, v in enumerate(items)]))
    return made


_ROWS: list[tuple[Callable[[Any], bool], Callable[[Join, list[Any]], Any]]] = [
    (lambda v: is_graph_array(v), _arrays),
    (is_const, _constants),
    (lambda v: is_changing(v) or is_const(v), _changing),
    (is_number, _numbers),
    (lambda v: is_number(v) or is_changing(v), _counted),
    (lambda v: is_tuple(v), _tuples),
    (undo_log.is_mutable, _objects),
]
