"""Bodies: user functions that a JAX transformation calls, captured as sub-graphs.

A `Standin` is what JAX gets in place of the user's function. When JAX calls it with tracers, the
symbolic machine runs the function on like Values in a Builder of its own; the Graph so made is
then run on the tracers, so that JAX sees what the function computes. Outer arrays that the body
reads become extra placeholders ("captured"). A function that is called in several ways has a Graph
for each (see `body_variants`). A body may not change anything that is older than
itself: that would be a side effect under a transformation (see `side_effects.mutating`).
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jax._src import core
from jax._src.interpreters.partial_eval import DynamicJaxprTrace
from jax.extend.core import Literal

from dynacomp.capture.base.errors import Break, NeverCalled, Raised
from dynacomp.capture.base.inside_tracers import inmost
from dynacomp.capture.base.interrupts import suppressing
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bodies.body_variants import is_array, is_known, settled, way_of
from dynacomp.capture.bodies.function_signatures import signature_of
from dynacomp.capture.bodies.kept_traces import Kept, is_kept, keep, key_of, known
from dynacomp.capture.bodies.lossy_trees import has_lost
from dynacomp.capture.bodies.treedef_contents import is_marked
from dynacomp.capture.bodies.trees import arrange, unflattened
from dynacomp.capture.graph.answering import Answering
from dynacomp.capture.graph.avals import Aval, Counted, aval_of, blank, is_aval, weak
from dynacomp.capture.graph.graph import Builder, Graph, Node, Tree, closures_in, is_node, map_parts, nodes_in
from dynacomp.capture.graph.graph_sizes import aval as aval_with_sizes
from dynacomp.capture.graph.interpreter import materialise, run_body
from dynacomp.capture.graph.silence import Said, giving, noting, pass_on
from dynacomp.capture.graph.sizes import canonical
from dynacomp.capture.numbers.asked_numbers import Questions, asked
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import may_see, refuse_lasting
from dynacomp.capture.symbolic.undo_log import Watch
from dynacomp.capture.values.callables import FunctionV, MethodV, PartialV
from dynacomp.capture.values.computed import ArrayV, LibraryV
from dynacomp.capture.values.constant import is_const, peek
from dynacomp.capture.values.containers import SequenceV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_container, is_graph_number, is_made_function, is_object, is_sequence
from dynacomp.capture.values.value import MutableV, Value, children, next_serial
from dynacomp.capture.wrapping.constants import from_python


@dataclass(eq=False)
class Body:
    """A sub-graph under construction; `outer` is the builder of the outermost Graph."""

    builder: Builder
    outer: Builder
    level: int
    serial: int
    captured: dict[Node, Node] = field(default_factory=dict)  # outer node → placeholder here
    is_side: bool = False  # a side of an `if` on an array (see `branches`), not a transformed function
    saved: dict[Value, Any] = field(default_factory=dict)  # older objects that a side changed, as they were
    inline: bool = False  # its transformation calls it as Python does, effects and all
    fresh: bool = False  # a function made by this call, so that JAX cannot have kept a trace of it
    trace: Any = None  # JAX's, under which it called this
    actual: dict[Node, Any] = field(default_factory=dict)  # what nodes are on the tracers that it was given
    computed: int = 0  # how many nodes have been looked at for that
    changes: bool = False  # it changes objects that are older than itself
    numbers: bool = False  # it returns Python numbers that change from call to call
    said: set[str] = field(default_factory=set)  # what its calls have warned of, as far as it was noted
    counted: dict[Node, Counted] = field(default_factory=dict)  # the Python numbers that it has computed and returns
    stands: dict[int, Any] = field(default_factory=dict)  # the arrays for Nodes around it, by id
    assumes: bool = False  # what is checked outside of it holds for the arrays of one call (see `hoisting`)
    donated: dict[Node, Any] | None = None  # the arrays that each round of a loop deletes; None: it may not
    stand_ins: dict[Value, Value] = field(default_factory=dict)  # for dicts that each round makes anew (see `rebuilt`)
    as_given: set[Node] = field(default_factory=set)  # its arguments that are arrays which the library was given
    gives: Any = None  # what it returns, as that was lowered
    watch: Watch | None = None  # of one that JAX keeps: what it changes and leaves as it was is no change
    undecided: Node | None = None  # two floats met in it, and Python did not know which one this condition chooses

    @property
    def as_often(self) -> bool:
        """Whether it runs as often in eager JAX as here, so that what it changes outside may be noted."""
        return self.inline or self.fresh

    @classmethod
    def inside(cls, cap: Capture, name: str, **kind: Any) -> Body:
        """A body in the one at hand."""
        outer = cap.bodies[0].outer if cap.bodies else cap.graph.builder
        made = cls(Builder(name), outer, len(cap.bodies) + 1, next_serial(), **kind)
        cap.emptied.append(made)  # what it has saved refers to objects of the program
        return made


def localise(cap: Capture, node: Node) -> Node:
    """`node` as the body at hand sees it: itself, or the placeholder that carries it inside."""
    if node in cap.effects.donated:
        raise Break("deleted", "an array that was donated")
    if node in cap.graph.homes and cap.graph.homes[node] not in place_of(cap):
        raise Break("effect_in_body", "an array that has left the transformed function which computed it")
    for level in range(cap.graph.owner.get(node, 0), len(cap.bodies)):
        node = _lift(cap, cap.bodies[level], node)
    return node


def seen_inside(cap: Capture, node: Node) -> Node | None:
    """The same of an input of the Graph, None where the body at hand has not read it."""
    found: Node | None = node
    for body in cap.bodies:
        found = body.captured.get(found)
    return found


def _lift(cap: Capture, body: Body, node: Node) -> Node:
    if node not in body.captured:
        inner = body.builder.placeholder(node.name, node.aval, f"captured {node.name}")
        cap.graph.owner[inner], cap.graph.homes[inner] = body.level, body.serial
        body.captured[node] = inner
    return body.captured[node]


class Standin:
    """The function that JAX calls instead of the user's `value`.

    What it captured counts for the body in which it was called: Graphs of another body read other
    Nodes. `body_variants` has what belongs to the body at hand.
    """

    def __init__(self, cap: Capture, value: Value) -> None:
        self.cap, self.value = cap, value
        self.signature = signature_of(cap, value)
        self.graphs: dict[Any, tuple[Graph, tuple[Node, ...]]] = {}
        self.changing: set[Any] = set()  # the keys of `graphs` whose functions change outer objects
        self.assuming: set[Any] = set()  # those whose functions are checked outside, for what they were given
        self.since: dict[Any, int] = {}  # by key: how many changes the program had made when its Graph was captured
        self.pinned = False  # whether what it was when it was first called counts from then on
        self.first: set[Any] = set()  # the keys of `graphs` of which JAX has kept a trace: they are not run again
        self.numbers = False  # whether who calls it was given Python numbers that change from call to call
        self.counted: dict[Any, dict[Node, Counted]] = {}  # by key: the numbers that its Graph has computed and returns
        self.handing: dict[Any, dict[int, HandedOut]] = {}  # by key: the functions among the leaves that it returns
        self.found: dict[Any, dict[Any, tuple[Graph, tuple[Node, ...]]]] = {}
        self.functions: dict[Any, Callable[..., Any]] = {}
        self.said: set[str] = set()  # of what its Graphs warn, as far as it was noted when they were captured
        self.settled = 0  # how many sizes had been found equal to others when the keys were last looked through
        cap.emptied.append(self)  # its functions hold it, and it the program's

    @property
    def function(self) -> Callable[..., Any]:
        """A function of its own for each body: JAX keeps traces by function."""
        place = place_of(self.cap)
        if place not in self.functions:
            self.functions[place] = self._make(place)
        return self.functions[place]

    def forget_traces(self) -> None:
        """JAX is to trace it again, in the body at hand."""
        self.functions.pop(place_of(self.cap), None)

    def _make(self, place: tuple[int, ...]) -> Callable[..., Any]:
        def body(*args: Any, **kwargs: Any) -> Any:
            return self.called(place, args, kwargs)

        body.__name__ = body.__qualname__ = _own_name(self.value)  # which JAX writes into jaxprs and modules
        if self.signature is not None:
            body.__signature__ = self.signature  # type: ignore[attr-defined]
        body._standin = self  # type: ignore[attr-defined]
        return body

    def called(self, place: tuple[int, ...], args: tuple, kwargs: dict[str, Any]) -> Any:
        if not vars(self) or not self.cap.libraries.tracing:  # the Graph runs: an object of a library has kept this
            raise NeverCalled
        leaves, treedef = jax.tree.flatten((args, kwargs))
        if is_marked(treedef):
            raise Break("body", "a transformed function that is given a tree which its caller has marked")
        way = settled(way_of(args, kwargs))
        key = (place, way, tuple(aval_of(x).weak_type for x in leaves if is_array(x)))
        self._settle()
        if self.pinned and key not in self.graphs:
            self._take_from_around(key)
        kept = key_of(key[1:]) if self._is_kept(place) else None
        if kept is not None and key not in self.graphs:
            self._take_kept(key, known(self.cap, self.value, kept))
        if key not in self.graphs or self._is_to_run_again(key):
            body = Body.inside(self.cap, _name(self.value), inline=called_in_line(self.cap),
                               fresh=is_fresh(self.value) and not self.cap.libraries.derived,
                               stands=self.cap.libraries.stands, trace=core.trace_ctx.trace)
            given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
            lent = [k for k, x in given if id(x) in self.cap.libraries.lent]
            with giving():
                self.graphs[key] = capture_body(self.cap, self.value, body, leaves, treedef, lent, way[0][1])
            self.changing.update([key] if body.changes else [])
            self.assuming.update([key] if body.assumes else [])
            self.numbers = self.numbers or body.numbers
            self.said |= body.said
            self.since[key] = len(self.cap.effects.mutated)
            self.counted[key], self.handing[key] = body.counted, handed_out(self.cap, body)
            if kept is not None and not body.assumes:
                keep(self.cap, self.value, kept,
                     Kept(*self.graphs[key], self.counted[key], self.handing[key], self.said))
                self.first.add(key)
        elif key in self.changing and not (self.pinned or key in self.first or self.cap.libraries.derived):
            raise Break("effect_in_body", "a transformed function that changes outer objects is called twice")
        graph, captured = self.found.setdefault(place, {})[way] = self.graphs[key]
        real = self.cap.libraries.real
        asks = questions(self.cap)
        stands = [real[n] if n in real else asked(self.cap, stand_for(self.cap, n), n, asks) for n in captured]
        self.cap.libraries.stands.update((id(x), (x, n)) for s, n in zip(stands, captured) for x in (s, *_spelled(s)))
        said: list[Said] = []
        with noting(said):
            made = run_body(graph, stands, args, kwargs)
        pass_on([one for one in said if one.text not in self.said])  # rules warn: other calls have been heard
        if self.counted[key]:
            self._note_numbers(self.counted[key], graph.nodes[-1].args[0], made)
        return put_in(made, self.handing[key]) if self.handing.get(key) else made

    def _settle(self) -> None:
        """Two ways of calling it are one where the sizes that told them apart were found equal since: the later one."""
        known = len(self.cap.sizes.scope.equal)
        if known == self.settled:
            return
        self.settled = known
        self.graphs = {settled(k): v for k, v in self.graphs.items()}
        self.since = {settled(k): v for k, v in self.since.items()}
        self.counted = {settled(k): v for k, v in self.counted.items()}
        self.handing = {settled(k): v for k, v in self.handing.items()}
        self.changing, self.assuming = set(map(settled, self.changing)), set(map(settled, self.assuming))
        self.first = set(map(settled, self.first))
        self.found = {place: {settled(way): v for way, v in ways.items()} for place, ways in self.found.items()}

    def _is_kept(self, place: tuple[int, ...]) -> bool:
        """Whether eager JAX keeps a trace of this function, and the one that it keeps is of this very call."""
        return is_kept(self.functions.get(place)) and is_fresh(self.value) and not self.cap.libraries.derived

    def _take_kept(self, key: Any, kept: Kept | None) -> None:
        if kept is not None:
            self.graphs[key] = kept.graph, tuple(localise(self.cap, n) for n in kept.outer)
            self.since[key] = len(self.cap.effects.mutated)
            self.counted[key], self.handing[key] = kept.counted, kept.handing
            self.said |= kept.said
            self.first.add(key)

    def _take_from_around(self, key: Any) -> None:
        """The Graph of a call around the body at hand is that of one inside: the function was run there."""
        place, *like = key
        for n in reversed(range(len(place))):
            around = place[:n], *like
            if around in self.graphs:
                graph, captured = self.graphs[around]
                self.graphs[key] = graph, tuple(localise(self.cap, n) for n in captured)
                self.since[key], self.counted[key] = self.since[around], self.counted[around]
                self.handing[key] = self.handing[around]
                return

    def _note_numbers(self, counted: dict[Node, Counted], output: Any, made: Any) -> None:
        """Notes which of the arrays that JAX gets are numbers of Python's: those that it hands through stay such."""
        for node, x in zip(jax.tree.leaves(materialise(output, Itself())), jax.tree.leaves(made), strict=True):
            node = node.args[0] if is_node(node) and node.target is weak else node
            if is_node(node) and node in counted:
                self.cap.libraries.counted[id(inmost(x))] = inmost(x), counted[node]

    def _is_to_run_again(self, key: Any) -> bool:
        """Whether its Graph does not count for this call: others are checked, or see what the program has changed."""
        fixed = self.pinned or key in self.changing or key in self.first
        return not fixed and (key in self.assuming or self._outdated(key))

    def _outdated(self, key: Any) -> bool:
        """Whether the program has changed what the function may read, since its Graph was captured."""
        since, self.since[key] = self.since[key], len(self.cap.effects.mutated)
        return self.since[key] > since and may_see(self.cap, self.value, since)

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Forgets what is captured within the block."""
        before = dict(self.graphs), {place: dict(ways) for place, ways in self.found.items()}, self.numbers
        try:
            yield
        finally:
            self.graphs, self.found, self.numbers = before

    @property
    def ways(self) -> dict[Any, tuple[Graph, tuple[Node, ...]]]:
        """Way of calling → the captured Graph and the outer Nodes it reads; empty while never called."""
        self._settle()
        return self.found.get(place_of(self.cap), {})


def _spelled(array: Any) -> list[Any]:
    """The number by which a jaxpr spells an array out, if it does."""
    known = getattr(array, "val", None)
    return [known.val] if isinstance(known, Literal) else []


def place_of(cap: Capture) -> tuple[int, ...]:
    """The body at hand, as a key."""
    return tuple(b.serial for b in cap.bodies)


def never_called(*args: Any, **kwargs: Any) -> Any:
    """Stands in a Graph for a function that the library has not called while capturing: the rules of
    `jax.custom_vjp` when nothing is differentiated. Capture learns of a call from the exception."""
    raise NeverCalled


never_called._standin = None  # type: ignore[attr-defined]


class HandedOut:
    """A function of the program's that a body returns, in a tree, and that nobody has called: `function` is what its
    transformation gets. In the Graph it is `never_called`."""

    ways: Mapping[Any, Any] = types.MappingProxyType({})

    def __init__(self, cap: Capture, value: Value) -> None:
        self.value = value
        self.function = types.FunctionType(never_called.__code__, globals(), "never_called")
        self.function._standin = self  # type: ignore[attr-defined]
        cap.emptied.append(self)


def handed_out(cap: Capture, body: Body) -> dict[int, HandedOut]:
    """By their places among the leaves of what a body returns the functions that were there before it."""
    lowered, body.gives = body.gives, None
    found: dict[int, HandedOut] = {}
    if not _has_function(lowered):
        return found
    with suppressing(Exception):  # a class computes when it is put together
        for i, leaf in enumerate(jax.tree.leaves(materialise(lowered, Itself()))):
            if isinstance(leaf, Standin) and (is_const(leaf.value) or leaf.value.serial < body.serial):
                found[i] = HandedOut(cap, leaf.value)
    return found


def _has_function(lowered: Any) -> bool:
    inside: list[Any] = []
    map_parts(lowered, inside.append)
    return any(isinstance(part, Standin) or _has_function(part) for part in inside)


def put_in(made: Any, functions: dict[int, HandedOut]) -> Any:
    """What a body has `made`, with these functions among its leaves."""
    leaves, treedef = jax.tree.flatten(made)
    found = [functions[i].function if i in functions and x is never_called else x for i, x in enumerate(leaves)]
    again = jax.tree.unflatten(treedef, found)
    return made if has_lost(made, again) else again


def called_in_line(cap: Capture) -> bool:
    """Whether the transformation that calls a Standin now (`grad`, `vmap`, `jvp`, ...) just runs it, on
    tracers of its own: then it does so in eager JAX, as often as here. One that traces a jaxpr keeps it."""
    trace = core.trace_ctx.trace
    while trace is not None and trace not in cap.libraries.traces[-1:]:  # none while `reach_rules` runs
        trace = None if isinstance(trace, DynamicJaxprTrace) else getattr(trace, "parent_trace", None)
    return trace is not None


def is_fresh(fn: Value) -> bool:
    """Whether eager JAX sees this function for the first time whenever the captured code runs."""
    fresh = kind(fn).fresh
    return fresh is not None and fresh(fn)


define(MethodV, Kind(fresh=lambda v: is_fresh(v.func) or is_fresh(v.obj)))
define(ObjectV, Kind(fresh=lambda v: v.source is None and v.cls.__hash__ is object.__hash__))
define(FunctionV, Kind(fresh=lambda v: v.source is None))
define(PartialV, Kind(fresh=lambda v: v.source is None))


def capture_body(cap: Capture, fn: Value, body: Body, leaves: list[Any], treedef: Any,
                 lent: Sequence[int | str] = (), orders: Any = ()) -> tuple[Graph, tuple[Node, ...]]:
    """Runs `fn` symbolically on Values like `leaves`; its Graph and the outer Nodes that it reads. lent: places and
    names of arguments that the transformation hands on as they are: by them, `jax.grad` does not differentiate.
    orders: see `body_variants.orders`."""
    cap.bodies.append(body)
    try:
        places = [_place(cap, body, i, leaf) for i, leaf in enumerate(leaves)]
        body.actual.update(zip((node for node, _ in places), leaves))
        given: Any = unflattened(cap, treedef, [value for _, value in places])
        arrange(given, orders)
        args, kwargs = given.items
        since = len(cap.effects.mutated)
        with _watched(cap, body):
            result = result_of(cap, fn, args.items, kwargs.items)
        _refuse_changes(cap, [(args if type(k) is int else kwargs).items[k] for k in lent], since)
        output = _given_back(result, cap.node_argument(result), _parts(given))
        body.counted = {localise(cap, v.node): Counted((), v.aval.dtype, v.aval.weak_type, (v.kind, v.low, v.high))
                        for v in _returned(result) if is_graph_number(v)}
        body.numbers = not _numbers(cap).isdisjoint(_handed(output))
        body.actual.clear()  # tracers must not outlive their trace
        body.stands, body.trace = {}, None
        graph = body.builder.finish(output)
        arrays: tuple[dict[Node, Any], ...] = cap.libraries.numpys, cap.libraries.handed
        for known in arrays:
            known.update({outer: known[inner] for outer, inner in body.captured.items() if inner in known})
    finally:
        cap.bodies.pop()
    order = {n: i for i, n in enumerate(body.captured.values())}
    own = [node for node, _ in places]
    nodes = sorted(graph.placeholders, key=lambda n: order.get(n, len(order) + (own.index(n) if n in own else 0)))
    rest = [n for n in graph.nodes if n.op != "placeholder"]
    return Graph((*nodes, *rest), graph.consts, graph.name), tuple(body.captured)


@contextlib.contextmanager
def _watched(cap: Capture, body: Body) -> Iterator[None]:
    """Breaks where a body that JAX keeps leaves something else than it has found."""
    if body.as_often:
        yield
        return
    body.watch = Watch()
    cap.effects.watches.append(body.watch)
    try:
        yield
        refuse_lasting(body)
    finally:
        cap.effects.watches.remove(body.watch)
        body.watch = None


def _refuse_changes(cap: Capture, lent: list[Value], since: int) -> None:
    """Breaks where the body has changed an argument that stands for an object of the program's: that changes, too."""
    ids = {id(v) for v in cap.effects.mutated[since:]}
    if ids and any(id(part) in ids for value in lent for part in (value, *_parts(value, (MutableV, ObjectV)))):
        raise Break("effect_in_body", "a change to an argument that the transformation hands on as it is")


def _parts(given: Value, kinds: Any = (ObjectV, SequenceV)) -> Iterator[Value]:
    """The trees in what a body is called with, as far as it has looked at them."""
    inside = given.attrs.values() if is_object(given) else children(given)
    for part in of_class(Value, inside):
        if isinstance(part, kinds):
            yield part
        if is_container(part) or is_object(part):
            yield from _parts(part, kinds)


def _returned(result: Value) -> Iterator[Any]:
    """What a body returns, and all that this holds."""
    yield result
    for part in of_class(Value, result.attrs.values() if is_object(result) else children(result)):
        yield from _returned(part)


def _given_back(result: Value, output: Any, parts: Iterable[Value]) -> Any:
    """`output`, which stands for `result`, with notes of what in it are parts of the body's arguments, as they were:
    libraries may ask for their identity (`eqx.tree_at`)."""
    known = {id(part) for part in parts}

    def noted(value: Value, arg: Any) -> Any:
        if id(value) in known and any(nodes_in(arg)) and not any(closures_in(arg)):
            with suppressing(Exception):  # its class computes when it is put together
                leaves, treedef = jax.tree.flatten(materialise(arg, Itself()))
                return Tree(treedef, tuple(leaves), given=True)
        if is_sequence(value) and type(arg) in (tuple, list) and len(arg) == len(value.items):
            return type(arg)(map(noted, value.items, arg))
        return arg

    return noted(result, output) if known else output


class Itself(dict[Any, Any]):
    """Nodes for Nodes."""

    def __missing__(self, node: Any) -> Any:
        return node


def questions(cap: Capture) -> Questions:
    """The numbers that libraries ask something, by their Nodes in the body at hand."""
    known = cap.numbers.scalar_nodes if cap.lessons.answers else {}
    read = {v.source: v for _, v in cap.numbers.scalar_reads}
    found = {node: read[source] for source, node in known.items() if source in read}
    return {inside: (node.target, v) for node, v in found.items() if isinstance(node.target, Answering)
            and (inside := seen_inside(cap, node)) is not None}


def _numbers(cap: Capture) -> set[Node]:
    """The Nodes that carry changing Python numbers, also into the bodies at hand."""
    found = set(cap.numbers.scalar_nodes.values())
    for body in cap.bodies:
        found.update(inner for outer, inner in body.captured.items() if outer in found)
    return found


def _handed(output: Any) -> Iterator[Node]:
    """The Nodes in what a body returns, also those that objects are made of."""
    for node in nodes_in(output):
        yield node
        if node.op != "placeholder" and not is_aval(node.aval):
            yield from _handed((node.args, node.kwargs))


def result_of(cap: Capture, fn: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What a body returns. What it raises may speak of tracers: Python is to raise it."""
    try:
        return cap.call(fn, args, kwargs)
    except Raised as raised:
        raise Break("raises", f"an exception leaves {_name(fn)}") from raised


def _place(cap: Capture, body: Body, i: int, leaf: Any) -> tuple[Node, Value]:
    aval = aval_of(leaf) if is_array(leaf) else Aval((), type(leaf))
    node = body.builder.placeholder(f"arg{i}", aval, f"argument {i}")
    cap.graph.owner[node], cap.graph.homes[node] = body.level, body.serial
    passed = cap.libraries.passing.get(id(leaf)) or cap.libraries.unread.get(id(leaf))
    if passed is not None:  # a number that JAX hands on as it is, as `vmap` does along no axis; an object
        return node, passed[1]
    if is_array(leaf):
        body.as_given.update([node] if id(leaf) in cap.libraries.stands else [])
        return node, ArrayV(node, aval)
    standin = getattr(leaf, "_standin", None)
    if isinstance(standin, (Standin, HandedOut)):
        return node, standin.value
    return node, from_python(cap, leaf) if is_known(leaf) else LibraryV(type(leaf), real=leaf, node=node)


def stand_for(cap: Capture, node: Node) -> Any:
    """Some array of the node's Aval: only shapes matter while the caller is traced, and sizes that were found equal
    since the node was made are one. An object is itself."""
    if isinstance(node.aval.dtype, type):
        return passed_object(cap, node)
    aval = aval_with_sizes(node.aval, canonical)
    return blank(aval.shape, aval.dtype, aval.weak_type)


def passed_object(cap: Capture, node: Node) -> Any:
    """What is no array and JAX has passed to the body at hand, or to one around it: a function that it made, say."""
    for body in reversed(cap.bodies):
        if node in body.actual:
            return body.actual[node]
        node = next((outer for outer, inner in body.captured.items() if inner is node), node)
    raise Break("argument", "an object that JAX has passed to a body, in another one")


def _own_name(value: Value) -> str:
    """What the program calls a function."""
    if is_made_function(value):
        return value.name
    return getattr(peek(value) if is_const(value) else None, "__name__", "body")


def _name(value: Value) -> str:
    """The same as the name of a Graph."""
    name = _own_name(value)
    return "lambda_" if name == "<lambda>" else name
