"""What a call of a library returns, and does, found by running it on tracers.

`evaluated(cap, fn, lowered, since)` traces the call once (see `traces`): its result with an Aval for each array
(`Outcome`), and the arguments as the Graph will hold them. The bodies among the arguments are captured meanwhile.
Where tracing fails, the program gets its exception, or the graph breaks.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import jax.ref
import numpy as np
from jax._src.checkify import Error
from jax._src.core import NamedAxisEffect, subjaxprs, trace_ctx
from jax._src.debugging import debug_effect
from jax._src.interpreters import mlir
from jax.extend.core import ClosedJaxpr, Jaxpr, primitives

from dynacomp.capture.base.errors import Break, Raised, Restart, had_no_room
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bodies.lossy_trees import has_lost, note_again, put_together
from dynacomp.capture.bodies.placement import is_staged, puts_elsewhere
from dynacomp.capture.bodies.subgraphs import passed_object, questions, seen_inside
from dynacomp.capture.graph.avals import ARRAY_TYPE, is_aval, of_struct
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.graph.graph_sizes import sizes_in
from dynacomp.capture.graph.known_traces import has_rules, known_trace, without_dead
from dynacomp.capture.graph.sizes import Size, canonical
from dynacomp.capture.hosting.code_names import asks_for_class, asks_for_types
from dynacomp.capture.hosting.hosted import refuse_given_back
from dynacomp.capture.numbers import size_values
from dynacomp.capture.numbers.asked_numbers import asked
from dynacomp.capture.numbers.narrowing import hold_narrowed
from dynacomp.capture.symbolic.libraries import is_host, is_library, label
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing import alike_calls
from dynacomp.capture.tracing.donors import refuse_inside
from dynacomp.capture.tracing.endless_loops import may_not_end
from dynacomp.capture.tracing.failures import (
    Failed,
    can_be_called,
    enter_class,
    enter_next,
    enter_others,
    is_defect,
    zeros,
)
from dynacomp.capture.tracing.given_numpys import with_numpys
from dynacomp.capture.tracing.handed_on import always_anew, handed, handed_back, handed_on, one_level
from dynacomp.capture.tracing.lowered_parts import (
    called_by,
    fails_now,
    given_sizes,
    leaf_nodes,
    library_args,
    lowered_sizes,
    maker_of,
    may_be_asked,
    one_to_hold,
    parts,
    rebuild,
    run_now,
    shows_values,
    sizes_as_numbers,
    standins_in,
)
from dynacomp.capture.tracing.passthrough import (
    as_numbers,
    depends,
    is_of_jax,
    once_more,
    typed,
    with_arrays,
    with_numbers,
)
from dynacomp.capture.tracing.traces import (
    CONCRETE,
    has_unknown_axis,
    needs_values,
    on_objects,
    on_tracers,
    program_error,
    traced,
)
from dynacomp.capture.values.computed import NeedsConcrete, ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.class_prototypes import makes_classes

JAXS = {p for p in vars(primitives).values() if hasattr(p, "bind")}
PLATFORMS = {"gpu": ("cuda", "rocm")}  # what JAX's table of lowerings calls a backend


@dataclass(eq=False)
class Outcome:
    """What `eval_shape` saw: the result (pytree whose array leaves are Avals)."""

    result: Any
    treedef: Any
    leaves: list[Any]
    origins: list[Node | None]  # for each leaf the Node that came out of the call as it went in
    tells: bool = False  # it prints, too
    calls: bool = False  # it calls functions of Python's when the Graph runs
    whole: bool = True  # `result` is put together of Avals; else of tracers: its class computes when it is unflattened
    same: dict[int, Value] = field(default_factory=dict)  # by identity the parts of `result` that are arguments
    alone: bool = False  # this result is all that the call does
    known: Any = None  # its KnownTrace, where that may stand for the call

    @property
    def plain(self) -> bool:
        """Arrays and literals only: tracing can carry it."""
        return all(is_aval(x) or is_literal(x) for x in self.leaves)

    @property
    def has_arrays(self) -> bool:
        return any(map(is_aval, self.leaves))


def evaluated(cap: Capture, fn: Any, lowered: Any, since: int) -> tuple[Outcome, Any]:
    """What the call returns, and its arguments as they are in the Graph."""
    call = alike_calls.seen_as(cap, fn, lowered)
    outcome, cap.libraries.said = alike_calls.known(cap, call), []
    if outcome is not None:
        return outcome, lowered
    outcome, passed = evaluated_anew(cap, fn, lowered, since)
    if not cap.libraries.said:
        alike_calls.remember(cap, call, fn, lowered, outcome)
    return outcome, passed


def evaluated_anew(cap: Capture, fn: Any, lowered: Any, since: int) -> tuple[Outcome, Any]:
    """The same of a call like which there was none. Of symbolic sizes JAX takes some as they are, some (indices) as
    arrays; where it takes neither, they are constants: those that it is given first, shapes seldom are to blame."""
    decided = len(cap.sizes.scope.relations)
    try:
        outcome = abstract(cap, fn, lowered[0], lowered[1], since)
    except Failed as failed:
        error = failed.args[0]
    except NeedsConcrete as needed:
        _enter_makers(cap, lowered)
        needed.hosted = needed.hosted or is_host(maker_of(fn, lowered))
        raise
    else:
        _ask_arrays(cap, fn, lowered, outcome)
        _hold_looked_at(cap, fn, lowered)
        if len(cap.sizes.scope.relations) == decided:
            _hold_compared(cap, fn, lowered, outcome)
        return outcome, lowered
    if had_no_room(error):
        raise error
    if len(cap.sizes.scope.relations) > decided:  # sizes that were found equal half-way are one size from the start now
        with contextlib.suppress(Failed):
            return abstract(cap, fn, lowered[0], lowered[1], since), lowered
    blamed = lowered_sizes(lowered)
    if not blamed and shows_values(lowered):  # functions and objects of libraries, made with sizes maybe
        blamed = [*of_class(Size, map(canonical, map(cap.sizes.scope.symbol, cap.sizes.dims)))]
    concrete = isinstance(error, CONCRETE)
    if not concrete and size_values.made_one(cap, blamed):
        with contextlib.suppress(Failed):
            return abstract(cap, fn, lowered[0], lowered[1], since), lowered
    if concrete and size_values.takes_sides(cap, blamed):
        raise Restart()
    if concrete:
        _hold_given(cap, fn, lowered, error)
    if concrete and (not may_be_asked(lowered) or not blamed and is_host(fn)):
        raise needs_values(cap, fn, error)
    if not blamed:
        raise Raised(Const(program_error(cap, fn, lowered, error)), chained=True) from None
    numbers = sizes_as_numbers(lowered)
    try:
        return abstract(cap, fn, numbers[0], numbers[1], since), numbers
    except Failed:
        pass
    except Break as broke:
        if size_values.takes_sides(cap, blamed):
            raise Restart() from None
        if broke.kind != "concrete":
            raise
    if fails_now(cap, fn, lowered):
        raise needs_values(cap, fn, error) if concrete else Break("raises", type(error).__name__)
    if is_defect(error):
        raise error
    makers = (made.make for made in library_args(lowered) if not is_host(made.make))
    enter_next(cap, fn, [*parts(lowered), *makers])
    what = f"{label(fn)}: {error}".partition("\n")[0]
    held = given_sizes(lowered) or one_to_hold(cap, fn, lowered, blamed)
    size_values.freeze(cap, held, what, hosted=is_host(maker_of(fn, lowered)))
    raise Restart()


DIFFERING = ((operator.eq, False), (operator.ne, True))  # what each says of two that are not equal


def _hold_given(cap: Capture, fn: Any, lowered: tuple, error: Exception) -> None:
    """Restart with the sizes as constants that a host is given: the code that it runs asks `int(n)`, and entering a
    host would not help, whose modules' state is out of sight."""
    given = given_sizes(lowered) if is_host(maker_of(fn, lowered)) else []
    if given:
        size_values.freeze(cap, given, f"{label(fn)}: {error}".partition("\n")[0], hosted=True)
        raise Restart()


def _hold_looked_at(cap: Capture, fn: Any, lowered: tuple) -> None:
    """The same where the program looks at the equations of a jaxpr: of sizes that are not known there are others."""
    sizes = lowered_sizes(lowered) if fn is getattr and lowered[0][1:] == ("eqns",) else ()
    if sizes:
        size_values.freeze(cap, sizes, "the equations of a jaxpr")
        raise Restart()


def _hold_compared(cap: Capture, fn: Any, lowered: tuple, outcome: Outcome) -> None:
    """Restart with the sizes as constants of which two objects were made that differ, though no size was asked for:
    a class of C's compares hashes, and those of other sizes may be equal (`x.aval == aval`)."""
    differ = any(fn is asked and any(x is answer for x in outcome.leaves) for asked, answer in DIFFERING)
    compared = lowered_sizes(lowered) if differ else ()
    if compared:
        size_values.freeze(cap, compared, f"{label(fn)} of objects made of sizes")
        raise Restart()


def _ask_arrays(cap: Capture, fn: Any, lowered: Any, outcome: Outcome) -> None:
    """Break where a call answers True or False, and otherwise for arrays than for tracers: it asks which they are
    (`item.is_traced()`). The next attempt enters it. Bodies are called with tracers in eager JAX, too."""
    nodes = list(dict.fromkeys(leaf_nodes(lowered)))
    asks = bool(nodes and outcome.leaves) and all(type(x) is bool for x in outcome.leaves)
    avals = [n.aval for n in nodes] if asks and not cap.bodies and not shows_values(lowered) else []
    if not avals or not can_be_called(avals):
        return
    try:
        answer = on_tracers(cap, fn, lowered[0], lowered[1], dict(zip(nodes, map(zeros, avals))))
    except ours(Exception):
        answer = None
    if jax.tree.leaves(answer) != outcome.leaves:
        enter_others(cap, fn)
        raise Break("tracer", f"{label(fn)} asks which arrays JAX traces")


def _enter_makers(cap: Capture, lowered: Any) -> None:
    """Restart where the next attempt is to make an object, which a library's class has made of a changing number for a
    call that fails, as the program's are: it may have asked whether that is an int (`optax.MultiSteps(tx, k)`)."""
    numbers = {seen_inside(cap, node) for node in cap.numbers.scalar_nodes.values()}
    for made in library_args(lowered):
        if isinstance(made.make, type) and not numbers.isdisjoint(leaf_nodes((made.args, made.kwargs))):
            enter_class(cap, made.make)


def _enter_maker(cap: Capture, fn: Any, lowered: tuple) -> None:
    """Restart where the next attempt is to enter what has made an object that is more than its tree, else a Break."""
    called = called_by(fn, lowered)
    if not is_host(called):
        enter_class(cap, called)
        enter_others(cap, called)
        raise Break("opaque", f"{label(called)} gives an object that is more than its tree")


@dataclass(eq=False)
class Trace:
    """One run of a call on tracers: what it has made there, and where in the Graph that comes from."""

    jaxpr: Any = None
    made: Any = None
    tree: Any = None
    leaves: list[Any] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)  # of the jaxpr's arguments
    origins: list[Any] = field(default_factory=list)  # the Nodes that leaves are as they came in; None for others
    counted: list[Any] = field(default_factory=list)  # which numbers of Python's leaves are; None for others
    handed: Any = None
    again: Any = None  # what it has made, put together again, where that may lose something
    stands: dict[int, Any] = field(default_factory=dict)  # what stood for Nodes that its functions read, by identity
    passes: bool = False  # whether an object stands among the arguments that a transformation has passed


def abstract(cap: Capture, fn: Any, args: tuple, kwargs: dict[str, Any], since: int) -> Outcome:
    """Runs the call on tracers; exceptions of the call become the program's. `since`: the step of its arguments."""
    seen = _with_closed_over(cap, fn, args, kwargs)
    if cap.sizes.dims and has_unknown_axis(seen.jaxpr.jaxpr):
        raise Failed(TypeError("an axis that changes"))
    tells = may_tell(cap, fn, seen.jaxpr)
    endless, elsewhere = may_not_end(seen.jaxpr.jaxpr), puts_elsewhere(seen.jaxpr.jaxpr)
    if cap.graph.checks and endless:
        cap.ask_at_once()
    cap.libraries.placed = cap.libraries.placed or elsewhere
    calls, donates = calls_back(seen.jaxpr.jaxpr), refuse_inside(cap, seen.jaxpr.jaxpr)
    _refuse_trace(fn, (args, kwargs), seen, calls)
    _refuse_texts(cap, fn, (args, kwargs), seen)
    if has_lost(seen.made, seen.again):
        _enter_maker(cap, fn, (args, kwargs))
    avals, deep = iter(seen.jaxpr.out_avals), iter(depends(seen.jaxpr.jaxpr))
    reached = [_is_array(x) and next(deep) for x in seen.leaves]
    leaves = [_result_leaf(next(avals)) if _is_array(x) else x for x in seen.leaves]
    origins = _origins(cap, fn, (args, kwargs), seen)
    if is_of_jax(called_by(fn, (args, kwargs))):
        through = [None if was is found else found for found, was in zip(origins, seen.origins)]
        shown = typed(cap, fn, (args, kwargs), seen.leaves, seen.jaxpr)
        leaves = as_numbers(cap, fn, (args, kwargs), leaves, shown, through, seen.stands)
    leaves = with_numbers(cap, fn, (args, kwargs), seen.tree, leaves, origins, reached, since)
    leaves = with_arrays(cap, seen.tree, leaves, origins)
    leaves = with_numpys(cap, fn, (args, kwargs), seen.tree, leaves, origins)
    leaves = [number or leaf for leaf, number in zip(leaves, seen.counted)]
    try:
        result = _put_together(seen.tree, leaves)
    except Break:
        again = seen.again is not None and is_library(type(seen.made)) and not has_lost(seen.made, seen.again)
        if tells or not (isinstance(fn, type) or again):
            raise
        return Outcome(seen.made, seen.tree, leaves, origins, calls=calls, whole=False)
    _order_keys(seen.made, result)
    if seen.again is not None:
        note_again(seen.made, result)
    back = handed_back(seen.made, result, seen.handed)
    pure = not (seen.jaxpr.effects or tells or elsewhere or seen.passes or donates)
    return Outcome(result, seen.tree, leaves, origins, tells, calls, same=back, alone=pure and not (endless or back),
                   known=_known(cap, (args, kwargs), seen, result) if pure else None)


def _known(cap: Capture, lowered: tuple, seen: Trace, result: Any) -> Any:
    """What JAX has traced, where the call's arrays alone decide it: no number that changes is among them, and of the
    program's functions none has an array of its own, for which another stood, or is asked for later by a rule. Where
    the frame has made a class nothing is kept, for it may refer to that."""
    if makes_classes(cap):
        return None
    numbers = {seen_inside(cap, node) for node in cap.numbers.scalar_nodes.values()}
    ways = [way for s in standins_in(lowered) for way in s.ways.values()]
    if not numbers.isdisjoint(seen.nodes) or any(seen.counted) or any(captured for _, captured in ways):
        return None
    needed = without_dead(seen.jaxpr) if ways else seen.jaxpr
    return None if ways and has_rules(needed.jaxpr) else known_trace(needed, result)


def _with_closed_over(cap: Capture, fn: Any, args: tuple, kwargs: dict[str, Any]) -> Trace:
    """The call on tracers, also for the arrays that functions among its arguments have read from around them where
    somebody gets a jaxpr of these: it would hold what stands for an array. (`eqx.filter_closure_convert` gives an
    object whose leaves are a jaxpr and its constants.)"""
    known = _closed_over(cap, (args, kwargs))
    seen = _on_nodes(cap, fn, args, kwargs, known)
    standins = list(standins_in((args, kwargs)))
    if any(isinstance(x, JAXPRS) for x in seen.leaves):
        cap.libraries.spelled.update((id(s.value), s.value) for s in standins)
    closed = _closed_over(cap, (args, kwargs))
    if len(closed) == len(known):
        return seen
    for standin in standins:
        standin.forget_traces()
    return _on_nodes(cap, fn, args, kwargs, closed)


def _closed_over(cap: Capture, lowered: Any) -> list[Node]:
    """The arrays around functions of which somebody has a jaxpr, as far as these were called."""
    spelled = (s for s in standins_in(lowered) if id(s.value) in cap.libraries.spelled)
    read = dict.fromkeys(n for s in spelled for _, captured in s.ways.values() for n in captured)
    return [n for n in read if not isinstance(n.aval.dtype, type)]


def _on_nodes(cap: Capture, fn: Any, args: tuple, kwargs: dict[str, Any], closed: Iterable[Node] = ()) -> Trace:
    """The call with a tracer for each Node among its arguments, and those that functions of the program close over."""
    every = list(dict.fromkeys((*leaf_nodes((args, kwargs)), *closed)))
    passed = {n: passed_object(cap, n) for n in every if isinstance(n.aval.dtype, type)}
    nodes = [n for n in every if n not in passed]
    known = cap.numbers.scalar_nodes
    numbers = {known[v.source]: v for _, v in cap.numbers.scalar_reads if v.source in known}
    known_questions = questions(cap)
    seen = Trace(passes=bool(passed))

    def run(*given: Any) -> list[Any]:
        if not is_staged(cap):
            always_anew(trace_ctx.trace)
        cap.libraries.traces.append(trace_ctx.trace)
        tracers = [asked(cap, t, n, known_questions) for t, n in zip(given, nodes)]
        outer, cap.libraries.stands = cap.libraries.stands, {id(t): (t, n) for t, n in zip(tracers, nodes)}
        passing = {id(t): (t, numbers[n]) for t, n in zip(tracers, nodes) if n in numbers}
        passed_on, cap.libraries.passing = cap.libraries.passing, passing
        counted, cap.libraries.counted = cap.libraries.counted, {}
        at = dict(zip(nodes, tracers))
        real, cap.libraries.real = cap.libraries.real, cap.libraries.real | {n: at[n] for n in closed}
        try:
            return within(*tracers)
        finally:
            cap.libraries.traces.pop()
            cap.libraries.real = real
            cap.libraries.stands, cap.libraries.passing, cap.libraries.counted = outer, passed_on, counted

    def within(*tracers: Any) -> list[Any]:
        given = rebuild((args, kwargs), {**passed, **dict(zip(nodes, tracers))})
        seen.made = on_objects(cap, fn, (args, kwargs), given)
        refuse_given_back(cap, seen.made)
        _refuse_questions(cap, fn, (args, kwargs), [numbers[n] for n in nodes if n in numbers])
        seen.handed = handed(cap, cap.libraries.arguments[-1], given)
        leaves, seen.tree = jax.tree.flatten(seen.made)
        seen.leaves, seen.again = _with_constants_apart(leaves), put_together(seen.tree, leaves)
        _refuse_results(fn, seen.made, seen.leaves)
        seen.origins = [cap.libraries.stands.get(id(x), (x, None))[1] for x in seen.leaves]
        seen.stands = cap.libraries.stands
        seen.counted = [cap.libraries.counted.get(id(x), (x, None))[1] for x in seen.leaves]
        return [x for x in seen.leaves if _is_array(x)]

    seen.nodes, seen.jaxpr = nodes, traced(cap, fn, run, nodes)
    hold_narrowed(cap, seen.jaxpr, nodes, label(fn))
    return seen


def _refuse_questions(cap: Capture, fn: Any, lowered: tuple, numbers: list[ScalarV]) -> None:
    """NeedsConcrete where the program's functions that a library ran may have asked what the `numbers` are, for which
    arrays stood. Where they asked for the class of a size, the next attempt has constants."""
    heard = cap.libraries.overheard
    if numbers and any(map(asks_for_types, heard)):
        raise NeedsConcrete(numbers[0])
    sizes = lowered_sizes(lowered) if any(asks_for_class(f.__code__) for f in heard) else ()
    if sizes:
        size_values.freeze(cap, sizes, f"{label(fn)}: the class of a size", hosted=is_host(maker_of(fn, lowered)))
        raise Restart()


def _origins(cap: Capture, fn: Any, lowered: tuple, seen: Trace) -> list[Any]:
    """Where leaves came from in eager JAX, which goes through functions with derivatives of their own as well: under a
    trace these make something new. Where sizes are unknown JAX may go a longer way: what it has copied there is asked
    for with the sizes at hand."""
    if cap.under_trace or cap.effects.jitted or None not in seen.origins:
        return seen.origins
    known = {seen_inside(cap, node) for node in cap.numbers.scalar_nodes.values()}
    numbers = frozenset(i for i, node in enumerate(seen.nodes) if node in known)
    found = _by_place(seen, handed_on(seen.jaxpr.jaxpr, numbers=numbers))
    like = _by_place(seen, handed_on(seen.jaxpr.jaxpr, copies=True, numbers=numbers))
    if found == like or seen.passes or not may_be_asked(lowered) or not any(sizes_in(*(n.aval for n in seen.nodes))):
        return found
    now: list[Any] = []

    def look(given: list[Any], made: Any) -> None:
        at = {id(x): node for x, node in zip(given, dict.fromkeys(leaf_nodes(lowered)))}
        now.extend(at.get(id(x)) for x in jax.tree.leaves(made))

    run_now(cap, fn, lowered, look)
    return [as_it_is or (other if other is like_it else None)
            for as_it_is, like_it, other in zip(found, like, now or [None] * len(found))]


def _by_place(seen: Trace, places: list[int | None]) -> list[Any]:
    """The Nodes that leaves are as they came in, by the places of arguments for each array among them."""
    rest = iter(places)
    found = [next(rest) if _is_array(x) else None for x in seen.leaves]
    return [seen.nodes[i] if known is None and i is not None else known for known, i in zip(seen.origins, found)]


def _refuse_trace(fn: Any, lowered: Any, seen: Trace, calls: bool) -> None:
    """Break for what runs Python when the Graph runs, or shows that there were tracers. calls: it calls back."""
    if calls and not all(s.ways for s in standins_in(lowered)):
        raise Break("call", f"{label(fn)} calls back into Python")
    if any(map(_is_written_in_python, seen.jaxpr.eqns)):
        raise Break("call", f"{label(fn)} uses a primitive whose evaluation is the program's")
    if any(isinstance(x, ClosedJaxpr) and x.consts for x in seen.leaves):
        raise Break("opaque", f"{label(fn)} makes a jaxpr whose constants are arrays that a function closes over")


JAXPRS = (Jaxpr, ClosedJaxpr)


def _with_constants_apart(leaves: list[Any]) -> list[Any]:
    """The leaves of an object that carries a jaxpr and its constants, as that of `eqx.filter_closure_convert`. Since
    JAX 0.12 jaxprs are of one class, and hold these constants, too: the jaxpr among the leaves holds none here, as in
    earlier versions. (What evaluates it is given the constants: `eval_jaxpr(it.jaxpr, it.consts, *args)`.)"""
    carried = {id(x) for x in leaves if _is_array(x)}
    apart = [type(x) is Jaxpr is ClosedJaxpr and carried.issuperset(map(id, x.consts)) for x in leaves]
    return [ClosedJaxpr(x, ()) if bare else x for x, bare in zip(leaves, apart)]


def _refuse_texts(cap: Capture, fn: Any, lowered: Any, seen: Trace) -> None:
    """Break for a text that shows what stands for arrays, for their sizes or for changing numbers: with the sizes and
    numbers of this call it is another one."""
    texts = [x for x in seen.leaves if type(x) is str]
    if any("Tracer" in x for x in texts):
        raise Break("leaves", f"{label(fn)} makes a text of an array")
    known = cap.numbers.scalar_nodes
    real = {node: v.hint for _, v in cap.numbers.scalar_reads
            if v.source in known and (node := seen_inside(cap, known[v.source])) in seen.nodes}
    standins = list(standins_in(lowered))
    if not texts or any(s.changing for s in standins) or not (
            real or given_sizes(lowered) or any(sizes_in(*(n.aval for n in seen.nodes)))):
        return
    now: list[Any] = []
    with once_more(cap, standins, real):
        run_now(cap, fn, lowered, lambda _, made: now.extend(x for x in jax.tree.leaves(made) if type(x) is str), real)
    if now != texts:
        raise Break("leaves", f"{label(fn)} makes a text of sizes or numbers that change")


def _refuse_results(fn: Any, made: Any, leaves: list[Any]) -> None:
    """Break for results that are others in each trace: arrays that are written in place, and errors whose structure
    knows by numbers, counted by JAX, which of them an array means."""
    if any(isinstance(x, jax.core.Tracer) and isinstance(x, jax.ref.Ref) for x in leaves):
        raise Break("effect", f"{label(fn)} makes an array that is written in place")
    if any(type(x) is Error for x in jax.tree.leaves(made, is_leaf=lambda x: type(x) is Error)):
        raise Break("call", f"{label(fn)} makes an error that JAX numbers")


def _result_leaf(struct: Any) -> Any:
    """What stands for an array of a result: its Aval, or the thing itself where it has no numbers (derivatives by
    integers), which no program can compute."""
    if not hasattr(struct, "dtype"):
        raise Break("call", f"a result that is no array: {struct}")
    if jnp.issubdtype(struct.dtype, jax.dtypes.extended) and not jnp.issubdtype(struct.dtype, jax.dtypes.prng_key):
        raise Break("call", f"an array of a program's own dtype: {struct.dtype.name}")
    if struct.dtype != jax.dtypes.float0:
        return of_struct(struct)
    if not all(type(d) is int for d in struct.shape):
        raise Break("call", "a derivative by integers whose number changes")
    return nothing(tuple(struct.shape))


def is_nothing(x: Any) -> bool:
    """Whether a result is a derivative by integers."""
    return isinstance(x, np.ndarray) and x.dtype == jax.dtypes.float0  # JAX's typed ones are arrays of NumPy's


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
    inside, copies = one_level(made), one_level(copy)
    for one, other in zip(inside, copies):
        _order_keys(one, other)


def may_tell(cap: Capture, fn: Any, jaxpr: Any) -> bool:
    """Whether the call prints, as `jax.debug.print` in the body of a loop does, when XLA gets there. Break where what
    it does must have its place among other effects: it calls back, prints in order, ..."""
    found = [e for e in jaxpr.effects if not isinstance(e, NamedAxisEffect)]
    if not found:
        return False
    free = all(e is debug_effect for e in found) and not cap.effects.calls and not cap.root.traced and not any(
        b.is_side for b in cap.bodies)
    if not free or calls_back(jaxpr.jaxpr):
        raise Break("effect", f"{label(fn)} ({', '.join(sorted(map(str, found)))})")
    if cap.graph.checks:
        cap.ask_at_once()  # a call that starts again would print twice
    return True


def calls_back(jaxpr: Any) -> bool:
    """Whether a Python function runs when this jaxpr does."""
    return any("callback" in e.primitive.name or "callback" in e.params for e in jaxpr.eqns) or any(
        map(calls_back, subjaxprs(jaxpr)))


def _is_written_in_python(eqn: Any) -> bool:
    """Whether eager JAX evaluates this by code of the program (`Primitive.def_impl`), and the program has not said how
    to compile it. JAX's own primitives with other code are evaluated by that."""
    impl, backend = eqn.primitive.impl, jax.default_backend()
    here = [mlir._platform_specific_lowerings.get(p, {}) for p in PLATFORMS.get(backend, (backend,))]
    lowered = any(eqn.primitive in rules for rules in (mlir._lowerings, *here))
    if lowered and eqn.primitive not in JAXS:
        return False
    return not is_library(impl.func if isinstance(impl, functools.partial) else impl)


def reach_rules(cap: Capture, fn: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Captures functions that only a derivative of the call reaches, such as the rules of
    `jax.custom_vjp`, once an earlier attempt has met such a derivative (`lessons.order`)."""
    if cap.libraries.derived >= cap.lessons.order or all(s.ways for s in standins_in((args, kwargs))):
        return
    nodes = list(dict.fromkeys(leaf_nodes((args, kwargs))))

    def derivative(*tracers: Any) -> Any:
        moving = [i for i, x in enumerate(tracers) if jnp.issubdtype(x.dtype, jnp.inexact)]

        def primal(*moved: Any) -> list[Any]:
            at = dict(zip(moving, moved))
            env = {n: at.get(i, x) for i, (n, x) in enumerate(zip(nodes, tracers))}
            result = on_tracers(cap, fn, args, kwargs, env)
            return [x for x in jax.tree.leaves(result) if _is_array(x) and jnp.issubdtype(x.dtype, jnp.inexact)]

        out, pull = jax.vjp(primal, *(tracers[i] for i in moving))
        return pull(jax.tree.map(jnp.ones_like, out))

    cap.libraries.derived += 1
    try:
        traced(cap, fn, derivative, nodes)
    except Failed:
        pass  # it has no derivative: what was not reached now never is
    finally:
        cap.libraries.derived -= 1


def _is_array(x: Any) -> bool:
    return isinstance(x, (jax.Array, ARRAY_TYPE, jax.core.Tracer))
