"""Where a kernel's scratch buffers live in C++.

A local belongs to the innermost parallel loop around all of its uses (or to the whole kernel): each
thread that runs iterations of that loop has one copy, and where that loop runs as lanes, each lane has
its own (element k of lane l lies at k * lanes + l).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dynacomp.capture.base.of_class import of_class
from dynacomp.lowering.kernel_ir.loops import Expr, Load, Loop, Stmt, below, inner_loops

Path = tuple[Loop, ...]
Owners = Mapping[str, Loop | None]


def owners(body: Sequence[Stmt], names: Sequence[str]) -> dict[str, Loop | None]:
    """For each local, the parallel loop that it belongs to, or None for the kernel."""
    paths: dict[str, Path] = {}
    for name, path in _uses(body, ()):
        if name in names:
            paths[name] = _common(paths[name], path) if name in paths else path
    return {name: path[-1] if path else None for name, path in paths.items()}


def _common(a: Path, b: Path) -> Path:
    same = [x is y for x, y in zip(a, b)]
    return a[:same.index(False)] if False in same else a[:len(same)]


def _uses(body: Sequence[Stmt], path: Path) -> Iterator[tuple[str, Path]]:
    """(buffer, parallel loops around it) of every load and store."""
    for stmt in body:
        if isinstance(stmt, Loop):
            inner = (*path, stmt) if stmt.parallel else path
            yield from ((name, inner) for name in loads(*stmt.exprs))
            yield from _uses(stmt.inside, inner)
            continue
        yield from ((name, path) for name in (*loads(*stmt.exprs), *stmt.writes))


def loads(*exprs: Expr) -> Iterator[str]:
    """The buffers that expressions load from."""
    return (e.buffer for e in of_class(Load, below(exprs)))


def contains(outer: Loop, inner: Loop | None) -> bool:
    """Is `inner` the loop `outer`, or somewhere inside it?"""
    return inner is outer or any(contains(loop, inner) for loop in inner_loops((*outer.body, *outer.after)))
