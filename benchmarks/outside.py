"""JAX's transformations of compiled functions: `jax.grad(dynacomp.jit(f))`, `jax.grad(jax.jit(f))` and eager JAX.

    python benchmarks/outside.py [--filter mlp] [--blocks 7]

Each function is transformed from outside, as a program does that has compiled its loss. Contestants take turns in
one process (see `measure.py`). The exit status is 1 where a result differs from eager JAX's by more than 1e-3.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from measure import BLOCKS, geometric_mean, machine, ratio, timed, worst_error
from rich.console import Console
from rich.table import Table

import dynacomp

TOLERANCE = 1e-3


@dataclass(frozen=True)
class Case:
    """A function, what transforms it, and the arguments."""

    name: str
    fn: Callable[..., Any]
    transform: Callable[[Any], Any]
    args: Callable[[], tuple[Any, ...]]


def three_operations(x: Any) -> Any:
    return (jnp.tanh(x) ** 2).sum()


def mlp(params: Any, x: Any) -> Any:
    for w, b in params:
        x = jax.nn.gelu(x @ w + b)
    return (x ** 2).mean()


def attention(x: Any, w: Any) -> Any:
    q, k, v = jnp.split(x @ w, 3, -1)
    return (jax.nn.softmax(q @ k.T / jnp.sqrt(q.shape[-1])) @ v).sum()


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return ((x * g + b) ** 3).sum()


def cross_entropy(logits: Any, labels: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def convolution(x: Any, w: Any) -> Any:
    return jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")).sum()


def recurrence(h: Any, xs: Any, w: Any) -> Any:
    return jax.lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), h, xs)[0].sum()


def kernel_matrix(x: Any, scale: Any) -> Any:
    return jnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1) / scale).mean()


def layers(count: int, width: int) -> Any:
    return [(normal(width, width) / width ** 0.5, jnp.zeros(width)) for _ in range(count)]


def normal(*shape: int) -> Any:
    return jax.random.normal(jax.random.key(sum(shape)), shape)


CASES = (
    Case("grad of three operations", three_operations, jax.grad, lambda: (normal(64),)),
    Case("grad of an MLP", mlp, jax.value_and_grad, lambda: (layers(3, 128), normal(64, 128))),
    Case("grad of a small MLP", mlp, jax.value_and_grad, lambda: (layers(2, 16), normal(8, 16))),
    Case("grad of attention", attention, lambda f: jax.grad(f, (0, 1)), lambda: (normal(64, 32), normal(32, 96))),
    Case("grad of layer norm", layer_norm, lambda f: jax.grad(f, (0, 1, 2)),
         lambda: (normal(256, 128), jnp.ones(128), jnp.zeros(128))),
    Case("grad of cross-entropy", cross_entropy, jax.grad, lambda: (normal(128, 512), jnp.arange(128))),
    Case("grad of a convolution", convolution, lambda f: jax.grad(f, (0, 1)),
         lambda: (normal(4, 8, 16, 16), normal(16, 8, 3, 3))),
    Case("grad of a recurrence", recurrence, lambda f: jax.grad(f, (0, 2)),
         lambda: (jnp.zeros(32), normal(64, 32), normal(32, 32) / 8)),
    Case("vmap of a kernel matrix", kernel_matrix, jax.vmap, lambda: (normal(16, 32, 4), jnp.ones(16))),
    Case("jvp of a kernel matrix", kernel_matrix, lambda f: lambda x, s: jax.jvp(f, (x, s), (x, s)),
         lambda: (normal(64, 4), jnp.ones(()))),
    Case("hessian of three operations", three_operations, jax.hessian, lambda: (normal(16),)),
)


def measured(case: Case, blocks: int) -> tuple[float, float, float, float]:
    """Microseconds a call, how many times as fast as under `jax.jit` and as eager JAX, the error."""
    args = case.args()
    ours, xla, eager = (case.transform(f) for f in (dynacomp.jit(case.fn), jax.jit(case.fn), case.fn))
    error = worst_error(ours(*args), eager(*args))
    found = timed({"dynacomp": lambda: ours(*args), "jit": lambda: xla(*args), "eager": lambda: eager(*args)}, blocks)
    return 1e6 * min(found["dynacomp"]), ratio(found["jit"], found["dynacomp"]), ratio(
        found["eager"], found["dynacomp"]), error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="part of the names of cases")
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    asked = parser.parse_args()
    table = Table("", "µs a call", "× jax.jit inside", "× eager", "error", title=machine())
    rows = {c.name: measured(c, asked.blocks) for c in CASES if asked.filter in c.name}
    for name, (micros, over_jit, over_eager, error) in rows.items():
        table.add_row(name, f"{micros:.0f}", f"{over_jit:.2f}", f"{over_eager:.1f}", f"{error:.0e}")
    table.add_row("geometric mean", "", *(f"{geometric_mean([r[i] for r in rows.values()]):.2f}" for i in (1, 2)), "")
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    return int(any(r[3] > TOLERANCE for r in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
