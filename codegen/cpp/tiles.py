"""Tiles for loads that run across memory: a transposition goes through a small square in the L1 cache.

Lanes that load with a stride while some outer loop `o` walks along memory

    parallel o < n: parallel vector v < m: out[m*o + v] = exp(load x[n*v + o])

become blocks of OUTER x INNER: rows of `x` are copied, contiguous along `o`, into a tile with `v` along
its rows, and the lanes load from the tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.cpp.index import names_in, step_along
from dynacomp.lowering.kernel_ir.loops import Expr, Let, Load, Loop, below, inner_loops
from dynacomp.lowering.sizes.symbols import symbol

OUTER, INNER = 16, 64
FIRST_OUTER, FIRST_INNER = symbol("tile_outer"), symbol("tile_inner")


@dataclass(frozen=True)
class Tile:
    """One staged load: `name` of the tile, where it comes from, the element stride along the lanes."""

    name: str
    load: Load
    stride: sympy.Expr


@dataclass(frozen=True)
class Tiling:
    """The outer loop to block, the vector loop with its loads replaced, and what to stage."""

    along: Loop
    lanes: Loop
    tiles: tuple[Tile, ...]


def tiling(outer: list[Loop], lanes: Loop) -> Tiling | None:
    """How to tile a chain of parallel loops, or None where no lane load runs across memory."""
    if lanes.accs or lanes.scans or inner_loops((*lanes.body, *lanes.after)):
        return None
    inside = {s.name for s in of_class(Let, lanes.body)}
    for loop in outer:
        found = {load for s in lanes.body for load in _loads(s) if _crosses(load, loop, lanes, inside)}
        if found and _long(loop.extent) and _long(lanes.extent):
            ordered = sorted(found, key=lambda x: (x.buffer, str(x.index)))
            tiles = tuple(Tile(f"tile{k}", x, step_along(x.index, lanes.var.name))
                          for k, x in enumerate(ordered))
            return Tiling(loop, _replaced(lanes, loop, tiles), tiles)
    return None


def _long(extent: Any) -> bool:
    extent = sympy.sympify(extent)
    return not extent.is_Integer or int(extent) >= 8


def _crosses(load: Load, loop: Loop, lanes: Loop, inside: set[str]) -> bool:
    step = step_along(load.index, lanes.var.name)
    affine = step is not None and step not in (0, 1) and names_in(load.index).isdisjoint(inside)
    return affine and load.mask is None and step_along(load.index, loop.var.name) == 1


def _loads(stmt: Any) -> list[Load]:
    return [*of_class(Load, below(stmt.exprs))]


def _replaced(lanes: Loop, loop: Loop, tiles: tuple[Tile, ...]) -> Loop:
    """The vector loop, loading from tiles."""
    at = INNER * (loop.var - FIRST_OUTER) + lanes.var - FIRST_INNER
    table: dict[Expr, Expr] = {t.load: Load(t.name, sympy.expand(at), t.load.dtype) for t in tiles}

    def swap(expr: Expr) -> Expr:
        expr = expr.mapped(swap)
        return table.get(expr, expr)

    body, after = (tuple(stmt.mapped(swap) for stmt in part) for part in (lanes.body, lanes.after))  # type: ignore[union-attr]
    return replace(lanes, body=body, after=after)
