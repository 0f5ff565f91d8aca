"""A compiled region as a primitive of JAX, each of whose rules is again such a region.

Where JAX transforms the caller of a compiled function (`grad`, `vmap`, `jvp`, to any order), the
function's Graphs run on JAX's tracers: each binds `region_p`, whose rules give the tracers what they
ask for. A linearisation is two regions, one for the values and what is saved for later, one for the
tangents; its transpose, the backward pass, is a third; a forward derivative is one; a batch is a region over
one more axis. Each is compiled when it is first run on arrays.

Where JAX stages a program for XLA (`jit`, `scan`, `checkpoint`), the region's own operations are
staged instead. Only what JAX stages for itself while it linearises stays one operation: it is run at
once, forward or transposed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jax._src.core import eval_context, trace_ctx
from jax._src.interpreters.ad import primitive_linearizations
from jax._src.interpreters.partial_eval import DynamicJaxprTrace
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from dynacomp.lowering.autodiff.derive import (
    Split,
    batched,
    chosen,
    linearised,
    merged,
    moves,
    pushed,
    transposed,
)

Program = Callable[..., Sequence[Any]]


@dataclass(eq=False)
class Region:
    """A jaxpr, and what is made of it when it is needed.

    make: compiles a jaxpr to a callable of arrays. stays: it is one operation even where JAX stages a program.
    """

    jaxpr: ClosedJaxpr
    make: Callable[[ClosedJaxpr], Program]
    stays: bool = False
    derived: dict[Any, Any] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)
    program: Program | None = None

    def run(self, *arrays: Any) -> Sequence[Any]:
        """The compiled program on arrays."""
        if self.program is None:
            with self.lock:
                self.program = self.program or self.make(self.jaxpr)
        return self.program(*arrays)

    def like(self, jaxpr: ClosedJaxpr, stays: bool = False) -> Region:
        return Region(jaxpr, self.make, stays)

    def split(self, moving: tuple[bool, ...]) -> tuple[Region, Region, Split]:
        """The forward and the tangent region for the inputs that move."""
        if moving not in self.derived:
            split = linearised(self.jaxpr, moving)
            self.derived[moving] = self.like(split.forward), self.like(split.tangent, stays=True), split
        return self.derived[moving]

    def push(self, moving: tuple[bool, ...]) -> Region:
        """Values and tangents by one program."""
        if ("push", moving) not in self.derived:
            self.derived["push", moving] = self.like(pushed(self.jaxpr, moving))
        return self.derived["push", moving]

    def transpose(self, linear: tuple[bool, ...], asked: tuple[bool, ...]) -> Region:
        if (linear, asked) not in self.derived:
            self.derived[linear, asked] = self.like(transposed(self.jaxpr, linear, asked))
        return self.derived[linear, asked]

    def batch(self, axes: tuple[int | None, ...], size: int) -> tuple[Region, tuple[bool, ...]]:
        """The region over a batch, and which of its results have one."""
        if (axes, size) not in self.derived:
            closed, mapped = batched(self.jaxpr, axes, size)
            self.derived[axes, size] = self.like(closed, self.stays), mapped
        return self.derived[axes, size]


region_p = Primitive("dynacomp_region")
region_p.multiple_results = True


def apply(region: Region, *args: Any) -> Sequence[Any]:
    """The region on arrays or tracers; under a trace that stages a program, its operations one by one."""
    if not region.stays and isinstance(trace_ctx.trace, DynamicJaxprTrace):
        return jaxpr_as_fun(region.jaxpr)(*args)
    return region_p.bind(*args, region=region)


def _impl(*args: Any, region: Region) -> Sequence[Any]:
    with eval_context():  # compiling, or a seam to XLA, may run operations of its own
        return region.run(*args)


def _abstract(*avals: Any, region: Region) -> list[Any]:
    return list(region.jaxpr.out_avals)


def _linearize(is_vjp: bool, moving: Sequence[bool], *primals: Any, region: Region) -> tuple[Any, ...]:
    """(outputs, which of them move, residuals, a function of residuals and tangents), as JAX wants it."""
    moving = tuple(moving)
    forward, tangent, split = region.split(moving)
    results, avals = apply(forward, *primals), region.jaxpr.out_avals
    outputs, saved = results[:len(avals)], results[len(avals):]
    inexact = [moves(a) for a in avals]
    still = [ad.Zero(a.to_tangent_aval()) for a in avals if not moves(a)]

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        return merged(inexact, apply(tangent, *residuals, *chosen(tangents, moving)), still)

    return outputs, inexact, split.picked(primals, outputs, saved), linear


def _linearize_with_structure(is_vjp: bool, moving: Sequence[bool], *primals: Any, region: Region) -> tuple[Any, ...]:
    """The same, as JAX 0.12 wants it, where a rule may add residuals that are pytrees. Here are none."""
    outputs, moved, residuals, linear = _linearize(is_vjp, moving, *primals, region=region)
    return outputs, moved, residuals, None, lambda found, _, *tangents: linear(found, *tangents)


LINEARIZE = {(0, 10): _linearize, (0, 12): _linearize_with_structure}  # other versions linearise by the rule for `jvp`


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, region: Region) -> tuple[Sequence[Any], list[Any]]:
    moving = tuple(type(t) is not ad.Zero for t in tangents)
    if region_p not in primitive_linearizations:  # JAX splits this rule where it linearises: so it must have two parts
        outputs, _, residuals, linear = _linearize(False, moving, *primals, region=region)
        return outputs, linear(residuals, *tangents)
    avals = region.jaxpr.out_avals
    results = apply(region.push(moving), *primals, *chosen(tangents, moving))
    still = [ad.Zero(a.to_tangent_aval()) for a in avals if not moves(a)]
    return results[:len(avals)], merged([moves(a) for a in avals], results[len(avals):], still)


def _transpose(cotangents: Sequence[Any], *args: Any, region: Region) -> list[Any]:
    linear = tuple(map(ad.is_undefined_primal, args))
    asked = tuple(type(ct) is not ad.Zero for ct in cotangents)
    if not any(asked):
        return [ad.Zero(x.aval.to_tangent_aval()) if is_linear else None for x, is_linear in zip(args, linear)]
    backward = region.transpose(linear, asked)
    fixed = [x for x, is_linear in zip(args, linear) if not is_linear]
    return merged(linear, apply(backward, *fixed, *chosen(cotangents, asked)), [None] * len(fixed))


def _batch(args: Sequence[Any], axes: Sequence[Any], *, region: Region) -> tuple[Sequence[Any], list[Any]]:
    size = next(x.shape[a] for x, a in zip(args, axes) if a is not None)
    over, mapped = region.batch(tuple(axes), size)
    return apply(over, *args), [0 if m else None for m in mapped]


def _staged(*args: Any, region: Region) -> Sequence[Any]:
    return jaxpr_as_fun(region.jaxpr)(*args)


region_p.def_impl(_impl)
region_p.def_abstract_eval(_abstract)
ad.primitive_jvps[region_p] = _jvp
if jax.__version_info__[:2] in LINEARIZE:
    primitive_linearizations[region_p] = LINEARIZE[jax.__version_info__[:2]]
ad.primitive_transposes[region_p] = _transpose
batching.primitive_batchers[region_p] = _batch
mlir.register_lowering(region_p, mlir.lower_fun(_staged, multiple_results=True))
