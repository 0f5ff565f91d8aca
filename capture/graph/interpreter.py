"""Runs a Graph node by node: the oracle for every pass, and how JAX traces a Graph.

`run(graph, *inputs)` binds inputs to placeholders in order and calls each target. With concrete
arrays this is eager JAX; under `jax.make_jaxpr` it is a trace.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from dynacomp.capture.graph.graph import (
    GET_ATTR,
    OUTPUT,
    PLACEHOLDER,
    Graph,
    Node,
    Tree,
    is_closure,
    map_nodes,
    map_parts,
)
from dynacomp.capture.graph.known_traces import UNKNOWN, inputs_of
from dynacomp.capture.graph.sizes import canonical


def run(graph: Graph, *inputs: Any, known: Mapping[Node, Any] = types.MappingProxyType({}),
        call: Callable[..., Any] | None = None) -> Any:
    """The output pytree of `graph` on `inputs`; raises what a target raises, and TypeError when the number of inputs is
    not the number of placeholders. known: what nodes are, which are not computed; call: what calls the targets (else
    they are called, or what JAX has made of such a call stands for it)."""
    env: dict[Node, Any] = {}
    places = graph.placeholders
    if len(places) != len(inputs):
        raise TypeError(f"graph {graph.name!r} takes {len(places)} inputs, got {len(inputs)}")
    env.update(zip(places, inputs))
    for node in graph.nodes:
        if node.op == PLACEHOLDER:
            continue
        if node.op == OUTPUT:
            return materialise(node.args[0], env)
        if node in known:
            env[node] = known[node]
        elif node.op == GET_ATTR:
            env[node] = graph.consts[node.target]
        else:
            env[node] = _made(node, env, call)
    raise ValueError(f"graph {graph.name!r} has no output node")


def _made(node: Node, env: dict[Node, Any], call: Callable[..., Any] | None) -> Any:
    if call is None and node.known is not None and node.known.fits(node):
        made = node.known.again([env[n] for n in inputs_of((node.args, dict(node.kwargs)))])
        if made is not UNKNOWN:
            return made
    args, kwargs = materialise(node.args, env), materialise(dict(node.kwargs), env)
    return node.target(*args, **kwargs) if call is None else call(node.target, args, kwargs)


def run_body(graph: Graph, captured: Sequence[Any], args: tuple, kwargs: dict[str, Any],
             known: Mapping[Node, Any] = types.MappingProxyType({})) -> Any:
    """What a body returns for these arguments: parts of them that it gives back are the very objects."""
    made = run(graph, *captured, *jax.tree.leaves((args, kwargs)), known=known)
    return _handed_back(graph.nodes[-1].args[0], made, (args, kwargs))


def _handed_back(output: Any, made: Any, given: Any) -> Any:
    if _is_given(output):
        return _part_like(made, given)
    if type(output) in (tuple, list) and any(map(_holds_given, output)):
        return type(output)(_handed_back(o, m, given) for o, m in zip(output, made))
    return made


def _holds_given(output: Any) -> bool:
    return _is_given(output) or type(output) in (tuple, list) and any(map(_holds_given, output))


def _is_given(output: Any) -> bool:
    return isinstance(output, Tree) and output.given


def _part_like(made: Any, given: Any) -> Any:
    """The part of `given` that has the leaves of `made`, and its structure."""
    leaves: list[Any] = jax.tree.leaves(made)
    treedef: Any = jax.tree.structure(made)
    parts = [given]
    while parts:
        found = jax.tree_util.default_registry.flatten_one_level(parts.pop())
        for part in found[0] if found else ():
            if treedef == jax.tree.structure(part) and all(map(operator.is_, jax.tree.leaves(part), leaves)):
                return part
            parts.append(part)
    return made


def materialise(value: Any, env: dict[Node, Any]) -> Any:
    """`value` with Nodes replaced by their values and Closures by Python callables."""
    return _closures(map_nodes(value, env.__getitem__))


def _closures(value: Any) -> Any:
    if is_closure(value):
        return as_callable(value.graph, value.captured, value.signature)
    if isinstance(value, Tree):
        return jax.tree.unflatten(value.treedef, map(_closures, value.leaves))
    return canonical(map_parts(value, _closures))


def as_callable(graph: Graph, captured: tuple[Any, ...] = (), signature: Any = None) -> Callable[..., Any]:
    """The Graph as a function of pytrees: leaves of the arguments fill its placeholders."""

    def body(*args: Any, **kwargs: Any) -> Any:
        return run_body(graph, captured, args, kwargs)

    body.__name__ = body.__qualname__ = graph.name
    body._standin = None  # type: ignore[attr-defined]
    if signature is not None:
        body.__signature__ = signature  # type: ignore[attr-defined]
    return body
