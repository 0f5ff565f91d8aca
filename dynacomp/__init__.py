"""dynacomp compiles eager JAX: graph capture from bytecode, fused native kernels.

    @dynacomp.jit
    def step(params, batch): ...

`jit` compiles, `stats` counts, `explain` shows, `disable` and `reset` undo; see each docstring.
"""

from dynacomp.api import GraphBreakError, jit, reset
from dynacomp.counters import stats

__all__ = ["GraphBreakError", "jit", "reset", "stats"]
