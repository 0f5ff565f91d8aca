"""Loads that run across memory go through a small square: which do, and that what is stored stays the same."""

import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.codegen.cpp.tiles import INNER, tiling
from dynacomp.codegen.cpp.unit import unit_source
from dynacomp.lowering.kernel_ir.printer import expr_text, parse
from tests.codegen.cpp_kit import compiled
from tests.lowering.closed import scheduled


def tiled(value="exp(x[96*i1 + i0])", n=96, m=64, body=""):
    made = parse(f"""\
kernel k(x: f32[{m}, {n}], c: bool[{m}]) -> (o: f32[{n}, {m}]):
    parallel i0 < {n}:
        parallel vector i1 < {m}:
            {body or f"o[{m}*i0 + i1] = {value}"}""")
    (outer,) = made.body
    (lanes,) = outer.body
    return tiling([outer], lanes)


def test_a_load_that_walks_along_the_outer_loop_is_staged():
    found = tiled()
    (tile,) = found.tiles
    assert found.along.var.name == "i0" and tile.stride == 96
    assert expr_text(found.lanes.body[0].value).startswith("exp(tile0[") and INNER == 64


def test_equal_loads_share_a_tile_and_others_have_their_own():
    found = tiled("add(mul(x[96*i1 + i0], x[96*i1 + i0]), x[96*i1 + i0 + 1])")
    assert [t.name for t in found.tiles] == ["tile0", "tile1"]
    assert expr_text(found.lanes.body[0].value).count("tile0[") == 2


@pytest.mark.parametrize(("value", "n", "m"), [
    ("x[64*i0 + i1]", 96, 64),                           # along the lanes already
    ("x[96*i1 + 2*i0]", 96, 64),                         # two apart along the outer loop
    ("x[96*i1]", 96, 64),                                # the same for the whole outer loop
    ("(x[96*i1 + i0] if c[i1] else f32(0.0))", 96, 64),  # not every element may be read
    ("x[4*i1 + i0]", 4, 64), ("x[96*i1 + i0]", 96, 4)])  # too short to pay
def test_what_is_not_staged(value, n, m):
    assert tiled(value, n, m) is None


def test_a_position_that_the_loop_itself_computes_is_not_staged():
    assert tiled(body="t0 = index(2*i1, i64)\n            o[64*i0 + i1] = x[96*t0 + i0]") is None


@pytest.mark.parametrize("shape", [(8, 8), (17, 33), (64, 96), (100, 9)])
def test_transpositions_are_right(shape):
    function = lambda x: jnp.exp(x.T) + 1
    x = np.random.RandomState(0).randn(*shape).astype(np.float32)
    assert "tile0" in unit_source(scheduled(function, x), False)
    np.testing.assert_allclose(compiled(function, x)(x)[0], function(x), rtol=1e-6)
