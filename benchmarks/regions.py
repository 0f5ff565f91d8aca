"""dynacomp against eager JAX and `jax.jit`, region by region: one table and the geometric means.

    python benchmarks/regions.py [--loops] [--filter softmax] [--json] [--stage codegen] [--backend cpp]

The regions stand in `region_table.py`, the loops in `loop_table.py`, how they are timed in `measure.py`. With
`--stage codegen` nothing is captured: the function is traced by JAX, lowered, scheduled and compiled directly, and
the Program called on flat arrays, which is what the compiled code itself takes.

The exit status is 1 where a region fails, or is further from eager JAX than `TOLERANCE`.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
from loop_table import LOOPS
from measure import BLOCKS, geometric_mean, machine, ratio, timed, worst_error
from region_table import REGIONS, Region
from rich.console import Console
from rich.progress import track
from rich.table import Table

import dynacomp
from dynacomp.capture.graph.avals import aval_of
from dynacomp.codegen.backends import BACKENDS
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function
from dynacomp.options import resolve

TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}


@dataclass(frozen=True)
class Seen:
    """What of a region was not compiled: operations sent to XLA at a seam, graph breaks, eager frames."""

    externs: int = 0
    breaks: int = 0
    eager: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in asdict(self).items() if count)


@dataclass(frozen=True)
class Row:
    """What was measured of one region: median seconds a call, the ratios, compile seconds, the error."""

    name: str
    compile: float
    eager: float = math.nan
    jit: float = math.nan
    dynacomp: float = math.nan
    over_eager: float = math.nan
    over_jit: float = math.nan
    error: float = math.nan
    seen: Seen = Seen()
    failure: str = ""


def captured(region: Region, args: tuple, backend: str) -> tuple[Callable[[], Any], Seen]:
    """The region under `dynacomp.jit`, called once."""
    dynacomp.reset()
    compiled = dynacomp.jit(region.fn, backend=backend)
    compiled(*args)
    stats = dynacomp.stats()
    seen = Seen(*(sum(stats[name].values()) for name in ("externs", "breaks", "frames_eager")))
    return lambda: compiled(*args), seen


def generated(region: Region, args: tuple, backend: str) -> tuple[Callable[[], Any], Seen]:
    """The region's Program without capture, called once."""
    leaves, tree = jax.tree.flatten(args)
    outputs = jax.tree.structure(jax.eval_shape(region.fn, *args))

    def flat(*flat_args):
        return tuple(jax.tree.leaves(region.fn(*tree.unflatten(flat_args))))

    graph = lower_function(flat, *map(aval_of, leaves))
    row = BACKENDS[backend]
    program = row.compile(graph, schedule(graph) if row.needs_schedule else None, asdict(resolve()))
    program(*leaves)
    return lambda: outputs.unflatten(program(*leaves)), Seen(len(program.externs))


STAGES = {"all": captured, "codegen": generated}


def measured(region: Region, stage: str, backend: str, blocks: int) -> Row:
    """Compile and time one region; a failure is a Row too."""
    args = jax.block_until_ready(region.make())
    jitted = jax.jit(region.fn)
    contestants = {"eager": lambda: region.fn(*args), "jit": lambda: jitted(*args)}
    expected = region.fn(*args)
    start = time.perf_counter()
    try:
        contestants["dynacomp"], seen = STAGES[stage](region, args, backend)
        compiled_in = time.perf_counter() - start
        error = worst_error(contestants["dynacomp"](), expected)
    except Exception as problem:
        text = " | ".join(f"{type(problem).__name__}: {problem}".splitlines()[:4])
        return Row(region.name, time.perf_counter() - start, failure=text)
    rounds = timed(contestants, blocks)
    dtype = str(jax.tree.leaves(args)[0].dtype)
    wrong = f"wrong by {error:.1e}" if not error <= TOLERANCE[dtype] else ""
    return Row(region.name, compiled_in, *(statistics.median(rounds[name]) for name in contestants),
               ratio(rounds["eager"], rounds["dynacomp"]), ratio(rounds["jit"], rounds["dynacomp"]),
               error, seen, wrong)


def table(rows: list[Row]) -> Table:
    """The rows that ran and were right, slowest against jit first."""
    out = Table(title=machine())
    out.add_column("region")
    for heading in ("eager, ms", "jit, ms", "dynacomp, ms", "× eager", "× jit", "compile, s", "error",
                    "not compiled"):
        out.add_column(heading, justify="right")
    for r in sorted((r for r in rows if not r.failure), key=lambda r: r.over_jit):
        out.add_row(r.name, *(f"{1e3 * t:.3f}" for t in (r.eager, r.jit, r.dynacomp)),
                    f"{r.over_eager:.2f}", f"{r.over_jit:.2f}", f"{r.compile:.2f}",
                    f"{r.error:.0e}", str(r.seen))
    return out


def summary(rows: list[Row]) -> str:
    """The geometric means over what ran and was right."""
    good = [r for r in rows if not r.failure]
    over_eager = geometric_mean([r.over_eager for r in good])
    over_jit = geometric_mean([r.over_jit for r in good])
    return (f"{len(good)} of {len(rows)} regions: {over_eager:.2f} × as fast as eager JAX, "
            f"{over_jit:.2f} × as fast as jax.jit (geometric means)")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="only regions whose name contains this")
    parser.add_argument("--loops", action="store_true", help="the loops, not the fused regions")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON, not as a table")
    parser.add_argument("--stage", choices=STAGES, default="all", help="codegen: leave out capture")
    parser.add_argument("--backend", default=None, help="a backend's name (default: auto, or cpp)")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="blocks of calls for each contestant")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    backend = args.backend or {"all": "auto", "codegen": "cpp"}[args.stage]
    chosen = [r for r in (LOOPS if args.loops else REGIONS).values() if args.filter in r.name]
    progress = track(chosen, "measuring", console=Console(stderr=True))
    rows = [measured(region, args.stage, backend, args.blocks) for region in progress]
    if args.json:
        print(json.dumps({"machine": machine(), "rows": [asdict(r) for r in rows]}))
    else:
        console = Console()
        console = console if console.width >= 120 else Console(width=120)
        console.print(table(rows))
        for row in rows:
            if row.failure:
                console.print(f"{row.name} failed: {row.failure}", style="red", highlight=False, markup=False)
        console.print(summary(rows), highlight=False)
    return 1 if any(r.failure for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
