"""A compiled region as a primitive of JAX, each of whose rules is again such a region.

Where JAX transforms the caller of a compiled function (`grad`, `vmap`, `jvp`, to any order), the
function's Graphs run on JAX's tracers: each binds `region_p`, whose rules give the tracers what they
ask for. A linearisation is two regions, one for the values and what is saved for later, one for the
tangents; its transpose, the backward pass, is a third; a forward derivative is one; a batch is a region over
one more axis. Each is compiled when it is first run on arrays.

Where JAX stages a program for XLA (`jit`, `scan`, `checkpoint`), the region's own operations are
staged instead. Only what JAX stages for itself while it linearises stays one operation: it is run at
once, forward or transposed. A program that stages it again (`make_jaxpr` of what `linearize` gave) sees its operations.

The sizes of a region may be unknown (`symbols`): the primitive is bound with their values of the call at hand, by
which comparisons are decided, and what was derived serves all calls for which the decisions hold (`Region.having`).
For others, and where a rule wants to know a size, it is derived of the region at the sizes at hand.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
from jax._src.core import Tracer, eval_context, jaxprs_in_params, set_current_trace, trace_ctx
from jax._src.interpreters.ad import primitive_linearizations
from jax._src.interpreters.partial_eval import (
    DynamicJaxprTrace,
    custom_partial_eval_rules,
    custom_staging_rules,
    dce_rules,
)
from jax.errors import UnexpectedTracerError
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from dynacomp.capture.base.carriers import carrier
from dynacomp.capture.graph.silence import saying_nothing
from dynacomp.capture.graph.size_evaluation import evaluate
from dynacomp.capture.graph.size_scope import Relation, Scope
from dynacomp.capture.graph.sizes import Size, is_symbolic
from dynacomp.lowering.autodiff.derive import (
    Split,
    batched,
    chosen,
    linearised,
    merged,
    parted,
    pushed,
    slimmed,
    transposed,
)
from dynacomp.lowering.autodiff.known_sizes import asks_for_sizes, at_sizes, avals_at
from dynacomp.lowering.primitives.translate import blaming_sizes, deciding
from dynacomp.lowering.sizes.dims import SymbolicShapeError

Program = Callable[..., Sequence[Any]]
Sizes = tuple[tuple[str, int], ...]  # the values of the symbols in a call; () where a region has none
TOLD_AFTER = 3  # sizes for each of which a region was derived
OTHERWISE = "what was decided for other sizes does not hold for these"


@dataclass(eq=False)
class Derived:
    """What was derived of a region, and the decisions about sizes on which that rests. value: None where it cannot be
    derived without knowing the sizes; why: the reason, or that of the sizes for which it does not serve."""

    value: Any
    relations: tuple[Relation, ...] = ()
    why: str = OTHERWISE
    holding: dict[Sizes, bool] = field(default_factory=dict)

    def holds(self, sizes: Sizes) -> bool:
        if sizes not in self.holding:
            self.holding[sizes] = all_hold(self.relations, sizes)
        return self.holding[sizes]


def all_hold(relations: Iterable[Relation], sizes: Sizes) -> bool:
    """Whether what was decided by other sizes is so for these; what speaks of others still does not matter."""
    values = dict(sizes)
    found = ((r, evaluate(r.expr, values)) for r in relations)
    return all(size is None or (size >= 0 if r.kind == "ge" else size == 0) == r.holds for r, size in found)


@dataclass(eq=False, repr=False)
class Region:
    """A jaxpr, and what is made of it when it is needed.

    make: compiles a jaxpr to a callable of arrays and of carriers, one for each symbol that no array shows. stays: it
    is one operation even where JAX stages a program. symbols: its unknown sizes. origin: the region at known sizes,
    where that is not its jaxpr at them. tell: says why it is derived for one size after the other. listening: runs
    what derives: rules of the program's are Python code. lasting: whether that may be kept. one_way: called where a
    backward pass may be asked for that there is none of. wide: whether JAX had 64 bits where it was traced: what is
    derived of it later (the backward pass of what stands in a `with jax.enable_x64(True)`) has them, too.
    lock: one for all regions whose sizes are those of one scope.
    """

    jaxpr: ClosedJaxpr
    make: Callable[[ClosedJaxpr, Sequence[Size]], Program]
    stays: bool = False
    symbols: tuple[Size, ...] = ()
    origin: Callable[[Sizes], Region] | None = None
    tell: Callable[[str], Any] = lambda why: None
    listening: Callable[[Callable[[], Any]], Any] = lambda derive: derive()
    lasting: Callable[[], bool] = lambda: True
    one_way: Callable[[], Any] = lambda: None
    wide: bool = field(default_factory=lambda: jax.enable_x64.value)
    lock: Any = field(default_factory=threading.RLock)
    derived: dict[Any, Derived] = field(default_factory=dict)
    known: dict[Sizes, Region] = field(default_factory=dict)
    batches: dict[Any, Any] = field(default_factory=dict)  # the first size of a batch, and the region for others

    def __repr__(self) -> str:
        """Short: JAX makes a text of each pullback that `jacrev` and `hessian` map over, in each call."""
        return f"<region of {len(self.jaxpr.eqns)} operations>"

    def fresh(self, **changes: Any) -> Region:
        """A region like this one of which nothing was derived yet."""
        return replace(self, **changes, derived={}, known={}, batches={})

    def at(self, sizes: Sizes, why: str = "") -> Region:
        """The region at known sizes, and why it is asked for where unknown ones would do."""
        if not sizes:
            return self
        if sizes not in self.known:
            self.known[sizes] = self.origin(sizes) if self.origin else self.fresh(
                jaxpr=at_sizes(self.jaxpr, dict(sizes)), symbols=())
            if why and len(self.known) == TOLD_AFTER:
                self.tell(why)
        return self.known[sizes]

    def having(self, sizes: Sizes, key: Any, derive: Callable[[Region], Any]) -> tuple[Any, Region, Sizes]:
        """(what `derive` makes of the region, the region, the sizes to bind that with): of this one while its sizes
        may stay unknown, else of the one at these sizes, with none. Remembered under `key`."""
        found = self.derived.get(key) or self._derived(sizes, key, derive)
        if found.value is None or not found.holds(sizes):
            return self.at(sizes, found.why).having((), key, derive)
        return found.value, self, sizes

    def _derived(self, sizes: Sizes, key: Any, derive: Callable[[Region], Any]) -> Derived:
        with self.lock:
            if key in self.derived:
                return self.derived[key]
            if not self.symbols:
                return self._kept(key, Derived(self._made(derive)))
            scope = self.symbols[0].scope
            if not all_hold(scope.relations, sizes):  # JAX's caches answer by what was decided before
                return Derived(None)
            scope.values.update(sizes)
            unknown = [jax.ShapeDtypeStruct(self.symbols, bool)]
            try:
                with blaming_sizes(unknown), saying_nothing(), deciding(unknown):
                    value = self._made(derive)
            except SymbolicShapeError as error:
                return self._kept(key, Derived(None, why=str(error)))
            return self._kept(key, Derived(value, tuple(scope.relations)))

    def _kept(self, key: Any, made: Derived) -> Derived:
        if self.lasting():
            self.derived[key] = made
        return made

    def _made(self, derive: Callable[[Region], Any]) -> Any:
        with jax.enable_x64(self.wide):
            return derive(self) if derive is Region.compiled else self.listening(lambda: derive(self))

    def run(self, sizes: Sizes, *arrays: Any) -> Sequence[Any]:
        """The compiled program on arrays."""
        (program, carried), _, left = self.having(sizes, "program", Region.compiled)
        values = dict(left)
        return program(*arrays, *(carrier(values[name]) for name in carried))

    def compiled(self) -> tuple[Program, list[str]]:
        """The program, and the names of the sizes that it takes carriers for."""
        shown = {d for a in self.jaxpr.in_avals for d in a.shape if is_symbolic(d)}
        hidden = [n for n in self.symbols if n not in shown]
        return self.make(self.jaxpr, hidden), list(map(str, hidden))

    @functools.cached_property
    def is_one_way(self) -> bool:
        """Whether JAX has no transpose of it, and might have where it knew the ends of a `fori_loop`."""
        return _counts(self.jaxpr.jaxpr)

    def like(self, jaxpr: ClosedJaxpr, stays: bool = False) -> Region:
        """A region that was derived of this one."""
        if self.symbols and asks_for_sizes(jaxpr.jaxpr, self.symbols[0].scope):
            raise SymbolicShapeError("it holds a function with a derivative rule of its own, which may ask for sizes")
        if closes_over_tracers(jaxpr):
            raise UnexpectedTracerError("a rule, called late, closes over what was traced with its function")
        return self.fresh(jaxpr=jaxpr, stays=stays, origin=None)

    def split(self, moving: tuple[bool, ...]) -> tuple[Region, Region, Split]:
        """The forward and the tangent region for the inputs that move."""
        split = linearised(self.jaxpr, moving)
        return self.like(split.forward), self.like(split.tangent, stays=True), split

    def push(self, moving: tuple[bool, ...]) -> tuple[Region, tuple[bool, ...]]:
        """The region that computes tangents beside the values, and which results have one."""
        closed, moved = pushed(self.jaxpr, moving)
        return self.like(closed), moved

    def transposed(self, linear: tuple[bool, ...], asked: tuple[bool, ...]) -> tuple[Region, tuple[bool, ...]]:
        """The backward region for the results whose cotangents are known, and which linear inputs it reaches."""
        closed, reached = transposed(self.jaxpr, linear, asked)
        return self.like(closed), reached

    def parted(self, unknown: tuple[bool, ...]) -> tuple[Region, Region, tuple[bool, ...]]:
        """The region of what follows from the known inputs, that of the rest, and which results are the rest's."""
        first, later, others = parted(self.jaxpr, unknown)
        return self.like(first), self.like(later, stays=True), others

    def slim(self, asked: tuple[bool, ...]) -> tuple[Region, tuple[bool, ...]]:
        """The region of the results that are asked for, and which inputs it takes."""
        closed, used = slimmed(self.jaxpr, asked)
        return self.like(closed, self.stays), used

    def batch(self, axes: tuple[int | None, ...], size: int | Size) -> tuple[Region, tuple[bool, ...]]:
        """The region over a batch, and which of its results have one."""
        def at(sizes: Sizes) -> Region:
            return self.at(sizes).batch(axes, evaluate(size, dict(sizes)))[0]

        closed, mapped = batched(self.jaxpr, axes, size)
        return self.fresh(jaxpr=closed, origin=at if self.symbols else None), mapped

    def batched(self, axes: tuple[int | None, ...], size: int,
                sizes: Sizes) -> tuple[tuple[Region, tuple[bool, ...]], Sizes]:
        """The same for the sizes of a call. The second size of a batch is one more that is unknown."""
        if size < 1 or self.batches.setdefault(axes, size) == size:
            found, _, left = self.having(sizes, ("batch", axes, size), lambda r: r.batch(axes, size))
            return found, left
        grown = self.grown(axes)
        found, _, left = grown.having((*sizes, (str(grown.symbols[-1]), size)), "batch",
                                      lambda r: r.batch(axes, r.symbols[-1] if r.symbols else size))
        return found, left

    def grown(self, axes: tuple[int | None, ...]) -> Region:
        """This region with one symbol more, the size of a batch over these axes."""
        with self.lock:
            if (axes, "grown") not in self.batches:
                scope = self.symbols[0].scope if self.symbols else Scope()
                symbols = (*self.symbols, scope.symbol(f"batch{len(scope.values)}", 1))
                self.batches[axes, "grown"] = self.fresh(
                    symbols=symbols, origin=lambda sizes: self.at(sizes[:-1]).fresh())
            return self.batches[axes, "grown"]


def closes_over_tracers(closed: ClosedJaxpr) -> bool:
    """Whether it reads values of a trace around it, or of one that has ended. They live for a call at most: no program
    may hold them."""
    return any(isinstance(c, Tracer) for c in closed.consts)


def _counts(jaxpr: Any) -> bool:
    """Whether it holds a `while` as which JAX traces a `fori_loop` of unknown ends: its state's first is compared with
    its second."""
    return any(_is_counted(e.params) if e.primitive.name == "while" else e.primitive.name in CARRIED and any(
        map(_counts, jaxprs_in_params(e.params))) for e in jaxpr.eqns)


def _is_counted(params: dict[str, Any]) -> bool:
    asked = params["cond_jaxpr"].jaxpr
    return (not params["cond_nconsts"] and [e.primitive.name for e in asked.eqns] == ["lt"]
            and list(asked.eqns[0].invars) == list(asked.invars[:2]))


CARRIED = ("jit", "pjit", "scan", "cond", "remat", "checkpoint", "closed_call", "custom_jvp_call")  # transposed inside
region_p = Primitive("dynacomp_region")
region_p.multiple_results = True


def apply(region: Region, *args: Any, sizes: Sizes = ()) -> Sequence[Any]:
    """The region on arrays or tracers; under a trace that stages a program, its operations one by one."""
    if not region.stays and isinstance(trace_ctx.trace, DynamicJaxprTrace):
        return _staged(*args, region=region, sizes=sizes)
    return region_p.bind(*args, region=region, sizes=sizes)


def _impl(*args: Any, region: Region, sizes: Sizes) -> Sequence[Any]:
    with eval_context():  # compiling, or a seam to XLA, may run operations of its own
        return region.run(sizes, *args)


def _abstract(*avals: Any, region: Region, sizes: Sizes) -> list[Any]:
    return avals_at(region.jaxpr.out_avals, dict(sizes))


def _linearize(is_vjp: bool, moving: Sequence[bool], *primals: Any, region: Region, sizes: Sizes) -> tuple[Any, ...]:
    """(outputs, which of them move, residuals, a function of residuals and tangents), as JAX wants it."""
    moving = tuple(moving)
    (forward, tangent, split), _, left = region.having(sizes, moving, lambda r: r.split(moving))
    if is_vjp and tangent.is_one_way:
        region.one_way()
    results, avals = apply(forward, *primals, sizes=left), avals_at(region.jaxpr.out_avals, dict(sizes))
    outputs, saved = results[:len(avals)], results[len(avals):]
    still = [ad.Zero(a.to_tangent_aval()) for a, moved in zip(avals, split.moved) if not moved]

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        given = chosen(chosen(tangents, moving), split.used)
        return merged(split.moved, apply(tangent, *residuals, *given, sizes=left), still)

    return outputs, list(split.moved), split.picked(primals, outputs, saved), linear


def _linearize_with_structure(is_vjp: bool, moving: Sequence[bool], *primals: Any, region: Region,
                              sizes: Sizes) -> tuple[Any, ...]:
    """The same, as JAX 0.12 wants it, where a rule may add residuals that are pytrees. Here are none."""
    outputs, moved, residuals, linear = _linearize(is_vjp, moving, *primals, region=region, sizes=sizes)
    return outputs, moved, residuals, None, lambda found, _, *tangents: linear(found, *tangents)


LINEARIZE = {(0, 10): _linearize, (0, 12): _linearize_with_structure}  # other versions linearise by the rule for `jvp`


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, region: Region,
         sizes: Sizes) -> tuple[Sequence[Any], list[Any]]:
    moving = tuple(type(t) is not ad.Zero for t in tangents)
    if region_p not in primitive_linearizations:  # JAX splits this rule where it linearises: so it must have two parts
        outputs, _, residuals, linear = _linearize(False, moving, *primals, region=region, sizes=sizes)
        return outputs, linear(residuals, *tangents)
    avals = avals_at(region.jaxpr.out_avals, dict(sizes))
    (push, moved), _, left = region.having(sizes, ("push", moving), lambda r: r.push(moving))
    results = apply(push, *primals, *chosen(tangents, moving), sizes=left)
    still = [ad.Zero(a.to_tangent_aval()) for a, moves in zip(avals, moved) if not moves]
    return results[:len(avals)], merged(moved, results[len(avals):], still)


def _transpose(cotangents: Sequence[Any], *args: Any, region: Region, sizes: Sizes) -> list[Any]:
    linear = tuple(map(ad.is_undefined_primal, args))
    asked = tuple(type(ct) is not ad.Zero for ct in cotangents)
    (backward, reached), _, left = region.having(sizes, (linear, asked), lambda r: r.transposed(linear, asked))
    fixed = [x for x, is_linear in zip(args, linear) if not is_linear]
    found = apply(backward, *fixed, *chosen(cotangents, asked), sizes=left) if any(reached) else []
    still = [ad.Zero(x.aval.to_tangent_aval()) for x, moves in zip(chosen(args, linear), reached) if not moves]
    return merged(linear, merged(reached, found, still), [None] * len(fixed))


def _batch(args: Sequence[Any], axes: Sequence[Any], *, region: Region,
           sizes: Sizes) -> tuple[Sequence[Any], list[Any]]:
    size = next(x.shape[a] for x, a in zip(args, axes) if a is not None)
    (over, mapped), left = region.batched(tuple(axes), size, sizes)
    return apply(over, *args, sizes=left), [0 if m else None for m in mapped]


def _partial_eval(trace: Any, *tracers: Any, region: Region, sizes: Sizes) -> Sequence[Any]:
    """Results that follow from known inputs are known, as of the operations one by one: the rule of a `custom_jvp`
    gives its values beside tangents that nobody knows yet."""
    unknown = tuple(not t.pval.is_known() for t in tracers)
    whole = dict(region=region, sizes=sizes)
    if not any(unknown):
        return trace.default_process_primitive(region_p, tracers, whole)
    (first, later, others), _, left = region.having(sizes, ("parted", unknown), lambda r: r.parted(unknown))
    if all(others):
        return trace.default_process_primitive(region_p, tracers, whole)
    count = others.count(False)
    found = apply(first, *(t.pval.get_known() for t in tracers if t.pval.is_known()), sizes=left)
    given = [*map(trace.new_const, found[count:]), *chosen(tracers, unknown)]
    rest = trace.default_process_primitive(region_p, given, dict(region=later, sizes=left)) if any(others) else []
    return merged(others, rest, found[:count])


def _staged(*args: Any, region: Region, sizes: Sizes) -> Sequence[Any]:
    return jaxpr_as_fun(region.at(sizes).jaxpr)(*args)


def _stage(trace: DynamicJaxprTrace, source_info: Any, *tracers: Any, region: Region, sizes: Sizes) -> Sequence[Any]:
    """One operation where JAX stages for itself: that is where what is not used falls away. Else a program stages again
    what was staged so, and may look at the operations."""
    if trace.frame.auto_dce:
        return trace.default_process_primitive(region_p, tracers, dict(region=region, sizes=sizes), source_info)
    with set_current_trace(trace):
        return _staged(*tracers, region=region, sizes=sizes)


def _drop(asked: list[bool], *told: Any) -> tuple[list[bool], Any]:
    """What falls away of one operation where JAX drops what nobody uses: as of the operations one by one. A loop before
    it would else be asked for a backward pass of results that reach nothing, which JAX's scan does not have. told: the
    equation, behind what newer versions of JAX say of its inputs (which of them are read later; a region writes none).
    """
    eqn = told[-1]
    if not any(asked):
        return [False] * len(eqn.invars), None
    if all(asked):
        return [True] * len(eqn.invars), eqn
    region, wanted = eqn.params["region"], tuple(asked)
    (slim, used), _, left = region.having(eqn.params["sizes"], ("slim", wanted), lambda r: r.slim(wanted))
    return list(used), eqn.replace(invars=chosen(eqn.invars, used), outvars=chosen(eqn.outvars, asked),
                                   params=dict(region=slim, sizes=left))


region_p.def_impl(_impl)
region_p.def_abstract_eval(_abstract)
ad.primitive_jvps[region_p] = _jvp
if jax.__version_info__[:2] in LINEARIZE:
    primitive_linearizations[region_p] = LINEARIZE[jax.__version_info__[:2]]
ad.primitive_transposes[region_p] = _transpose
custom_partial_eval_rules[region_p] = _partial_eval
custom_staging_rules[region_p] = _stage
dce_rules[region_p] = _drop
batching.primitive_batchers[region_p] = _batch
mlir.register_lowering(region_p, mlir.lower_fun(_staged, multiple_results=True))
