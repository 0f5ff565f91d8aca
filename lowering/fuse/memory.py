"""Where temporaries live, planned by lifetimes: in the arena (one block of memory), or in outputs not yet written.

A temporary lives from the step that writes it to the last step that reads it. Until its first step an output's memory
is free (a room): a training step writes new parameters last, so that they hold what its forward pass keeps. What fits
into no room is placed in the arena.

Buffers of known size are placed lowest-first into gaps left by those alive with them, largest buffers first.
Buffers of symbolic size share only with buffers of the same size expression: a room holds one at a time, the slots of
the arena follow the static part one after another.

    >>> plan({"a": (sympy.Integer(64), 0, 1), "b": (sympy.Integer(64), 1, 2), "c": (sympy.Integer(64), 2, 3)})
    Plan(offsets={'a': 0, 'b': 64, 'c': 0}, arena=128, hosts={})
    >>> plan({"a": (sympy.Integer(8192), 0, 1), "b": (sympy.Integer(64), 1, 2)}, {"out": (sympy.Integer(8192), 2)})
    Plan(offsets={'a': 0, 'b': 0}, arena=64, hosts={'a': 'out'})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sympy

from dynacomp.lowering.sizes.indexing import FloorDiv

ALIGN = 64
SMALL = 4096
"""Bytes: an output below is no room, as little is saved."""
Life = tuple[sympy.Expr, int, int]
"""(bytes, first step, last step), both ends included."""
Room = tuple[sympy.Expr, int]
"""(bytes, the step from which on they are taken)."""


@dataclass(frozen=True)
class Plan:
    """Byte offsets of the buffers, in the output `hosts[name]` or else in the arena, and the arena's size."""

    offsets: Mapping[str, sympy.Expr]
    arena: sympy.Expr
    hosts: Mapping[str, str] = field(default_factory=dict)


def aligned(size: sympy.Expr) -> sympy.Expr:
    """`size` rounded up to the arena's alignment."""
    if size.is_Integer:
        return sympy.Integer(-(-int(size) // ALIGN) * ALIGN)
    if (size / ALIGN).is_integer:
        return size
    return FloorDiv(size + ALIGN - 1, sympy.Integer(ALIGN)) * ALIGN


def plan(lives: Mapping[str, Life], rooms: Mapping[str, Room] | None = None) -> Plan:
    """Where the buffers of these lives are."""
    hosts, inside = _housed(lives, {n: r for n, r in (rooms or {}).items() if not r[0].is_Integer or r[0] >= SMALL})
    left = {n: (aligned(s), a, b) for n, (s, a, b) in lives.items() if n not in hosts}
    fixed = {n: life for n, life in left.items() if life[0].is_Integer}
    offsets: dict[str, sympy.Expr] = {}
    for name in _largest_first(fixed):
        offsets[name] = sympy.Integer(_gap(_busy(fixed, offsets, name), int(fixed[name][0])))
    top = max((offsets[n] + fixed[n][0] for n in offsets), default=sympy.Integer(0))
    moving = {n: life for n, life in left.items() if n not in fixed}
    return Plan(*_plan_symbolic(moving, inside | offsets, top), hosts)


def _largest_first(lives: Mapping[str, Life]) -> list[str]:
    return sorted(lives, key=lambda n: (-lives[n][0], lives[n][1]))


def _busy(lives: Mapping[str, Life], offsets: Mapping[str, sympy.Expr], name: str) -> list[tuple[int, int]]:
    """What those of `offsets` occupy that are alive with `name`, in order."""
    _, first, last = lives[name]
    return sorted((int(o), int(o + lives[n][0])) for n, o in offsets.items()
                  if lives[n][1] <= last and first <= lives[n][2])


def _gap(busy: list[tuple[int, int]], size: int) -> int:
    start = 0
    for begin, end in busy:
        if begin - start >= size:
            break
        start = max(start, end)
    return start


def _housed(lives: Mapping[str, Life], rooms: Mapping[str, Room]) -> tuple[dict[str, str], dict[str, sympy.Expr]]:
    """The room of each buffer that has one, and where in it: of those that are free for long enough the one that is
    taken soonest."""
    inside: dict[str, dict[str, sympy.Expr]] = {n: {} for n in sorted(rooms, key=lambda n: rooms[n][1])}
    fixed = {n: (aligned(s), a, b) for n, (s, a, b) in lives.items() if s.is_Integer}
    for name in _largest_first(fixed):
        size = int(lives[name][0])
        for room, places in inside.items():
            space, until = rooms[room]
            if until > lives[name][2] and space.is_Integer and size <= space:
                start = _gap(_busy(fixed, places, name), size)
                if start + size <= space:
                    places[name] = sympy.Integer(start)
                    break
    for name in sorted(lives.keys() - fixed.keys(), key=lambda n: lives[n][1]):
        size, first, last = lives[name]
        for room, places in inside.items():
            alone = all(lives[n][1] > last or first > lives[n][2] for n in places)
            if rooms[room][1] > last and rooms[room][0] == size and alone:
                places[name] = sympy.Integer(0)
                break
    return {n: r for r, places in inside.items() for n in places}, {n: o for p in inside.values() for n, o in p.items()}


def _plan_symbolic(
    lives: Mapping[str, Life],
    offsets: dict[str, sympy.Expr],
    top: sympy.Expr,
) -> tuple[dict[str, sympy.Expr], sympy.Expr]:
    slots: dict[sympy.Expr, list[tuple[sympy.Expr, int]]] = {}  # size -> (offset, free after step)
    for name in sorted(lives, key=lambda n: lives[n][1]):
        size, first, last = lives[name]
        free = slots.setdefault(size, [])
        found = next((k for k, (_, until) in enumerate(free) if until < first), None)
        if found is None:
            found = len(free)
            free.append((top, last))
            top = top + size
        offsets[name] = free[found][0]
        free[found] = (free[found][0], last)
    return offsets, top
