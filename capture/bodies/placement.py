"""Where arrays that do not exist yet will live, and which of them eager JAX has as tracers.

`x.sharding` of an array that the Graph computes is known when all inputs live on one device, the
default one, and nothing so far puts arrays elsewhere: then every operation gives arrays there. In a
function that JAX transforms, an array may be a tracer, which has no sharding: `is_traced` finds out
by running the Graph so far on the very tracers that the transformation passed, and `has_value` whether Python may look
at what is in it.
"""

from __future__ import annotations

from typing import Any

import jax
from jax._src.core import set_current_trace, subjaxprs
from jax._src.interpreters.batching import BatchTracer
from jax._src.interpreters.partial_eval import DynamicJaxprTracer
from jax.sharding import SingleDeviceSharding

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.inside_tracers import inmost
from dynacomp.capture.bodies.subgraphs import Body, stand_for
from dynacomp.capture.graph.avals import ARRAY_TYPE
from dynacomp.capture.graph.graph import GET_ATTR, PLACEHOLDER, Node, is_closure, is_node, leaves_in, nodes_in
from dynacomp.capture.graph.interpreter import materialise
from dynacomp.capture.symbolic.effects import Jitted
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.constant import Const, is_const, peek
from dynacomp.capture.values.questions import is_graph_array
from dynacomp.capture.values.value import Value

PLACING = {"sharding_constraint", "reshard", "mesh_cast", "shard_map", "pmap", "xla_pmap"}  # primitives
SHARDING_OF = {"sharding": lambda s: s, "device": lambda s: next(iter(s.device_set)),
               "is_fully_addressable": lambda s: True, "is_fully_replicated": lambda s: True,
               "committed": lambda s: False, "_committed": lambda s: False}


def puts_elsewhere(jaxpr: Any) -> bool:
    """Whether a call decides where its results live."""
    return any(_places(e) for e in jaxpr.eqns) or any(map(puts_elsewhere, subjaxprs(jaxpr)))


def _places(eqn: Any) -> bool:
    if eqn.primitive.name == "device_put":
        return any(d is not None for d in (*eqn.params.get("devices", ()), *eqn.params.get("srcs", ())))
    wanted = (*eqn.params.get("in_shardings", ()), *eqn.params.get("out_shardings", ()))
    return eqn.primitive.name in PLACING or any(map(is_specified, wanted))


def is_specified(sharding: Any) -> bool:
    """Whether an entry of `in_shardings` or `out_shardings` says something."""
    return sharding is not None and type(sharding).__name__ != "UnspecifiedValue"


def jit_places(jitted: Any) -> bool:
    """Whether a function under `jax.jit` is told there where its arrays shall live: it is more than its function."""
    told: Any = getattr(jitted, "_jit_info", None)
    return told is not None and bool(told.device or told.backend or any(
        map(is_specified, (*told.in_shardings_leaves, *told.out_shardings_leaves))))


def placement(cap: Capture, value: ArrayV, name: str) -> Value:
    """`value.sharding` and its kin, of an array that the Graph computes."""
    if is_traced(cap, value.node):
        raise _of_tracer(name)
    place = home(cap)
    if place is None:
        raise Break("placement", f"{name} of an array that the graph computes")
    return Const(SHARDING_OF[name](place))


def default_device() -> Any:
    """Where JAX makes arrays that nothing places: this device, or the first of this platform, or of the best one."""
    asked = jax.config.values["jax_default_device"]
    return asked if isinstance(asked, jax.Device) else jax.local_devices(backend=asked)[0]


def home(cap: Capture) -> SingleDeviceSharding | None:
    """The one place where everything lives; None where that is not certain."""
    default = SingleDeviceSharding(default_device())
    inputs = [g.payload[3:5] for g in cap.guards.guards if g.kind == "array"]
    if cap.libraries.placed or any(sharding != default or committed for sharding, committed in inputs):
        return None
    return default if jax.sharding.get_abstract_mesh().empty else None


def may_be_sharded(cap: Capture) -> bool:
    """Whether the types of arrays may say how they are divided among devices."""
    lie_on = (g.payload[3] for g in cap.guards.guards if g.kind == "array")
    return (cap.libraries.placed or not jax.sharding.get_abstract_mesh().empty
            or any(not isinstance(sharding, SingleDeviceSharding) for sharding in lie_on))


def may_part(cap: Capture) -> bool:
    """Whether arrays may live in several places, so that which way is taken may tell where a result lives."""
    lie_on = {g.payload[3:5] for g in cap.guards.guards if g.kind == "array"}
    return len(jax.local_devices()) > 1 and (may_be_sharded(cap) or len(lie_on) > 1)


def lives_at(cap: Capture, value: Value, device: Value) -> bool:
    """Whether an array surely lives where `device=` asks for one, and is no tracer."""
    asked = peek(device) if is_const(device) else None
    place = SingleDeviceSharding(asked) if isinstance(asked, jax.Device) else asked
    if place is None or not is_graph_array(value) or cap.under_trace or cap.effects.jitted:
        return False
    own = home(cap) if value.real is None else getattr(value.real, "sharding", None)
    return bool(own == place)


def _of_tracer(name: str) -> Break | Raised:
    """What asking a tracer comes to. It has no sharding; what else is asked for is an error of JAX's own."""
    if name != "sharding":
        return Break("placement", f"{name} of a value that a transformation traces")
    full = f"{ARRAY_TYPE.__module__}.{ARRAY_TYPE.__qualname__}"
    return Raised(Const(AttributeError(f"The {name!r} attribute is not available on traced array of {full}")))


# --- tracers

JITTED = DynamicJaxprTracer  # the class of those below `jax.jit`


def is_staged(cap: Capture) -> bool:
    """Whether JAX puts what runs at hand into a program that it compiles (below `jax.jit`, in the body of a `scan`) and
    runs nothing yet: an operation that has nothing to do gives back its very argument there."""
    at = next((i for i, b in reversed([*enumerate(cap.bodies, 1)]) if not b.is_side), 0)
    return bool(at and not cap.bodies[at - 1].inline or cap.effects.jitted and cap.effects.jitted[-1].depth >= at)


def is_tracer(cap: Capture, value: ArrayV, cls: type) -> bool:
    """Whether `value` is one of JAX's tracers of class `cls` where eager JAX runs the program; Break where that is not
    certain."""
    jitted = is_jitted(cap, value.node)
    if value.real is not None and not jitted:
        return issubclass(type(value.real), cls)
    traced = jitted or is_traced(cap, value.node)
    if cls is jax.core.Tracer or not traced:
        return traced
    if jitted:
        return issubclass(JITTED, cls)
    body = home_of(cap, value.node)
    given = None if body is None else body.actual.get(value.node)
    if not isinstance(given, jax.core.Tracer) or given._trace in cap.libraries.traces:
        raise Break("tracer", "which of JAX's tracers a value is")
    return issubclass(type(given), cls)


def is_jitted(cap: Capture, node: Node) -> bool:
    """Whether eager JAX has `node` as a tracer because a function under `jax.jit` that is being entered has been given
    it, or has computed it: there all operations are traced."""
    return any(_is_in(cap, node, call) for call in cap.effects.jitted) and not jax.config.values["jax_disable_jit"]


def _is_in(cap: Capture, node: Node, call: Jitted) -> bool:
    if node.op in (PLACEHOLDER, GET_ATTR):
        at = cap.graph.inputs.get(node)
        while at is not None and at not in call.given:
            at = S.base_of(at)
        return at is not None or node in call.given
    inner = {b.serial for b in cap.bodies[call.depth:] if not b.is_side}
    return node in call.given or node in call.nodes[call.before:] or cap.graph.homes.get(node) in inner


def is_traced(cap: Capture, node: Node) -> bool:
    """Whether `node` is a tracer where eager JAX runs the program; Break where that is not certain."""
    if is_jitted(cap, node):
        return True
    serial = cap.graph.homes.get(node)
    if serial is None and cap.root.traced:
        return _from_tracers(cap, node)
    if serial is None:
        return False
    body = next((b for b in cap.bodies if b.serial == serial), None)
    if body is None or body.is_side or any(b.is_side for b in cap.bodies):
        raise Break("placement", "whether a value is traced, in a side of an `if`")
    if not body.inline:
        return True
    found = _actual(cap, body, node)
    if isinstance(found, jax.core.Tracer) and found._trace in cap.libraries.traces[1:]:
        found = _made_around(cap, body, node)
    return isinstance(found, jax.core.Tracer) and found._trace is not cap.libraries.traces[0]


def _made_around(cap: Capture, body: Body, node: Node) -> Any:
    """What `node`, on which the transformation that calls `body` does not work, is made of in the body around it: there
    its operations run, under `vmap` as under `grad`. Break where that is not certain."""
    refusal = Break("placement", "whether a value is traced, in a function transformed twice")
    around = cap.bodies[:cap.bodies.index(body)]
    outer = around[0] if len(around) == 1 and around[0].inline and not cap.root.traced else None
    wanted = _needed(node)
    needed = [n for n in body.builder.nodes if n in wanted]
    given = {n: given_outside(body, n) for n in needed if n.op == PLACEHOLDER}
    if outer is None or None in given.values():
        raise refusal
    made: dict[Node, Any] = {}
    with set_current_trace(outer.trace):
        for n in needed:
            made[n] = _given_around(cap, given[n]) if n in given else _applied(body, n, made)
    return made[node]


def _given_around(cap: Capture, outer: Node | None) -> Any:
    assert outer is not None
    home = home_of(cap, outer)
    return stand_for(cap, outer) if home is None else _actual(cap, home, outer)


def has_value(cap: Capture, node: Node, by_tracers: bool = True) -> bool:
    """Whether eager JAX can look at the content of `node` here. In a function that `grad`, `jvp` and their kin call as
    Python does it can: a tracer of theirs has an array inside (by_tracers: that counts). No tracer of `vmap` has, nor
    what JAX compiles."""
    if is_jitted(cap, node):
        return False
    if not cap.under_trace:
        return True
    if cap.root.traced and not (by_tracers and _callers_show(cap)):
        return False
    body = home_of(cap, node)
    if body is None:
        return True
    running = [b for b in cap.bodies[:cap.bodies.index(body) + 1] if not b.is_side]
    if not all(b.inline for b in running):
        return False
    if not body.is_side:
        actual = _actual(cap, body, node)
        found = inmost(actual)
        if found is not actual and not by_tracers:
            return False
        if not isinstance(found, jax.core.Tracer) or found._trace is cap.libraries.traces[0]:
            return True
        if found._trace not in cap.libraries.traces:
            return False
    read = _read_outside(body, node)
    if None in read and any(isinstance(inmost(x), BatchTracer) for b in running for x in b.actual.values()):
        return False
    return all(has_value(cap, outer, by_tracers) for outer in read if outer is not None)


def _callers_show(cap: Capture) -> bool:
    """Whether that holds of all tracers that the frame has got so far of who calls it, guarded."""
    if not all(cap.known.shown.values()):
        return False
    for source in cap.known.shown:
        cap.guards.add("shows", source)
    return True


def home_of(cap: Capture, node: Node) -> Body | None:
    """The body at hand, or around it, that `node` is in."""
    serial = cap.graph.homes.get(node)
    return next((b for b in cap.bodies if b.serial == serial), None)


def _read_outside(body: Body, node: Node) -> list[Node | None]:
    """The Nodes of outer bodies that a Node of this one depends on; None for what a transformation makes."""
    return [given_outside(body, n) for n in _needed(node) if n.op == PLACEHOLDER]


def _needed(node: Node) -> dict[Node, None]:
    """What a Node is computed of, and itself."""
    todo: list[Any] = [node]
    found: dict[Any, None] = {}
    while todo:
        at = todo.pop()
        if at not in found:
            found[at] = None
            todo.extend(nodes_in((at.args, dict(at.kwargs))))
    return found


def given_outside(body: Body, node: Node) -> Node | None:
    """What a placeholder of a body is outside: what it has captured, or the array behind the tracer that it was given,
    in the body around it."""
    captured = next((o for o, inner in body.captured.items() if inner is node), None)
    return captured or body.stands.get(id(inmost(body.actual.get(node))), (None, None))[1]


def _from_tracers(cap: Capture, node: Node) -> bool:
    """Whether it is a tracer of the transformation that calls the program; Break where it is computed from one. What
    follows from arrays alone (a model's initial weights) is an array under each transformation."""
    tracers = {g.source for g in cap.guards.guards if g.kind == "tracer"}
    if cap.graph.inputs.get(node) in tracers:
        return True
    todo: list[Any] = [node]
    seen: set[Any] = set()
    while todo:
        at = todo.pop()
        if not (is_node(at) or is_closure(at)) or at in seen:
            continue
        seen.add(at)
        if is_node(at) and cap.graph.inputs.get(at) in tracers:
            raise Break("placement", "whether a value is traced, where a transformation of JAX calls the program")
        inside: Any = at
        todo.extend(inside.captured if is_closure(at) else leaves_in((inside.args, inside.kwargs)))
    return False


def _actual(cap: Capture, body: Body, node: Node) -> Any:
    """What `node` is inside a body that runs now: everything that stands before it is computed too."""
    nodes = body.builder.nodes
    while node not in body.actual:
        at = nodes[body.computed]
        body.computed += 1
        if at not in body.actual:
            with set_current_trace(body.trace):  # a call in the body may be evaluated, under a trace of its own
                body.actual[at] = _compute(cap, body, at)
    return body.actual[node]


def _compute(cap: Capture, body: Body, node: Node) -> Any:
    if node.op == PLACEHOLDER:
        return _given_around(cap, next(o for o, inner in body.captured.items() if inner is node))
    return _applied(body, node, body.actual)


def _applied(body: Body, node: Node, values: dict[Node, Any]) -> Any:
    """What a Node that is no placeholder gives for the values of others."""
    if node.op == GET_ATTR:
        return body.builder.consts[node.target]
    return node.target(*materialise(node.args, values), **materialise(dict(node.kwargs), values))
