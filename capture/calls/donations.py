"""What a call of `jax.jit(f, donate_argnums=...)` does beside calling `f`: it deletes the arrays that it is given.

It does where Python makes the call (see `tracing/donors.py`), and where an array is of use: the function reads it, and
a result of its shape and dtype takes its place. Where that is certain, the array counts as deleted from here on:
whoever reads it breaks the graph, and JAX raises in Python. It is deleted once the Graph has run: one that existed, and
one that the Graph computes if Python gets it. Elsewhere (results of another dtype, numbers, arrays given twice) Python
makes the call.

    step = jax.jit(step, donate_argnums=0)
    params = step(params, batch)        # the old params are gone
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dynacomp.capture.graph.avals import as_struct, is_aval
from dynacomp.capture.graph.graph import GET_ATTR, PLACEHOLDER, Builder, Node, nodes_in
from dynacomp.capture.graph.interpreter import materialise
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.donors import checked, give_up, is_compiled, refused
from dynacomp.capture.tracing.jaxprs import jaxpr_of, used_inputs
from dynacomp.capture.tracing.lowered_args import leaf_nodes, lower_arg, parts
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import donates


def refuse(cap: Capture, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> None:
    """Break for a call that deletes arrays, and that stays a call of JAX's."""
    if donates(obj) and not is_compiled(cap) and any(True for _ in _leaves(cap, _donated(obj, args, kwargs))):
        raise refused("of a function that stays a call")


def called(cap: Capture, obj: Any, args: list[Value], kwargs: dict[str, Value], run: Callable[[], Value]) -> Value:
    """What `obj(*args, **kwargs)` returns, by `run()`, which enters its function."""
    given = {} if not donates(obj) or is_compiled(cap) else _given(cap, obj, args, kwargs)
    if not given:
        return run()
    if cap.root.traced or any(b.donated is None for b in cap.bodies):
        raise refused("in a function that JAX transforms, a `while` or a side of an `if`")
    since = len(_builder(cap).nodes)
    result = run()
    results = set(leaf_nodes(lower_arg(cap, result)))
    if results & given.keys() or _counted(given) - _counted(results):
        raise refused("whose place no result takes")
    if not obj._jit_info.keep_unused and not _all_used(cap, given, results, since):
        raise refused("that the function does not read")
    give_up(cap, given)
    return result


def _builder(cap: Capture) -> Builder:
    return cap.bodies[-1].builder if cap.bodies else cap.graph.builder


def _given(cap: Capture, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> dict[Node, ArrayV]:
    """The donated arrays by their Nodes."""
    donated = _donated(obj, args, kwargs)
    others = [v for v in (*args, *kwargs.values()) if not any(v is d for d in donated)]
    leaves = list(_leaves(cap, donated))
    given = {part: checked(cap.libraries.handed.get(part)) for part in leaves}
    if len(given) < len(leaves) or given and given.keys() & {n for v in others for n in leaf_nodes(lower_arg(cap, v))}:
        raise refused("that is an argument twice")
    return given


def _donated(obj: Any, args: list[Value], kwargs: dict[str, Value]) -> list[Value]:
    """The donated arguments."""
    info = obj._jit_info
    numbers = {n + len(args) if n < 0 else n for n in info.donate_argnums}
    return [*(v for n, v in enumerate(args) if n in numbers),
            *(v for name, v in kwargs.items() if name in info.donate_argnames)]


def _leaves(cap: Capture, values: Iterable[Value]) -> Iterator[Any]:
    """What JAX finds in these arguments: Nodes, and numbers."""
    return (part for v in values for part in parts(lower_arg(cap, v)) if isinstance(part, (Node, int, float, complex)))


def _counted(nodes: Iterable[Node]) -> Counter[Any]:
    """How many arrays there are of each shape and dtype."""
    return Counter((n.aval.shape, n.aval.dtype) for n in nodes if is_aval(n.aval))


def _all_used(cap: Capture, given: dict[Node, ArrayV], results: set[Node], since: int) -> bool:
    """Whether the results depend on all that was donated, as JAX sees it: `zeros_like(x)` does not read `x`."""
    builder = _builder(cap)
    nodes = _nodes_of_call(builder.nodes, since)
    inputs = list(dict.fromkeys(n for node in nodes for n in _operands(node) if n not in nodes))
    if given.keys() - set(inputs):
        return False

    def run(*arrays: Any) -> list[Any]:
        env = dict(zip(inputs, arrays))
        for node in nodes:
            env[node] = _computed(builder, node, env)
        return [env[n] for n in results if n in env]

    used = used_inputs(jaxpr_of(run, [as_struct(n.aval) for n in inputs]))
    return all(is_read for node, is_read in zip(inputs, used) if node in given)


def _nodes_of_call(nodes: list[Node], since: int) -> dict[Node, None]:
    """What the call has computed, in order, and what it took of a library's objects that were made before."""
    found = {n for n in nodes[since:] if n.op != PLACEHOLDER}
    for node in reversed(nodes):
        if node in found:
            found.update(n for n in _operands(node) if not is_aval(n.aval))
    return dict.fromkeys(n for n in nodes if n in found)


def _operands(node: Node) -> Iterator[Node]:
    return nodes_in((node.args, dict(node.kwargs)))


def _computed(builder: Builder, node: Node, env: dict[Node, Any]) -> Any:
    if node.op == GET_ATTR:
        return builder.consts[node.target]
    return node.target(*materialise(node.args, env), **materialise(dict(node.kwargs), env))
