"""What every backend must compute as eager JAX does: dtypes, shapes, sizes, and how outputs may look.

Each Region is a function with example arguments; `x64` runs it with 64-bit types on, `symbolic` names the
sizes of its arguments' dimensions, and then `more` are arguments of other sizes for the same Program.
The fused regions of real models are in tests/lowering/regions.py, and are run here too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

FLOATS = ("float32", "bfloat16", "float16")
INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")


@dataclass(frozen=True)
class Region:
    """One function and its arguments."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    x64: bool = False
    symbolic: tuple[str, ...] = ()
    more: tuple[tuple[Any, ...], ...] = ()


def floats(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def integers(*shape: int, dtype: Any = np.int32, seed: int = 0) -> np.ndarray:
    """Small and extreme values of an integer dtype."""
    limits, rng = np.iinfo(dtype), np.random.default_rng(seed)
    values = rng.integers(max(limits.min, -9), 10, shape).astype(dtype)
    edge = rng.random(shape) < 0.1
    ends = np.array([limits.min, limits.max], dtype)
    return np.where(edge, ends[rng.integers(0, 2, shape)], values)


def arrays(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if kind == np.bool_:
        return floats(*shape, seed=seed) > 0
    return (
        integers(*shape, dtype=kind, seed=seed)
        if kind.kind in "iu"
        else floats(*shape, dtype=kind, seed=seed)
    )


def arithmetic(x: Any, y: Any) -> Any:
    return x + y, x - y * x, jnp.maximum(x, y), jnp.minimum(x, 3), -x, jnp.abs(x), jnp.sign(x), x < y, x == y


def elementary(x: Any) -> Any:
    p = jnp.abs(x) + 0.1
    return (
        jnp.exp(x),
        jnp.log(p),
        jnp.sin(x),
        jnp.tanh(x),
        jnp.sqrt(p),
        lax.rsqrt(p),
        jax.nn.sigmoid(x),
        x**3,
        p**x,
        lax.erf(x),
        jnp.log1p(p),
        jnp.expm1(x),
        jnp.floor(x),
        jnp.round(x),
        x / p,
    )


def bits(x: Any, y: Any) -> Any:
    n = jnp.abs(y).astype(x.dtype) % 7
    return (
        x & y,
        x | y,
        x ^ y,
        ~x,
        x << n,
        x >> n,
        lax.shift_right_logical(x, n),
        lax.population_count(x),
        lax.clz(x),
    )


def divisions(x: Any, y: Any) -> Any:
    return lax.div(x, y), lax.rem(x, y), x // y, x % y


def reductions(x: Any) -> Any:
    return x.sum(0), x.sum(1), x.max(2), x.min((0, 2)), x.prod(1), x.sum(), x.mean((1, 2))


def integer_reductions(x: Any) -> Any:
    return (
        x.sum(0),
        x.max(1),
        x.min(),
        x.prod(1),
        jnp.argmax(x, 0),
        jnp.argmin(x, 1),
        jnp.any(x > 3, 1),
        jnp.all(x < 9),
    )


def conversions(x: Any) -> Any:
    to = (jnp.float32, jnp.bfloat16, jnp.float16, jnp.int8, jnp.int32, jnp.uint8, jnp.uint32, jnp.bool_)
    return tuple(x.astype(t) for t in to)


def logic(x: Any, y: Any) -> Any:
    return (
        x & y,
        x | y,
        x ^ y,
        ~x,
        jnp.logical_not(y),
        x.any(0),
        x.all(1),
        x.sum(),
        jnp.where(x, 1.5, y),
        x < y,
        jnp.argmax(x, 1),
        jnp.maximum(x, y),
    )


def batch_matmul(x: Any, y: Any) -> Any:
    return jnp.einsum("bij,bjk->bik", x, y), jnp.einsum("bij,bik->bjk", x, x), jnp.einsum("bij->ji", x)


def convolution(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(
        x, w, (2, 1), "SAME", rhs_dilation=(1, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def scatters(x: Any, i: Any) -> Any:
    return (
        x.at[i].set(1.0),
        x.at[i].add(2.0),
        x.at[i, 1].multiply(2.0),
        x.at[i].max(0.0),
        x.at[:, i[0]].min(0.5),
        x.at[1:3, ::2].set(0),
    )


def gathers(x: Any, i: Any) -> Any:
    return x[i], x[:, i % 4], jnp.take_along_axis(x, i[None, :] % 4, 1), x[i, i % 4], x[-1], x[1:5:2, ::-1]


def sorts(x: Any) -> Any:
    return jnp.sort(x, 0), jnp.argsort(x, 1), lax.top_k(x, 3), jnp.median(x, 1)


def random_values(seed: Any) -> Any:
    key = jax.random.key(seed)
    a, b, c = jax.random.split(key, 3)
    return (
        jax.random.bits(a, (5, 7)),
        jax.random.uniform(b, (33,)),
        jax.random.normal(c, (4, 9)),
        jax.random.randint(a, (11,), 0, 100),
        jax.random.permutation(b, 13),
    )


def control(x: Any) -> Any:
    looped = lax.fori_loop(0, 4, lambda i, c: c * 0.5 + i, x)
    return looped, lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), lax.scan(lambda c, r: (c + r, c * r), x[0], x)


def cumulatives(x: Any) -> Any:
    return (
        jnp.cumsum(x, 0),
        lax.cumsum(x, 1, reverse=True),
        lax.cummax(x, 1),
        lax.cumprod(x, 0),
        lax.cumlogsumexp(x, 1),
    )


def complexes(x: Any) -> Any:
    z = x + 1j * x[::-1]
    return z * z, jnp.abs(z), z.real, jnp.exp(z), jnp.fft.fft(z)


def layouts(x: Any, y: Any) -> Any:
    return (
        jnp.concatenate([x, y], 1),
        jnp.pad(x, ((1, 0), (0, 2)), constant_values=-1),
        x[::2, 1:],
        jnp.flip(x, 1),
        jnp.tile(x, (2, 3)),
        x.T.reshape(-1),
        jnp.stack([x, x], 1),
        jnp.roll(x, 2, 0),
        jnp.broadcast_to(x[0], (3, 5)),
    )


def broadcasts(x: Any, y: Any, z: Any) -> Any:
    return x + y, x * z, (x[:, None] - y[:, None]).sum(-1), y + 1


def softmax_with_mask(x: Any) -> Any:
    return jax.nn.softmax(jnp.where(x > -1, x, -jnp.inf), -1), jax.nn.logsumexp(x, 0)


def special_values(x: Any) -> Any:
    return (
        jnp.max(x),
        jnp.min(x, 0),
        jnp.maximum(x, 0),
        x + 1,
        x * 0,
        jnp.sign(x),
        jnp.isnan(x),
        jnp.argmax(x, 1),
        jnp.sqrt(x),
        jnp.exp(x),
        jnp.tanh(x),
        x.astype(jnp.int32),
        jnp.nanmax(x, 1),
        jnp.round(x),
    )


def same_twice(x: Any) -> Any:
    y = x * 2
    return y, y, x, y + 0


def with_constants(x: Any) -> Any:
    return jnp.arange(6.0), x + jnp.asarray([[1.0], [2.0], [3.0]]), jnp.float32(2), jnp.ones((2, 2), bool)


def grad_of_mlp(x: Any, w: Any, v: Any) -> Any:
    return jax.value_and_grad(lambda w, v: jnp.mean((jax.nn.gelu(x @ w) @ v) ** 2), (0, 1))(w, v)


SPECIAL = np.array([[np.nan, 1, -np.inf, 0.0], [np.inf, -0.0, 2.5, 3e9], [1e-30, -1, 5, 0.5]], np.float32)

BY_DTYPE = tuple(
    Region(f"{fn.__name__}_{dtype}", fn, tuple(arrays(dtype, 5, 9, seed=i) for i in range(count)))
    for fn, count, dtypes in (
        (arithmetic, 2, (*FLOATS, *INTEGERS)),
        (elementary, 1, FLOATS),
        (bits, 2, INTEGERS),
        (divisions, 2, (*FLOATS, *INTEGERS)),
        (integer_reductions, 1, INTEGERS),
        (conversions, 1, (*FLOATS, "int32", "uint8", "bool")),
        (cumulatives, 1, FLOATS),
    )
    for dtype in dtypes
) + tuple(Region(f"reductions_{d}", reductions, (arrays(d, 4, 5, 6),)) for d in FLOATS)

SHAPES = (
    Region("logic", logic, (arrays("bool", 5, 9), arrays("bool", 5, 9, seed=1))),
    Region("broadcasts", broadcasts, (floats(7), floats(4, 7), floats(1))),
    Region("layouts", layouts, (floats(6, 5), floats(6, 3, seed=1))),
    Region("zero_size", lambda x: (x + 1, x.sum(1), x.sum(0), jnp.concatenate([x, x])), (floats(0, 4),)),
    Region(
        "zero_d",
        lambda x, y: (x + y, jnp.sin(x), jnp.where(x > y, x, y), x * jnp.ones(3)),
        (floats(), floats(seed=1)),
    ),
    Region(
        "python_scalars",
        lambda x, y, z: (x * y, x + z, jnp.multiply(y, 2), jnp.add(y, z)),
        (floats(4), 2.5, 3),
    ),
    Region("long_rows", lambda x: (x - x.mean(-1, keepdims=True), x.max(-1)), (floats(2, 5001),)),
    Region("long_columns", lambda x: x.sum(0) / jnp.abs(x).max(0), (floats(3001, 3),)),
    Region("five_dims", lambda x: jnp.exp(x).sum((1, 3)).transpose(2, 0, 1), (floats(2, 3, 4, 3, 5),)),
    Region("special_values", special_values, (SPECIAL,)),
    Region("softmax_with_mask", softmax_with_mask, (floats(9, 17),)),
)

OPERATIONS = (
    Region("matmul", lambda x, y: (x @ y, y.T @ x.T, x @ x.T), (floats(33, 20), floats(20, 45, seed=1))),
    Region(
        "matmul_bfloat16",
        lambda x, y: x @ y,
        (arrays("bfloat16", 33, 40), arrays("bfloat16", 40, 24, seed=1)),
    ),
    Region(
        "matmul_int",
        lambda x, y: x @ y,
        (integers(20, 17, dtype=np.int32), integers(17, 30, dtype=np.int32, seed=1)),
    ),
    Region(
        "matmul_int8",
        lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32),
        (integers(20, 33, dtype=np.int8), integers(33, 24, dtype=np.int8, seed=1)),
    ),
    Region("batch_matmul", batch_matmul, (floats(3, 17, 20), floats(3, 20, 18, seed=1))),
    Region("grad_of_mlp", grad_of_mlp, (floats(16, 12), floats(12, 33, seed=1), floats(33, 8, seed=2))),
    Region("convolution", convolution, (floats(2, 9, 8, 3), floats(3, 3, 3, 5, seed=1))),
    Region("scatters", scatters, (floats(6, 5), np.array([4, 1, 2], np.int32))),
    Region(
        "scatter_duplicates",
        lambda x, i: (x.at[i].add(1.5), x.at[i].max(3.0)),
        (floats(6, 5), np.array([4, 1, 4, 4], np.int32)),
    ),
    Region("gathers", gathers, (floats(6, 5), np.array([3, 0, 5, 2], np.int32))),
    Region("sorts", sorts, (floats(7, 6),)),
    Region("random_values", random_values, (np.uint32(42),)),
    Region("control", control, (floats(3, 4),)),
    Region("complexes", complexes, (floats(8),)),
)

OUTPUTS = (
    Region("identity", lambda x: x, (floats(3, 2),)),
    Region("same_twice", same_twice, (floats(3, 2),)),
    Region("with_constants", with_constants, (floats(3, 1),)),
    Region("no_inputs", lambda: jnp.linspace(0.0, 1.0, 7), ()),
    Region(
        "weak_types", lambda x: (jnp.add(x, 2), jnp.asarray(3.0) * 1, jnp.sin(x) + 1, jnp.full((), x)), (2.0,)
    ),
)

WIDE = tuple(
    Region(name, fn, args, x64=True)
    for name, fn, args in (
        (
            "arithmetic_float64",
            arithmetic,
            (floats(5, 9, dtype=np.float64), floats(5, 9, dtype=np.float64, seed=1)),
        ),
        ("elementary_float64", elementary, (floats(5, 9, dtype=np.float64),)),
        ("reductions_float64", reductions, (floats(4, 5, 6, dtype=np.float64),)),
        (
            "matmul_float64",
            lambda x, y: x @ y,
            (floats(20, 33, dtype=np.float64), floats(33, 18, dtype=np.float64, seed=1)),
        ),
        (
            "arithmetic_int64",
            arithmetic,
            (integers(5, 9, dtype=np.int64), integers(5, 9, dtype=np.int64, seed=1)),
        ),
        (
            "divisions_uint64",
            divisions,
            (integers(5, 9, dtype=np.uint64), integers(5, 9, dtype=np.uint64, seed=1)),
        ),
        ("bits_int64", bits, (integers(5, 9, dtype=np.int64), integers(5, 9, dtype=np.int64, seed=1))),
        (
            "mixed_widths",
            lambda x, y: (x + y, x.astype(jnp.int64).sum(), y.mean()),
            (floats(6), floats(6, dtype=np.float64)),
        ),
    )
)

SYMBOLIC = (
    Region(
        "symbolic_softmax",
        jax.nn.softmax,
        (floats(6, 9),),
        symbolic=("n, d",),
        more=((floats(1, 40),), (floats(33, 1),)),
    ),
    Region(
        "symbolic_norm",
        lambda x, g: (x - x.mean(-1, keepdims=True)) * g / (x.std(-1, keepdims=True) + 1e-5),
        (floats(4, 16), floats(16)),
        symbolic=("n, d", "d"),
        more=((floats(9, 5), floats(5)),),
    ),
    Region(
        "symbolic_batch",
        lambda x, w: jax.nn.relu(x @ w).sum(0),
        (floats(8, 20), floats(20, 30)),
        symbolic=("b, 20", "20, 30"),
        more=((floats(31, 20), floats(20, 30)), (floats(1, 20), floats(20, 30))),
    ),
    Region(
        "symbolic_layout",
        lambda x: (x.reshape(-1), x[:, 1:], jnp.concatenate([x, x * 2], 1), x.T),
        (floats(4, 6),),
        symbolic=("n, d",),
        more=((floats(3, 11),),),
    ),
    Region(
        "symbolic_rows",
        lambda x, y: (x + y, (x * y).sum(0), jnp.cumsum(x, 0)),
        (floats(5, 7), floats(7)),
        symbolic=("n, 7", "7"),
        more=((floats(19, 7), floats(7)),),
    ),
)

ALL = {r.name: r for r in (*BY_DTYPE, *SHAPES, *OPERATIONS, *OUTPUTS, *WIDE, *SYMBOLIC)}
