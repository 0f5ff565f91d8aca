"""Triton Programs on a GPU: all kernels of a Schedule inside one jitted XLA executable. Needs Triton.

`jax_triton.triton_call` puts each launch into the program that JAX traces, so XLA plans the memory, orders
the launches, runs what has no kernel between them, and one call runs everything. A buffer that a launch
updates in place is aliased to its new value.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import triton.language as tl

from dynacomp.codegen.triton_call import Call
from dynacomp.codegen.triton_modules import jit_functions
from dynacomp.codegen.triton_steps import Arrays, Plan, run
from dynacomp.codegen.xla import with_weak_type

try:
    import jax_triton
except ImportError as error:
    jax_triton = None
    MISSING = f"jax-triton is not installed ({error}): pip install 'jax-triton>=0.4' (Python 3.12 or newer)"
else:
    MISSING = "" if hasattr(jax_triton, "triton_call") else "jax-triton is too old: 0.4 is needed"


def gpu_program(plan: Plan, donate: tuple[int, ...], exact: bool, capability: int | None = None) -> Any:
    """The jitted Program of a Schedule. `capability` (90 for sm_90) lets it lower with no GPU at hand."""
    engine = _Engine(exact, capability)

    def call(*inputs: Any) -> tuple[Any, ...]:
        outputs = run(plan, inputs, engine, lambda x, dtype: jnp.asarray(x, dtype))
        avals = plan.schedule.output_avals
        return tuple(with_weak_type(_in_shape(x, a), a.weak_type) for x, a in zip(outputs, avals))

    call.__name__ = call.__qualname__ = plan.schedule.name
    program = jax.jit(call, donate_argnums=donate)
    for name, value in attributes(plan).items():
        setattr(program, name, value)
    return program


def attributes(plan: Plan) -> dict[str, Any]:
    """What a Program says of itself."""
    return {"backend": "triton", "source": {f"{plan.schedule.name}.triton.py": plan.source},
            "kernels": plan.names, "externs": plan.reasons}


def _in_shape(x: Any, aval: Any) -> Any:
    return x.reshape(aval.shape) if all(isinstance(d, int) for d in aval.shape) else x


def _is_rocm() -> bool:
    return jax.default_backend() == "gpu" and "rocm" in jax.devices()[0].client.platform_version


class _Engine:
    """Traces Calls as `triton_call`s."""

    def __init__(self, exact: bool, capability: int | None) -> None:
        self.options = {"enable_fp_fusion": not exact}
        self.capability = capability
        if not _is_rocm():
            self.options["enable_reflect_ftz"] = False

    def __call__(self, call: Call, arrays: Arrays) -> Arrays:
        function = jit_functions(call.source)[call.function]
        existing = [n for n in call.buffers if n in arrays]
        renewed = [n for n in existing if n in call.writes]
        fresh = [n for n in call.buffers if n not in arrays]
        shapes = [jax.ShapeDtypeStruct(*call.buffers[n]) for n in (*renewed, *fresh)]
        names = dict(zip((*call.buffers, *call.scalars), function.arg_names))
        operands = {names[n]: arrays[n].reshape(call.buffers[n][0]) for n in existing}
        operands |= {names[n]: int(v) for n, v in call.scalars.items()}
        constants = {k: getattr(tl, v[3:]) if isinstance(v, str) else v for k, v in call.constants.items()}
        outputs = jax_triton.triton_call(
            kernel=function, out_type=shapes, grid=(call.grid,), num_warps=call.warps,
            compute_capability=self.capability, backend_options=self.options,
            input_output_aliases={existing.index(n): i for i, n in enumerate(renewed)},
            **operands, **constants)
        return dict(zip((*renewed, *fresh), outputs))
