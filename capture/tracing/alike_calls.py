"""Calls that are alike give results that are alike: a function of JAX is evaluated once for arrays of one kind.

A model multiplies, adds and reshapes arrays of the same few kinds in layer after layer, and its optimiser does so for
each parameter: of the 1,330 calls in a step of a small GPT 961 are like an earlier one. Each would be traced again, at
half a millisecond.

Alike are calls of the very function with arrays of the same shapes, dtypes and weak types in the same places (and the
same array where it was the same), the same literals, under the same settings of JAX. Only where all is in sight: no
function among the arguments, nothing that may change in place, no number or size that changes from call to call; and
only what gives one array, new or one that it was given, or says what an array is like, and does nothing else. It is
known for one attempt at a frame, with the guards that its first evaluation has made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from dynacomp.capture._native import jax_config_token
from dynacomp.capture.base.literals import LITERALS
from dynacomp.capture.bodies.placement import is_staged
from dynacomp.capture.bodies.subgraphs import seen_inside
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.symbolic.libraries import module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.passthrough import is_of_jax

OPERATORS = "_operator"  # of Python, which arrays bring theirs to
DESCRIPTIONS = (np.dtype, jax.core.ShapedArray, bool, int, str)


class NotInSight(Exception):
    """An argument that is more than what a key says of it."""


@dataclass(frozen=True)
class Call:
    """What calls alike have in common, and the arrays of this one, each once."""

    key: Any
    nodes: tuple[Node, ...]


def seen_as(cap: Capture, fn: Any, lowered: tuple[Any, Any]) -> Call | None:
    """A call as one that others may be like; None where nobody can say."""
    if cap.effects.warned is not None or not (is_of_jax(fn) or module_of(fn) == OPERATORS):
        return None
    places: dict[Node, int] = {}
    try:
        parts = tuple(_parts((*lowered[0], *(x for pair in lowered[1].items() for x in pair)), places))
    except NotInSight:
        return None
    numbers = cap.numbers.scalar_nodes.values()
    if not places or any(n in places or seen_inside(cap, n) in places for n in numbers):
        return None
    return Call((id(fn), len(lowered[0]), parts, jax_config_token(), cap.under_trace, is_staged(cap)), tuple(places))


def _parts(args: tuple[Any, ...], places: dict[Node, int]) -> Iterator[Any]:
    for arg in args:
        if type(arg) is Node:
            aval = arg.aval
            if type(aval) is not Aval or isinstance(aval.dtype, type) or not all(type(d) is int for d in aval.shape):
                raise NotInSight
            yield places.setdefault(arg, len(places)), aval.shape, aval.dtype, aval.weak_type
        elif type(arg) is tuple:
            yield tuple, *_parts(arg, places)
        elif type(arg) in LITERALS:
            yield type(arg), repr(arg) if type(arg) in (float, complex) else arg
        elif type(arg) is type or isinstance(arg, np.dtype):
            yield id(arg)
        else:
            raise NotInSight


def known(cap: Capture, call: Call | None) -> Any:
    """The Outcome of a call like it, for these arrays; None where there was none."""
    found = None if call is None else cap.libraries.alike.get(call.key)
    if call is None or found is None:
        return None
    _, outcome, back = found
    return outcome if back is None else replace(outcome, origins=[call.nodes[back]])


def remember(cap: Capture, call: Call | None, fn: Any, lowered: tuple[Any, Any], outcome: Any) -> None:
    """Keeps an Outcome that is one array or says what one is like; what the call was given stays alive, for its ids
    are in the key."""
    if call is None or not outcome.alone:
        return
    result, origins = outcome.result, outcome.origins
    if type(result) is Aval and len(origins) == 1 and (origins[0] is None or origins[0] in call.nodes):
        back = None if origins[0] is None else call.nodes.index(origins[0])
        cap.libraries.alike[call.key] = (fn, lowered), outcome, back
    elif isinstance(result, DESCRIPTIONS):
        cap.libraries.alike[call.key] = (fn, lowered), outcome, None
