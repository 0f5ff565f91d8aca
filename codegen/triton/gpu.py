"""Triton Programs on a GPU: all kernels of a Schedule inside one jitted XLA executable. Needs Triton.

While JAX traces the Program, each launch is compiled by Triton for the device at hand and becomes one
custom call, `triton_kernel_call_ffi`, which every GPU build of jaxlib brings (JAX's own kernel language
launches through it too). So XLA plans the memory, orders the launches, runs what has no kernel between
them, and one call runs everything. A buffer that a launch updates in place is aliased to its new value.

That custom call takes pointers in the order operands, results; `_entry` wraps a function whose own order is
another.
"""

from __future__ import annotations

import functools
import tempfile
import zlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import triton.language as tl
from jax import jit as jax_jit  # now: a program may put dynacomp.jit in its place
from jaxlib import gpu_triton

from dynacomp.codegen.scratch import private_folder
from dynacomp.codegen.triton.aot import POINTERS, compile_function, gpu_target
from dynacomp.codegen.triton.call import Call
from dynacomp.codegen.triton.modules import jit_functions
from dynacomp.codegen.triton.steps import Arrays, Plan, run
from dynacomp.codegen.xla import with_weak_type

LAUNCHER = "triton_kernel_call_ffi"


def missing() -> str | None:
    """Why jaxlib cannot launch Triton kernels; None when it can."""
    if hasattr(gpu_triton, "TritonKernelCall"):
        return None
    return "jaxlib has no GPU plugin with Triton's launcher: pip install 'jax[cuda]'"


def gpu_program(plan: Plan, donate: tuple[int, ...], exact: bool, target: str = "") -> Any:
    """The jitted Program of a Schedule. `target` ("sm_90") lets it lower with no GPU at hand."""

    def engine(call: Call, arrays: Arrays) -> Arrays:
        return launch(call, arrays, target or device_target(), exact)

    def program(*inputs: Any) -> tuple[Any, ...]:
        outputs = run(plan, inputs, engine, lambda x, dtype: jnp.asarray(x, dtype))
        avals = plan.schedule.output_avals
        return tuple(with_weak_type(x, a.weak_type) for x, a in zip(outputs, avals))

    program.__name__ = program.__qualname__ = plan.schedule.name
    jitted = jax_jit(program, donate_argnums=donate)
    for name, value in attributes(plan).items():
        setattr(jitted, name, value)
    return jitted


def attributes(plan: Plan) -> dict[str, Any]:
    """What a Program says of itself."""
    return {
        "backend": "triton",
        "source": {f"{plan.schedule.name}.triton.py": plan.source},
        "kernels": plan.names,
        "externs": plan.reasons,
    }


def device_target() -> str:
    """The architecture of the first GPU, as `gpu_target` names it."""
    device = jax.local_devices()[0]
    if "rocm" in device.client.platform_version:
        return gpu_triton.get_arch_details(0).split(":")[0]
    return f"sm_{gpu_triton.get_compute_capability(0)}"


def launch(call: Call, arrays: Arrays, target: str, exact: bool) -> Arrays:
    """One launch in the traced program: the new value of every buffer that it writes."""
    old = [n for n in call.buffers if n in arrays]
    fresh = [n for n in call.buffers if n not in arrays]
    renewed = [n for n in old if n in call.writes]
    opaque = _opaque(call, (*old, *fresh), target, exact)
    results = [jax.ShapeDtypeStruct(*call.buffers[n]) for n in (*fresh, *renewed)]
    aliases = {old.index(n): len(fresh) + i for i, n in enumerate(renewed)}
    custom = jax.ffi.ffi_call(LAUNCHER, results, input_output_aliases=aliases)
    outputs = custom(*(arrays[n].reshape(call.buffers[n][0]) for n in old), opaque=opaque)
    return dict(zip((*fresh, *renewed), outputs))


def _opaque(call: Call, order: tuple[str, ...], target: str, exact: bool) -> bytes:
    """What the launcher reads: the machine code, the grid and the parameters, serialised."""
    scalars = tuple(
        (n, int(v), "i32" if call.constants["IDX"] == "tl.int32" else "i64") for n, v in call.scalars.items()
    )
    pointers = tuple((n, POINTERS[np.dtype(call.buffers[n][1]).name]) for n in order)
    aligned = tuple(n for n, v, _ in scalars if v % 16 == 0)
    kernel = _kernel(
        call.source,
        call.function,
        tuple(call.buffers),
        pointers,
        tuple((n, t) for n, _, t in scalars),
        tuple(call.constants.items()),
        aligned,
        call.warps,
        target,
        exact,
    )
    parameters = [gpu_triton.create_array_parameter(0, 16) for _ in order]
    parameters += [gpu_triton.create_scalar_parameter(value, dtype) for _, value, dtype in scalars]
    proto = gpu_triton.TritonKernelCall(kernel, call.grid, 1, 1, parameters).to_proto(call.function, b"")
    return zlib.compress(proto)


@functools.lru_cache(maxsize=1024)
def _kernel(
    source: str,
    name: str,
    declared: tuple[str, ...],
    pointers: tuple[tuple[str, str], ...],
    scalars: tuple[tuple[str, str], ...],
    constants: tuple[tuple[str, Any], ...],
    aligned: tuple[str, ...],
    warps: int,
    target: str,
    exact: bool,
) -> Any:
    """The launcher's kernel object: Triton's machine code for one order of pointers and one alignment."""
    order = tuple(n for n, _ in pointers)
    function = jit_functions(source)[name]
    if order != declared:
        function = jit_functions(_entry(source, function, name, declared, order))[f"{name}_entry"]
    names = dict(zip((*order, *(n for n, _ in scalars)), function.arg_names))
    types = {names[n]: t for n, t in (*pointers, *scalars)}
    values = {k: getattr(tl, v[3:]) if isinstance(v, str) else v for k, v in constants}
    goal = gpu_target(target)
    binary = compile_function(
        function, types, values, goal, frozenset(names[n] for n in (*order, *aligned)), warps, exact
    )
    return _loadable(binary, warps, goal.arch if goal.backend == "cuda" else 0)


def _entry(source: str, function: Any, name: str, declared: tuple[str, ...], order: tuple[str, ...]) -> str:
    """`source` with a function that takes its pointers in another order and calls `name`."""
    spelled = dict(zip(declared, function.arg_names))
    rest = function.arg_names[len(declared) :]
    constexprs = {p.name for p in function.params if p.is_constexpr}
    takes = [*(spelled[n] for n in order), *(f"{r}: tl.constexpr" if r in constexprs else r for r in rest)]
    return (
        f"{source}\n\n@triton.jit\ndef {name}_entry({', '.join(takes)}):\n"
        f"    {name}({', '.join(function.arg_names)})\n"
    )


def _loadable(binary: Any, warps: int, capability: int) -> Any:
    """jaxlib's TritonKernel of Triton's CompiledKernel: PTX as text, or the path of an AMD code object."""
    metadata = binary.metadata
    if metadata.global_scratch_size:
        raise RuntimeError(
            f"kernel {metadata.name} wants {metadata.global_scratch_size} bytes of scratch from "
            "its launcher, which this backend's kernels never do: please report it"
        )
    code = binary.asm["ptx"] if capability else str(_code_file(binary.asm["hsaco"]))
    return gpu_triton.TritonKernel(
        metadata.name, warps, 1, metadata.shared, code, "", capability
    )


def _code_file(code: bytes) -> Path:
    with tempfile.NamedTemporaryFile(dir=private_folder(), suffix=".hsaco", delete=False) as file:
        file.write(code)
    return Path(file.name)
