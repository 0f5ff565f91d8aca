"""conv: layouts, strides, paddings, dilations, groups, gradients, against float64 tap by tap."""

import numpy as np
import pytest
import sympy

from dynacomp.kernels.standalone import Call, build
from dynacomp.kernels.templates import TEMPLATES

DTYPES = {
    "f32": ("float32",) * 3,
    "f64": ("float64",) * 3,
    "bf16": ("bfloat16",) * 3,
    "i32": ("int32",) * 3,
    "i8_i32": ("int8", "int8", "int32"),
}
TOLERANCE = {"float32": 2e-6, "float64": 4e-15, "bfloat16": 4e-3}
PER_DIMENSION = ("spatial_in", "kernel", "spatial_out", "stride", "pad_lo", "pad_hi", "lhs_dilation", "rhs_dilation")


def symbolic(dims):
    names = lambda name, count: sympy.symbols([f"{name}{i}" for i in range(count)], integer=True)
    scalars = {s: sympy.Symbol(s, integer=True) for s in ("n", "c", "k", "groups", "batch_groups")}
    rows = {s: names(s, dims) for s in PER_DIMENSION}
    return scalars | rows | {s: names(s, dims + 2) for s in ("lhs_strides", "rhs_strides", "out_strides")}


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    calls = {f"{name}_{d}": Call("conv", DTYPES[name], symbolic(d)) for name in DTYPES for d in (1, 2, 3)}
    return build(calls, tmp_path_factory.getbasetemp().parent)


def dense(sizes, order):
    """Element strides of dimensions that lie in memory in `order`, the last one together."""
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d], step = step, step * max(1, sizes[d])
    return tuple(strides)


def problem(n, c, k, size, kernel, stride=1, pad=0, ld=1, rd=1, groups=1, batch_groups=1, layout="NCHW", dims=2):
    """The params of a convolution with the same figures in each dimension."""
    every = lambda x: tuple(x) if isinstance(x, tuple | list) else (x,) * dims
    size, kernel, stride, pad, ld, rd = map(every, (size, kernel, stride, pad, ld, rd))
    out = tuple(
        max(0, ((i - 1) * l + 1 if i else 0) + 2 * p - ((t - 1) * r + 1) + s) // s
        for i, t, s, p, l, r in zip(size, kernel, stride, pad, ld, rd)
    )
    space = list(range(2, 2 + dims))
    orders = {
        "NCHW": ([0, 1, *space],) * 3,
        "NHWC": ([0, *space, 1], [*space, 1, 0], [0, *space, 1]),
        "HWNC": ([*space, 0, 1], [*space, 0, 1], [1, *space, 0]),
        "CHWN": ([1, *space, 0], [1, 0, *space], [1, *space, 0]),
        "images and features last": ([1, *space, 0], [1, *space, 0], [*space, 0, 1]),
    }[layout]
    sizes = ((n, c, *size), (k, c // groups, *kernel), (n // batch_groups, k, *out))
    strides = [dense(s, o) for s, o in zip(sizes, orders)]
    return dict(
        n=n,
        c=c,
        k=k,
        spatial_in=size,
        kernel=kernel,
        spatial_out=out,
        stride=stride,
        pad_lo=pad,
        pad_hi=pad,
        lhs_dilation=ld,
        rhs_dilation=rd,
        groups=groups,
        batch_groups=batch_groups,
        lhs_strides=strides[0],
        rhs_strides=strides[1],
        out_strides=strides[2],
    )


PROBLEMS = {
    "plain": dict(n=2, c=5, k=7, size=9, kernel=3),
    "same": dict(n=2, c=16, k=40, size=14, kernel=3, pad=1),
    "one_channel": dict(n=3, c=1, k=8, size=28, kernel=5, pad=2),
    "deep": dict(n=1, c=64, k=33, size=10, kernel=3, pad=1),
    "pointwise": dict(n=2, c=20, k=24, size=12, kernel=1),
    "strided": dict(n=2, c=6, k=18, size=13, kernel=3, stride=2, pad=1),
    "dilated": dict(n=2, c=3, k=5, size=15, kernel=3, rd=3, pad=2),
    "transposed": dict(n=2, c=6, k=5, size=7, kernel=3, ld=2, pad=1),
    "both": dict(n=1, c=3, k=4, size=9, kernel=5, ld=2, rd=3, stride=3, pad=4),
    "cropped": dict(n=2, c=3, k=4, size=12, kernel=3, pad=-2),
    "grouped": dict(n=2, c=12, k=20, size=8, kernel=3, groups=4, pad=1),
    "depthwise": dict(n=2, c=19, k=19, size=15, kernel=3, groups=19, pad=1),
    "depthwise_strided": dict(n=2, c=19, k=19, size=15, kernel=3, groups=19, pad=1, stride=2),
    "depthwise_multiplied": dict(n=2, c=6, k=18, size=11, kernel=3, groups=6, pad=1),
    "depthwise_transposed": dict(n=2, c=6, k=6, size=7, kernel=3, groups=6, ld=2, pad=2),
    "depthwise_dilated": dict(n=1, c=6, k=6, size=20, kernel=3, groups=6, rd=2, pad=2),
    "depthwise_wide": dict(n=1, c=3, k=3, size=150, kernel=7, groups=3, pad=3),
    "weight_gradient": dict(n=6, c=4, k=10, size=12, kernel=10, rd=1, pad=1),
    "weight_gradient_strided": dict(n=6, c=4, k=10, size=13, kernel=6, rd=2, pad=1),
    "weight_gradient_depthwise": dict(n=18, c=4, k=18, size=12, kernel=12, pad=1, batch_groups=18),
    "batch_grouped": dict(n=6, c=4, k=9, size=6, kernel=3, batch_groups=3),
    "image_smaller_than_kernel": dict(n=1, c=2, k=3, size=2, kernel=4, pad=3),
    "no_images": dict(n=0, c=2, k=3, size=4, kernel=2),
    "no_channels": dict(n=2, c=0, k=3, size=4, kernel=2),
    "no_features": dict(n=2, c=2, k=0, size=4, kernel=2),
    "empty_image": dict(n=2, c=2, k=3, size=0, kernel=2, pad=1),
}

SIDE_BY_SIDE = {
    "weights": dict(n=21, c=5, k=48, size=12, kernel=10, pad=1),
    "few_images": dict(n=4, c=3, k=16, size=20, kernel=20, pad=2),
    "strided": dict(n=13, c=4, k=96, size=13, kernel=6, rd=2, pad=1),
    "transposed": dict(n=9, c=3, k=32, size=7, kernel=3, ld=2, rd=3, stride=3, pad=4),
    "cropped": dict(n=6, c=2, k=16, size=12, kernel=7, pad=-2),
    "grouped": dict(n=8, c=6, k=64, size=8, kernel=6, groups=2, pad=1),
    "batch_grouped": dict(n=12, c=6, k=64, size=8, kernel=6, batch_groups=2, pad=1),
    "nothing_inside": dict(n=5, c=2, k=16, size=2, kernel=2, pad=5),
    "no_channels": dict(n=5, c=0, k=16, size=4, kernel=2),
}
"""Convolutions whose images, and features, lie side by side in memory (the gradient for NHWC's weights)."""

NARROW = {
    "one_feature": dict(n=2, c=8, k=1, size=9, kernel=3, pad=1),
    "colours": dict(n=2, c=24, k=3, size=(21, 17), kernel=3, pad=1),
    "a_large_window": dict(n=1, c=9, k=2, size=12, kernel=(7, 5), pad=(3, 0)),
    "dilated": dict(n=2, c=16, k=2, size=15, kernel=3, rd=(3, 2), pad=2),
    "cropped": dict(n=2, c=16, k=3, size=12, kernel=(3, 4), pad=(-2, 1)),
    "too_many": dict(n=2, c=16, k=9, size=12, kernel=3),
    "four": dict(n=2, c=32, k=4, size=(11, 19), kernel=3, pad=1),
    "eight": dict(n=2, c=20, k=8, size=(5, 13), kernel=(2, 3), pad=(0, 2)),
    "strided": dict(n=2, c=16, k=5, size=(9, 23), kernel=(3, 4), stride=(2, 3), pad=1),
    "transposed": dict(n=2, c=16, k=3, size=(5, 18), kernel=4, ld=2, pad=2),
    "transposed_unevenly": dict(n=1, c=17, k=6, size=(5, 9), kernel=(5, 3), ld=(2, 3), stride=(3, 2), pad=(1, 3)),
    "a_phase_without_taps": dict(n=1, c=16, k=2, size=(4, 6), kernel=1, ld=2),
    "one_tap": dict(n=2, c=18, k=3, size=9, kernel=1),
    "padding_alone": dict(n=1, c=8, k=1, size=2, kernel=(2, 3), pad=5),
    "lines_shared_out": dict(n=1, c=64, k=3, size=(61, 40), kernel=5, pad=2),
    "too_deep": dict(n=1, c=300, k=1, size=5, kernel=3, pad=1),
}
"""Few features, channels last: vectors along taps and channels."""

LINES = {
    "same": dict(n=2, c=16, k=40, size=14, kernel=3, pad=1),
    "one_channel": dict(n=3, c=1, k=32, size=(9, 28), kernel=5, pad=2),
    "strided": dict(n=2, c=5, k=33, size=(13, 31), kernel=(4, 3), stride=(3, 2), pad=(0, 1)),
    "dilated_between_lines": dict(n=2, c=8, k=16, size=(15, 12), kernel=3, rd=(3, 1), pad=2),
    "cropped": dict(n=2, c=6, k=12, size=(12, 16), kernel=(3, 4), pad=(-2, -1)),
    "padding_alone": dict(n=1, c=4, k=9, size=2, kernel=(2, 3), pad=6),
    "long_chains": dict(n=1, c=70, k=17, size=(6, 11), kernel=(3, 5), pad=1),
    "lines_shared_out": dict(n=1, c=32, k=64, size=(61, 40), kernel=3, pad=1),
    "a_window_longer_than_the_line": dict(n=1, c=3, k=16, size=(4, 6), kernel=(3, 9), pad=(1, 8)),
    "short_lines": dict(n=2, c=8, k=16, size=7, kernel=3, pad=1),
    "heavy": dict(n=1, c=128, k=136, size=(8, 9), kernel=3, pad=1),
}
"""Channels last, features to fill vectors: a padded copy, line by line."""


def figures(params):
    flat = {}
    for name, value in params.items():
        flat |= {f"{name}{i}": v for i, v in enumerate(value)} if isinstance(value, tuple) else {name: value}
    return flat


def values(rng, size, dtype):
    dtype = np.dtype(dtype)
    return (
        rng.integers(-100, 100, size).astype(dtype) if dtype.kind in "iu" else rng.standard_normal(size).astype(dtype)
    )


def extent(sizes, strides):
    return 0 if 0 in sizes else 1 + sum((s - 1) * t for s, t in zip(sizes, strides))


def check(library, name, params):
    dims = len(params["stride"])
    rng = np.random.default_rng(0)
    dtypes = DTYPES[name]
    shapes = (
        (params["n"], params["c"], *params["spatial_in"]),
        (params["k"], params["c"] // params["groups"], *params["kernel"]),
        (params["n"] // params["batch_groups"], params["k"], *params["spatial_out"]),
    )
    lhs, rhs = (values(rng, extent(s, params[t]), d) for s, t, d in zip(shapes, ("lhs_strides", "rhs_strides"), dtypes))
    out = np.ones(extent(shapes[2], params["out_strides"]), dtypes[2])
    library.run(f"{name}_{dims}", figures(params), [lhs, rhs], [out])
    reference = TEMPLATES["conv"].reference
    if out.dtype.kind in "iu":
        np.testing.assert_array_equal(out, reference(params, lhs, rhs, dtype=out.dtype)[0])
        return
    (expected,) = reference(params, lhs, rhs, dtype=np.float64)
    (scale,) = reference(params, np.abs(lhs), np.abs(rhs), dtype=np.float64)
    error = np.abs(out.astype(np.float64) - expected)
    assert (error <= TOLERANCE[dtypes[2]] * (scale + 1e-30)).all(), (error / (scale + 1e-30)).max()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "HWNC", "CHWN"])
@pytest.mark.parametrize("which", PROBLEMS)
def test_2d(library, which, layout):
    params = problem(**PROBLEMS[which], layout=layout)
    check(library, "f32", params)
    if layout in ("NCHW", "NHWC"):
        for name in ("bf16", "i8_i32"):
            check(library, name, params)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dims", [1, 3])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("which", [w for w in PROBLEMS if w not in ("depthwise_wide", "weight_gradient")])
def test_other_ranks(library, which, layout, dims):
    check(library, "f64", problem(**PROBLEMS[which], layout=layout, dims=dims))


@pytest.mark.parametrize("which, dims", [
    pytest.param(which, dims, marks=[pytest.mark.slow] * (dims == 3 and which in ("weights", "few_images")))
    for which in SIDE_BY_SIDE for dims in (1, 2, 3)])  # slow: their windows hold thousands of elements
def test_images_side_by_side(library, which, dims):
    params = problem(**SIDE_BY_SIDE[which], layout="images and features last", dims=dims)
    for name in ("f32", "f64", "i32"):
        check(library, name, params)


@pytest.mark.parametrize("which", NARROW)
def test_few_features(library, which):
    params = problem(**NARROW[which], layout="NHWC")
    for name in ("f32", "f64", "i32"):
        check(library, name, params)


@pytest.mark.parametrize("which", LINES)
def test_line_by_line(library, which):
    params = problem(**LINES[which], layout="NHWC")
    for name in ("f32", "f64", "i32"):
        check(library, name, params)


@pytest.mark.parametrize("dims", [1, 3])
def test_line_by_line_in_other_ranks(library, dims):
    for stride in (1, 2):
        check(library, "f32", problem(2, 6, 20, 18, 3, stride, pad=1, layout="NHWC", dims=dims))


@pytest.mark.parametrize("dims", [1, 3])
def test_few_features_in_other_ranks(library, dims):
    for kernel in (3, 5):
        check(library, "f32", problem(2, 12, 2, 8, kernel, pad=1, layout="NHWC", dims=dims))


def test_few_features_of_a_part_of_the_channels(library):
    """Neighbouring taps do not lie together, and what lies between them is NaN."""
    params = problem(2, 16, 3, (6, 20), 3, pad=1, layout="NHWC")
    image = np.full((2, 6, 20, 24), np.nan, np.float32)
    image[..., :16] = np.random.default_rng(0).standard_normal((2, 6, 20, 16))
    part = {**params, "lhs_strides": (6 * 20 * 24, 1, 20 * 24, 24)}
    rhs, outs = np.random.default_rng(1).standard_normal(9 * 16 * 3).astype(np.float32), []
    for given, lhs in ((part, image), (params, np.ascontiguousarray(image[..., :16]))):
        outs.append(np.zeros(2 * 6 * 20 * 3, np.float32))
        library.run("f32_2", figures(given), [lhs.reshape(-1), rhs], [outs[-1]])
    np.testing.assert_allclose(*outs, rtol=1e-5, atol=1e-5)


def test_uneven(library):
    """Every figure differs from dimension to dimension."""
    for layout in ("NCHW", "NHWC", "CHWN"):
        check(library, "i32", problem(3, 4, 6, (9, 14), (2, 5), (2, 1), (0, 3), (1, 2), (3, 1), 2, layout=layout))


def test_infinity_stays_in_place(library):
    """Only the outputs whose window holds it are infinite; padding adds nothing."""
    params = problem(1, 1, 1, 6, 3, pad=1, groups=1)
    lhs, rhs = np.ones(36, np.float32), np.ones(9, np.float32)
    lhs[0] = np.inf
    out = np.zeros(36, np.float32)
    library.run("f32_2", figures(params), [lhs, rhs], [out])
    hit = np.zeros((6, 6), bool)
    hit[:2, :2] = True
    np.testing.assert_array_equal(np.isinf(out.reshape(6, 6)), hit)
    assert not np.isnan(out).any()


def test_a_program_compiles_the_ways_that_may_fit():
    """All of them took 1.2 s of the compiler for each program with a convolution."""
    f32 = (np.dtype(np.float32),) * 3
    n, k = sympy.symbols("n k", integer=True, positive=True)

    def ways(dtypes=f32, **changed):
        last = dict(n=8, c=16, k=32, spatial_in=(9, 9), kernel=(3, 3), spatial_out=(9, 9), stride=(1, 1), pad_lo=(1, 1),
                    lhs_dilation=(1, 1), rhs_dilation=(1, 1), groups=1, batch_groups=1, lhs_strides=(1296, 1, 144, 16),
                    rhs_strides=(1, 32, 1536, 512), out_strides=(2592, 1, 288, 32))
        texts = TEMPLATES["conv"].instances({**last, **changed}, dtypes)
        call = TEMPLATES["conv"].call({**last, **changed}, dtypes, ["a", "b"], ["c"], sympy.ccode)
        found = [text.partition('"')[2].partition(".h")[0] for text in texts]
        names = ("depthwise", "line_convolution", "narrow_features", "outer_products")
        assert {w[:3] for w in found[1:]} == {name[:3] for name in names if f"tile::{name}<" in call}
        return found

    assert ways() == ways(n=n) == ["conv", "lines"]
    assert ways(lhs_dilation=(1, 2)) == ways(lhs_strides=(1296, 81, 9, 1)) == ["conv"]
    assert ways(lhs_strides=(1, 648, 72, 8)) == ["conv", "outer"]
    assert ways(k=k) == ["conv", "narrow", "lines", "depthwise"]
    assert ways(k=3) == ["conv", "narrow", "lines", "depthwise"]
    assert ways(k=8) == ["conv", "narrow", "lines"]
    assert ways(k=8, out_strides=(648, 81, 9, 1)) == ["conv", "narrow"]
    assert ways(groups=16, k=16) == ["conv", "depthwise"]
    assert ways((np.dtype(np.float16),) * 3, k=3) == ["conv", "depthwise"]
