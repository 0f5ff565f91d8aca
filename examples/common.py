"""What the examples share: `--compiler`, a progress bar, timing, and one line (or JSON) of results.

An example hands `train` a function that takes one step and returns its loss; the rest is here, so
that the examples themselves show nothing but a model and how it is trained.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import dynacomp

COMPILERS = ("eager", "jax", "dynacomp")
CHECKED_STEP = 50  # the step whose loss is compared between compilers
console = Console(stderr=True)


@dataclass(frozen=True)
class Result:
    """One training run. Times in milliseconds; `breaks` and `recompiles` are dynacomp's own."""

    name: str
    compiler: str
    steps: int
    loss: float
    checked_loss: float
    step_ms: float
    first_ms: float
    breaks: int
    recompiles: int
    extra: dict[str, Any] = field(default_factory=dict)


def arguments(description: str, steps: int) -> argparse.Namespace:
    """The command line that every example takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--compiler", choices=COMPILERS, default="dynacomp")
    parser.add_argument("--steps", type=int, default=steps, help=f"training steps (default {steps})")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, nothing else")
    args = parser.parse_args()
    if args.steps < 1:
        parser.error(f"--steps {args.steps}: at least 1")
    return args


def compiler(name: str, jit: Callable = jax.jit) -> Callable[[Callable], Callable]:
    """The decorator that `--compiler name` stands for; `jit` is the one for "jax"."""
    return {"eager": lambda f: f, "jax": jit, "dynacomp": lambda f: dynacomp.jit(f)}[name]


def train(name: str, args: argparse.Namespace, step: Callable[[int], jax.Array]) -> Result:
    """Call `step(i)`, which returns the loss, `args.steps` times under a progress bar, timing each."""
    dynacomp.reset()
    losses, seconds = [], []
    with progress() as bar:
        task = bar.add_task(f"{name} ({args.compiler})", total=args.steps, loss="")
        for i in range(args.steps):
            start = time.perf_counter()
            loss = jax.block_until_ready(step(i))
            seconds.append(time.perf_counter() - start)
            losses.append(float(loss))
            bar.update(task, advance=1, loss=f"{losses[-1]:.4f}")
    stats = dynacomp.stats()
    return Result(
        name, args.compiler, args.steps, losses[-1], losses[min(CHECKED_STEP, args.steps) - 1],
        step_ms=1e3 * statistics.median(seconds[len(seconds) // 2:]), first_ms=1e3 * seconds[0],
        breaks=sum(stats["breaks"].values()), recompiles=stats["recompiles"])


def progress() -> Progress:
    """A progress bar on stderr: what, bar, count, time, loss."""
    return Progress(TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(),
                    TimeElapsedColumn(), TextColumn("loss {task.fields[loss]}"), console=console)


def report(args: argparse.Namespace, results: list[Result]) -> None:
    """Print the results of one example: a table, or JSON for `demo.py`."""
    if args.json:
        print(json.dumps([asdict(r) for r in results]))
    else:
        wide().print(table(results))


def wide() -> Console:
    """A console on stdout that folds no row of a table."""
    out = Console()
    return out if out.width >= 140 else Console(width=140)


def table(results: list[Result]) -> Table:
    """One row for each Result."""
    out = Table()
    for heading in ("example", "compiler"):
        out.add_column(heading)
    for heading in ("loss", "ms / step", "first call, ms", "breaks", "recompiles", "more"):
        out.add_column(heading, justify="right")
    for r in results:
        more = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in r.extra.items())
        out.add_row(r.name, r.compiler, f"{r.loss:.6g}", f"{r.step_ms:.3f}", f"{r.first_ms:.0f}",
                    str(r.breaks), str(r.recompiles), more)
    return out
