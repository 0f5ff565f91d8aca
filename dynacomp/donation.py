"""Donation: what `donate_argnums` and `donate_argnames` mean, as in `jax.jit`.

A donated argument's arrays are given up by the caller: where a result of the same size takes their
place they are deleted once the call has succeeded, so that using one again raises as in JAX; its
memory is the next call's. A donated array that no result can take the place of stays, with JAX's own
warning; so does one that is itself part of the result. Under a transformation of JAX nothing is donated.
A function that is compiled as part of its caller donates as well (`capture/calls/donations.py`).

    step = jit(step, donate_argnums=0)
    params = step(params, batch)        # the old params are gone
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax._src.api_util import resolve_argnums
from jax._src.core import trace_ctx

import dynacomp.capture._native as _native
from dynacomp.capture.portable import prints


@dataclass(frozen=True)
class Donated:
    """Which arguments are donated, by position and by name."""

    numbers: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.numbers or self.names)


def donated(fn: Callable[..., Any], donate_argnums: Any, donate_argnames: Any, static_argnums: Any,
            static_argnames: Any) -> tuple[Donated, tuple[int, ...]]:
    """What is donated of `fn`'s arguments, and the positions of its static ones; raises what `jax.jit`
    raises for numbers and names that `fn` does not have, and for arguments that are both static and donated."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        signature = None
    numbers, names, static, _ = resolve_argnums(fn, signature, donate_argnums, donate_argnames, static_argnums,
                                                static_argnames)
    return Donated(tuple(numbers), tuple(names)), tuple(static)


class DonatingFunction(_native.CompiledFunction):
    """A compiled function that deletes what was donated to it."""

    __slots__ = ("warned",)  # of no account for what it computes, as all else is that it holds
    donated: Donated
    warned: set[str]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not trace_ctx.is_top_level():
            return super().__call__(*args, **kwargs)
        given = arrays(chosen(self.donated, args, kwargs))
        forbid_sharing(given, arrays((args, kwargs)))
        result = super().__call__(*args, **kwargs)
        unusable = give_up(given, arrays(result))
        self._warn(unusable)
        return result

    def _warn(self, unusable: Sequence[jax.Array]) -> None:
        shown = ", ".join(f"{x.dtype.name}[{','.join(map(str, x.shape))}]" for x in unusable)
        if shown and shown not in self.warned:
            self.warned.add(shown)
            warnings.warn(f"Some donated buffers were not usable: {shown}.\nSee an explanation at "
                          "https://docs.jax.dev/en/latest/faq.html#buffer-donation.", stacklevel=3)


prints.ROWS[DonatingFunction] = prints.ROWS[_native.CompiledFunction]


def donating(fn: Callable[..., Any], on_miss: Any, options: Any, which: Donated) -> DonatingFunction:
    made = DonatingFunction(fn, on_miss, options)
    made.donated, made.warned = which, set()
    return made


def chosen(which: Donated, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The donated arguments of one call."""
    positions = {n % len(args) if -len(args) <= n < 0 else n for n in which.numbers}
    return [*(args[n] for n in sorted(positions) if n < len(args)), *(kwargs[n] for n in which.names if n in kwargs)]


def arrays(tree: Any) -> list[jax.Array]:
    """The concrete arrays among the leaves of a pytree."""
    return [x for x in jax.tree.leaves(tree) if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer)]


def forbid_sharing(given: Sequence[jax.Array], all_arrays: Iterable[jax.Array]) -> None:
    """JaxRuntimeError, as in JAX, where a donated array is an argument twice."""
    wanted = {id(x) for x in given}
    if len(wanted) < len(given):
        raise jax.errors.JaxRuntimeError("INVALID_ARGUMENT: Attempt to donate the same buffer twice. "
                                         "Toy example for this bug: `f(donate(a), donate(a))`.")
    if sum(id(x) in wanted for x in all_arrays) > len(given):
        raise jax.errors.JaxRuntimeError("INVALID_ARGUMENT: Attempt to use a buffer that was donated in the same "
                                         "call. Toy example for this bug: `f(donate(a), a)`.")


def give_up(given: Sequence[jax.Array], results: Sequence[jax.Array]) -> list[jax.Array]:
    """Deletes the donated arrays whose place a result takes; the others, which were of no use.

    As in JAX a result takes the place of an array of its shape and dtype, else of one of as many elements: that one
    stays, but is not told of, where these are of another width.
    """
    kept = {id(x) for x in results}
    left = [x for x in given if id(x) not in kept and not x.is_deleted()]
    free = [y for y in results if all(y is not x for x in given)]
    for kind in (lambda x: (x.shape, x.dtype), lambda x: x.size):
        left = [x for x in left if not _replaced(x, free, kind)]
    return left


def _replaced(x: jax.Array, free: list[jax.Array], kind: Callable[[jax.Array], Any]) -> bool:
    """Whether one of the `free` results is of x's kind: it is used up then, and x deleted if it fits there."""
    at = next((k for k, y in enumerate(free) if kind(y) == kind(x)), None)
    if at is None:
        return False
    if free.pop(at).dtype.itemsize == x.dtype.itemsize:
        x.delete()
    return True
