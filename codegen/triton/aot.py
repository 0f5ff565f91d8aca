"""Launches ahead of time: Triton source to a GPU's machine code, with no GPU at hand. Needs Triton.

    binary = compile_function(function, types, constants, gpu_target("sm_90"), aligned, warps, exact)
    binary.asm["cubin"]

Targets are NVIDIA's `sm_80`, `sm_90`, ... and AMD's `gfx942`, ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

POINTERS = {
    "bool": "*i1",
    "int8": "*i8",
    "int16": "*i16",
    "int32": "*i32",
    "int64": "*i64",
    "uint8": "*u8",
    "uint16": "*u16",
    "uint32": "*u32",
    "uint64": "*u64",
    "float16": "*fp16",
    "bfloat16": "*bf16",
    "float32": "*fp32",
    "float64": "*fp64",
}
"""Triton's names of pointers in a signature, by NumPy dtype."""


def gpu_target(name: str) -> GPUTarget:
    """The target of an architecture's name; ValueError for one that is neither sm_* nor gfx*."""
    if name.startswith("sm_") and name[3:].isdigit():
        return GPUTarget("cuda", int(name[3:]), 32)
    if name.startswith("gfx9"):
        return GPUTarget("hip", name, 64)
    if name.startswith("gfx"):
        return GPUTarget("hip", name, 32)
    raise ValueError(f"unknown GPU architecture {name!r}: expected NVIDIA's sm_<number> or AMD's gfx<number>")


def backend_options(target: GPUTarget, exact: bool = False) -> dict[str, Any]:
    """Options of Triton's compiler: subnormals are kept; `exact` allows no contraction to FMA."""
    options: dict[str, Any] = {"enable_fp_fusion": not exact}
    return options | ({"enable_reflect_ftz": False} if target.backend == "cuda" else {})


def compile_function(
    function: Any,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    target: GPUTarget,
    aligned: frozenset[str],
    warps: int,
    exact: bool,
) -> Any:
    """Triton's CompiledKernel of a JITFunction.

    types: of the parameters that are not constexprs, by name. aligned: those that are multiples of 16
    (addresses of arrays, many sizes), which lets loads be wide.
    """
    signature = {**types, **dict.fromkeys(constants, "constexpr")}
    attributes = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(function.arg_names) if n in aligned}
    source = ASTSource(fn=function, signature=signature, constexprs=dict(constants), attrs=attributes)
    options = {**backend_options(target, exact), "num_warps": warps}
    return triton.compile(source, target=target, options=options)
