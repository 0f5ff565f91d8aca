"""`explain(fn)(*args)`: what dynacomp makes of a call, as one printable object.

    print(dynacomp.explain(step)(params, batch))

It runs the call under a fresh jit of the function and gathers, from the entries of its code and of
its resume functions, the graphs, guards, breaks, kernels, source and times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from dynacomp import counters, notices
from dynacomp.api import CompiledObject, jit
from dynacomp.breaks import REASONS
from dynacomp.capture import _native
from dynacomp.capture.bytecode.resume import reachable
from dynacomp.capture.graph.graph import Graph
from dynacomp.lowering.fuse.schedule import Schedule
from dynacomp.lowering.fuse.seams import seams
from dynacomp.lowering.passes.recompute import size


@dataclass(frozen=True)
class Region:
    """One compiled entry: a Graph between two breaks, as it was captured; `lowered` is that of primitives after all
    passes, `schedule` its kernels (None where a backend needs none)."""

    name: str
    graph: Graph
    guards: str
    backend: str
    kernels: tuple[str, ...]
    source: dict[str, str]
    lowered: Graph | None = None
    schedule: Schedule | None = None


@dataclass(frozen=True)
class Break:
    """One graph break."""

    kind: str
    reason: str
    where: str
    hint: str


@dataclass(frozen=True)
class Explanation:
    """What a call compiled to; `str()` shows all of it."""

    result: Any
    regions: tuple[Region, ...]
    breaks: tuple[Break, ...]
    notices: tuple[str, ...]
    seconds: dict[str, float]
    counts: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        head = f"{len(self.regions)} regions, {len(self.breaks)} graph breaks"
        breaks = [f"break: {b.where}: {b.reason}" + (f" (hint: {b.hint})" if b.hint else "") for b in self.breaks]
        regions = [_region_text(r) for r in self.regions]
        times = ", ".join(f"{stage} {seconds:.3f} s" for stage, seconds in self.seconds.items())
        return "\n".join([head, *breaks, *self.notices, *regions, f"compile time: {times or 'none'}"])


def _region_text(r: Region) -> str:
    parts = [f"== {r.name} [{r.backend or 'no arrays'}]", "-- guards", r.guards or "(none)", "-- graph",
             str(r.graph), f"-- kernels: {', '.join(r.kernels) or '(none)'}"]
    parts += _memory_text(r)
    parts += [f"-- left to XLA: {seam}" for seam in (seams(r.schedule) if r.schedule else ())]
    parts += [f"-- {name}\n{text}" for name, text in r.source.items()]
    return "\n".join(parts)


def _memory_text(r: Region) -> list[str]:
    """Peak bytes of temporaries, and what is computed again rather than kept."""
    if r.schedule is None:
        return []
    again = [n for n in r.lowered.calls if getattr(n.target, "name", "") == "again"] if r.lowered else []
    kept = {n.args[0]: size(n) for n in again}
    more = f"; {sum(kept.values())} bytes are kept, of which values are computed again" if again else ""
    return [f"-- temporaries: {r.schedule.arena} bytes{more}"]


def explain(fn: Callable[..., Any], **how: Any) -> Callable[..., Explanation]:
    """A function that runs `fn` once, compiled as `jit(fn, **how)` would, and explains it; its graph breaks also where
    nothing is computed with arrays, so that the function would be left to Python.

    fn: what `jit` takes. how: its other arguments. The result's `str()` shows graphs, breaks and times.

    Example:
        >>> import dynacomp, jax.numpy as jnp
        >>> explained = dynacomp.explain(lambda x: jnp.exp(x).sum())(jnp.zeros(3))
        >>> float(explained.result), len(explained.regions), explained.breaks
        (3.0, 1, ())
    """
    def run(*args: Any, **kwargs: Any) -> Explanation:
        target = jit(fn, **{**how, "options": {**(how.get("options") or {}), "capture_idle": True,
                                              "recall": False}})
        code = root_code(target)
        _native.clear(code)
        before, told = counters.stats(), set(notices.told())
        result = target(*args, **kwargs)
        after = counters.stats()
        known = list(reachable([code]))
        return Explanation(
            result, tuple(region(c, info) for c, info in known if info.graph is not None),
            tuple(found for _, info in known if (found := break_of(info)) is not None),
            tuple(str(n) for n in notices.told() if n not in told),
            _difference(before["compile_seconds"], after["compile_seconds"]), after)

    return run


def _difference(before: Any, after: Any) -> dict[str, float]:
    return {k: v - before.get(k, 0.0) for k, v in after.items() if v != before.get(k, 0.0)}


def root_code(target: Any) -> CodeType:
    if isinstance(target, CompiledObject):
        target = target._compiled
    fn = target.__wrapped__
    return getattr(fn, "__func__", fn).__code__


def region(code: CodeType, info: Any) -> Region:
    program = getattr(info.program, "inner", info.program)
    made = info.compiled
    return Region(code.co_qualname, info.graph, str(info.guards), getattr(program, "backend", ""),
                  tuple(getattr(program, "kernels", ())), dict(getattr(program, "source", {})),
                  made.lowered if made else None, made.schedule if made else None)


def break_of(info: Any) -> Break | None:
    lesson = info.breaks
    if lesson is None:
        return None
    reason = REASONS[lesson.kind]
    file, line, _ = lesson.where[-1] if lesson.where else ("?", 0, "")
    text = f"{reason.text}: {lesson.detail}" if lesson.detail else reason.text
    return Break(lesson.kind, text, f"{file}:{line}", reason.hint)
