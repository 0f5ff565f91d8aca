"""What a call of `jax.jit(f, donate_argnums=...)`, or of ours, does beside calling `f`: it deletes what it is given.

It does where Python makes the call (see `tracing/donors.py`), and where an array is of use: the function reads it, and
a result of its shape and dtype takes its place. Where that is certain, the array counts as deleted from here on:
whoever reads it breaks the graph, and JAX raises in Python. It is deleted once the Graph has run: one that existed, and
one that the Graph computes if Python gets it. Elsewhere (results of another dtype, numbers, arrays given twice) Python
makes the call. Ours donates nothing under a transformation, and asks not what the function reads.

    step = jax.jit(step, donate_argnums=0)
    params = step(params, batch)        # the old params are gone
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dynacomp.capture._native import CompiledFunction
from dynacomp.capture.base.errors import Break
from dynacomp.capture.graph.avals import as_struct, is_aval
from dynacomp.capture.graph.graph import GET_ATTR, PLACEHOLDER, Builder, Node, nodes_in
from dynacomp.capture.graph.interpreter import materialise
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.donors import checked, give_up, is_compiled, refused
from dynacomp.capture.tracing.lowered_args import lower_arg
from dynacomp.capture.tracing.lowered_parts import leaf_nodes, parts
from dynacomp.capture.tracing.traces import jaxpr_of, used_inputs
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import JITTED


@dataclass(frozen=True)
class Donation:
    """Which arguments a function donates; reads: only those that it reads."""

    numbers: tuple[int, ...]
    names: tuple[str, ...]
    ours: bool = False
    reads: bool = False

    def __bool__(self) -> bool:
        return bool(self.numbers or self.names)


NOTHING = Donation((), ())


def donation(cap: Capture, obj: Any) -> Donation:
    """What a call of `obj` at hand donates."""
    if type(obj) is JITTED and not is_compiled(cap):
        info: Any = getattr(obj, "_jit_info", None)
        if info is None:
            raise Break("call", "a copy of a function by jax.jit, which does not say what it donates")
        return Donation(info.donate_argnums, info.donate_argnames, reads=not info.keep_unused)
    if isinstance(obj, CompiledFunction) and type(obj) is not CompiledFunction and not (
            cap.under_trace or cap.effects.jitted):
        return Donation(obj.donated.numbers, obj.donated.names, ours=True)  # type: ignore[attr-defined]
    return NOTHING


READING = (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.matmul)


def refuse(cap: Capture, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> None:
    """Break for a call that deletes arrays, and that stays a call of JAX's."""
    if any(True for _ in _leaves(cap, donation(cap, obj), args, kwargs)):
        raise refused("of a function that stays a call")


def called(cap: Capture, obj: Any, args: list[Value], kwargs: dict[str, Value], run: Callable[[], Value]) -> Value:
    """What `obj(*args, **kwargs)` returns, by `run()`, which enters its function."""
    told = donation(cap, obj)
    given = _given(cap, told, args, kwargs)
    if not given:
        return run()
    if cap.root.traced or any(b.donated is None for b in cap.bodies):
        raise refused("in a function that JAX transforms, a `while` or a side of an `if`")
    since = len(_builder(cap).nodes)
    result = run()
    results = set(leaf_nodes(lower_arg(cap, result)))
    if results & given.keys() or _counted(given) - _counted(results):
        raise refused("whose place no result takes")
    if told.reads and not _all_used(cap, given, results, since):
        raise refused("that the function does not read")
    give_up(cap, given)
    return result


def _builder(cap: Capture) -> Builder:
    return cap.bodies[-1].builder if cap.bodies else cap.graph.builder


def _given(cap: Capture, told: Donation, args: list[Value], kwargs: dict[str, Value]) -> dict[Node, ArrayV]:
    """The donated arrays by their Nodes."""
    leaves = list(_leaves(cap, told, args, kwargs))
    given = {part: checked(cap.libraries.handed.get(part)) for part in leaves}
    others = (v for v, is_donated in _arguments(told, args, kwargs) if given and not is_donated)
    if len(given) < len(leaves) or any(n in given for v in others for n in leaf_nodes(lower_arg(cap, v))):
        raise refused("that is an argument twice")
    return given


def _arguments(told: Donation, args: list[Value], kwargs: dict[str, Value]) -> Iterator[tuple[Value, bool]]:
    """The arguments, and whether they are donated."""
    numbers = {n + len(args) if n < 0 else n for n in told.numbers}
    yield from ((v, n in numbers) for n, v in enumerate(args))
    yield from ((v, name in told.names) for name, v in kwargs.items())


def _leaves(cap: Capture, told: Donation, args: list[Value], kwargs: dict[str, Value]) -> Iterator[Any]:
    """What JAX finds in donated arguments: Nodes, and numbers; ours donates arrays of JAX alone."""
    for value, is_donated in _arguments(told, args, kwargs) if told else ():
        for part in parts(lower_arg(cap, value)) if is_donated else ():
            if isinstance(part, Node) and not (told.ours and part not in cap.libraries.handed) or isinstance(
                    part, (int, float, complex)) and not told.ours:
                yield part


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
    if given.keys() <= _surely_read(results):
        return True

    def run(*arrays: Any) -> list[Any]:
        env = dict(zip(inputs, arrays))
        for node in nodes:
            env[node] = _computed(builder, node, env)
        return [env[n] for n in results if n in env]

    used = used_inputs(jaxpr_of(run, [as_struct(n.aval) for n in inputs]))
    return all(is_read for node, is_read in zip(inputs, used) if node in given)


def _surely_read(results: set[Node]) -> set[Node]:
    """What results depend on by arithmetic alone, which reads its operands: no trace is needed to know it."""
    found, todo = set(results), list(results)
    while todo:
        node = todo.pop()
        more = set(_operands(node)) - found if any(node.target is f for f in READING) else set()
        found |= more
        todo += more
    return found


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
