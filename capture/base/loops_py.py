"""Functions of Python and JAX that go through what they are given, as loops in Python.

The machine enters them where it goes through more rounds than it wants to see one by one: such a loop may become a
node of the Graph, which the C function cannot.
"""

from __future__ import annotations

import functools
import itertools
import operator
from typing import Any

import jax


def as_list(items: Any) -> list[Any]:
    """`list(items)`, as a loop that may become a node."""
    made = []
    for x in items:
        made.append(x)
    return made


def summed(items: Any, total: Any) -> Any:
    """`sum(items, total)`, as a loop that may become a node."""
    for x in items:
        total = total + x
    return total


def multiplied(items: Any, total: Any) -> Any:
    """`math.prod(items, start=total)`, as a loop that may become a node."""
    for x in items:
        total = total * x
    return total


def reduced(items: Any, f: Any, *initial: Any) -> Any:
    """`functools.reduce(f, items, *initial)`, as a loop that may become a node."""
    rest = iter(items)
    total = functools.reduce(f, itertools.islice(rest, 0 if initial else 1), *initial)
    for x in rest:
        total = f(total, x)
    return total


def accumulated(items: Any, func: Any, initial: Any) -> list[Any]:
    """`list(itertools.accumulate(items, func, initial=initial))`, as a loop that may become a node."""
    rest, combine = iter(items), operator.add if func is None else func
    made = list(itertools.islice(rest, 1)) if initial is None else [initial]
    for total in made[:1]:
        for x in rest:
            total = combine(total, x)
            made.append(total)
    return made


def map_each(f: Any, items: Any) -> list[Any]:
    """`jax.tree.map(f, list(items))`, as a loop that may become a node."""
    made = []
    for x in items:
        made.append(jax.tree.map(f, x))
    return made
