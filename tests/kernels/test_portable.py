"""The templates under other instruction sets and compilers: the same answers, no warnings."""

import importlib.util
import platform
import shutil
import subprocess
import sys

import numpy as np
import pytest
import sympy

from dynacomp.kernels.standalone import COMMAND, Call, build
from dynacomp.kernels.templates import HEADERS, TEMPLATES

X86 = platform.machine() in ("x86_64", "AMD64")
OTHERS = [a for a in COMMAND if a not in ("g++", "-march=native", "-O3")]
CLANG = (sys.executable, "-m", "ziglang", "c++")
COMMANDS = {
    "avx2": ("g++", "-O2", "-mavx2", "-mfma", "-mf16c", *OTHERS),
    "sse2": ("g++", "-O2", "-march=x86-64", *OTHERS),
    "clang": (*CLANG, "-O2", "-march=native", *OTHERS),
}

M, N, K = sympy.symbols("m n k", integer=True)
VALUES = {M: 23, N: 37, K: 40}
PRODUCT = {"batch": 1, "m": M, "n": N, "k": K, "a_strides": (0, K, 1), "b_strides": (0, 1, K)}
IMAGE = {
    "n": 2,
    "c": 6,
    "k": 9,
    "spatial_in": (9, 21),
    "kernel": (3, 3),
    "spatial_out": (9, 21),
    "stride": (1, 1),
    "pad_lo": (1, 1),
    "pad_hi": (1, 1),
    "lhs_dilation": (1, 1),
    "rhs_dilation": (1, 1),
    "groups": 1,
    "batch_groups": 1,
    "lhs_strides": (1134, 189, 21, 1),
    "rhs_strides": (54, 9, 3, 1),
    "out_strides": (1701, 189, 21, 1),
}
DEPTHWISE = IMAGE | {"k": 6, "groups": 6, "rhs_strides": (9, 9, 3, 1), "out_strides": (1134, 189, 21, 1)}
HEADS = {
    "batch": 1,
    "heads": 2,
    "group": 1,
    "queries": 40,
    "keys": 50,
    "depth": 16,
    "width": 16,
    "scale": 0.25,
    "causal": False,
    "marks": False,
    "fill": -np.inf,
    "q_strides": (0, 640, 0, 16, 1),
    "k_strides": (0, 800, 0, 16, 1),
    "v_strides": (0, 800, 0, 16, 1),
    "out_strides": (0, 640, 0, 16, 1),
}
F32, F16, BF16 = (("float32",) * 3), (("float16",) * 3), (("bfloat16",) * 3)
CALLS = {
    "f32": Call("matmul", F32, PRODUCT),
    "f16": Call("matmul", F16, PRODUCT),
    "bf16": Call("matmul", BF16, PRODUCT),
    "image": Call("conv", F32, IMAGE),
    "depthwise": Call("conv", F32, DEPTHWISE),
    "heads": Call("attention", ("float32",) * 4, HEADS),
}
SIZES = {
    "f32": (23 * 40, 40 * 37, 23 * 37),
    "image": (2268, 486, 3402),
    "depthwise": (2268, 54, 2268),
    "heads": (1280, 1600, 1600, 1280),
}
SIZES |= {"f16": SIZES["f32"], "bf16": SIZES["f32"]}
TOLERANCE = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-1}


@pytest.mark.skipif(not X86, reason="x86 only")
@pytest.mark.parametrize("which", COMMANDS)
def test_same_answers(tmp_path, which):
    if which == "clang" and importlib.util.find_spec("ziglang") is None:
        pytest.skip("no ziglang")
    library = build(CALLS, tmp_path, command=COMMANDS[which])
    rng = np.random.default_rng(0)
    figures = {str(symbol): value for symbol, value in VALUES.items()}
    for name, call in CALLS.items():
        dtype = call.dtypes[0]
        *operands, out = (rng.standard_normal(s).astype(dtype) for s in SIZES[name])
        library.run(name, figures, operands, [out])
        known = lambda x: int(x.subs(VALUES)) if isinstance(x, sympy.Basic) else x
        params = {k: tuple(map(known, v)) if isinstance(v, tuple) else known(v) for k, v in call.params.items()}
        (expected,) = TEMPLATES[call.template].reference(params, *(o.astype(np.float64) for o in operands))
        np.testing.assert_allclose(
            out.astype(np.float64), expected.reshape(-1), atol=TOLERANCE[dtype], rtol=0, err_msg=name
        )


PROGRAM = """
#include "standalone.h"
#include "gemm.h"
#include "depthwise.h"
#include "attention.h"
#include "sort.h"
int main() {
    const dynacomp_runtime* rt = standalone_runtime(2);
    const int m = 45, n = 70, k = 33;
    static float a[45 * 33], b[33 * 70], c[45 * 70];
    for (int i = 0; i < m * k; i++) a[i] = float(i % 7) - 3;
    for (int i = 0; i < k * n; i++) b[i] = float(i % 5) - 2;
    dynacomp::matmul<float>(rt, 1, m, n, k, a, 0, k, 1, b, 0, n, 1, c);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
            if (sum != c[i * n + j]) return 1;
        }
    dynacomp::tile::float16 half{dynacomp::tile::narrow<dynacomp::tile::float16>(1.5f)};
    if (dynacomp::tile::widen<float>(half) != 1.5f) return 2;
    dynacomp::tile::Vector<float> x = {-1.0f, 0.0f, -100.0f, -__builtin_nanf("")};
    x = dynacomp::tile::exponential(x);
    if (!(x[0] > 0.367879f && x[0] < 0.36788f && x[1] == 1 && x[2] == 0 && x[3] != x[3])) return 3;
    return 0;
}
"""


@pytest.mark.skipif(
    not (shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64")), reason="no cross tools"
)
def test_aarch64(tmp_path):
    """Cross-compiled and emulated."""
    (tmp_path / "program.cpp").write_text(PROGRAM)
    flags = ["-O2", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-iquote", str(HEADERS)]
    subprocess.run(
        ["aarch64-linux-gnu-g++", *flags, str(tmp_path / "program.cpp"), "-o", str(tmp_path / "program")], check=True
    )
    assert subprocess.run(["qemu-aarch64", str(tmp_path / "program")], timeout=60).returncode == 0
