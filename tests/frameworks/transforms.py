"""JAX's transformations around compiled functions, native programs and all, against the same around plain Python.

    seen = Checked(["grad", "vmap"])
    model.run(seen)          every function that the model compiles is transformed, at its first call
    assert seen.wrong == []

A function is looked at as one of its float arrays, whatever tree they hang in; what it raises under a transformation
is compared like any result. Each run draws the same random numbers. Arrays that are all zero start a little above: the
derivative of Adam's first step divides by the square of a gradient, and where that is 0 but for rounding (a key's bias,
before a softmax) one run in three has no number. Where results differ, plain Python is asked what a change of the
arrays by an eighth of the tolerance makes of them, and what it computes in float64.
"""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dynacomp

Arrays = list[Any]


def total(results: Arrays) -> Any:
    """One number of all results, linear in none."""
    return sum((jnp.sin(y).sum() for y in results), jnp.zeros(()))


def moved(xs: Arrays) -> Arrays:
    """Tangents."""
    return [jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape) for x in xs]


def linearized(f: Callable[[Arrays], Arrays], xs: Arrays) -> Any:
    results, forward = jax.linearize(f, xs)
    return results, forward(moved(xs)), forward([2 * t for t in moved(xs)])


def pulled_back(f: Callable[[Arrays], Arrays], xs: Arrays) -> Any:
    results, back = jax.vjp(f, xs)
    return results, back(moved(results)), back([2 * y for y in results])


TRANSFORMS: dict[str, Callable[[Callable[[Arrays], Arrays], Arrays], Any]] = {
    "grad": lambda f, xs: jax.grad(lambda xs: total(f(xs)))(xs),
    "jvp": lambda f, xs: jax.jvp(f, (xs,), (moved(xs),)),
    "vmap": lambda f, xs: jax.vmap(f)([jnp.stack([x, x * 1.01]) for x in xs]),
    "linearize": linearized,
    "vjp": pulled_back,
    "hessian-vector": lambda f, xs: jax.jvp(jax.grad(lambda xs: total(f(xs))), (xs,), (moved(xs),)),
    "checkpoint": lambda f, xs: jax.grad(lambda xs: total(jax.checkpoint(f)(xs)))(xs),
}


def is_float(x: Any) -> bool:
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating)


def unused(x: Any) -> Any:
    """A generator of random numbers that nobody has drawn from; else `x` itself."""
    return copy.deepcopy(x) if isinstance(x, (np.random.Generator, random.Random)) else x


def off_zero(x: Any) -> Any:
    """An array where square roots have a derivative."""
    return x if jnp.any(x) else x + jnp.asarray(0.1, x.dtype)


def of_arrays(fn: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Callable[[Arrays], Arrays], Arrays]:
    """`fn` on such arguments as a function of their float arrays, and these."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    places = [k for k, x in enumerate(leaves) if is_float(x)]

    def run(xs: Arrays) -> Arrays:
        moved = dict(zip(places, xs))
        given, more = tree.unflatten([moved[k] if k in moved else unused(x) for k, x in enumerate(leaves)])
        return [y for y in jax.tree.leaves(fn(*given, **more)) if is_float(y)]

    return run, [off_zero(leaves[k]) for k in places]


def in_float64(transform: Callable[..., Any], fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The outcome with all floats in float64, of a function that lets them be."""
    with jax.enable_x64(True):
        args, kwargs = jax.tree.map(lambda x: x.astype(jnp.float64) if is_float(x) else x, (args, kwargs))
        return outcome(transform, fn, args, kwargs)


def outcome(transform: Callable[..., Any], fn: Callable[..., Any], args: Any, kwargs: Any, scale: float = 1) -> Any:
    """What a transformation gives, or the kind of what it raises."""
    state = random.getstate()
    try:
        run, xs = of_arrays(fn, args, kwargs)
        return jax.tree.leaves(transform(run, [x * scale for x in xs] if scale != 1 else xs))
    except Exception as error:
        return type(error).__name__
    finally:
        random.setstate(state)


def apart(got: Any, want: Any, tolerance: float, others: Sequence[Any] = ()) -> str:
    """How two outcomes differ; "" where they do not, or no more than eight times as much as one of the `others` does
    from what is wanted: where that is more than there is, what is wanted is noise, infinities and all."""
    if isinstance(got, str) or isinstance(want, str):
        return "" if isinstance(got, str) and got == want else f"{str(got)[:80]}, not {str(want)[:80]}"
    kinds = [[(x.shape, x.dtype) for x in side] for side in (got, want)]
    if kinds[0] != kinds[1]:
        return f"{kinds[0]}, not {kinds[1]}"
    others = [o for o in others if not isinstance(o, str) and [x.shape for x in o] == [x.shape for x in want]]
    for k, (a, b) in enumerate(zip(got, want)):
        x, y, *zs = (np.asarray(v, np.float64) for v in (a, b, *(o[k] for o in others)))
        size = np.max(np.abs(y), initial=0, where=np.isfinite(y))
        wobble = max((np.max(np.abs(y - z), initial=0, where=np.isfinite(y - z)) for z in zs), default=0)
        if any((np.isfinite(y) != np.isfinite(z)).any() for z in zs):
            continue
        near = tolerance * size + 8 * wobble + 1e-6
        if 8 * wobble < max(size, 1e-30) and not np.allclose(x, y, rtol=tolerance, atol=near, equal_nan=True):
            return f"apart by {np.nanmax(np.abs(x - y)):.2g} of {size:.2g}"
    return ""


@dataclass
class Checked:
    """A `jit` that checks these transformations of each function that it is given, at its first call; `wrong` says
    where they differ from those of plain Python."""

    names: Sequence[str]
    tolerance: float = 1e-3
    wrong: list[str] = field(default_factory=list)
    checks: int = 0

    def __call__(self, fn: Any) -> Any:
        compiled, seen = dynacomp.jit(fn), []

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not seen:
                seen.append(True)
                self.look(compiled, fn, args, kwargs)
            return fn(*args, **kwargs)

        return call

    def look(self, compiled: Any, fn: Any, args: Any, kwargs: Any) -> None:
        for name in self.names:
            want = outcome(TRANSFORMS[name], fn, args, kwargs)
            for turn in ("first", "second"):
                got = outcome(TRANSFORMS[name], compiled, args, kwargs)
                found = apart(got, want, self.tolerance)
                if found and not isinstance(got, str) and not isinstance(want, str):
                    found = apart(got, want, self.tolerance, [
                        outcome(TRANSFORMS[name], fn, args, kwargs, scale=1 + self.tolerance / 8),
                        in_float64(TRANSFORMS[name], fn, args, kwargs)])
                if found:
                    self.wrong.append(f"{getattr(fn, '__qualname__', fn)}, {name}, {turn} call: {found}")
            self.checks += 1
