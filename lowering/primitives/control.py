"""Control flow as Ops: `scan`, `while_loop` and `cond`, whose bodies are primitive Graphs.

    scan(*consts, *carries, *slices, body=, length=, reverse=, consts=n, carries=m)
        body(*consts, *carries, *one slice of each) → (*carries, *slices); the Op's results are the last carries,
        and the slices of all steps stacked
    while_loop(*consts, *carries, condition=, body=, consts=n)
        condition(*consts, *carries) → (bool,); body(*consts, *carries) → carries; the last carries
    cond(index, *operands, branches=)
        the results of one of the branches; an index out of range takes the nearest

Bodies are Closures that capture nothing: Graphs print, parse and verify them, the interpreter hands them
to the references here as Python functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Closure, Graph, Node, is_closure

Body = Callable[..., tuple[Any, ...]]


def scan(*args: Any, body: Body, length: int, reverse: bool, consts: int, carries: int) -> tuple[Any, ...]:
    """The reference of `scan`."""
    fixed, state, slices = args[:consts], args[consts:consts + carries], args[consts + carries:]

    def step(state: Any, at: Any) -> Any:
        out = body(*fixed, *state, *at)
        return out[:carries], out[carries:]

    last, stacked = lax.scan(step, _arrays(state), _arrays(slices), length, reverse)
    return (*last, *stacked)


def while_loop(*args: Any, condition: Body, body: Body, consts: int) -> tuple[Any, ...]:
    """The reference of `while_loop`."""
    fixed, state = args[:consts], args[consts:]
    return tuple(lax.while_loop(lambda s: condition(*fixed, *s)[0], lambda s: tuple(body(*fixed, *s)), _arrays(state)))


def cond(index: Any, *operands: Any, branches: tuple[Body, ...]) -> tuple[Any, ...]:
    """The reference of `cond`."""
    return tuple(lax.switch(index, [lambda *xs, b=b: tuple(b(*xs)) for b in branches], *_arrays(operands)))


def _arrays(values: Any) -> tuple[Any, ...]:
    return tuple(map(jnp.asarray, values))


REFERENCES: dict[str, Callable[..., tuple[Any, ...]]] = {"scan": scan, "while_loop": while_loop, "cond": cond}


def results(name: str, params: Mapping[str, Any]) -> tuple[Aval, ...]:
    """The Avals of an Op's results: what its body says, stacked where a scan collects it."""
    if name == "cond":
        return _outputs(params["branches"][0].graph)
    found = _outputs(params["body"].graph)
    carries = params.get("carries", len(found))
    stacked = (Aval((params["length"], *a.shape), a.dtype) for a in found[carries:])
    return (*found[:carries], *stacked)


def _outputs(graph: Graph) -> tuple[Aval, ...]:
    return tuple(n.aval for n in graph.output)


def bodies(params: Mapping[str, Any]) -> tuple[Graph, ...]:
    """The Graphs among an Op's parameters."""
    values = [v for p in params.values() for v in (p if isinstance(p, tuple) else (p,))]
    return tuple(v.graph for v in of_class(Closure, values))


def map_bodies(params: Mapping[str, Any], fn: Callable[[Graph], Graph]) -> dict[str, Any]:
    """An Op's parameters with `fn` applied to every body."""
    return {k: _mapped(v, fn) for k, v in params.items()}


def _mapped(value: Any, fn: Callable[[Graph], Graph]) -> Any:
    if is_closure(value):
        graph = fn(value.graph)
        return value if graph is value.graph else Closure(graph)
    if type(value) is tuple and any(map(is_closure, value)):
        return tuple(_mapped(v, fn) for v in value)
    return value


def is_control(node: Node) -> bool:
    """Is this node a loop, or branches?"""
    return getattr(node.target, "name", "") in REFERENCES
