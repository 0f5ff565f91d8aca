"""Whole models, forward and as a training step: dynacomp against jax.jit and eager JAX, and their seams.

    python benchmarks/models.py [--filter linen] [--scales 1,4] [--blocks 5] [--no-eager]

A step is the gradient of a mean square distance from fixed numbers, and gradient descent. Contestants take turns in one
process (see `measure.py`). "seams" are operations that XLA computes in the midst of compiled code. The exit status is
1 where a result differs from jax.jit's by more than 1e-3.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from measure import geometric_mean, machine, ratio, timed, worst_error
from model_table import MODELS
from rich.console import Console
from rich.table import Table

import dynacomp

TOLERANCE, BAR, WANTED = 1e-3, 0.95, 1.5


def training(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The training step of a model."""
    def loss(params: Any, *inputs: Any) -> Any:
        results = jax.tree.leaves(forward(params, *inputs))
        return sum(jnp.mean(jnp.square(x - jnp.cos(jnp.arange(x.shape[-1])))) for x in results)

    def step(params: Any, *inputs: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, *inputs)
        return value, jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)

    return step


def functions(wanted: str, scales: list[int]) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """Name, function and arguments of each measurement."""
    for name, make in MODELS.items():
        for scale in scales if wanted in name else ():
            forward, params, inputs = make(scale)
            params = jax.tree.map(lambda p: p + 0.01, params)  # a bias of 0 with no gradient shows rounding alone
            yield f"{name} ×{scale}", forward, (params, *inputs)
            yield f"{name} ×{scale} step", training(forward), (params, *inputs)


def measured(fn: Callable[..., Any], args: tuple[Any, ...], blocks: int, eager: bool) -> dict[str, Any]:
    """Ratios of jax.jit's and eager JAX's time to ours, the error, and the seams."""
    before = dynacomp.stats()["externs"]
    ours, theirs = dynacomp.jit(fn, dynamic=False), jax.jit(fn)  # models share the code of the step
    error = worst_error(ours(*args), theirs(*args))
    after = dynacomp.stats()["externs"]
    times = timed({"ours": lambda: ours(*args), "jit": lambda: theirs(*args)}, blocks)
    found = {"error": error, "seconds": min(times["ours"]), "jit": ratio(times["jit"], times["ours"]),
             "seams": sorted(k for k, n in after.items() if n != before.get(k, 0))}
    if eager:
        slow = timed({"ours": lambda: ours(*args), "eager": lambda: fn(*args)}, 1)
        found["eager"] = ratio(slow["eager"], slow["ours"])
    return found


def row(name: str, found: dict[str, Any]) -> tuple[str, ...]:
    eager = f"{found['eager']:.0f}×" if "eager" in found else ""
    return (name, f"{found['seconds'] * 1e6:.0f} us", f"{found['jit']:.2f}×", eager, f"{found['error']:.0e}",
            ", ".join(found["seams"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only models whose name has this in it")
    parser.add_argument("--scales", default="1,4", help="sizes: 1 is small, 4 is medium")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--no-eager", action="store_true", help="leave eager JAX out: it is slow")
    given = parser.parse_args()
    table = Table("model", "dynacomp", "jax.jit /", "eager /", "error", "seams", title="whole models")
    results: dict[str, dict[str, Any]] = {}
    for name, fn, args in functions(given.filter, [int(s) for s in given.scales.split(",")]):
        results[name] = measured(fn, args, given.blocks, not given.no_eager)
        table.add_row(*row(name, results[name]))
        print(*row(name, results[name]), file=sys.stderr, flush=True)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    ratios = [r["jit"] for r in results.values()]
    seams = sum(bool(r["seams"]) for r in results.values())
    console.print(f"{geometric_mean(ratios):.2f}× jax.jit in the geometric mean (wanted: {WANTED}), least "
                  f"{min(ratios):.2f}× (wanted: {BAR}); {seams} of {len(ratios)} with seams; {machine()}")
    return int(any(r["error"] > TOLERANCE for r in results.values()))


if __name__ == "__main__":
    sys.exit(main())
