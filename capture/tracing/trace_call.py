"""Calls that become nodes of the Graph: JAX, and the libraries that promise purity.

`library_call(cap, fn, args, kwargs)` turns Values into node arguments, finds out what the call
returns by running it under `jax.eval_shape`, and gives back Values for the result:

- arrays become `ArrayV`s, containers and pytree objects of arrays become the like Values;
- a result that JAX's tracing cannot carry (`x.at`, `jax.grad(f)`, a `vjp` function) becomes a
  `LibraryV`, whose node is made when something consumes it;
- a result without arrays (a dtype, a bool, a tree structure) is a constant: no node.

User functions among the arguments are captured as sub-graphs: while `eval_shape` runs, JAX calls
their stand-ins (`subgraphs.Standin`) with tracers, and these run the symbolic machine.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.core import NamedAxisEffect, subjaxprs, trace_ctx
from jax._src.interpreters import mlir
from jax.extend.core import primitives

from dynacomp.capture.base.errors import Break, GiveUp, NeverCalled, Raised, Restart
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.graph.avals import ARRAY_TYPE, Aval, as_struct
from dynacomp.capture.graph.graph import Closure, Node, Tree
from dynacomp.capture.graph.graph_sizes import aval as aval_with_sizes
from dynacomp.capture.graph.graph_sizes import sizes_in
from dynacomp.capture.graph.sizes import Size, canonical
from dynacomp.capture.symbolic.libraries import (
    decorates,
    has_effect,
    is_library,
    judges,
    looks_inside,
    module_of,
    registers_once,
)
from dynacomp.capture.symbolic.machine import Capture, StopAtBreak
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.values import (
    ArrayV,
    Const,
    DictV,
    LibraryV,
    ListV,
    MethodV,
    NdArrayV,
    NeedsConcrete,
    ObjectV,
    PartialV,
    TupleV,
    Value,
    children,
    is_literal,
    peek,
)
from dynacomp.capture.tracing.body_variants import Dispatch, differ_by_bodies
from dynacomp.capture.tracing.failures import Failed, can_be_called, eager_error, is_defect
from dynacomp.capture.tracing.hidden_tracers import hides_tracers
from dynacomp.capture.tracing.library_effects import noticing
from dynacomp.capture.tracing.library_reads import guard_reads, overhearing
from dynacomp.capture.tracing.lowered_args import (
    LibraryArg,
    fails_now,
    leaf_nodes,
    lower_arg,
    lower_arguments,
    lowered_sizes,
    may_be_asked,
    rebuild,
    shows_values,
    sizes_as_numbers,
    standins_in,
)
from dynacomp.capture.tracing.passthrough import OBJECT_CALLS, Passed, depends, with_arrays, with_numbers
from dynacomp.capture.tracing.placement import puts_elsewhere
from dynacomp.capture.tracing.subgraphs import Standin, localise, never_called, passed_object, place_of
from dynacomp.capture.tracing.treedef_contents import TREEDEF, says_literals
from dynacomp.capture.tracing.trees import unflattened
from dynacomp.capture.wrapping import size_values
from dynacomp.capture.wrapping.class_prototypes import refuse
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.narrowing import hold_narrowed

RULES = ("defjvp", "defjvps", "defvjp", "def_fwd", "def_bwd", "def_vmap")  # methods that change a library's object
# Functions that give back an array of JAX which is as they would make it: no jitted function, which makes a new one.
HAND_BACK = ("asarray", "array", "astype", "reshape", "broadcast_to", "convert_element_type", "getitem")
PLACING = {"device", "out_sharding", "sharding"}  # arguments that make another array of the same values
JAXS = {p for p in vars(primitives).values() if hasattr(p, "bind")}
PLATFORMS = {"gpu": ("cuda", "rocm")}  # what JAX's table of lowerings calls a backend
MAX_ORDER = 3  # derivatives of derivatives through custom rules
CONTROL = (Break, GiveUp, Raised, Restart, StopAtBreak, NeedsConcrete)
CONCRETE = (
    jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError, jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError, jax.errors.UnexpectedTracerError,
)


def argument(cap: Capture, value: Value) -> Any:
    """`value` as it may stand in the Graph at hand (its output, say)."""
    return finish_arg(cap, lower_arg(cap, value))


OPERATIONS.node_argument = argument


@dataclass(eq=False)
class Outcome:
    """What `eval_shape` saw: the result (pytree whose array leaves are Avals)."""

    result: Any
    treedef: Any
    leaves: list[Any]
    origins: list[Node | None]  # for each leaf the Node that came out of the call as it went in

    @property
    def plain(self) -> bool:
        """Arrays and literals only: tracing can carry it."""
        return all(isinstance(x, Aval) or is_literal(x) for x in self.leaves)

    @property
    def has_arrays(self) -> bool:
        return any(isinstance(x, Aval) for x in self.leaves)


def library_call(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value] | None = None,
                 name: str | None = None) -> Value:
    """The Value of `fn(*args, **kwargs)`, `fn` being pure; raises Raised as the call would."""
    refuse(cap, (*args, *(kwargs or {}).values()), _label(fn))
    if registers_once(fn) and all(isinstance(a, Const) for a in args) and not kwargs:
        return Const(fn(*(a.value for a in args)))  # type: ignore[attr-defined]
    if has_effect(_called(fn, args)) or decorates(fn, [peek(a) for a in args if isinstance(a, Const)]):
        raise Break("effect", f"{_label(fn)} changes more than its result")
    values = (list(args), dict(kwargs or {}))
    if judges(fn) and any(_holds_numpy(cap, v) for v in (*values[0], *values[1].values())):
        raise Break("leaves", f"{_label(fn)} looks at a NumPy array")
    step, lowered = cap.steps, lower_arguments(cap, fn, *values)
    if looks_inside(fn) and any(map(_holds_model, (*lowered[0], *lowered[1].values()))):
        raise Break("opaque", f"{_label(fn)} looks into what a library has made of a model")
    outcome, lowered = evaluated(cap, fn, lowered, since=step)
    _reach_rules(cap, fn, *lowered)
    guard_reads(cap, (*values[0], *values[1].values()))
    if not outcome.has_arrays and outcome.plain:
        keeps = any(standins_in(lowered)) and not _only_containers(outcome.result)
        if keeps or not _all_containers(outcome.result) and hides_tracers(outcome.result):
            return LibraryV(fn, tuple(values[0]), values[1])
        return from_python(cap, outcome.result)
    if _is_known(outcome.result):
        return from_python(cap, outcome.result)
    if outcome.leaves and all(is_literal(x) or _is_size(cap, x) for x in outcome.leaves):
        return from_python(cap, outcome.result)
    if isinstance(outcome.result, Passed):
        return outcome.result.value
    if isinstance(outcome.result, Aval):
        back = None if PLACING.intersection(kwargs or ()) else _handed_back(
            cap, fn, outcome.origins, (*args, *(kwargs or {}).values()))
        return back or ArrayV(emit_node(cap, fn, lowered, outcome.result, name), outcome.result)
    if is_nothing(outcome.result):
        return Const(outcome.result)
    if _is_function_like(outcome.result) or not (outcome.plain or _is_container(outcome.result)):
        fixed = not (outcome.has_arrays or any(leaf_nodes(lowered)) or any(standins_in(lowered))
                     or hides_tracers(outcome.result))
        return LibraryV(fn, tuple(values[0]), values[1], real=outcome.result, fixed=fixed)
    if not _all_containers(outcome.result) and hides_tracers(outcome.result):
        return LibraryV(fn, tuple(values[0]), values[1], real=outcome.result)
    return _structured(cap, fn, lowered, outcome, values, name)


def _handed_back(cap: Capture, fn: Any, origins: list[Node | None], given: tuple[Value, ...]) -> Value | None:
    """The argument that is the call's result: `jnp.asarray` of an array of JAX."""
    if getattr(fn, "__name__", "") not in HAND_BACK or not origins or origins[0] is None:
        return None
    return next((v for v in given if isinstance(v, ArrayV) and not isinstance(v.real, np.ndarray)
                 and localise(cap, v.node) is origins[0]), None)


def _holds_model(arg: Any) -> bool:
    """Whether a library's object is made of something to be called that may have arrays in it: as its leaves."""
    return isinstance(arg, LibraryArg) and any(
        isinstance(s.value, (ObjectV, MethodV, PartialV)) for s in standins_in(arg))


def _called(fn: Any, args: list[Value]) -> Any:
    """What runs: a library's object, where `fn` only calls its first argument."""
    return args[0].real if module_of(fn) == OBJECT_CALLS and isinstance(args[0], LibraryV) else fn


def _is_known(result: Any) -> bool:
    """Whether (a part of) a result never changes: containers of what says what an array or a tree is like, and of
    literals."""
    return _all_containers(result) and all(map(_is_description, jax.tree.leaves(result)))


def _is_description(x: Any) -> bool:
    if type(x) is jax.ShapeDtypeStruct:
        return all(type(d) is int for d in x.shape)
    return is_literal(x) or type(x) is TREEDEF and says_literals(x)


def _holds_numpy(cap: Capture, value: Value) -> bool:
    """Whether a NumPy array is in a tree of containers."""
    value = cap.realize(value)
    if isinstance(value, NdArrayV) or isinstance(value, ArrayV) and isinstance(value.real, np.ndarray):
        return True
    return any(_holds_numpy(cap, v) for v in children(value))


def _is_container(result: Any) -> bool:
    return type(result) in (tuple, list, dict) or (isinstance(result, tuple) and hasattr(result, "_fields"))


def _is_function_like(result: Any) -> bool:
    return isinstance(result, jax.tree_util.Partial) or type(result).__name__ == "VJP"


def _is_size(cap: Capture, x: Any) -> bool:
    """Whether `x` is made of this capture's symbolic sizes; the program can have symbolic sizes of its own."""
    return type(x) is Size and x.scope is cap.scope


# --- abstract evaluation


def evaluated(cap: Capture, fn: Any, lowered: Any, since: int) -> tuple[Outcome, Any]:
    """What the call returns, and its arguments as they are in the Graph. Of symbolic sizes JAX takes some as they
    are, some (indices) as arrays; where it takes neither, they are constants."""
    decided = len(cap.scope.relations)
    try:
        return abstract(cap, fn, lowered[0], lowered[1], since), lowered
    except Failed as failed:
        error = failed.args[0]
    if len(cap.scope.relations) > decided:  # sizes that were found equal half-way are one size from the start now
        with contextlib.suppress(Failed):
            return abstract(cap, fn, lowered[0], lowered[1], since), lowered
    blamed = lowered_sizes(lowered)
    if not blamed and shows_values(lowered):  # functions and objects of libraries, made with sizes maybe
        blamed = [size for size in map(canonical, map(cap.scope.symbol, cap.dims)) if isinstance(size, Size)]
    concrete = isinstance(error, CONCRETE)
    if concrete and not may_be_asked(lowered):
        raise _needs_values(fn, error)
    if not blamed:
        raise Raised(Const(_program_error(cap, fn, lowered, error))) from None
    numbers = sizes_as_numbers(lowered)
    with contextlib.suppress(Failed):
        return abstract(cap, fn, numbers[0], numbers[1], since), numbers
    if fails_now(fn, lowered):
        raise _needs_values(fn, error) if concrete else Break("raises", type(error).__name__)
    if is_defect(error):
        raise error
    size_values.freeze(cap, blamed, f"{_label(fn)}: {error}")
    raise Restart()


def _needs_values(fn: Any, error: Exception) -> Break:
    return Break("concrete", f"{_label(fn)} needs concrete values ({type(error).__name__})")


def abstract(cap: Capture, fn: Any, args: tuple, kwargs: dict[str, Any], since: int) -> Outcome:
    """Runs the call on tracers; exceptions of the call become the program's. `since`: the step of its arguments."""
    every = list(dict.fromkeys(leaf_nodes((args, kwargs))))
    passed = {n: passed_object(cap, n) for n in every if isinstance(n.aval.dtype, type)}
    nodes = [n for n in every if n not in passed]
    seen: dict[str, Any] = {}
    numbers = {cap.scalar_nodes[v.source]: v for _, v in cap.scalar_reads if v.source in cap.scalar_nodes}

    def run(*tracers: Any) -> list[Any]:
        cap.traces.append(trace_ctx.trace)
        outer, cap.stands = cap.stands, {}
        passed_on, cap.passing = cap.passing, {id(t): (t, numbers[n]) for t, n in zip(tracers, nodes) if n in numbers}
        try:
            return within(*tracers)
        finally:
            cap.traces.pop()
            cap.stands, cap.passing = outer, passed_on

    def within(*tracers: Any) -> list[Any]:
        seen["made"] = _on_tracers(cap, fn, args, kwargs, {**passed, **dict(zip(nodes, tracers))})
        seen["leaves"], seen["tree"] = jax.tree.flatten(seen["made"])
        given = {**cap.stands, **{id(t): (t, n) for t, n in zip(tracers, nodes)}}
        seen["origins"] = [given.get(id(x), (x, None))[1] for x in seen["leaves"]]
        return [x for x in seen["leaves"] if _is_array(x)]

    jaxpr = _traced(cap, fn, run, nodes)
    hold_narrowed(cap, jaxpr, nodes, _label(fn))
    refuse_effects(fn, jaxpr)
    cap.placed = cap.placed or puts_elsewhere(jaxpr.jaxpr)
    if calls_back(jaxpr.jaxpr) and not all(s.ways for s in standins_in((args, kwargs))):
        raise Break("call", f"{_label(fn)} calls back into Python")
    if any(map(_is_written_in_python, jaxpr.eqns)):
        raise Break("call", f"{_label(fn)} uses a primitive whose evaluation is the program's")
    if any(isinstance(x, str) and "Tracer" in x for x in seen["leaves"]):
        raise Break("leaves", f"{_label(fn)} makes a text of an array")
    avals, deep = iter(jaxpr.out_avals), iter(depends(jaxpr.jaxpr))
    reached = [_is_array(x) and next(deep) for x in seen["leaves"]]
    leaves = [_result_leaf(next(avals)) if _is_array(x) else x for x in seen["leaves"]]
    leaves = with_numbers(cap, fn, (args, kwargs), seen["tree"], leaves, seen["origins"], reached, since)
    leaves = with_arrays(cap, fn, (args, kwargs), leaves, seen["origins"])
    result = _put_together(seen["tree"], leaves)
    _order_keys(seen["made"], result)
    return Outcome(result, seen["tree"], leaves, seen["origins"])


def _result_leaf(struct: Any) -> Any:
    """What stands for an array of a result: its Aval, or the thing itself where it has no numbers (derivatives by
    integers), which no program can compute."""
    if not hasattr(struct, "dtype"):
        raise Break("call", f"a result that is no array: {struct}")
    if struct.dtype != jax.dtypes.float0:
        return _aval(struct)
    if not all(type(d) is int for d in struct.shape):
        raise Break("call", "a derivative by integers whose number changes")
    return nothing(tuple(struct.shape))


def is_nothing(x: Any) -> bool:
    """Whether a result is a derivative by integers."""
    return isinstance(x, (np.ndarray, type(nothing(())))) and x.dtype == jax.dtypes.float0


@functools.cache
def nothing(shape: tuple[int, ...]) -> Any:
    """The derivative of something by integers, as this JAX has it."""
    with jax.ensure_compile_time_eval():
        return jax.vjp(lambda n: 0.0, jnp.zeros(shape, int))[1](0.0)[0]


def _put_together(treedef: Any, leaves: list[Any]) -> Any:
    """The result, of Avals or Values in place of arrays."""
    try:
        return jax.tree.unflatten(treedef, leaves)
    except ours(Exception) as error:  # the program's class does more than hold its leaves
        raise Break("opaque", f"a result whose class computes when unflattened ({type(error).__name__})") from None


def _order_keys(made: Any, copy: Any) -> None:
    """The dicts in `copy`, a tree that was unflattened, get the order of keys that those in `made` have."""
    if type(made) is dict:
        content = dict(copy)
        copy.clear()
        copy.update((k, content[k]) for k in made)
    inside, copies = _children(made), _children(copy)
    for one, other in zip(inside, copies):
        _order_keys(one, other)


def _children(tree: Any) -> list[Any]:
    """What stands one level down in a tree: nothing in a leaf."""
    found = jax.tree_util.default_registry.flatten_one_level(tree)
    return [] if found is None else list(found[0])


def _on_tracers(cap: Capture, fn: Any, args: tuple, kwargs: dict[str, Any], env: dict[Any, Any]) -> Any:
    given = rebuild((args, kwargs), env)
    with noticing(_label(fn), given), OPERATIONS.hearing(cap, _label(fn)):
        return fn(*given[0], **given[1])


def _traced(cap: Capture, fn: Any, run: Any, nodes: list[Node]) -> Any:
    step = cap.steps
    cap.tracing += 1
    try:
        structs = [as_struct(aval_with_sizes(n.aval, canonical)) for n in nodes]
        with cap.scope.decides():
            return overhearing(cap, lambda: jax.make_jaxpr(run)(*structs))
    except CONTROL:
        raise
    except NeverCalled:
        if cap.lessons.order >= MAX_ORDER:
            raise Break("body", f"{_label(fn)} differentiates its rules more than {MAX_ORDER} times") from None
        cap.lessons.order += 1
        raise Restart() from None
    except CONCRETE as error:
        _fix_numbers(cap, step)
        _show_arrays(cap, nodes)
        if any(sizes_in(*(n.aval for n in nodes))):  # which may be what it looks at
            raise Failed(error) from None
        raise _needs_values(fn, error) from None
    except ours(Exception) as error:
        _fix_numbers(cap, step)
        raise Failed(error) from None
    finally:
        cap.tracing -= 1


def _program_error(cap: Capture, fn: Any, lowered: Any, error: Exception) -> BaseException:
    """The exception that the program sees where tracing a call raised `error`; Break to let Python find out."""
    nodes = list(dict.fromkeys(leaf_nodes(lowered)))
    avals = [aval_with_sizes(n.aval, canonical) for n in nodes]
    in_body = bool(cap.bodies and nodes)  # which would be tracers there, in words of their own
    if in_body or shows_values(lowered) or not can_be_called(avals):
        raise Break("raises", type(error).__name__)

    def call(*arrays: Any) -> Any:
        return _on_tracers(cap, fn, lowered[0], lowered[1], dict(zip(nodes, arrays)))

    return eager_error(call, avals, error)


def _fix_numbers(cap: Capture, step: int) -> None:
    """Changing Python numbers that a failing call has read since `step`, as arguments or in its
    bodies, become constants: it may want those."""
    for read_at, value in cap.scalar_reads:
        if read_at >= step:
            raise NeedsConcrete(value)


def _show_arrays(cap: Capture, nodes: list[Node]) -> None:
    """NumPy arrays that are constants and that a failing call was given are shown to it: it may want to look."""
    known = {guard.source for guard in cap.guards.guards if guard.kind == "ndarray"}
    if not cap.lessons.shown_arrays and any(cap.inputs.get(n) in known for n in nodes):
        cap.lessons.shown_arrays = True
        raise Restart()


def refuse_effects(fn: Any, jaxpr: Any) -> None:
    """Break where the call does more than compute: it prints, calls back, ..."""
    found = sorted(str(e) for e in jaxpr.effects if not isinstance(e, NamedAxisEffect))
    if found:
        raise Break("effect", f"{_label(fn)} ({', '.join(found)})")


def calls_back(jaxpr: Any) -> bool:
    """Whether a Python function runs when this jaxpr does."""
    return any("callback" in e.primitive.name for e in jaxpr.eqns) or any(map(calls_back, subjaxprs(jaxpr)))


def _is_written_in_python(eqn: Any) -> bool:
    """Whether eager JAX evaluates this by code of the program (`Primitive.def_impl`), and the program has not said how
    to compile it. JAX's own primitives with other code are evaluated by that."""
    impl, backend = eqn.primitive.impl, jax.default_backend()
    here = [mlir._platform_specific_lowerings.get(p, {}) for p in PLATFORMS.get(backend, (backend,))]
    lowered = any(eqn.primitive in rules for rules in (mlir._lowerings, *here))
    if lowered and eqn.primitive not in JAXS:
        return False
    return not is_library(impl.func if isinstance(impl, functools.partial) else impl)


def _reach_rules(cap: Capture, fn: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Captures functions that only a derivative of the call reaches, such as the rules of
    `jax.custom_vjp`, once an earlier attempt has met such a derivative (`lessons.order`)."""
    if cap.derived >= cap.lessons.order or all(s.ways for s in standins_in((args, kwargs))):
        return
    nodes = list(dict.fromkeys(leaf_nodes((args, kwargs))))

    def derivative(*tracers: Any) -> Any:
        moving = [i for i, x in enumerate(tracers) if jnp.issubdtype(x.dtype, jnp.inexact)]

        def primal(*moved: Any) -> list[Any]:
            at = dict(zip(moving, moved))
            env = {n: at.get(i, x) for i, (n, x) in enumerate(zip(nodes, tracers))}
            result = _on_tracers(cap, fn, args, kwargs, env)
            return [x for x in jax.tree.leaves(result) if _is_array(x) and jnp.issubdtype(x.dtype, jnp.inexact)]

        out, pull = jax.vjp(primal, *(tracers[i] for i in moving))
        return pull(jax.tree.map(jnp.ones_like, out))

    cap.derived += 1
    try:
        _traced(cap, fn, derivative, nodes)
    except Failed:
        pass  # it has no derivative: what was not reached now never is
    finally:
        cap.derived -= 1


def _is_array(x: Any) -> bool:
    return isinstance(x, (jax.Array, ARRAY_TYPE, jax.core.Tracer))


def _aval(struct: jax.ShapeDtypeStruct) -> Aval:
    return Aval(tuple(struct.shape), struct.dtype, bool(struct.weak_type))


def _label(fn: Any) -> str:
    return getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__name__


# --- nodes


def emit_node(cap: Capture, fn: Any, lowered: tuple, aval: Any, name: str | None = None) -> Node:
    args, kwargs = (finish_arg(cap, a) for a in lowered)
    builder = cap.bodies[-1].builder if cap.bodies else cap.builder
    node = builder.call(fn, args, kwargs, aval, cap.where(), name or _label(fn).rpartition(".")[2])
    cap.owner[node] = len(cap.bodies)
    if cap.bodies:
        cap.homes[node] = cap.bodies[-1].serial
    cap.captured_ops += 1
    return node


def finish_arg(cap: Capture, value: Any) -> Any:
    """A lowered argument as it stands in the Graph: Standins as Closures, LibraryVs as Nodes."""
    if isinstance(value, Standin):
        return _finish_standin(cap, value)
    if isinstance(value, LibraryArg):
        key = (place_of(cap), tuple(len(s.ways) for s in standins_in(value)))
        if key not in value.nodes:
            value.nodes[key] = emit_node(cap, value.make, (value.args, value.kwargs), None)
        return value.nodes[key]
    if isinstance(value, Tree):
        return Tree(value.treedef, tuple(finish_arg(cap, v) for v in value.leaves))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(finish_arg(cap, v) for v in value))
    if type(value) in (tuple, list):
        return type(value)(finish_arg(cap, v) for v in value)
    if type(value) is dict:
        return {k: finish_arg(cap, v) for k, v in value.items()}
    return value


def _finish_standin(cap: Capture, value: Standin) -> Any:
    """A Closure of the captured body, a node that chooses among several, or `never_called`."""
    ways = value.ways
    if not ways:
        return never_called
    if differ_by_bodies(tuple(ways)):
        raise Break("body", "a function that is called with one transformed function after another")
    closures = tuple(Closure(graph, tuple(localise(cap, n) for n in captured), value.signature)
                     for graph, captured in ways.values())
    return closures[0] if len(closures) == 1 else emit_node(cap, Dispatch(tuple(ways)), (closures, {}), None)


# --- results


def _structured(cap: Capture, fn: Any, lowered: tuple, outcome: Outcome, values: tuple, name: str | None) -> Value:
    """Containers by `getitem` nodes; other pytree objects by their leaves."""
    if _all_containers(outcome.result):
        node = emit_node(cap, fn, lowered, jax.tree.map(_as_aval, outcome.result) if outcome.plain else None, name)
        whole = LibraryV(fn, tuple(values[0]), values[1])
        return _split(cap, node, whole, outcome.result)
    node = emit_node(cap, fn, lowered, None, name)
    flat = emit_node(cap, jax.tree.leaves, ((node,), {}), tuple(map(_as_aval, outcome.leaves)), "leaves")
    leaves = [_leaf(cap, flat, i, leaf) for i, leaf in enumerate(outcome.leaves)]
    return unflattened(cap, outcome.treedef, leaves)


def _as_aval(leaf: Any) -> Any:
    """A leaf of a result as the Graph knows it, which must not keep Values alive."""
    return Aval(leaf.shape, leaf.dtype, leaf.weak_type) if isinstance(leaf, Passed) else leaf


def _leaf(cap: Capture, flat: Node, i: int, leaf: Any) -> Any:
    if isinstance(leaf, Passed):
        return leaf.value
    return ArrayV(emit_node(cap, operator.getitem, ((flat, i), {}), leaf, f"leaf{i}"), leaf) if isinstance(
        leaf, Aval) else leaf


def _all_containers(result: Any) -> bool:
    if result is None or isinstance(result, Aval) or is_literal(result):
        return True
    if type(result) is dict:
        return all(map(_all_containers, result.values()))
    if type(result) in (tuple, list) or (isinstance(result, tuple) and hasattr(result, "_fields")):
        return all(map(_all_containers, result))
    return _is_function_like(result) or jax.tree_util.all_leaves([result])


def _only_containers(result: Any) -> bool:
    """Whether all of a tree is in sight: no node of it keeps a function in its structure."""
    if _is_function_like(result) or not _all_containers(result):
        return False
    inside = result.values() if type(result) is dict else result if isinstance(result, (tuple, list)) else ()
    return all(map(_only_containers, inside))


def _split(cap: Capture, node: Node, whole: LibraryV, result: Any) -> Value:
    """The Value of a container result, one `getitem` node for each array in it."""
    if isinstance(result, Passed):
        return result.value
    if isinstance(result, Aval):
        return ArrayV(node, result)
    if is_nothing(result):
        return Const(result)
    if _is_known(result):
        return from_python(cap, result)
    if type(result) is dict:
        return DictV({k: _element(cap, node, whole, k, v) for k, v in result.items()})
    if isinstance(result, (tuple, list)):
        items = [_element(cap, node, whole, i, v) for i, v in enumerate(result)]
        return ListV(items) if type(result) is list else TupleV(items, type(result))
    return whole


def _element(cap: Capture, node: Node, whole: LibraryV, key: Any, result: Any) -> Value:
    if is_nothing(result):
        return Const(result)
    if isinstance(result, Passed):
        return result.value
    if _is_known(result):
        return from_python(cap, result)
    opaque = LibraryV(operator.getitem, (whole, Const(key)))
    if not (isinstance(result, Aval) or _is_container(result)):
        return opaque
    aval = result if isinstance(result, Aval) or all(
        isinstance(x, Aval) or is_literal(x) for x in jax.tree.leaves(result)) else None
    child = emit_node(cap, operator.getitem, ((node, key), {}), aval, f"{node.name}_{key}")
    return _split(cap, child, opaque, result)
