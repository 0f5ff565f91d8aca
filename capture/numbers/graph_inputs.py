"""Inputs of the Graph: placeholders for what exists before the call, each with the Source that it is read from.

Arrays, and Python numbers that change from call to call, enter the outermost Graph, whatever body asks for them.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from dynacomp.capture.graph.answering import PLAIN, Answering
from dynacomp.capture.graph.avals import Aval, aval_of
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.numbers import size_values
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import NeedsConcrete, ScalarV


def outer_builder(cap: Capture) -> Any:
    """The builder of the outermost Graph: inputs always enter there."""
    return cap.bodies[0].outer if cap.bodies else cap.graph.builder


def own(cap: Capture, node: Node) -> Node:
    cap.graph.owner[node] = 0
    return node


def scalar_node(cap: Capture, value: ScalarV) -> Node:
    """A changing Python number as an input of the Graph: a weakly typed 0-d array, if there is one so large."""
    assert value.source is not None
    known = cap.numbers.scalar_nodes.get(value.source)
    if known is None:
        try:
            aval = aval_of(value.hint)
        except OverflowError:
            raise NeedsConcrete(value) from None
        if type(value.hint) is int:
            _hold_int(cap, value.source, np.iinfo(aval.dtype))
        known = cap.numbers.scalar_nodes[value.source] = _answering(cap, add_input(cap, value.source, aval), value)
    cap.numbers.scalar_reads.append((cap.progress.steps, value))
    return known


def _answering(cap: Capture, node: Node, value: ScalarV) -> Node:
    """What stands for a number where libraries ask it something, and is to answer; else the placeholder itself."""
    if not cap.lessons.answers or type(value.hint) not in PLAIN:
        return node
    return own(cap, outer_builder(cap).call(Answering(node.name), (node,), {}, node.aval, cap.where(), "answering"))


def _hold_int(cap: Capture, source: S.Source, limits: Any) -> None:
    """An int that JAX takes as an array fits its type in later calls too: guarded."""
    cap.guards.add("eq", S.Host("ge", (source, int(limits.min)), operator.ge), True)
    cap.guards.add("eq", S.Host("le", (source, int(limits.max)), operator.le), True)


def add_input(cap: Capture, source: S.Source, aval: Aval) -> Node:
    """A placeholder of the Graph that each call fills from `source`."""
    name = _readable(source)
    node = own(cap, outer_builder(cap).placeholder(name, aval, str(source), cap.where()))
    cap.graph.inputs[node] = source
    return node


def _readable(source: S.Source) -> str:
    parts: list[str] = []
    at: S.Source | None = source
    while at is not None and len(parts) < 3:
        label = getattr(at, "name", None) or getattr(at, "key", None)
        parts.append(str(getattr(at, "index", "arg") if label is None else label))
        at = S.base_of(at)
    return "_".join(reversed(parts))


def symbolic_dims(cap: Capture, obj: Any, source: S.Source) -> tuple[Any, ...]:
    """The dimensions of an input array: ints, or symbolic Sizes where `root.policy` says so."""
    found = []
    for axis, size in enumerate(obj.shape):
        place = S.Dim(source, axis)
        rule = place not in cap.lessons.frozen and cap.root.policy.size(source, axis, size, obj)
        found.append(size_values.symbol(cap, place, size, rule) if rule else size)
    return tuple(found)
