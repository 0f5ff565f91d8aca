"""The one table of backends: what turns a lowered Graph into a Program.

Every Backend has the same `compile(graph, schedule, options) -> Program`: `graph` is the primitive
Graph, `schedule` what `lowering.fuse.fusion.schedule` made of it (None is fine where `needs_schedule` is
False). A Program takes the flat inputs and returns the tuple of flat outputs; its attributes are
`backend`, `source` (file name -> text), `kernels` (names) and `externs` (reasons, one for each call
to XLA at a seam). Options that all backends know: `donate` (positions of inputs) and `numerics`
("default" or "exact").

To add a backend, write a file with such a `compile` and a row here; the conformance suite
(tests/codegen/conformance) picks it up.

    >>> BACKENDS["xla"].unavailable() is None
    True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.graph.graph import Graph
from dynacomp.codegen.cpp.backend import compile_cpp
from dynacomp.codegen.cpp.backend import unavailable as no_compiler
from dynacomp.codegen.triton.backend import compile_triton
from dynacomp.codegen.triton.backend import unavailable as no_triton
from dynacomp.codegen.xla import compile_xla
from dynacomp.lowering.fuse.schedule import Schedule

Compile = Callable[[Graph, Schedule | None, Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Backend:
    """One row: `unavailable(cxx, cache_dir)` is None, or the reason why this process cannot use the backend; `cxx`
    is the C++ compiler's command, () to search for one, and the folder is where it is remembered."""

    name: str
    compile: Compile
    platforms: tuple[str, ...]
    needs_schedule: bool
    unavailable: Callable[..., str | None]


BACKENDS: dict[str, Backend] = {
    row.name: row
    for row in (
        Backend("xla", compile_xla, ("cpu", "cuda", "rocm", "tpu"), False, lambda *where: None),
        Backend("cpp", compile_cpp, ("cpu",), True, no_compiler),
        Backend("triton", compile_triton, ("cuda", "rocm"), True, no_triton),
    )
}
