"""The interpreter on kernels written by hand, against NumPy."""

import numpy as np
import pytest

from dynacomp.lowering.interpret.kernels import run
from dynacomp.lowering.kernel_ir.printer import parse

X = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)


def execute(source, out, sizes=None, **buffers):
    run(parse(source), {**buffers, "out": out}, sizes)
    return out


def test_rows_with_scratch():
    source = """kernel k(x: f32[n, d]) -> (out: f32[n, d]) local (e: f32[d]) sizes (d, n):
    parallel i0 < n:
        vector i1 < d:
            acc m: max f32 = x[d*i0 + i1]
        vector i1 < d:
            t0 = exp(sub(x[d*i0 + i1], m))
            e[i1] = t0
            acc s: sum f32 = t0
        vector i1 < d:
            out[d*i0 + i1] = div(e[d - 1 - i1], s)"""
    e = np.exp(X - X.max(1, keepdims=True))
    got = execute(source, np.zeros_like(X), {"n": 5, "d": 7}, x=X)
    np.testing.assert_allclose(got, (e / e.sum(1, keepdims=True))[:, ::-1], rtol=1e-6)


def test_loops_of_unequal_extents():
    source = """kernel k(x: f32[5, 7]) -> (out: f32[5]):
    parallel i0 < 5:
        vector i1 < Min(3, i0):
            acc s: sum f32 = x[7*i0 + i1]
        out[i0] = s"""
    want = [X[i, : min(3, i)].sum() for i in range(5)]
    np.testing.assert_allclose(execute(source, np.zeros(5, np.float32), x=X), want, rtol=1e-6, atol=1e-6)


def test_reverse_scan():
    source = """kernel k(x: f32[5, 7]) -> (out: f32[5, 7]):
    parallel i0 < 5:
        reverse i1 < 7:
            scan s: max f32 = x[7*i0 + i1]
            after:
                out[7*i0 + i1] = s"""
    want = np.maximum.accumulate(X[:, ::-1], 1)[:, ::-1]
    np.testing.assert_array_equal(execute(source, np.zeros_like(X), x=X), want)


def test_repeated_updates_add_up():
    source = """kernel k(at: i32[4], out: i32[3]) -> (out: i32[3]):
    for i0 < 4:
        t0 = at[i0]
        out[t0] add= i32(2) where ge(t0, i32(0))"""
    got = execute(source, np.ones(3, np.int32), at=np.array([1, 1, -1, 2], np.int32))
    np.testing.assert_array_equal(got, [1, 5, 3])


def test_first_of_the_best():
    source = """kernel k(x: f32[4]) -> (out: i32[]):
    for i0 < 4:
        acc a: argmax i32 = x[i0] at i0
    out[0] = a"""
    assert execute(source, np.zeros((), np.int32), x=np.array([1, 3, 3, 2], np.float32)) == 1
    assert execute(source, np.zeros((), np.int32), x=np.array([1, 3, np.nan, 9], np.float32)) == 2


def test_reaching_outside_is_an_error():
    source = "kernel k(x: f32[4]) -> (out: f32[4]):\n    parallel i0 < 4:\n        out[i0] = x[i0 + 1]"
    with pytest.raises(IndexError, match=r"x\[i0 \+ 1\]"):
        execute(source, np.zeros(4, np.float32), x=np.zeros(4, np.float32))


def test_a_masked_load_touches_nothing_outside():
    source = """kernel k(x: f32[4]) -> (out: f32[4]):
    parallel i0 < 4:
        out[i0] = (x[i0 + 1] if lt(index(i0, i32), i32(3)) else f32(9.0))"""
    got = execute(source, np.zeros(4, np.float32), x=np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(got, [1, 2, 3, 9])
