"""The Triton backend: the same Kernels as GPU code. The one place that copes with Triton's absence.

With a GPU, a Program is one jitted XLA executable that launches every kernel.
Without one, kernels run in Triton's interpreter: slow, for tests and for reading what would run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from dynacomp.capture.graph.graph import Graph
from dynacomp.lowering.fuse.schedule import Schedule

try:
    import triton
except ImportError as error:
    triton, ABSENT = None, f"triton is not installed ({error}): pip install 'dynacomp[triton]'"
else:
    from dynacomp.codegen.triton.gpu import gpu_program, missing
    from dynacomp.codegen.triton.host import HostProgram
    from dynacomp.codegen.triton.steps import plan

    ABSENT = ""


def unavailable(*compiler: Any) -> str | None:
    """Why this process cannot use Triton; None when it can. It needs no C++ compiler."""
    if triton is None:
        return ABSENT
    return missing() if jax.default_backend() == "gpu" else None


def compile_triton(graph: Graph, schedule: Schedule | None, options: Mapping[str, Any]) -> Any:
    """The Program of a Schedule. Raises RuntimeError where Triton is unavailable."""
    reason = unavailable()
    if reason or schedule is None:
        raise RuntimeError(f"triton cannot compile {graph.name!r}: {reason or 'it needs a Schedule'}")
    exact = options.get("numerics") == "exact"
    planned = plan(schedule, exact)
    if jax.default_backend() == "gpu":
        return gpu_program(planned, tuple(options.get("donate", ())), exact)
    return HostProgram(planned)
