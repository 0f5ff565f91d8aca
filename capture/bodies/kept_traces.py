"""What JAX keeps of the functions that it has traced: the first trace counts, whatever the function would do later.

`jax.lax.scan`, `cond`, `while_loop`, `jax.checkpoint`, `jax.jit` keep the jaxpr of a function by its identity, and do
not run it a second time for arguments of the same kind: not for its effects, and not for what it reads from around it.
`jax.vmap` and `jax.grad` run it each time.

    scale = 2.0
    body = lambda total, x: (total + scale * x, total)
    jax.lax.scan(body, 0.0, xs)
    scale = 3.0
    jax.lax.scan(body, 0.0, xs)  # by 2.0, too

JAX keeps it behind a weak reference to the function that it was given: by that it is known here (`is_kept`). Functions
that are older than the call are left out, for which it may have been another call whose trace counts.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

from jax._src import core
from jax._src.config import trace_context

from dynacomp.capture.bodies.body_variants import settled
from dynacomp.capture.graph.graph import Graph, Node
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.value import Value


@dataclass(frozen=True, eq=False)
class Kept:
    """What came of a function when JAX traced it first. outer: the Nodes that it has read, as they are outside of all
    bodies. counted, handing, said: see `Standin`."""

    graph: Graph
    outer: tuple[Node, ...]
    counted: Any
    handing: Any
    said: set[str]


def is_kept(function: Any) -> bool:
    """Whether JAX keeps the trace of this function, which it runs now."""
    return function is not None and weakref.getweakrefcount(function) > 0


def purpose(trace: Any) -> str | None:
    """What JAX makes a jaxpr for: "scan", "checkpoint / remat"; None of a trace that makes none."""
    frame: Any = getattr(trace, "frame", None)
    return None if frame is None else frame.debug_info.traced_for  # type: ignore[no-any-return]


def key_of(like: tuple[Any, ...]) -> Any:
    """By what JAX tells traces of one function apart: for what it makes a jaxpr, of what arguments, settings."""
    return purpose(core.trace_ctx.trace), trace_context(), *like


def known(cap: Capture, fn: Value, key: Any) -> Kept | None:
    """What JAX has kept of this function under this key."""
    traces = cap.libraries.kept.get(fn, {})
    return next((kept for k, kept in traces.items() if settled(k) == key), None)


def keep(cap: Capture, fn: Value, key: Any, kept: Kept) -> None:
    """Notes what JAX keeps from here on, where this is sure to run: not in a side of an `if`, or in a loop."""
    outer = [_outside(cap, n) for n in kept.outer]
    if not any(b.is_side for b in cap.bodies) and None not in outer:
        of = cap.libraries.kept.setdefault(fn, {})
        of[key] = replace(kept, outer=tuple(outer))  # type: ignore[arg-type]


def _outside(cap: Capture, node: Node) -> Node | None:
    """A Node of the body at hand as it is outside of all; None of one that a body has made."""
    found: Node | None = node
    for body in reversed(cap.bodies):
        found = next((outer for outer, inner in body.captured.items() if inner is found), None)
    return found
