"""The Kernel IR as data: what is equal, what is inside of what."""

import math

import numpy as np
import pytest

from dynacomp.lowering.kernel_ir.loops import Apply, Buffer, Const, Load, Ref, Store, below, inner_loops
from dynacomp.lowering.kernel_ir.printer import parse
from dynacomp.lowering.sizes.symbols import size, symbol

F32, BOOL = np.dtype(np.float32), np.dtype(bool)
KERNEL = parse("""\
kernel k(x: f32[n, d], c: bool[d]) -> (out: f32[n]) sizes (d, n):
    parallel i0 < n:
        vector i1 < d:
            acc s: sum f32 = mul(x[d*i0 + i1], (x[i1] if c[i1] else f32(2.0)))
        reverse i2 < d:
            scan r: sum f32 = s
            after:
                out[i0] = exp(r)""")


@pytest.mark.parametrize(("a", "b", "equal"), [
    (0.0, -0.0, False), (math.nan, math.nan, True), (1.0, 1.0, True), (complex(0, -0.0), complex(0, 0.0), False),
    (1, True, True)])
def test_constants_are_equal_where_their_bits_are(a, b, equal):
    one, other = Const(a, F32), Const(b, F32)
    assert (one == other) is equal and (not equal or hash(one) == hash(other))
    assert Const(a, F32) != Const(a, np.dtype(np.float64)) and Const(1, F32) != 1


def test_expressions_and_what_is_below_them():
    index, mask = symbol("i"), Load("c", symbol("i"), BOOL)
    masked, plain = Load("x", index, F32, mask, Const(2.0, F32)), Load("x", index, F32)
    made = Apply("mul", (plain, masked), F32)
    assert made.children == (plain, masked) and masked.children == (mask, Const(2.0, F32))
    assert plain.children == Ref("a", F32).children == Const(1, F32).children == ()
    assert list(below([made, None, plain])) == [made, plain, masked, mask, Const(2.0, F32), plain]


def test_loops_inside_of_loops_and_what_they_fold():
    (outer,) = KERNEL.body
    first, second = inner_loops(outer.body)
    assert [f.name for f in (*first.folds, *second.folds)] == ["s", "r"] and outer.folds == ()
    assert inner_loops(KERNEL.body) == [outer] and inner_loops(first.body) == [] and first.vector and second.reverse
    assert [type(s) for s in second.after] == [Store]


def test_buffers_of_complex_numbers_are_pairs_in_kernels():
    n = size("n")
    assert Buffer("z", (n, 3), np.dtype(np.complex64)).in_kernels == Buffer("z", (n, 3, 2), F32)
    assert Buffer("x", (n, 3), F32).in_kernels == Buffer("x", (n, 3), F32)
    assert Buffer("x", (n, 3), F32).numel == 3 * n and Buffer("x", (), F32).numel == 1
