"""The arena: one block of memory for all temporaries of a Schedule, planned by their lifetimes.

A temporary lives from the step that writes it to the last step that reads it. Buffers of known
size are placed lowest-first into gaps left by those alive with them, largest buffers first.
Buffers of symbolic size share only with buffers of the same size expression: their slots follow
the static part one after another.

    >>> offsets, arena = plan({"a": (sympy.Integer(64), 0, 1), "b": (sympy.Integer(64), 1, 2),
    ...                        "c": (sympy.Integer(64), 2, 3)})
    >>> offsets["a"] == offsets["c"] == 0, arena
    (True, 128)
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from dynacomp.lowering.sizes.indexing import FloorDiv

ALIGN = 64
Life = tuple[sympy.Expr, int, int]
"""(bytes, first step, last step), both ends included."""


def aligned(size: sympy.Expr) -> sympy.Expr:
    """`size` rounded up to the arena's alignment."""
    if size.is_Integer:
        return sympy.Integer(-(-int(size) // ALIGN) * ALIGN)
    if (size / ALIGN).is_integer:
        return size
    return FloorDiv(size + ALIGN - 1, sympy.Integer(ALIGN)) * ALIGN


def plan(lives: Mapping[str, Life]) -> tuple[dict[str, sympy.Expr], sympy.Expr]:
    """Byte offsets of the buffers, and the arena's size."""
    fixed = {n: (int(aligned(s)), a, b) for n, (s, a, b) in lives.items() if s.is_Integer}
    offsets, top = _plan_fixed(fixed)
    moving = {n: (aligned(s), a, b) for n, (s, a, b) in lives.items() if not s.is_Integer}
    return _plan_symbolic(moving, {n: sympy.Integer(o) for n, o in offsets.items()}, sympy.Integer(top))


def _plan_fixed(lives: Mapping[str, tuple[int, int, int]]) -> tuple[dict[str, int], int]:
    offsets: dict[str, int] = {}
    for name in sorted(lives, key=lambda n: (-lives[n][0], lives[n][1])):
        size, first, last = lives[name]
        busy = sorted(
            (offsets[o], offsets[o] + lives[o][0]) for o in offsets if lives[o][1] <= last and first <= lives[o][2]
        )
        offsets[name] = _gap(busy, size)
    return offsets, max((offsets[n] + lives[n][0] for n in offsets), default=0)


def _gap(busy: list[tuple[int, int]], size: int) -> int:
    start = 0
    for begin, end in busy:
        if begin - start >= size:
            break
        start = max(start, end)
    return start


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
