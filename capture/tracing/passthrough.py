"""What a library's call gives back as it went in: Python numbers, and arrays.

While a call is traced, a Python number that changes from call to call is an array, and so is what the library
makes of it. Eager JAX has a number there where only Python deals with it: a counter of steps that `tree_at` puts
into a model, or that `value_and_grad` hands through with `aux`. The very number that went in comes out again as
it is; one that the library's Python computed cannot come from the Graph, nor what it says of numbers alone
(`eqx.is_array`): then the library's function or class is entered, and where it cannot be, NeedsConcrete makes a
constant of what went in.

JAX itself is asked once more, with this call's numbers in their places: its derivatives give numbers a dtype
(`jax.value_and_grad(lambda t: t)(2.0)[0]` is a `TypedFloat`), a scan's carry stays Python's. What went through a
primitive that eager JAX does not evaluate (`stop_gradient`) stands in the jaxpr as it is, and so does what a
checkpointed function returns.

Where the library makes an array of a number (`tfd.Normal(0.0, scale)`) and leaves an array as it is, the tracer comes
out, weak as the number, in place of an array that is not: what the call gives is made one.

An array that came out as it went in is the very array: what `tree_at` leaves alone, a shared layer's weights, what
`astype` had nothing to do for. `is` then says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax._src.core import trace_ctx, typeof
from jax._src.interpreters.partial_eval import dce_jaxpr
from jax._src.literals import TypedComplex, TypedFloat, TypedInt, TypedNdArray, typed_scalar_types
from jax.extend.core import Var

from dynacomp.capture.base.classes import name_of
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.bodies.subgraphs import Standin, is_array, localise
from dynacomp.capture.graph.avals import Aval, as_struct, aval_of, is_aval, of_struct
from dynacomp.capture.graph.graph import Node, is_node, nodes_in
from dynacomp.capture.graph.sizes import canonical
from dynacomp.capture.symbolic.libraries import is_host, is_library, label, looks_inside, module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.failures import enter_class, enter_others
from dynacomp.capture.tracing.handed_on import literals
from dynacomp.capture.tracing.lowered_parts import (
    OBJECT_CALLS,
    called_by,
    leaf_nodes,
    maker_of,
    rebuild,
    run_now,
    spells_arrays,
    standins_in,
)
from dynacomp.capture.values.computed import NeedsConcrete, ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.value import Value

# Of JAX's own functions, those that hand through what the function which they call returns beside arrays.
THROUGH = {"grad", "value_and_grad", "vjp", "jvp", "linearize", "jacfwd", "jacrev", "hessian", "vmap", "Partial"}

RAW = (jax.custom_jvp, jax.custom_vjp)  # whose functions compute with numbers and NumPy arrays as they are
TYPED = (*typed_scalar_types, TypedNdArray, np.ndarray, bool)
NUMBERS = (bool, int, float, complex)
PROBES: dict[type, tuple[Any, ...]] = {  # numbers that a library is given in place of a changing one
    bool: (True, False), int: (-7, 1_000_003, 3, -1_000_003), float: (-0.7, 3e17, 1.3e-20, -3e17, 2.6),
    complex: (-0.7 + 2j, 3e17 - 1j, -3e17 + 0.3j)}
MOST_PROBES = max(map(len, PROBES.values()))
WITH_DTYPES = {int: TypedInt, float: TypedFloat, complex: TypedComplex}


@dataclass(frozen=True, repr=False)
class Passed(Aval):
    """A result that the call was given: a Python number, an array."""

    value: Any = None  # type: ignore[misc]


@dataclass(frozen=True, repr=False)
class Hardened(Aval):
    """A result that stands in the trace for a changing number, weak as that, of which the library has made an array
    that is not (`tfd.Normal(0.0, scale)`)."""

    hardens = True


def with_numbers(cap: Capture, fn: Any, lowered: tuple, tree: Any, leaves: list[Any], origins: list[Node | None],
                 reached: list[bool], since: int) -> list[Any]:
    """The leaves of the result of `fn(*args, **kwargs)`, `lowered` being (args, kwargs): Passed where eager JAX has one
    of the changing numbers that were read since that step, or of which an object was made that is given. `origins`: the
    Nodes that come out as they went in; `reached`: which depend on what the call was given."""
    nodes, reads = cap.numbers.scalar_nodes, cap.numbers.scalar_reads
    inside = set(leaf_nodes(lowered))  # objects have kept those that were read before
    read = {node: v for at, v in reads if v.source and (
        (node := localise(cap, nodes[v.source])) in inside or at >= since)}
    standins = list(standins_in(lowered))
    called = called_by(fn, lowered)
    changes = any(s.changing for s in standins)  # a second run would do it again
    computes = changes or any(s.numbers for s in standins)
    if read and is_of_jax(called) and not changes and not read.keys().isdisjoint(origins):
        return _of_jax(cap, fn, lowered, leaves, origins, read)
    if not read or standins and not any(s.numbers for s in standins) and read.keys().isdisjoint(leaf_nodes(lowered)):
        return leaves  # the library has seen none: the program's functions computed with them
    if changes and is_of_jax(called):
        _refuse_given(called, {o for o in origins if o in read} & set(leaf_nodes(lowered)), read)
    says = any(_may_be_number(leaf, deep) or type(leaf) is bool for leaf, deep in zip(leaves, reached))
    if standins and (computes or is_of_jax(called) or not says):
        is_number = _handed_through(called, [origin in read for origin in origins])
    elif standins or _runs_library(fn, lowered):
        leaves, is_number = _returned(cap, fn, lowered, tree, leaves, origins, read)
    else:
        return leaves
    moves = looks_inside(called)  # NumPy's numbers, too, which have no weak type
    told = [number and not isinstance(leaf, Passed) and (_may_be_number(leaf, deep) or origin in read and (
        moves or isinstance(read[origin].hint, np.generic)))
            for leaf, origin, number, deep in zip(leaves, origins, is_number, reached)]
    whose = called if module_of(fn) == OBJECT_CALLS else maker_of(fn, lowered)
    return [_number(cap, whose, leaf, read.get(origin) if origin else None, read) if number else leaf
            for leaf, origin, number in zip(leaves, origins, told)]


def _of_jax(cap: Capture, fn: Any, lowered: tuple, leaves: list[Any], origins: list[Node | None],
            read: dict[Node, ScalarV]) -> list[Any]:
    """The same for a function of JAX's, which is asked what it makes of numbers: it says so of each. Those that the
    program's functions read are numbers, too, or arrays where JAX makes another result then (`jax.vjp`, whose function
    keeps what they have made)."""
    real = {n: v.hint for n, v in read.items()}
    standins = list(standins_in(lowered))
    for inside in (real, {}):
        with once_more(cap, standins, inside):
            made: list[Any] = []
            found = made_now(cap, fn, lowered, real, made, any(s.numbers for s in standins))
            own = [cap.libraries.stands.get(id(x), (x, None))[1] for x in made]
        if found is not None and len(found) == len(leaves):
            break
    else:
        raise NeedsConcrete(next(iter(read.values())))

    def number(leaf: Any, origin: Node | None, x: Any, stands: Node | None) -> Any:
        if origin not in read or not is_aval(leaf):
            return leaf
        as_it_is = stands is origin and all(_stays_number(s, origin) for s in standins)
        value = read[origin] if as_it_is else _as_handed(read[origin], x)
        return leaf if value is None else Passed(leaf.shape, leaf.dtype, leaf.weak_type, value)

    return list(map(number, leaves, origins, found, own))


def _refuse_given(called: Any, given: set[Any], read: dict[Node, ScalarV]) -> None:
    """NeedsConcrete for numbers that come out of a derivative's arguments: it cannot be asked, so what JAX makes of
    them is not known."""
    if given and name_of(called) in THROUGH:
        raise NeedsConcrete(read[given.pop()])


def typed(cap: Capture, fn: Any, lowered: tuple, leaves: list[Any], jaxpr: Any) -> list[Any]:
    """The leaves that a call of JAX's has made, numbers and NumPy arrays in place of the tracers that stand for them.
    Where JAX traces the caller they are tracers there, too."""
    if cap.under_trace or cap.effects.jitted:
        return leaves
    rest = iter(literals(jaxpr))
    found = [next(rest) if isinstance(x, jax.Array) else None for x in leaves]
    return [known if isinstance(known, TYPED) else x for x, known in zip(leaves, found)]


def as_numbers(cap: Capture, fn: Any, lowered: tuple, leaves: list[Any], shown: list[Any],
               through: list[Node | None], stands: dict[int, Any]) -> list[Any]:
    """The leaves of a result with the numbers that JAX is `shown` to give, as it gives them. A number that changes is
    the Node that has gone `through` equations; that which a function of the program's reads is known by what `stands`
    for it there."""
    nodes = cap.numbers.scalar_nodes
    read = {localise(cap, nodes[v.source]): v for _, v in cap.numbers.scalar_reads if v.source}

    def number(leaf: Any, known: Any, node: Node | None) -> Any:
        if type(known) in (*typed_scalar_types, bool):
            return known
        if type(known) is TypedNdArray and is_aval(leaf):
            if id(known) not in stands and spells_arrays(lowered):
                raise Break("leaves", f"{label(fn)} deals with a NumPy array")
            node = stands.get(id(known), (known, None))[1]
            if node is not None and not all(_stays_number(s, node) for s in standins_in(lowered)):
                return leaf
        value = read.get(node) if node else None
        if value is None:
            return leaf
        if type(value.hint) not in WITH_DTYPES:
            raise NeedsConcrete(value)
        return Passed(leaf.shape, leaf.dtype, leaf.weak_type, with_dtype(
            value, WITH_DTYPES[type(value.hint)], leaf.dtype, typeof(value.hint)))

    return list(map(number, leaves, shown, through))


def _stays_number(standin: Standin, node: Node) -> bool:
    """Whether no call in a function may have made an array of a number that is its Node: in a trace `jnp.asarray`,
    `jnp.squeeze` and others give back what they are given."""
    for graph, captured in standin.ways.values():
        own = dict(zip(captured, graph.placeholders)).get(node)
        for call in graph.nodes[:-1] if own else ():
            given = set(nodes_in((call.args, call.kwargs)))
            if own in given and call.target is not jax.lax.stop_gradient and not (
                    is_aval(call.aval) and (len(given) > 1 or call.aval != own.aval)):
                return False
    return True


def with_dtype(value: ScalarV, cls: type, dtype: Any, aval: Any) -> ObjectV:
    """A number that changes, as JAX gives one a dtype: a `TypedFloat`."""
    made = ObjectV(cls, attrs={"dtype": Const(dtype), "aval": Const(aval)})
    made.payload = value
    return made


def made_now(cap: Capture, fn: Any, lowered: tuple, real: dict[Node, Any],
             made: list[Any] | None = None, as_before: bool = False) -> list[Any] | None:
    """The leaves of the result where some of the Nodes among the arguments are `real` values; None where it fails.
    `made` gets them as JAX gives them. as_before: with unknown sizes, for which the Graphs of functions serve again."""
    made = [] if made is None else made
    look = lambda _, result: made.extend(jax.tree.leaves(result))
    with cap.sizes.scope.decides() if as_before else contextlib.nullcontext():
        jaxpr = run_now(cap, fn, lowered, look, real, canonical) if as_before else run_now(cap, fn, lowered, look, real)
    return None if jaxpr is None else typed(cap, fn, lowered, made, jaxpr)


def _as_handed(value: ScalarV, found: Any) -> Value | None:
    """What stands for a changing number that JAX has given back as `found`; None where that is an array."""
    if type(found) is type(value.hint):
        return value
    if type(found) in typed_scalar_types:
        return with_dtype(value, type(found), found.dtype, found.aval)
    if isinstance(found, jax.Array):
        return None
    raise NeedsConcrete(value)


def with_arrays(cap: Capture, tree: Any, leaves: list[Any], origins: list[Node | None]) -> list[Any]:
    """The leaves of a tree of results: Passed where they are arrays that came out as they went in."""
    if jax.tree_util.treedef_is_leaf(tree):  # known by its origin: see `alike_calls`
        return leaves
    return [Passed(leaf.shape, leaf.dtype, leaf.weak_type, cap.libraries.handed[origin])
            if type(leaf) is Aval and origin in cap.libraries.handed else leaf for leaf, origin in zip(leaves, origins)]


def depends(jaxpr: Any) -> list[bool]:
    """Which results of a jaxpr depend on its arguments; those of an equation depend on all that it is given."""
    reached = set(jaxpr.invars)
    for eqn in jaxpr.eqns:
        if any(isinstance(v, Var) and v in reached for v in eqn.invars):
            reached.update(eqn.outvars)
    return [isinstance(v, Var) and v in reached for v in jaxpr.outvars]


def _may_be_number(leaf: Any, reached: bool) -> bool:
    """Whether an array, or what says how one is (`eqx.filter_eval_shape`), may stand for a number that a function of
    the program returned: an array that nothing has reached may have been given axes, too, as an array would
    (`eqx.filter_vmap` over arrays alone)."""
    says = type(leaf) is jax.ShapeDtypeStruct
    if not (is_aval(leaf) or says) or not (leaf.weak_type or leaf.dtype == np.bool_):
        return False
    return leaf.shape == () or not (reached or says)


def _number(cap: Capture, called: Any, leaf: Aval, value: ScalarV | None, read: dict[Node, ScalarV]) -> Passed:
    if value is None:
        raise _computes(cap, called, read)
    return Passed(leaf.shape, leaf.dtype, leaf.weak_type, value)


def _handed_through(called: Any, passed: list[bool]) -> list[bool]:
    """Which leaves are numbers of a call that runs functions of the program, given which come out as they went in.
    Other libraries than JAX may return any that they have told from arrays."""
    if not is_of_jax(called):
        return [True] * len(passed)
    return passed if name_of(called) in THROUGH else [False] * len(passed)


def _runs_library(fn: Any, lowered: tuple) -> bool:
    """Whether the Python of another library than JAX runs: of what a call of it has made, or of a part of that
    (`hk.transform(f).apply`, `Model().apply`); or nothing but what an instance keeps is read (`Partial(f, n).args`)."""
    called = maker_of(fn, lowered)
    if fn is getattr and isinstance(called, type):
        return True
    return not is_node(called) and (is_host(called) or is_library(called) and not is_of_jax(called))


def is_of_jax(fn: Any) -> bool:
    """Whether a function computes: those of trees only move what they are given."""
    module = str(module_of(fn))
    return module.partition(".")[0] in ("jax", "jaxlib") and module not in ("jax._src.tree", "jax._src.tree_util")


@contextlib.contextmanager
def once_more(cap: Capture, standins: list[Standin], real: dict[Node, Any] | None = None) -> Iterator[None]:
    """While a call runs once more: what the program's functions are given then is no part of the Graph. What they read
    is `real`, as far as that is given."""
    before = cap.libraries.stands, cap.libraries.passing, cap.libraries.real
    traces = {fn: dict(known) for fn, known in cap.libraries.kept.items()}
    cap.libraries.stands, cap.libraries.passing, cap.libraries.real = {}, {}, real or {}
    cap.libraries.tracing += 1
    try:
        with contextlib.ExitStack() as kept:
            for standin in standins:
                kept.enter_context(standin.kept())
            yield
    finally:
        cap.libraries.tracing -= 1
        cap.libraries.stands, cap.libraries.passing, cap.libraries.real = before
        cap.libraries.kept = traces


def _returned(cap: Capture, fn: Any, lowered: tuple, tree: Any, leaves: list[Any], origins: list[Node | None],
              read: dict[Node, ScalarV]) -> tuple[list[Any], list[bool]]:
    """The leaves where the call gets the numbers themselves, and which of them are numbers then. NeedsConcrete where it
    fails, or has another result: it tells numbers from arrays."""
    numbers = {n: v.hint for n, v in read.items()}
    try:
        with once_more(cap, list(standins_in(lowered))):
            given = _given(cap, fn, lowered, numbers)
            leaves = _hardened(cap, fn, lowered, numbers, tree, leaves, origins, given)
        judges = _judges(called_by(fn, lowered), tree, leaves)
        other = judges or given.tree != tree or any(map(_is_other, leaves, given.leaves))
    except ours(Exception):  # which is the program's: it gets it once the numbers are constants; or JAX cannot compare
        other = True  # trees whose classes keep arrays beside their leaves
    if other:
        raise _computes(cap, called_by(fn, lowered), read)
    return leaves, [type(x) in NUMBERS for x in given.leaves]


@dataclass(frozen=True)
class Numbered:
    """What a call gives that is given numbers themselves, and the jaxpr of the arrays among it."""

    leaves: list[Any]
    tree: Any
    jaxpr: Any

    def values(self, at: list[int]) -> list[Any] | None:
        """The arrays at these places, where they depend on no argument but the numbers."""
        arrays = [i for i, x in enumerate(self.leaves) if isinstance(x, jax.Array)]
        alone, needs = dce_jaxpr(self.jaxpr.jaxpr, [i in at for i in arrays])
        return None if any(needs) else jax.core.eval_jaxpr(alone, self.jaxpr.consts)


def _given(cap: Capture, fn: Any, lowered: tuple, numbers: dict[Node, Any]) -> Numbered:
    arrays = [n for n in dict.fromkeys(leaf_nodes(lowered)) if n not in numbers]
    found: list[Any] = []

    def run(*tracers: Any) -> list[Any]:
        args, kwargs = rebuild(lowered, {**numbers, **dict(zip(arrays, tracers))})
        cap.libraries.traces.append(trace_ctx.trace)
        try:
            found.extend(jax.tree.flatten(fn(*args, **kwargs)))
        finally:
            cap.libraries.traces.pop()
        return [x if isinstance(x, jax.Array) else None for x in found[0]]

    jaxpr = jax.make_jaxpr(run)(*[as_struct(n.aval) for n in arrays])
    return Numbered(found[0], found[1], jaxpr)


def _hardened(cap: Capture, fn: Any, lowered: tuple, numbers: dict[Node, Any], tree: Any, leaves: list[Any],
              origins: list[Node | None], given: Numbered) -> list[Any]:
    """The leaves, Hardened where they are changing `numbers` of which the library has made arrays that are not weak:
    of these and of others, far away, on both sides of zero, so that no bound or rounding of its own is taken for it."""
    if given.tree != tree:
        return leaves
    at = [i for i, (leaf, origin, x) in enumerate(zip(leaves, origins, given.leaves))
          if origin in numbers and type(leaf) is Aval and isinstance(x, jax.Array)
          and aval_of(x) == replace(leaf, weak_type=False) != leaf]
    probes = [{n: PROBES[type(x)][(k + i) % len(PROBES[type(x)])] for i, (n, x) in enumerate(numbers.items())}
              for k in range(MOST_PROBES)] if at else []
    for asked in (numbers, *probes):
        again = given if asked is numbers else _given(cap, fn, lowered, asked)
        made = again.values(at) if again.tree == tree else None
        wanted = [asked[origins[i]] for i in at]  # type: ignore[index]
        at = [i for i, x, number in zip(at, made or (), wanted) if np.asarray(x) == np.asarray(number, x.dtype)]
        if not at:
            return leaves
    return [Hardened(leaf.shape, leaf.dtype) if i in at else leaf for i, leaf in enumerate(leaves)]


def _computes(cap: Capture, called: Any, read: dict[Node, ScalarV]) -> NeedsConcrete:
    """For a call whose Python does more with a number than hand it on. Restart where the next attempt is to enter it:
    there the number stays one (`VirtualBrownianTree(t0, t1, tol)`, which keeps `tol / (t1 - t0)`)."""
    enter_class(cap, called)
    enter_others(cap, called)
    return NeedsConcrete(next(iter(read.values())))


def _judges(called: Any, tree: Any, leaves: list[Any]) -> bool:
    """Whether a function says one thing of what it is given (`eqx.tree_equal`): with other numbers it may be another,
    though it is the same with tracers in their places."""
    return not isinstance(called, type) and jax.tree_util.treedef_is_leaf(tree) and is_literal(leaves[0])


def _is_other(leaf: Any, found: Any) -> bool:
    """Whether two results differ in more than that one has an array for a number."""
    if is_aval(leaf):
        return type(found) not in NUMBERS and (not is_array(found) or aval_of(found) != of_struct(leaf))
    return type(found) is not type(leaf) or is_literal(leaf) and repr(found) != repr(leaf)
