"""The kernel templates against jax.jit: one table, contestants interleaved in blocks, medians.

    python benchmarks/templates.py [matmul|conv|depthwise|sort|attention ...]

Each contestant runs in short blocks with a pause before each (the threads of one disturb the next);
a figure is the median over the blocks of the block's best call.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.kernels.standalone import Call, build


@dataclass(frozen=True)
class Case:
    """One row: a template call with constant params, its operands, and the same in JAX."""

    group: str
    label: str
    call: Call
    operands: tuple[np.ndarray, ...]
    results: tuple[np.ndarray, ...]
    jax: Callable


def random(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def matmul_case(label: str, batch: int, m: int, n: int, k: int, ta=False, tb=False, dtype="float32") -> Case:
    a = random(batch, *((k, m) if ta else (m, k)), dtype=dtype)
    b = random(batch, *((n, k) if tb else (k, n)), dtype=dtype)
    params = {
        "batch": batch,
        "m": m,
        "n": n,
        "k": k,
        "a_strides": (m * k, *((1, m) if ta else (k, 1))),
        "b_strides": (k * n, *((1, k) if tb else (n, 1))),
    }
    axes = (((1 if ta else 2,), (2 if tb else 1,)), ((0,), (0,)))
    product = (
        (lambda x, y: jax.lax.dot_general(x, y, axes))
        if batch > 1
        else (lambda x, y: jnp.dot(x[0].T if ta else x[0], y[0].T if tb else y[0])[None])
    )
    return Case(
        "matmul", label, Call("matmul", (dtype,) * 3, params), (a, b), (np.empty((batch, m, n), dtype),), product
    )


def matmul_cases() -> list[Case]:
    cubes = [matmul_case(f"{s}^3", 1, s, s, s) for s in (16, 32, 64, 128, 256, 512, 1024)]
    mlp = [
        matmul_case("mlp 128x784x256", 1, 128, 256, 784),
        matmul_case("mlp grad w", 1, 784, 256, 128, ta=True),
        matmul_case("mlp grad x", 1, 128, 784, 256, tb=True),
        matmul_case("mlp out 128x256x10", 1, 128, 10, 256),
        matmul_case("mlp out grad w", 1, 256, 10, 128, ta=True),
        matmul_case("mlp out grad x", 1, 128, 256, 10, tb=True),
    ]
    gpt = [
        matmul_case("gpt 2048x64x64", 1, 2048, 64, 64),
        matmul_case("gpt 2048x128x512", 1, 2048, 512, 128),
        matmul_case("gpt 4096x256x768", 1, 4096, 768, 256),
        matmul_case("gpt grad w 256x4096x768", 1, 256, 768, 4096, ta=True),
        matmul_case("gpt grad x", 1, 4096, 256, 768, tb=True),
        matmul_case("gpt 8192x512x512", 1, 8192, 512, 512),
        matmul_case("gpt logits 2048x128x96", 1, 2048, 96, 128),
    ]
    attention = [
        matmul_case("q k^T 32x64x64x32", 32, 64, 64, 32, tb=True),
        matmul_case("q k^T 32x256x256x64", 32, 256, 256, 64, tb=True),
        matmul_case("p v 32x64x32x64", 32, 64, 32, 64),
        matmul_case("p v 32x256x64x256", 32, 256, 64, 256),
    ]
    thin = [
        matmul_case("matvec 1024x1024", 1, 1024, 1, 1024),
        matmul_case("vecmat 1024x1024", 1, 1, 1024, 1024),
        matmul_case("vecmat^T 1024x1024", 1, 1, 1024, 1024, tb=True),
        matmul_case("vecmat 4096x4096", 1, 1, 4096, 4096),
        matmul_case("4 rows 512x2048", 1, 4, 2048, 512),
        matmul_case("8 rows^T 512x2048", 1, 8, 2048, 512, tb=True),
    ]
    other = [
        matmul_case("256^3 f64", 1, 256, 256, 256, dtype="float64"),
        matmul_case("512^3 bf16", 1, 512, 512, 512, dtype="bfloat16"),
        matmul_case("512^3 f16", 1, 512, 512, 512, dtype="float16"),
    ]
    return cubes + mlp + gpt + attention + thin + other


def conv_params(shapes: list[tuple[int, ...]], result: tuple[int, ...], params: dict) -> dict:
    """The template's params of one conv_general_dilated over row-major arrays."""
    numbers = params["dimension_numbers"]
    specs = dict(zip(("lhs", "rhs", "out"), numbers))
    sizes = {"lhs": shapes[0], "rhs": shapes[1], "out": result}
    pick = lambda name: tuple(sizes[name][d] for d in specs[name])
    strides = {f"{s}_strides": tuple(int(np.prod(sizes[s][d + 1 :])) for d in specs[s]) for s in specs}
    return strides | {
        "n": pick("lhs")[0],
        "c": pick("lhs")[1],
        "k": pick("rhs")[0],
        "spatial_in": pick("lhs")[2:],
        "kernel": pick("rhs")[2:],
        "spatial_out": pick("out")[2:],
        "stride": params["window_strides"],
        "pad_lo": tuple(lo for lo, _ in params["padding"]),
        "pad_hi": tuple(hi for _, hi in params["padding"]),
        "lhs_dilation": params["lhs_dilation"],
        "rhs_dilation": params["rhs_dilation"],
        "groups": params["feature_group_count"],
        "batch_groups": params["batch_group_count"],
    }


def conv_case(
    label: str,
    n: int,
    c: int,
    k: int,
    size: tuple[int, ...],
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    layout: str = "NCHW",
    gradient: int | None = None,
    group: str = "conv",
) -> Case:
    """A convolution, or its gradient for operand 0 or 1: what JAX itself makes of it, as one template call."""
    dims, space = len(size), "DHW"[-len(size) :]
    lhs, rhs = ("NC" + space, "OI" + space) if layout == "NCHW" else ("N" + space + "C", space + "IO")
    shape = lambda spec, figures: tuple(figures[s] if s in figures else size[space.index(s)] for s in spec)
    x = random(*shape(lhs, {"N": n, "C": c}))
    w = random(*shape(rhs, {"O": k, "I": c // groups} | dict.fromkeys(space, kernel)), seed=1)
    forward = lambda x, w: jax.lax.conv_general_dilated(
        x, w, (stride,) * dims, "SAME", dimension_numbers=(lhs, rhs, lhs), feature_group_count=groups
    )
    function, operands = forward, [x, w]
    if gradient is not None:
        y = np.asarray(forward(x, w))
        function = lambda dy, other: jax.vjp(
            lambda v: forward(v, other) if gradient == 0 else forward(other, v), (x, w)[gradient]
        )[1](dy)[0]
        operands = [y, (w, x)[gradient]]
    jaxpr = jax.jit(function).trace(*operands).jaxpr
    environment = dict(zip(jaxpr.jaxpr.constvars, jaxpr.consts)) | dict(zip(jaxpr.jaxpr.invars, operands))
    for eqn in jaxpr.eqns:  # the last convolution is the one asked for; before it may come reversals of weights
        values = [environment[v] if not hasattr(v, "val") else v.val for v in eqn.invars]
        environment[eqn.outvars[0]] = eqn.primitive.bind(*values, **eqn.params)
        if eqn.primitive.name == "conv_general_dilated":
            found, taken = eqn, [np.asarray(v) for v in values]
    params = conv_params([a.shape for a in taken], found.outvars[0].aval.shape, found.params)
    out = np.empty(found.outvars[0].aval.shape, np.float32)
    theirs = lambda a, b: jax.lax.conv_general_dilated_p.bind(a, b, **found.params)
    return Case(group, label, Call("conv", ("float32",) * 3, params), tuple(taken), (out,), theirs)


def conv_cases() -> list[Case]:
    both = lambda *args, **kw: [
        conv_case(f"{args[0]} {l}{tag}", *args[1:], layout=l, gradient=g, **kw)
        for l in ("NCHW", "NHWC")
        for g, tag in ((None, ""), (0, " grad x"), (1, " grad w"))
    ]
    return [
        *both("mnist1 64x1x28 k32", 64, 1, 32, (28, 28), 3),
        *both("mnist2 64x32x14 k64", 64, 32, 64, (14, 14), 3),
        *both("resnet 8x64x56 k64", 8, 64, 64, (56, 56), 3),
        *both("resnet 8x256x14 k256", 8, 256, 256, (14, 14), 3),
        *both("stem 4x3x224 k64 7x7/2", 4, 3, 64, (224, 224), 7, stride=2),
        *both("pointwise 8x64x56 k128", 8, 64, 128, (56, 56), 1),
        *both("down 8x64x56 k128 /2", 8, 64, 128, (56, 56), 3, stride=2),
        *both("1d 16x64x512 k64", 16, 64, 64, (512,), 5),
        *both("3d 2x16x16^3 k32", 2, 16, 32, (16, 16, 16), 3),
        *both("grouped 8x64x28 g8", 8, 64, 64, (28, 28), 3, groups=8),
    ]


def depthwise_cases() -> list[Case]:
    return [
        conv_case(f"{label} {l}{tag}", *args, groups=args[1], stride=stride, layout=l, gradient=g, group="depthwise")
        for label, args, stride in (
            ("4x64x56 3x3", (4, 64, 64, (56, 56), 3), 1),
            ("4x128x28 5x5/2", (4, 128, 128, (28, 28), 5), 2),
            ("2x256x14 3x3", (2, 256, 256, (14, 14), 3), 1),
            ("1d 8x64x256 k4", (8, 64, 64, (256,), 4), 1),
        )
        for l in ("NCHW", "NHWC")
        for g, tag in ((None, ""), (0, " grad x"), (1, " grad w"))
    ]


def sort_cases() -> list[Case]:
    def case(label: str, shape: tuple[int, ...], dimension: int, dtype: str, index: bool) -> Case:
        x = (random(*shape) * 1e6).astype(dtype)
        operands = (x, np.broadcast_to(np.arange(shape[dimension], dtype=np.int32), shape).copy()) if index else (x,)
        dtypes = tuple(a.dtype.name for a in operands)
        params = {"dimension": dimension, "num_keys": 1, "is_stable": True, "shapes": (shape,) * len(operands)}
        call = Call("sort", dtypes * 2, params, results=len(operands))
        theirs = lambda *a: jax.lax.sort(a, dimension=dimension, num_keys=1)
        return Case("sort", label, call, operands, tuple(np.empty_like(a) for a in operands), theirs)

    def top(label: str, rows: int, n: int, k: int) -> Case:
        call = Call("top_k", ("float32", "float32", "int32"), {"rows": rows, "n": n, "k": k}, results=2)
        results = (np.empty((rows, k), np.float32), np.empty((rows, k), np.int32))
        return Case("sort", label, call, (random(rows, n),), results, lambda x: jax.lax.top_k(x, k))

    return [
        case("sort f32 1000000", (1000000,), 0, "float32", False),
        case("argsort f32 100000", (100000,), 0, "float32", True),
        case("argsort f32 512x1000", (512, 1000), 1, "float32", True),
        case("sort i32 4096x32", (4096, 32), 1, "int32", False),
        case("sort f64 1000x256 dim 0", (1000, 256), 0, "float64", False),
        top("top_k 64x50000 k40", 64, 50000, 40),
        top("top_k 512x512 k4", 512, 512, 4),
    ]


def attention_cases() -> list[Case]:
    def case(label: str, b: int, h: int, s: int, t: int, d: int, causal: bool, dtype: str = "float32") -> Case:
        arrays = tuple(random(b, h, n, d, dtype=dtype, seed=i) for i, n in enumerate((s, t, t)))
        strides = lambda n: (h * n * d, n * d, d, 1)
        params = {
            "batch": b,
            "heads": h,
            "queries": s,
            "keys": t,
            "depth": d,
            "width": d,
            "scale": d**-0.5,
            "causal": causal,
            "q_strides": strides(s),
            "k_strides": strides(t),
            "v_strides": strides(t),
            "out_strides": strides(s),
        }

        def plain(q, k, v):
            scores = jnp.einsum("bhsd,bhtd->bhst", q, k) * d**-0.5
            if causal:
                scores = jnp.where(jnp.tril(jnp.ones((s, t), bool)), scores, -jnp.inf)
            return jnp.einsum("bhst,bhtd->bhsd", jax.nn.softmax(scores), v)

        call = Call("attention", (dtype,) * 4, params)
        return Case("attention", label, call, arrays, (np.empty((b, h, s, d), dtype),), plain)

    return [
        case("8x4 s64 d32", 8, 4, 64, 64, 32, False),
        case("8x4 s64 d32 causal", 8, 4, 64, 64, 32, True),
        case("8x4 s256 d64", 8, 4, 256, 256, 64, False),
        case("8x4 s256 d64 causal", 8, 4, 256, 256, 64, True),
        case("1x8 s1024 d64 causal", 1, 8, 1024, 1024, 64, True),
        case("1x4 s2048 d64", 1, 4, 2048, 2048, 64, False),
        case("1x8 s1 t1024 d64", 1, 8, 1, 1024, 64, False),
        case("8x4 s256 d64 bf16", 8, 4, 256, 256, 64, False, "bfloat16"),
    ]


def block(run: Callable[[], object], seconds: float) -> float:
    """The best of the calls that fit into `seconds`, at least two."""
    time.sleep(0.02)
    run()
    best, end, count = 1e9, time.perf_counter() + seconds, 0
    while count < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best, count = min(best, time.perf_counter() - start), count + 1
    return best


def compare(case: Case, ours: Callable[[], object], blocks: int = 5) -> tuple[float, float]:
    arrays = [jnp.asarray(a) for a in case.operands]
    compiled = jax.jit(case.jax).lower(*arrays).compile()
    theirs = lambda: jax.block_until_ready(compiled(*arrays))
    check(case, theirs())
    times = [(block(ours, 0.03), block(theirs, 0.03)) for _ in range(blocks)]
    return statistics.median(t for t, _ in times), statistics.median(t for _, t in times)


def check(case: Case, expected: object) -> None:
    """Both contestants did the same work (loosely: the tests look closely)."""
    for ours, theirs in zip(case.results, jax.tree.leaves(expected), strict=True):
        theirs = np.asarray(theirs).astype(np.float64)
        scale = np.abs(theirs).max(initial=1e-30)
        error = np.abs(ours.astype(np.float64).reshape(theirs.shape) - theirs).max(initial=0) / scale
        if not error < 3e-2:
            print(f"warning: {case.label}: results differ by {error:.2g} of the largest value")


def main(groups: list[str]) -> None:
    jax.config.update("jax_enable_x64", True)
    cases = [c for make in CASES for c in make() if not groups or c.group in groups]
    folder = Path(tempfile.gettempdir()) / f"dynacomp-templates-{time.strftime('%Y%m%d')}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = build({f"case{i}": c.call for i, c in enumerate(cases)}, folder)
    print(f"{'group':10} {'case':34} {'ours µs':>10} {'jax.jit µs':>11} {'ratio':>6}")
    ratios = []
    for i, case in enumerate(cases):
        ours = library.bind(f"case{i}", {}, case.operands, case.results)
        ours()
        mine, theirs = compare(case, ours)
        ratios.append(theirs / mine)
        print(f"{case.group:10} {case.label:34} {mine * 1e6:10.1f} {theirs * 1e6:11.1f} {ratios[-1]:6.2f}", flush=True)
    print(f"geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f}")


CASES = [matmul_cases, conv_cases, depthwise_cases, sort_cases, attention_cases]

if __name__ == "__main__":
    main(sys.argv[1:])
