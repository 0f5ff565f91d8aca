"""`codegen.triton.aot`: names of architectures, and launches compiled with no GPU at hand."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")

from dynacomp.codegen.triton.aot import POINTERS, backend_options, gpu_target
from dynacomp.lowering.kernel_ir.scalars import BFLOAT16

from .triton_kit import compile_kernel, doubled


def test_unknown_architecture() -> None:
    with pytest.raises(ValueError, match="unknown GPU architecture 'z80'"):
        gpu_target("z80")


@pytest.mark.parametrize(("name", "backend", "arch", "lanes"), [
    ("sm_90", "cuda", 90, 32), ("gfx942", "hip", "gfx942", 64), ("gfx1100", "hip", "gfx1100", 32)])
def test_architectures(name: str, backend: str, arch: object, lanes: int) -> None:
    target = gpu_target(name)
    assert (target.backend, target.arch, target.warp_size) == (backend, arch, lanes)
    assert backend_options(target)["enable_fp_fusion"] and not backend_options(target, exact=True)["enable_fp_fusion"]
    assert ("enable_reflect_ftz" in backend_options(target)) == (backend == "cuda")


def test_every_dtype_has_a_pointer() -> None:
    assert POINTERS[BFLOAT16.name] == "*bf16" and POINTERS[np.dtype(bool).name] == "*i1"
    assert len(set(POINTERS.values())) == len(POINTERS)


@pytest.mark.parametrize("wide", [False, True])
def test_a_launch_compiles(wide: bool) -> None:
    [binary] = compile_kernel(doubled(), "sm_80", wide=wide)
    assert binary.asm["cubin"] and (".s64" in binary.asm["ptx"] or not wide)
