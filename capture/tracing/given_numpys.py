"""NumPy arrays that a call of a library is given: the library's Python deals with them as NumPy does.

    einops.rearrange(images, "b h w -> b w h")  # gives a NumPy array, of 64 bits where those are
    eqx.partition(params, eqx.is_array)         # gives back the very arrays

While a call is traced they are JAX's arrays, which JAX's own functions make of them at once. Other libraries are asked
once more, with the arrays themselves. What comes out as it went in is that NumPy array. Where anything else differs
from what the tracers gave (NumPy has computed it, it has another dtype) the library's function or class is entered, and
where that cannot be, Python calls it.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src.literals import TypedNdArray

from dynacomp.capture.base.classes import name_of
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.bodies.body_variants import Dispatch
from dynacomp.capture.bodies.subgraphs import Standin, is_array, never_called, passed_object
from dynacomp.capture.bodies.treedef_contents import in_structure
from dynacomp.capture.graph.avals import Aval, aval_of, blank, is_aval
from dynacomp.capture.graph.graph import Graph, Node, map_parts, nodes_in
from dynacomp.capture.graph.graph_sizes import aval as aval_with_sizes
from dynacomp.capture.graph.graph_sizes import with_sizes
from dynacomp.capture.graph.interpreter import run_body
from dynacomp.capture.hosting.rebuilt import LibraryArg, is_library_arg
from dynacomp.capture.symbolic.libraries import is_host, label, looks_inside
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.failures import enter_class, enter_others
from dynacomp.capture.tracing.lowered_parts import (
    called_by,
    leaf_nodes,
    library_args,
    parts,
    run_now,
    spells_arrays,
    standins_in,
)
from dynacomp.capture.tracing.passthrough import RAW, THROUGH, Passed, is_of_jax, made_now, once_more

NUMPYS = (np.ndarray, np.generic)
OTHERS = (*NUMPYS, TypedNdArray)


def with_numpys(cap: Capture, fn: Any, lowered: tuple, tree: Any, leaves: list[Any],
                origins: list[Node | None]) -> list[Any]:
    """The leaves of the result of `fn(*args, **kwargs)`, `lowered` being (args, kwargs): Passed where eager JAX has one
    of the NumPy arrays that the call is given. `origins`: the Nodes that come out as they went in."""
    given = {n: cap.libraries.numpys[n] for n in leaf_nodes(lowered) if n in cap.libraries.numpys}
    called, standins = called_by(fn, lowered), list(standins_in(lowered))
    if is_of_jax(called) and _may_give_back(cap, called, given, standins, origins) or isinstance(called, RAW) and given:
        return _of_jax(cap, fn, lowered, leaves, given)
    if standins and _may_run_program(called, lowered, standins) and not (is_of_jax(called) or is_host(called)) and (
            given or _returns_numpys(cap, standins)):
        return _with_bodies(cap, fn, lowered, leaves, given)
    hosts = bool(given) and not standins and is_host(called)  # what it keeps is as pure as for `jax.jit`
    if not given and not spells_arrays(lowered) or is_of_jax(called) or not hosts and _may_run_program(
            called, lowered, standins):
        return leaves
    shown = {n: _read_only(array) for n, (_, array) in given.items()}
    found: list[Any] = []
    with once_more(cap, standins):
        run_now(cap, fn, lowered, lambda tracers, made: found.extend(jax.tree.flatten(made)), shown)
    known = {id(shown[n]): value for n, (value, _) in given.items()}
    if not found or in_structure(tree, jax.core.Tracer) or found[1] != tree or any(
            id(x) not in known and _is_other(leaf, x) for leaf, x in zip(leaves, found[0])):
        for made in (called, *(arg.make for arg in library_args(lowered) if not is_of_jax(arg.make))):
            enter_class(cap, made)
        enter_others(cap, called)
        raise Break("leaves", f"{label(called)} deals with a NumPy array")
    return [Passed(leaf.shape, leaf.dtype, leaf.weak_type, known[id(x)]) if id(x) in known else leaf
            for leaf, x in zip(leaves, found[0])]


def _of_jax(cap: Capture, fn: Any, lowered: tuple, leaves: list[Any], given: dict[Node, Any]) -> list[Any]:
    """The same for a function of JAX's, whose Python hands them back, or an array of its own for them (`TypedNdArray`),
    which its derivatives make: then Python makes the call."""
    found, known = _once_more(cap, fn, lowered, given)
    if found is None or len(found) != len(leaves) or any(
            is_aval(leaf) and id(x) not in known and isinstance(x, OTHERS) for leaf, x in zip(leaves, found)):
        raise Break("leaves", f"{label(called_by(fn, lowered))} deals with a NumPy array")
    return _passed(leaves, found, known)


def _with_bodies(cap: Capture, fn: Any, lowered: tuple, leaves: list[Any], given: dict[Node, Any]) -> list[Any]:
    """The same for another library's function that calls the program's (`eqx.filter_value_and_grad`): it is entered
    where NumPy has computed something there, and where it cannot be asked: the run fails with the arrays."""
    found, known = _once_more(cap, fn, lowered, given)
    if found is None or len(found) != len(leaves) or any(
            is_aval(leaf) and id(x) not in known and isinstance(x, OTHERS) for leaf, x in zip(leaves, found)):
        enter_others(cap, called_by(fn, lowered))
        raise Break("leaves", f"{label(called_by(fn, lowered))} deals with a NumPy array")
    return _passed(leaves, found, known)


def _passed(leaves: list[Any], found: list[Any], known: dict[int, Any]) -> list[Any]:
    return [Passed(leaf.shape, leaf.dtype, leaf.weak_type, known[id(x)]) if is_aval(leaf) and id(x) in known else leaf
            for leaf, x in zip(leaves, found)]


def _once_more(cap: Capture, fn: Any, lowered: tuple,
               given: dict[Node, Any]) -> tuple[list[Any] | None, dict[int, Any]]:
    """The leaves that a call gives for the NumPy arrays themselves, and those by identity with their Values."""
    shown = {n: _read_only(array) for n, (_, array) in given.items()}
    found = made_now(cap, fn, as_bodies(lowered, Numpys(cap, shown)), dict(shown))
    return found, {id(array): cap.libraries.numpys[n][0] for n, array in shown.items()}


# --- the program's functions, once more: their Graphs run on the arrays, with the sizes at hand


@dataclass(frozen=True)
class Numpys:
    """The NumPy arrays that Nodes are: `shown` has those that were asked for, which nobody can change."""

    cap: Capture
    shown: dict[Node, Any]

    def at(self, node: Node) -> Any:
        """That of a Node; None where it is none."""
        known = self.cap.libraries.numpys.get(node)
        return None if known is None else self.shown.setdefault(node, _read_only(known[1]))


def as_bodies(arg: Any, numpys: Numpys) -> Any:
    """A lowered argument with functions that run their Graphs in the place of the program's."""
    if isinstance(arg, Standin):
        bodies = [_body(arg, graph, captured, numpys) for graph, captured in arg.ways.values()]
        return bodies[0] if len(bodies) == 1 else Dispatch(
            tuple(arg.ways), (jax.Array, *NUMPYS))(*bodies) if bodies else never_called
    if is_library_arg(arg):
        return LibraryArg(arg.make, as_bodies(arg.args, numpys), as_bodies(arg.kwargs, numpys))
    return map_parts(arg, lambda part: as_bodies(part, numpys))


def _body(standin: Standin, graph: Graph, captured: tuple[Node, ...], numpys: Numpys) -> Any:
    """A function that runs a Graph: what it returns that is a NumPy array is that one."""
    fixed = with_sizes(graph, _now)
    returned = set(nodes_in(graph.nodes[-1].args))
    known = {new: array for old, new in zip(graph.nodes, fixed.nodes)
             if old in returned and (array := numpys.at(old)) is not None}
    outer = [_some(numpys.cap, n) if (array := numpys.at(n)) is None else array for n in captured]

    def body(*args: Any, **kwargs: Any) -> Any:
        return run_body(fixed, outer, args, kwargs, known)

    if standin.signature is not None:
        body.__signature__ = standin.signature  # type: ignore[attr-defined]
    return body


def _some(cap: Capture, node: Node) -> Any:
    """Some array like that of a Node."""
    if isinstance(node.aval.dtype, type):
        return passed_object(cap, node)
    like = aval_with_sizes(node.aval, _now)
    return blank(like.shape, like.dtype, like.weak_type)


def _now(size: Any) -> Any:
    return size.scope.value(size)


def _may_give_back(cap: Capture, called: Any, given: dict[Node, Any], standins: list[Standin],
                   origins: list[Node | None]) -> bool:
    """Whether a call of JAX's may give NumPy arrays back, or what NumPy makes of them: those that came out as they went
    in, those that the program's functions return, and whole numbers, with which derivatives call them as they are."""
    if name_of(called) in THROUGH and any(array.dtype.kind in "iub" for _, array in given.values()):
        return True
    return _returns_numpys(cap, standins) or not cap.libraries.numpys.keys().isdisjoint(filter(None, origins))


def _returns_numpys(cap: Capture, standins: list[Standin]) -> bool:
    """Whether functions of the program's return NumPy arrays."""
    graphs = [graph for s in standins for graph, _ in s.ways.values()]
    return any(n in cap.libraries.numpys for graph in graphs for n in nodes_in(graph.nodes[-1].args))


def _may_run_program(called: Any, lowered: tuple, standins: list[Standin]) -> bool:
    """Whether functions of the program would run, and for more than saying which parts of a tree are meant."""
    if is_host(called):  # it keeps some, and is given others as they are
        return type(called) is not types.FunctionType or "<locals>" in called.__qualname__ or any(
            map(callable, parts(lowered)))
    return bool(standins) and (not looks_inside(called) or any(s.numbers or s.changing for s in standins))


def _read_only(array: np.ndarray) -> np.ndarray:
    """The array as nobody can change it."""
    shown = array.view()
    shown.flags.writeable = False
    return shown


def _is_other(leaf: Any, found: Any) -> bool:
    """Whether a result is something else than the tracers gave. Their sizes may be unknown."""
    if is_aval(leaf):
        return not is_array(found) or isinstance(found, NUMPYS) or _kind(aval_of(found)) != _kind(leaf)
    return isinstance(found, NUMPYS) or type(found) is not type(leaf) or is_literal(leaf) and repr(found) != repr(leaf)


def _kind(aval: Aval) -> Any:
    return aval.dtype, aval.weak_type
