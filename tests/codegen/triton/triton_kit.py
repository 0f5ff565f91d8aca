"""What the tests of Triton share: running and compiling the launches of one Kernel by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import triton.language as tl

from dynacomp.codegen.dims import substitute
from dynacomp.codegen.triton.aot import compile_launch
from dynacomp.codegen.triton.interpret import interpret
from dynacomp.codegen.triton.modules import interpreted_functions, jit_functions
from dynacomp.codegen.triton.source import HEADER, triton_launches
from dynacomp.lowering.kernel_ir.loops import Kernel

TARGETS = ("sm_80", "sm_90", "gfx942")


def run_kernel(
    kernel: Kernel,
    arrays: dict[str, np.ndarray],
    sizes: Mapping[str, int] = {},
    lanes: int = 16,
    columns: int = 16,
    exact: bool = False,
) -> None:
    """Runs `kernel` in Triton's interpreter, in place on `arrays` by buffer name."""
    bound = {s: sizes[s.name] for s in kernel.sizes}
    for launch in triton_launches(kernel, exact):
        function = interpreted_functions(f"{HEADER}\n{launch.source}")[launch.name]
        for buffer in launch.scratch:
            shape = tuple(substitute(d, bound) for d in buffer.shape)
            arrays.setdefault(buffer.name, np.empty(shape, buffer.dtype))
        grid = -(-substitute(launch.lanes, bound) // lanes)
        interpret(
            function,
            grid,
            [arrays[b.name] for b in launch.buffers],
            [sizes[s.name] for s in launch.sizes],
            IDX=tl.int32,
            R=lanes,
            C=columns,
        )


def compile_kernel(kernel: Kernel, target: str, **blocks: int) -> list[Any]:
    """The binaries of every launch of `kernel` for `target`."""
    binaries = []
    for launch in triton_launches(kernel):
        function = jit_functions(f"{HEADER}\n{launch.source}")[launch.name]
        binaries.append(compile_launch(launch, function, target, **{"lanes": 64, "columns": 16, **blocks}))
    return binaries
