"""From a jaxpr to the jaxprs of its derivative, transpose and batch.

JAX differentiates and batches; each result is traced once, as a jaxpr of its own, so that it can be
compiled like any other. Functions of JAX's documented API do the work (`linearize`,
`linear_transpose`, `vmap`, `make_jaxpr`): the derivative rules are JAX's.

    >>> closed = jax.make_jaxpr(lambda x: jax.numpy.sin(x) * 2)(1.0)
    >>> split = linearised(closed, (True,))
    >>> y, cosine = jaxpr_as_fun(split.forward)(0.0)
    >>> dy, = jaxpr_as_fun(split.tangent)(cosine, 3.0)
    >>> float(y), float(dy)
    (0.0, 6.0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.interpreters.ad import JVPTracer, LinearizeTracer
from jax._src.interpreters.batching import BatchTracer
from jax._src.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr_nounits
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from dynacomp.lowering.autodiff.cut import again, kept


@dataclass(frozen=True)
class Split:
    """A function of which some inputs move, as a forward and a tangent part.

    forward: inputs → (outputs, saved values). tangent: (residuals, tangents of the moving inputs that are used) →
    tangents of the outputs that move. residuals: where each comes from, ("in", i), ("out", i) or ("saved", i): inputs
    and outputs are not saved a second time. moved: which outputs move; what follows asks (a `while_loop` has no
    backward pass where its state does). used: on which of the moving inputs these depend: JAX drops what makes the
    others move.
    """

    forward: ClosedJaxpr
    tangent: ClosedJaxpr
    residuals: tuple[tuple[str, int], ...]
    moved: tuple[bool, ...]
    used: tuple[bool, ...]

    def picked(self, inputs: Sequence[Any], outputs: Sequence[Any], saved: Sequence[Any]) -> list[Any]:
        """The residuals themselves."""
        where = {"in": inputs, "out": outputs, "saved": saved}
        return [where[kind][i] for kind, i in self.residuals]


def structs(avals: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
    """Abstract values as arguments of `make_jaxpr`."""
    return [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]


def moves(aval: Any) -> bool:
    """Whether an array of this kind has a tangent."""
    return bool(jnp.issubdtype(aval.dtype, jnp.inexact))


def chosen(items: Sequence[Any], which: Sequence[bool]) -> list[Any]:
    return [x for x, wanted in zip(items, which) if wanted]


def merged(which: Sequence[bool], yes: Sequence[Any], no: Sequence[Any]) -> list[Any]:
    """One list of two: the next of `yes` where `which` says so, else the next of `no`."""
    given, others = iter(yes), iter(no)
    return [next(given) if w else next(others) for w in which]


def noting(fn: Callable[..., list[Any]], moved: list[bool]) -> Callable[..., list[Any]]:
    """A function that is being differentiated, which notes which of its results move."""
    def noted(*args: Any) -> list[Any]:
        results = fn(*args)
        moved[:] = [isinstance(x, (JVPTracer, LinearizeTracer)) and moves(x) for x in results]
        return results
    return noted


def linearised(closed: ClosedJaxpr, moving: Sequence[bool]) -> Split:
    """The function split for the inputs that move."""
    fn, inputs, count = jaxpr_as_fun(closed), structs(closed.in_avals), len(closed.out_avals)
    trees: list[Any] = []
    moved: list[bool] = []

    def whole(*primals: Any) -> list[Any]:
        still = [x for x, w in zip(primals, moving) if not w]
        of_moving = noting(lambda *xs: fn(*merged(moving, xs, still)), moved)
        outputs, linear = jax.linearize(of_moving, *chosen(primals, moving))
        residuals, tree = jax.tree.flatten(linear)
        trees.append(tree)
        return [*outputs, *residuals]

    made = jax.make_jaxpr(whole)(*inputs)
    given = kept(made.jaxpr, count)

    def forward(*args: Any) -> list[Any]:
        return again(made.jaxpr, made.consts, made.jaxpr.invars, args, (*made.jaxpr.outvars[:count], *saved))

    def tangent(values: list[Any], tangents: list[Any]) -> list[Any]:
        residuals = again(made.jaxpr, made.consts, given, values, made.jaxpr.outvars[count:])
        return chosen(jax.tree.unflatten(trees[-1], residuals)(*tangents), moved)

    sources, saved = where_from(made.jaxpr, count, given)
    whole_tangent = flat_jaxpr(tangent, structs([v.aval for v in given]), chosen(inputs, moving))
    slim, used = dce_jaxpr(whole_tangent.jaxpr, [True] * sum(moved), [True] * len(given) + [False] * sum(moving))
    return Split(jax.make_jaxpr(forward)(*inputs), ClosedJaxpr(slim, whole_tangent.consts), sources, tuple(moved),
                 tuple(used[len(given):]))


def where_from(jaxpr: Any, count: int, given: Sequence[Any]) -> tuple[tuple[tuple[str, int], ...], list[Any]]:
    """Where each of the variables `given` comes from, and those that the forward part must save."""
    places = {id(v): ("out", i) for i, v in enumerate(jaxpr.outvars[:count])}
    places |= {id(v): ("in", i) for i, v in enumerate(jaxpr.invars)}
    saved = [v for v in given if id(v) not in places]
    places |= {id(v): ("saved", i) for i, v in enumerate(saved)}
    return tuple(places[id(v)] for v in given), saved


def pushed(closed: ClosedJaxpr, moving: Sequence[bool]) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """(inputs, tangents of the moving inputs) → (outputs, tangents of those that move), in one go, and which move."""
    fn, inputs = jaxpr_as_fun(closed), structs(closed.in_avals)
    moved: list[bool] = []

    def push(primals: list[Any], tangents: list[Any]) -> list[Any]:
        still = [x for x, w in zip(primals, moving) if not w]
        of_moving = noting(lambda *xs: fn(*merged(moving, xs, still)), moved)
        outputs, found = jax.jvp(of_moving, chosen(primals, moving), tangents)
        return [*outputs, *chosen(found, moved)]

    return flat_jaxpr(push, inputs, chosen(inputs, moving)), tuple(moved)


def transposed(closed: ClosedJaxpr, linear: Sequence[bool],
               asked: Sequence[bool]) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """Of a function that is linear in some inputs: (the other inputs, cotangents of the results that are asked for)
    → cotangents of those linear inputs that these results depend on, and which they are: what is before the others
    has no backward pass, and may be a loop that cannot have one."""
    fn, inputs = jaxpr_as_fun(closed), structs(closed.in_avals)
    _, used = dce_jaxpr(closed.jaxpr, list(asked))
    reached = tuple(chosen(used, linear))

    def backward(fixed: list[Any], cotangents: list[Any]) -> Any:
        def of_linear(*xs: Any) -> list[Any]:
            return chosen(fn(*merged(linear, xs, fixed)), asked)
        return chosen(jax.linear_transpose(of_linear, *chosen(inputs, linear))(cotangents), reached)

    return flat_jaxpr(backward, [x for x, is_linear in zip(inputs, linear) if not is_linear],
                      chosen(structs(closed.out_avals), asked)), reached


def batched(closed: ClosedJaxpr, axes: Sequence[int | None], size: Any) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The function over a batch, and which of its results have one, in front: those that depend on batched inputs.
    `axes` says where each input has it (None: nowhere); size: an int or a Size."""
    def grown(struct: jax.ShapeDtypeStruct, axis: int | None) -> jax.ShapeDtypeStruct:
        if axis is None:
            return struct
        shape = (*struct.shape[:axis], size, *struct.shape[axis:])
        return jax.ShapeDtypeStruct(shape, struct.dtype, weak_type=struct.weak_type)

    fn, inputs = jaxpr_as_fun(closed), list(map(grown, structs(closed.in_avals), axes))
    mapped: list[bool] = []

    def noting(*args: Any) -> Any:
        results = fn(*args)
        # A function with a rule of its own (`jax.nn.relu`) gives tracers, batch or none.
        mapped[:] = [isinstance(x, BatchTracer) and x.batch_dim is not None for x in results]
        return results

    jax.eval_shape(jax.vmap(noting, in_axes=tuple(axes), axis_size=size), *inputs)
    over = jax.vmap(fn, in_axes=tuple(axes), out_axes=[0 if m else None for m in mapped], axis_size=size)
    return jax.make_jaxpr(over)(*inputs), tuple(mapped)


def parted(closed: ClosedJaxpr, unknown: Sequence[bool]) -> tuple[ClosedJaxpr, ClosedJaxpr, tuple[bool, ...]]:
    """Of a function some of whose inputs are not known yet: known inputs → (results that follow from them, saved
    values); (saved values, the other inputs) → the other results; which results the latter are."""
    first, later, unknown_results, _ = partial_eval_jaxpr_nounits(closed, list(unknown), instantiate=False)
    return first, later, tuple(unknown_results)


def slimmed(closed: ClosedJaxpr, asked: Sequence[bool]) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The function of the results that are asked for, and which inputs these depend on: it takes no others."""
    slim, used = dce_jaxpr(closed.jaxpr, list(asked))
    return ClosedJaxpr(slim, closed.consts), tuple(used)


def flat_jaxpr(fn: Callable[[list[Any], list[Any]], Any], first: list[Any], second: list[Any]) -> ClosedJaxpr:
    """The jaxpr of a function of two lists."""
    return jax.make_jaxpr(lambda *args: fn(list(args[:len(first)]), list(args[len(first):])))(*first, *second)
