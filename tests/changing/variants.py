"""What is made of each entry: its gradient, its batch, its Jacobian, and the same with a graph break in the middle.

    >>> [v.name for v in derived(load()[0])]

A row of `VARIANTS` takes an Entry to the one that is run in its place. The transformation stands inside:
`dynacomp.jit(jax.grad(total))`. The break is a `print` before the middle statement of the function's own source.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tests.changing.kit import Entry, load

CALLS = 6  # of a variant: fewer than the entry itself has


def derived(e: Entry) -> list[Entry]:
    """The variants of an entry."""
    return [dataclasses.replace(VARIANTS[name](e), name=f"{e.name}: {name}", calls=of(name, e)[:CALLS])
            for name in e.variants]


def everything() -> list[Entry]:
    """Every entry, each followed by its variants."""
    return [one for e in load() for one in (e, *derived(e))]


def of(name: str, e: Entry) -> tuple[Any, ...]:
    return tuple(functools.partial(stacked, c, *c.args) for c in e.calls) if name == "vmap" else e.calls


def stacked(call: Callable[[], tuple[Any, ...]], *size: Any) -> tuple[Any, ...]:
    """A call's arguments with two rows in place of the first one."""
    first, *rest = call()
    return jnp.stack([first, first]), *rest


def floats(values: Any) -> list[Any]:
    """The arrays of a result that have derivatives."""
    return [v for v in jax.tree.leaves(values) if isinstance(v, jax.Array) and jnp.issubdtype(v.dtype, jnp.inexact)]


def below(e: Entry) -> int:
    """How many code objects a variant has. JAX calls a function that breaks under its own trace, below what stands
    around it: its frame and what follows its breaks are captured by themselves."""
    return e.frames if e.frames == 1 else 2 * e.frames


def gradient(e: Entry) -> Entry:
    def total(*args: Any) -> Any:
        return sum(jnp.sum(v) for v in floats(e.fn(*args)))
    return dataclasses.replace(e, fn=jax.grad(total), frames=below(e))


def batched(e: Entry) -> Entry:
    def row(*args: Any) -> Any:
        return floats(e.fn(*args))

    def batch(x: Any, *rest: Any) -> Any:
        return jax.vmap(row, in_axes=(0, *[None] * len(rest)))(x, *rest)
    return dataclasses.replace(e, fn=batch, frames=below(e))


def jacobian(e: Entry) -> Entry:
    def values(*args: Any) -> Any:
        return floats(e.fn(*args))
    return dataclasses.replace(e, fn=jax.jacfwd(values), frames=below(e))


def broken(e: Entry) -> Entry:
    return dataclasses.replace(e, fn=with_break(e.fn), frames=2 * e.frames)


def with_break(fn: Any) -> Any:
    """`fn` with a print in the middle of its body."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    function: Any = tree.body[0]
    function.decorator_list = []
    start = 1 if ast.get_docstring(function) else 0
    middle = start + (len(function.body) - start) // 2
    function.body.insert(middle, ast.parse("print('half way')").body[0])
    source = ast.unparse(tree)
    file = f"<{fn.__module__}.{fn.__name__} with a break>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope: dict[str, Any] = {}
    exec(compile(source, file, "exec"), fn.__globals__, scope)
    return scope[fn.__name__]


def broken_gradient(e: Entry) -> Entry:
    return gradient(broken(e))


VARIANTS: dict[str, Callable[[Entry], Entry]] = {
    "grad": gradient,
    "vmap": batched,
    "jacfwd": jacobian,
    "break": broken,
    "grad of break": broken_gradient,
}
