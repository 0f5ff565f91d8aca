"""Triton Programs without a GPU: every kernel in Triton's interpreter, on NumPy buffers. Needs Triton.

Slow (the interpreter executes blocks with NumPy, one program of the grid after the other), exact, and
the same source that a GPU compiles: this is how the backend is tested where there is no GPU.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import triton.language as tl

from dynacomp.codegen.triton.call import Call
from dynacomp.codegen.triton.interpret import interpret
from dynacomp.codegen.triton.modules import interpreted_functions
from dynacomp.codegen.triton.steps import Arrays, Plan, run
from dynacomp.codegen.xla import with_weak_type


class HostProgram:
    """A Program: called with the flat inputs, returns the tuple of flat outputs as jax Arrays."""

    backend = "triton"

    def __init__(self, plan: Plan) -> None:
        schedule = plan.schedule
        self.plan = plan
        self.source = {f"{schedule.name}.triton.py": plan.source}
        self.kernels, self.externs = plan.names, plan.reasons

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        arrays = run(self.plan, inputs, host_engine, _host_array)
        avals = self.plan.schedule.output_avals
        return tuple(with_weak_type(jnp.asarray(x), aval.weak_type) for x, aval in zip(arrays, avals))


def _host_array(value: Any, dtype: np.dtype) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(value, dtype)).reshape(np.shape(value))


def host_engine(call: Call, arrays: Arrays) -> Arrays:
    """Runs a Call in Triton's interpreter; the caller's arrays stay as they are."""
    held = {
        n: _writable(arrays.get(n), shape, dtype, n in call.writes)
        for n, (shape, dtype) in call.buffers.items()
    }
    function = interpreted_functions(call.source)[call.function]
    constants = {k: _constant(v) for k, v in call.constants.items()}
    interpret(function, call.grid, list(held.values()), list(call.scalars.values()), **constants)
    return {n: held[n] for n in call.writes}


def _writable(array: Any, shape: tuple[int, ...], dtype: np.dtype, written: bool) -> np.ndarray:
    if array is None:
        return np.empty(shape, dtype)
    return array.copy() if written else array


def _constant(value: Any) -> Any:
    """A constexpr: dtypes come by name."""
    return getattr(tl, value[3:]) if isinstance(value, str) else value
