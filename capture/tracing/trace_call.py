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

import operator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.literals import typed_scalar_types

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bodies.body_variants import Dispatch, differ_by_bodies
from dynacomp.capture.bodies.hidden_tracers import continues_trace, draws, hides_tracers
from dynacomp.capture.bodies.lossy_trees import is_function_like
from dynacomp.capture.bodies.subgraphs import Standin, localise, never_called, place_of
from dynacomp.capture.bodies.treedef_contents import in_structure
from dynacomp.capture.bodies.trees import unflattened
from dynacomp.capture.graph.avals import Aval, Counted, is_aval, is_numpy_dtype, of_struct
from dynacomp.capture.graph.graph import Closure, Node, map_parts
from dynacomp.capture.graph.known_traces import inputs_of
from dynacomp.capture.graph.silence import noting
from dynacomp.capture.graph.sizes import Size
from dynacomp.capture.hosting.library_reads import guard_reads
from dynacomp.capture.hosting.outward import prints
from dynacomp.capture.hosting.rebuilt import LibraryArg, is_library_arg
from dynacomp.capture.symbolic.libraries import (
    decorates,
    has_effect,
    is_host,
    judges,
    label,
    looks_inside,
    module_of,
    registers_once,
)
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.tracing import settled
from dynacomp.capture.tracing.abstract_evaluation import Outcome, evaluated, is_nothing, reach_rules
from dynacomp.capture.tracing.failures import enter_others
from dynacomp.capture.tracing.handed_on import with_functions, wraps
from dynacomp.capture.tracing.lowered_args import hands_on, lower_arg, lower_arguments
from dynacomp.capture.tracing.lowered_parts import OBJECT_CALLS, given_sizes, leaf_nodes, standins_in
from dynacomp.capture.tracing.onlookers import by_name, is_for_jax
from dynacomp.capture.tracing.passthrough import Passed
from dynacomp.capture.tracing.settings import held, holding, maker, traced_under, under
from dynacomp.capture.values.computed import ArrayV, LibraryV, NeedsConcrete, NumberV
from dynacomp.capture.values.constant import Const, is_const, peek
from dynacomp.capture.values.containers import DictV, ListV, TupleV
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.questions import is_library_object, is_object, is_value
from dynacomp.capture.values.value import Value, next_serial
from dynacomp.capture.wrapping.builtin_subclasses import is_bare_named_tuple
from dynacomp.capture.wrapping.class_prototypes import plain_number, refuse
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.immutability import TREEDEF, says_literals
from dynacomp.capture.wrapping.ndarrays import holds_numpy, is_numpy
from dynacomp.capture.wrapping.spelled_sizes import spelled

LIMITS = (np.finfo, jax.numpy.finfo)  # what is known of a dtype of floats: NumPy and JAX have one object for each
RULES = ("defjvp", "defjvps", "defvjp", "def_fwd", "def_bwd", "def_vmap")  # methods that change a library's object


def argument(cap: Capture, value: Value) -> Any:
    """`value` as it may stand in the Graph at hand (its output, say)."""
    lowered = lower_arg(cap, value)
    if cap.bodies:
        _refuse_functions(lowered)
        cap.bodies[-1].gives = lowered
    return finish_arg(cap, lowered)


def _refuse_functions(result: Any) -> None:
    """Breaks where a body gives back what a library has made of a function: it may keep the function, and would keep
    what stands for it here, or tracers, beyond the Graph (`eqx.filter_closure_convert`)."""
    if not is_library_arg(result):
        map_parts(result, _refuse_functions)
    elif any(not s.ways for s in standins_in(result)):
        raise Break("body", "a transformed function gives back what a library has made of a function")


OPERATIONS.node_argument = argument


def _lowered(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value], most: int) -> Any:
    """The arguments of a call as they stand in the Graph. A call of a library that cannot have them (an object that is
    not yet what it will be) is entered."""
    try:
        return lower_arguments(cap, fn, args, kwargs, most)
    except Break:
        enter_others(cap, fn)
        raise
    except NeedsConcrete as needed:
        needed.hosted = needed.hosted or is_host(fn)
        raise


# What takes dtypes and is given an array of NumPy looks at its own, which may be none of JAX's: float64.
OF_LIMITS = (jnp.finfo, jnp.iinfo)  # of the numbers in an array: those of its dtype
OF_DTYPES = (jnp.finfo, jnp.iinfo, jnp.issubdtype, jnp.promote_types, jax.dtypes.issubdtype, type(jnp.float32).__eq__)


@dataclass(frozen=True, eq=False)
class Call:
    """A call that JAX has traced: its arguments as Values and as they may stand in the Graph, and what came of it.
    `since`: Values with a lower serial were made before."""

    cap: Capture
    fn: Any
    args: list[Value]
    kwargs: dict[str, Value]
    lowered: tuple
    outcome: Outcome
    name: str | None
    since: int

    def made(self, real: Any = None, fixed: bool = False) -> LibraryV:
        """The result as an object whose node is made when something consumes it; `once` if that would do more."""
        once = any(s.changing for s in standins_in(self.lowered))
        whole = LibraryV(self.fn, tuple(self.args), self.kwargs, real=real, fixed=fixed, once=once,
                         settings=traced_under(self.cap))
        _pin(self.cap, whole, self.lowered)
        return whole


def library_call(cap: Capture, fn: Any, args: list[Value], kwargs: dict[str, Value] | None = None,
                 name: str | None = None) -> Value:
    """The Value of `fn(*args, **kwargs)`, `fn` being pure; raises Raised as the call would."""
    args = [plain_number(cap, arg) for arg in args]
    refuse(cap, (*args, *(kwargs or {}).values()), label(fn))
    if registers_once(fn) and all(map(is_const, args)) and not kwargs:
        return Const(fn(*(a.value for a in args)))  # type: ignore[attr-defined]
    _refuse_function(fn, args)
    args, kwargs = spelled(cap, fn, list(args), dict(kwargs or {}))
    if any(fn is asking for asking in OF_LIMITS):
        args = [cap.getattr(arg, "dtype") if is_numpy(arg) else arg for arg in args]
    judging = judges(fn) or any(fn is taker for taker in OF_DTYPES)
    if judging and any(holds_numpy(cap, v) for v in (*args, *kwargs.values())):
        raise Break("leaves", f"{label(fn)} looks at a NumPy array")
    step, seen, ordered = cap.progress.steps, cap.libraries.unasked, cap.libraries.by_name
    cap.libraries.arguments.append((args, kwargs))
    cap.libraries.unasked = is_for_jax(fn, (*args, *kwargs.values()))
    most = by_name(fn, (*args, *kwargs.values()))
    cap.libraries.by_name = most > 0
    try:
        lowered, since = _lowered(cap, fn, args, kwargs, most), next_serial()
        if looks_inside(fn) and any(map(_holds_model, (*lowered[0], *lowered[1].values()))):
            raise Break("opaque", f"{label(fn)} looks into what a library has made of a model")
        with noting([]):
            with holding(held(cap)):
                found = _evaluated(cap, fn, lowered, step)
            said = cap.libraries.said
            if said and hands_on(fn, args):
                raise Break("effect", f"{label(fn)} warns, in whose place a rule may run")
            reach_rules(cap, fn, *(found[1] if isinstance(found, tuple) else lowered))
    finally:
        cap.libraries.arguments.pop()
        cap.libraries.unasked, cap.libraries.by_name = seen, ordered
    OPERATIONS.give(cap, label(fn), said)
    guard_reads(cap, (*args, *kwargs.values()))
    if not isinstance(found, tuple):
        return found
    return _result(cap, Call(cap, fn, args, kwargs, found[1], found[0], name, since))


def _evaluated(cap: Capture, fn: Any, lowered: tuple, since: int) -> Value | tuple[Outcome, Any]:
    """What JAX traces of a call, and its arguments as they are in the Graph; or its Value, if it looks at its arguments
    and these are the same in each call."""
    try:
        return evaluated(cap, fn, lowered, since)
    except (Break, Raised) as refused:
        found = settled.again(cap, fn, lowered, refused, since)
        if found is None:
            OPERATIONS.enter_bare(cap, fn, refused, since)
            raise
        return found


def _refuse_function(fn: Any, args: list[Value]) -> None:
    """Break for functions whose results are not all that they do, or depend on more than their arguments."""
    if continues_trace(fn):
        raise Break("tracer", f"{label(fn)} goes on with a trace that runs the caller")
    made = [part for a in args if is_library_object(a) for part in a.args]  # a Partial of such a function
    for kept in (fn, *(peek(a) for a in of_class(Const, (*args, *made)))):
        if draws(kept):
            raise Break("call", f"{label(kept)}, which keeps what gives something else each time")
    called = _called(fn, args)
    if has_effect(called) or prints(called) or decorates(fn, [peek(a) for a in of_class(Const, args)]):
        raise Break("effect", f"{label(fn)} changes more than its result")
    if fn is jax.closure_convert:  # what it hands back depends on which arrays are tracers
        raise Break("call", f"{label(fn)} asks which arrays JAX traces")


def _result(cap: Capture, call: Call) -> Value:
    """What stands for the result: a constant, an argument, an array of the Graph, an object made when it is needed."""
    outcome, result = call.outcome, call.outcome.result
    if not outcome.whole:
        return call.made(result) if isinstance(call.fn, type) else _from_leaves(cap, call)
    if outcome.tells:
        return _telling(cap, call)
    if id(result) in outcome.same:
        return outcome.same[id(result)]
    if not outcome.has_arrays and outcome.plain:
        keeps = any(standins_in(call.lowered)) and not _only_containers(result)
        return call.made() if keeps or _hides(call) else from_python(cap, result)
    if _is_known(result) or outcome.leaves and all(is_literal(x) or _is_size(cap, x) for x in outcome.leaves):
        return from_python(cap, result)
    if outcome.leaves and all(map(_is_description, outcome.leaves)) and in_structure(
            outcome.treedef, Value) and not _hides(call):  # jax.eval_shape of an object around a function
        return unflattened(cap, outcome.treedef, outcome.leaves)
    if is_aval(result):
        return result.value or _handed_back(cap, outcome) or _of_aval(cap, _node(cap, call, _as_aval(result)), result)
    if is_nothing(result):
        return Const(result)
    if _hands_on_functions(call):
        return _by_leaves(cap, _node(cap, call, None), replace(outcome, leaves=with_functions(outcome.leaves)))
    if is_function_like(result) or not (outcome.plain or _is_container(result)):
        fixed = not (outcome.has_arrays or any(leaf_nodes(call.lowered)) or any(standins_in(call.lowered))
                     or given_sizes(call.lowered) or hides_tracers(result, call.since))
        return call.made(result, fixed)
    return call.made(result) if _hides(call) else _structured(cap, call)


def _hides(call: Call) -> bool:
    """Whether a tree of a library's keeps tracers beside its leaves."""
    result = call.outcome.result
    return not _all_containers(result) and hides_tracers(result, call.since)


def _hands_on_functions(call: Call) -> bool:
    """Whether a tree that a call makes has functions of the program's among its leaves (`eqx.partition` of a model),
    which it has not called, and keeps none elsewhere."""
    outcome = call.outcome
    functions = [leaf for leaf, value in zip(outcome.leaves, with_functions(outcome.leaves)) if leaf is not value]
    if not functions or outcome.same or jax.tree_util.treedef_is_leaf(outcome.treedef):
        return False
    if any(type(leaf) is TREEDEF for leaf in outcome.leaves) or wraps(outcome.result):  # which keep them as well
        return False
    return not hides_tracers(outcome.result, call.since, functions)


def _handed_back(cap: Capture, outcome: Outcome) -> Value | None:
    """The array that a call has given back as it was given it: `jnp.asarray` of an array of JAX."""
    origin = outcome.origins[0] if outcome.origins else None
    return None if origin is None else cap.libraries.handed.get(origin)


def _holds_model(arg: Any) -> bool:
    """Whether a library's object is made of something to be called that may have arrays in it: as its leaves."""
    return is_library_arg(arg) and any(
        is_object(s.value) or kind(s.value).binds is not None for s in standins_in(arg))


def _called(fn: Any, args: list[Value]) -> Any:
    """What runs: a library's object, where `fn` only calls its first argument."""
    return args[0].real if module_of(fn) == OBJECT_CALLS and is_library_object(args[0]) else fn


def _is_known(result: Any) -> bool:
    """Whether (a part of) a result never changes: containers of what says what an array or a tree is like, of NumPy's
    classes of numbers, and of literals. What `jax.vjp` returns is none, though nothing moves and it holds no array:
    it knows shapes."""
    return _only_containers(result) and all(map(_is_description, jax.tree.leaves(result)))


def _is_description(x: Any) -> bool:
    if type(x) is jax.ShapeDtypeStruct:
        return all(type(d) is int for d in x.shape)
    if type(x) is slice:
        return all(map(is_literal, (x.start, x.stop, x.step)))
    if isinstance(x, type):
        return issubclass(x, np.generic)
    return is_literal(x) or is_numpy_dtype(x) or type(x) in LIMITS or type(x) in typed_scalar_types or (
        type(x) is TREEDEF and says_literals(x))


def _is_container(result: Any) -> bool:
    return type(result) in (tuple, list, dict) or is_bare_named_tuple(type(result))


def _is_size(cap: Capture, x: Any) -> bool:
    """Whether `x` is made of this capture's symbolic sizes; the program can have symbolic sizes of its own."""
    return type(x) is Size and x.scope is cap.sizes.scope


# --- nodes


def emit_node(cap: Capture, fn: Any, lowered: tuple, aval: Any, name: str | None = None, known: Any = None) -> Node:
    """The node of a call in the innermost body that runs; `lowered`: its arguments, as `lower_arg` has made them;
    known: what JAX has made of it."""
    args, kwargs = (finish_arg(cap, a) for a in lowered)
    builder = cap.bodies[-1].builder if cap.bodies else cap.graph.builder
    if known is not None and inputs_of((args, kwargs)) != list(dict.fromkeys(leaf_nodes(lowered))):
        known = None  # arrays stand in what a library has made
    node = builder.call(fn, args, kwargs, aval, cap.where(), name or label(fn).rpartition(".")[2], known)
    cap.graph.owner[node] = len(cap.bodies)
    if cap.bodies:
        cap.graph.homes[node] = cap.bodies[-1].serial
    cap.progress.captured_ops += 1
    return node


def finish_arg(cap: Capture, value: Any) -> Any:
    """A lowered argument as it stands in the Graph: Standins as Closures, LibraryVs as Nodes."""
    if isinstance(value, Standin):
        return _finish_standin(cap, value)
    if is_library_arg(value):
        key = (place_of(cap), tuple(tuple(id(graph) for graph, _ in s.ways.values()) for s in standins_in(value)))
        if key not in value.nodes:
            value.nodes[key] = emit_node(cap, value.make, (value.args, value.kwargs), None)
        return value.nodes[key]
    return map_parts(value, lambda v: finish_arg(cap, v))


def _finish_standin(cap: Capture, value: Standin) -> Any:
    """A Closure of the captured body, a node that chooses among several, or `never_called`."""
    ways = value.ways
    if not ways:
        return never_called
    if differ_by_bodies(tuple(ways)):
        raise Break("body", "a function that is called with one transformed function after another")
    if len(ways) > 1 and any(in_structure(structure, jax.core.Tracer) for (structure, _), _ in ways):
        raise Break("body", "a function called in several ways, by trees that keep arrays beside their leaves")
    closures = tuple(Closure(graph, tuple(localise(cap, n) for n in captured), value.signature)
                     for graph, captured in ways.values())
    return closures[0] if len(closures) == 1 else emit_node(cap, Dispatch(tuple(ways)), (closures, {}), None)


# --- results


def _pin(cap: Capture, whole: LibraryV, lowered: tuple) -> None:
    """Functions that a call has run stay as they were for what it returns: `jax.vjp` has differentiated them."""
    ran = [a for a in of_class(Standin, (*lowered[0], *lowered[1].values())) if a.ways]
    if ran:
        whole.lowered[place_of(cap)] = LibraryArg(maker(whole), *lowered)
    for standin in ran:
        standin.pinned = True


def _node(cap: Capture, call: Call, aval: Any) -> Node:
    target = under(cap, call.fn)
    node = emit_node(cap, target, call.lowered, aval, call.name, call.outcome.known if target is call.fn else None)
    if call.outcome.tells or call.outcome.calls:
        cap.graph.heard.add(node)
    return node


def _telling(cap: Capture, call: Call) -> Value:
    """What a call gives that prints, too: it stays in the Graph, whatever becomes of its results."""
    outcome = call.outcome
    if not outcome.plain:
        raise Break("effect", f"{label(call.fn)} prints")
    node = _node(cap, call, None)
    if not cap.bodies:
        cap.graph.telling.append(node)
    if id(outcome.result) in outcome.same:
        return outcome.same[id(outcome.result)]
    return _by_leaves(cap, node, outcome)


def _structured(cap: Capture, call: Call) -> Value:
    """Containers by `getitem` nodes; other pytree objects by their leaves."""
    outcome = call.outcome
    if not _all_containers(outcome.result):
        return _by_leaves(cap, _node(cap, call, None), outcome)
    node = _node(cap, call, jax.tree.map(_as_aval, outcome.result) if outcome.plain else None)
    return _split(cap, node, call.made(), outcome.result, outcome.same)


def _by_leaves(cap: Capture, node: Node, outcome: Outcome) -> Value:
    """The tree that a node gives, made of its leaves."""
    flat = emit_node(cap, jax.tree.leaves, ((node,), {}), tuple(map(_as_aval, outcome.leaves)), "leaves")
    return unflattened(cap, outcome.treedef, [_leaf(cap, flat, i, leaf) for i, leaf in enumerate(outcome.leaves)])


def _from_leaves(cap: Capture, call: Call) -> Value:
    """A library's object that a call gives whose class computes when it is unflattened: made so when it is needed."""
    outcome, node = call.outcome, _node(cap, call, None)
    flat = emit_node(cap, jax.tree.leaves, ((node,), {}), tuple(map(_as_aval, outcome.leaves)), "leaves")
    leaves = [_leaf(cap, flat, i, leaf) for i, leaf in enumerate(outcome.leaves)]
    held = ListV([from_python(cap, x) if not is_value(x) else x for x in leaves])
    return LibraryV(jax.tree.unflatten, (Const(outcome.treedef), held), real=outcome.result)


def _as_aval(leaf: Any) -> Any:
    """A leaf of a result as the Graph knows it, which must not keep Values alive."""
    if is_aval(leaf) and leaf.hardens:
        return replace(of_struct(leaf), weak_type=True)
    if is_value(leaf):  # a function
        return None
    return of_struct(leaf) if isinstance(leaf, (Passed, Counted)) else leaf


def _of_aval(cap: Capture, node: Node, leaf: Aval) -> ArrayV | NumberV:
    """The array of a Node, or the number of Python's that it is."""
    if leaf.hardens:
        node = emit_node(cap, jax.lax.convert_element_type, ((node, leaf.dtype), {}), of_struct(leaf), "hardened")
        return ArrayV(node, of_struct(leaf))
    return ArrayV(node, leaf) if leaf.number is None else NumberV(node, _as_aval(leaf), *leaf.number)


def _leaf(cap: Capture, flat: Node, i: int, leaf: Any) -> Any:
    if not is_aval(leaf):
        return leaf
    if leaf.value is not None:
        return leaf.value
    return _of_aval(cap, emit_node(cap, operator.getitem, ((flat, i), {}), _as_aval(leaf), f"leaf{i}"), leaf)


def _all_containers(result: Any) -> bool:
    if result is None or is_aval(result) or is_literal(result):
        return True
    if type(result) is dict:
        return all(map(_all_containers, result.values()))
    if type(result) in (tuple, list) or is_bare_named_tuple(type(result)):
        return all(map(_all_containers, result))
    return is_function_like(result) or jax.tree_util.all_leaves([result])


def _only_containers(result: Any) -> bool:
    """Whether all of a tree is in sight: no node of it keeps a function in its structure."""
    if is_function_like(result) or not _all_containers(result):
        return False
    inside = result.values() if type(result) is dict else result if isinstance(result, (tuple, list)) else ()
    return all(map(_only_containers, inside))


def _split(cap: Capture, node: Node, whole: LibraryV, result: Any, same: dict[int, Value]) -> Value:
    """The Value of a container result, one `getitem` node for each array in it; `same`: of its parts that exist."""
    if is_aval(result):
        return result.value or _of_aval(cap, node, result)
    if is_nothing(result):
        return Const(result)
    if _is_known(result):
        return from_python(cap, result)
    if type(result) is dict:
        return DictV({k: _element(cap, node, whole, k, v, same) for k, v in result.items()})
    if isinstance(result, (tuple, list)):
        items = [_element(cap, node, whole, i, v, same) for i, v in enumerate(result)]
        return ListV(items) if type(result) is list else TupleV(items, type(result))
    return whole


def _element(cap: Capture, node: Node, whole: LibraryV, key: Any, result: Any, same: dict[int, Value]) -> Value:
    if id(result) in same:
        return same[id(result)]
    if is_nothing(result):
        return Const(result)
    if is_aval(result) and result.value is not None:
        return result.value
    if _is_known(result):
        return from_python(cap, result)
    opaque = LibraryV(operator.getitem, (whole, Const(key)))
    if not (is_aval(result) or _is_container(result)):
        opaque.real = result
        return opaque
    plain = all(is_aval(x) or is_literal(x) for x in jax.tree.leaves(result))
    aval = jax.tree.map(_as_aval, result) if plain else None
    child = emit_node(cap, operator.getitem, ((node, key), {}), aval, f"{node.name}_{key}")
    return _split(cap, child, opaque, result, same)
