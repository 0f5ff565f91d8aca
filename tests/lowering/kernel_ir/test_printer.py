"""Kernels print as documented and read back as the same Kernel."""

import pytest

from dynacomp.lowering.kernel_ir.printer import parse, text
from dynacomp.lowering.kernel_ir.verifier import verify

SOFTMAX = """\
kernel softmax(x: f32[n, d]) -> (out: f32[n, d]) local (e: f32[d]) sizes (d, n):
    parallel i0 < n:
        vector i1 < d:
            acc m: max f32 = x[d*i0 + i1]
        vector i1 < d:
            t0 = exp(sub(x[d*i0 + i1], m))
            e[i1] = t0
            acc s: sum f32 = t0
        vector i1 < d:
            out[d*i0 + i1] = div(e[i1], s)"""

ODDS = """\
kernel odds(x: i32[8], y: bf16[8]) -> (z: f32[8], n: i64[]):
    reverse i0 < 8:
        t0 = (x[i0 - 1] if ge(index(i0, i32), i32(1)) else i32(0))
        scan c: sum i32 = t0
        after:
            z[FloorMod(c, 8)] add= convert(c, f32) where not_(eq(t0, i32(-3)))
    vector i0 < 8:
        acc a: argmax i64 = y[i0] at i0
    n[0] = a"""


@pytest.mark.parametrize("source", [SOFTMAX, ODDS])
def test_text_reads_back(source):
    kernel = verify(parse(source))
    assert text(kernel) == source
    assert parse(text(kernel)) == kernel


@pytest.mark.parametrize("line", ["out[i0] = nosuch(x[i0])", "out[i0] = x[i0] +", "what is this"])
def test_other_text_is_refused(line):
    with pytest.raises((ValueError, KeyError, SyntaxError)):
        parse(f"kernel k(x: f32[8]) -> (out: f32[8]):\n    parallel i0 < 8:\n        {line}")
