"""dynacomp compiles eager JAX: graph capture from bytecode, fused native kernels.

    @dynacomp.jit
    def step(params, batch): ...

`jit` compiles (by what: `list_backends`), `stats` counts, `explain` shows; `disable`, `graph_break`,
`set_stance` and `reset` control; `mark_dynamic` and `mark_static` say which sizes change; `allow_in_graph`,
`assume_constant_result` and `substitute` say how a function is compiled, `is_compiling` whether it is,
`register_library` what a library promises. `passes`, `register_backend`, `custom_op` and `register_kernel` are
for those who bring passes, backends, operations and kernels of their own. Each docstring has an example.
"""

import importlib.metadata

from dynacomp import passes
from dynacomp.api import disable, graph_break, jit, list_backends, reset
from dynacomp.capture.base.errors import CompileError
from dynacomp.capture.calls.user_rules import allow_in_graph, assume_constant_result, is_compiling, substitute
from dynacomp.capture.symbolic.libraries import register_library
from dynacomp.counters import stats
from dynacomp.custom import custom_op
from dynacomp.driver.foreign import register_backend
from dynacomp.explain import explain
from dynacomp.kernel_patterns import register_kernel
from dynacomp.marks import mark_dynamic, mark_static
from dynacomp.misses import GraphBreakError, RecompileError
from dynacomp.stance import set_stance

__version__ = importlib.metadata.version("dynacomp")

__all__ = ["CompileError", "GraphBreakError", "RecompileError", "allow_in_graph", "assume_constant_result",
           "custom_op", "disable", "explain", "graph_break", "is_compiling", "jit", "list_backends",
           "mark_dynamic", "mark_static", "passes", "register_backend", "register_kernel",
           "register_library", "reset",
           "set_stance", "stats", "substitute"]
