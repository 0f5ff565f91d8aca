"""What runs on the GPU one after the other: a Kernel's top level cut into launches.

    parallel loop              a launch of its own, its iterations over the grid
    anything between those     a launch of one program

A scalar that one launch computes and a later one reads travels in a one-element buffer, its `box`; what is made of
sizes and of memory that the kernel does not write alone, every launch that needs it makes for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.lowering.kernel_ir.loops import Buffer, Expr, Kernel, Let, Load, Ref, Stmt, Store, below, statements


@dataclass(frozen=True)
class Piece:
    """The statements of one launch; `scratch` are the boxes that it reads or writes."""

    body: tuple[Stmt, ...]
    scratch: tuple[Buffer, ...] = ()


def pieces(kernel: Kernel) -> tuple[Piece, ...]:
    """The launches of `kernel`, in order; together they do what its body does."""
    groups, shared = _sharing(list(_groups(kernel.body)), stored(kernel.body))
    made: dict[str, np.dtype] = {}
    found = []
    for position, group in enumerate(groups):
        later = set().union(*(names_used(g) for g in groups[position + 1 :]))
        own = dict(defined for stmt in group for defined in stmt.defines if defined[0] not in shared)
        needed = {n: d for n, d in made.items() if n in names_used(group)}
        given = {n: d for n, d in own.items() if n in later}
        found.append(_piece(group, needed, given))
        made |= given
    return tuple(found)


def _sharing(groups: list[tuple[Stmt, ...]], written: set[str]) -> tuple[list[tuple[Stmt, ...]], Set[str]]:
    """The groups without those that only name scalars, where each other one can do so for itself; those names."""
    shared: dict[str, Let] = {}
    kept: list[tuple[Stmt, ...]] = []
    made = {name for group in groups for stmt in group for name, _ in stmt.defines}
    for group in groups:
        lets = [s for s in group if isinstance(s, Let)]
        plain = len(lets) == len(group) and not loaded(group) & written
        if plain and not (names_used(group) - {s.name for s in lets}) & (made - shared.keys()):
            shared |= {s.name: s for s in lets}
        else:
            kept.append((*_needed(group, shared), *group))
    return kept, shared.keys()


def _needed(group: tuple[Stmt, ...], shared: dict[str, Let]) -> list[Let]:
    """The shared Lets that a group reads, with those that they read, in order."""
    names = names_used(group)
    for name, let in reversed(shared.items()):
        names |= names_used((let,)) if name in names else set()
    return [let for name, let in shared.items() if name in names]


def _groups(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Each parallel loop alone; what stands between two of them together."""
    between: list[Stmt] = []
    for stmt in body:
        if stmt.parallel:
            if between:
                yield tuple(between)
            yield (stmt,)
            between = []
        else:
            between.append(stmt)
    if between:
        yield tuple(between)


def _piece(group: tuple[Stmt, ...], needed: dict[str, np.dtype], given: dict[str, np.dtype]) -> Piece:
    zero = sympy.Integer(0)
    first = tuple(Let(n, Load(box(n), zero, d)) for n, d in needed.items())
    last = tuple(Store(box(n), zero, Ref(n, d)) for n, d in given.items())
    return Piece((*first, *group, *last), tuple(Buffer(box(n), (), d) for n, d in (needed | given).items()))


def box(name: str) -> str:
    """The buffer that carries the value of `name` from launch to launch."""
    return f"{name}_box"


def expressions(stmt: Stmt) -> Iterator[Expr]:
    """Every expression of one statement (not of the statements in it)."""
    return below(stmt.exprs)


def _indices(stmt: Stmt) -> Iterator[Any]:
    yield from stmt.places
    yield from (expr.place for expr in expressions(stmt) if expr.place is not None)


def names_used(body: tuple[Stmt, ...]) -> set[str]:
    """The names that statements read: of values, loop variables and sizes."""
    found: set[str] = set()
    for stmt in statements(body):
        found |= {e.name for e in of_class(Ref, expressions(stmt))}
        for expr in _indices(stmt):
            found |= {s.name for s in sympy.sympify(expr).free_symbols}
    return found


def loaded(body: tuple[Stmt, ...]) -> set[str]:
    """The buffers that statements read; read-modify-write counts."""
    loads = {e.buffer for s in statements(body) for e in of_class(Load, expressions(s))}
    return loads | {s.buffer for s in of_class(Store, statements(body)) if s.mode != "set"}


def stored(body: tuple[Stmt, ...]) -> set[str]:
    """The buffers that statements write."""
    return {name for s in statements(body) for name in s.writes}
