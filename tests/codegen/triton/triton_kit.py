"""What the tests of Triton share: running and compiling the launches of one Kernel by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import triton.language as tl

from dynacomp.codegen.dims import substitute
from dynacomp.codegen.triton.aot import POINTERS, compile_function, gpu_target
from dynacomp.codegen.triton.interpret import interpret
from dynacomp.codegen.triton.modules import interpreted_functions, jit_functions
from dynacomp.codegen.triton.source import HEADER, Launch, triton_launches
from dynacomp.lowering.kernel_ir.loops import Apply, Buffer, Kernel, Load, Loop, Store
from dynacomp.lowering.sizes.symbols import size, symbol

TARGETS = ("sm_80", "sm_90", "gfx942")
X, Y = np.linspace(-2, 2, 33 * 40, dtype=np.float32).reshape(33, 40), np.ones((40, 24), np.float32)
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (jax.nn.softmax, (X,)),
    "matmul": (lambda x, y: jax.nn.gelu(x @ y).sum(), (X, Y)),
    "scatter": (lambda x: x.at[jnp.array([1, 2, 1])].add(1.0), (X,)),
    "spectrum": (lambda x: jnp.fft.ifft(2 * jnp.fft.fft(x)).real, (X,)),
    "sort": (lambda x: jnp.sort(x * 2, 1), (X,)),
}


def wanted(name: str) -> list[Any]:
    """What JAX makes of one of these functions."""
    fn, args = FUNCTIONS[name]
    return jax.tree.leaves(fn(*map(jnp.asarray, args)))


def doubled() -> Kernel:
    """out[i] = x[i] + x[i], of n numbers."""
    n, i, dtype = size("n"), symbol("i"), np.dtype(np.float32)
    x = Load("x", i, dtype)
    body = (Store("out", i, Apply("add", (x, x), dtype)),)
    return Kernel("double", (Buffer("x", (n,), dtype),), (Buffer("out", (n,), dtype),),
                  (Loop(i, n, body, parallel=True, vector=True),), (n,))


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


def compile_launch(launch: Launch, function: Any, target: str, lanes: int, columns: int, wide: bool = False) -> Any:
    """Triton's CompiledKernel of one launch. lanes and columns: the blocks, powers of two. wide: indices of 64 bits."""
    pointers = [POINTERS[np.dtype(b.dtype).name] for b in launch.buffers]
    types = dict(zip(function.arg_names, [*pointers, *(("i64" if wide else "i32") for _ in launch.sizes)]))
    constants = {"IDX": tl.int64 if wide else tl.int32, "R": lanes, "C": columns}
    return compile_function(function, types, constants, gpu_target(target), frozenset(), 4, False)


def compile_kernel(kernel: Kernel, target: str, **blocks: int) -> list[Any]:
    """The binaries of every launch of `kernel` for `target`."""
    binaries = []
    for launch in triton_launches(kernel):
        function = jit_functions(f"{HEADER}\n{launch.source}")[launch.name]
        binaries.append(compile_launch(launch, function, target, **{"lanes": 64, "columns": 16, **blocks}))
    return binaries
