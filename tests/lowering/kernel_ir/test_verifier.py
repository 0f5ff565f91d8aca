"""Each rule for Kernels, broken once."""

import pytest

from dynacomp.lowering.kernel_ir.printer import parse
from dynacomp.lowering.kernel_ir.verifier import KernelError, verify

HEAD = "kernel k(x: f32[8], n: i32[8]) -> (out: f32[8]):\n"

GOOD = """\
    parallel i0 < 8:
        t0 = x[i0]
        out[i0] = add(t0, t0)"""

BROKEN = {
    "not in scope": "    parallel i0 < 8:\n        out[i1] = x[i0]",
    "made twice": "    parallel i0 < 8:\n        t0 = x[i0]\n        t0 = x[i0]\n        out[i0] = t0",
    "no output or local": "    parallel i0 < 8:\n        x[i0] = x[i0]",
    "never stored": "    parallel i0 < 8:\n        t0 = x[i0]",
    "dtypes do not fit": "    parallel i0 < 8:\n        out[i0] = add(x[i0], n[i0])",
    "which holds float32": "    parallel i0 < 8:\n        out[i0] = n[i0]",
    "folds leave": "    parallel i0 < 8:\n        acc a: sum f32 = x[i0]\n    out[0] = a",
    "inside another": "    vector i0 < 2:\n        vector i1 < 4:\n            out[4*i0 + i1] = x[i1]",
    "scans in the vector": (
        "    vector i0 < 8:\n        scan a: sum f32 = x[i0]\n        after:\n            out[i0] = a"
    ),
    "with position": "    for i0 < 8:\n        acc a: argmax f32 = x[i0]\n    out[0] = a",
}


def test_a_good_kernel_passes():
    verify(parse(HEAD + GOOD))


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_rule_is_named(what):
    with pytest.raises(KernelError, match=what):
        verify(parse(HEAD + BROKEN[what]))
