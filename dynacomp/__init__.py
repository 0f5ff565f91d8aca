"""dynacomp compiles eager JAX: graph capture from bytecode, fused native kernels.

    @dynacomp.jit
    def step(params, batch): ...

`jit` compiles, `stats` counts, `explain` shows; `disable`, `graph_break`, `set_stance` and `reset`
control; `mark_dynamic` and `mark_static` say which sizes change. See each docstring.
"""

from dynacomp.api import disable, graph_break, jit, list_backends, reset
from dynacomp.counters import stats
from dynacomp.explain import explain
from dynacomp.marks import mark_dynamic, mark_static
from dynacomp.misses import GraphBreakError, RecompileError
from dynacomp.stance import set_stance

__all__ = ["GraphBreakError", "RecompileError", "disable", "explain", "graph_break", "jit", "list_backends",
           "mark_dynamic", "mark_static", "reset", "set_stance", "stats"]
