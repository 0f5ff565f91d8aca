"""Sixty-four lengths through a small GPT: dynacomp against jax.jit, and against programs made for one length.

    python benchmarks/lengths.py [--lengths 64] [--only forward,decode] [--compare 8,24,48]

The model stands in `small_gpt.py`: token and positional embeddings, a causal mask, a cache of keys and values.
Each of its programs is called with one length after the other, by dynacomp and by jax.jit, both starting with
nothing compiled. Printed are, with their bars: how often dynacomp captured (twice; three times once length 1
is seen, too), the total time over all lengths, compilation included (a tenth of jax.jit's), the time of one call
against a program that `dynamic=False` made for that length alone (within 10 %), and the largest error against
jax.jit. The exit status is 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
from measure import machine, ratio, timed, worst_error  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from small_gpt import PROGRAMS, Program  # noqa: E402

import dynacomp  # noqa: E402

CAPTURES, WITH_ONE = 2, 3
SHARE, APART, ERROR = 1 / 10, 1.10, 1e-3
ENOUGH = 64  # lengths for which the share is a bar
BLOCKS = 31  # of each contestant: calls of 40 us stand so close that a moment of the machine's decides fewer


@dataclass
class Row:
    """What was measured of one program. apart: length → time of a call over that of a program for it alone."""

    name: str
    lengths: int
    captures: int = 0
    with_one: int = 0
    plain: dict[str, float] = field(default_factory=dict)
    ours: float = 0.0
    theirs: float = 0.0
    error: float = 0.0
    apart: dict[int, float] = field(default_factory=dict)

    @property
    def misses(self) -> list[str]:
        """The bars that are missed, in words."""
        return [what for what, missed in (
            (f"more than {CAPTURES} captures", self.captures > CAPTURES),
            (f"more than {WITH_ONE} captures with length 1", self.with_one > WITH_ONE),
            (f"plain Python: {self.plain}", self.plain),
            ("more than a tenth of jax.jit's time", self.lengths >= ENOUGH and self.ours > SHARE * self.theirs),
            ("an error", self.error > ERROR),
            ("slower than a program for one length", any(r > APART for r in self.apart.values())),
        ) if missed]


def main() -> int:
    asked = parsed()
    console = Console(width=None if sys.stdout.isatty() else 160)
    chosen = [p for p in PROGRAMS if not asked.only or p.name in asked.only.split(",")]
    compared = [int(n) for n in asked.compare.split(",") if n]
    rows = []
    for program in chosen:
        with console.status(program.name):
            rows.append(measured(program, asked.lengths, compared))
    console.print(machine())
    console.print(table(rows))
    missed = sum(bool(r.misses) for r in rows)
    console.print(f"{len(rows)} programs, {missed} miss a bar (bars: {CAPTURES} captures, {WITH_ONE} with length 1; "
                  f"a tenth of jax.jit's time over {ENOUGH} lengths; within 10 % of one length)", soft_wrap=True)
    return int(missed > 0)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, default=ENOUGH, help="how many")
    parser.add_argument("--only", default="", help="programs, with commas")
    parser.add_argument("--compare", default="8,24,48", help="lengths that are timed against programs of their own")
    return parser.parse_args()


def order(count: int) -> list[int]:
    """The lengths, none of them 1, in no order."""
    lengths = list(range(2, count + 2))
    random.Random(0).shuffle(lengths)
    return lengths


def measured(program: Program, count: int, compared: list[int]) -> Row:
    """One program over all lengths, by both, then its calls one length at a time."""
    row = Row(program.name, count)
    with tempfile.TemporaryDirectory() as folder:
        dynacomp.reset()
        jax.clear_caches()
        ours = dynacomp.jit(program.fn, options={"cache_dir": folder})
        row.ours, got = seconds(ours, program, order(count))
        row.captures = dynacomp.stats()["frames_captured"]
        ours(*program.args(1))
        row.with_one, row.plain = dynacomp.stats()["frames_captured"], dynacomp.stats()["frames_eager"]
        theirs = jax.jit(program.fn, static_argnums=program.static)
        row.theirs, want = seconds(theirs, program, order(count))
        row.error = max(worst_error(g, w) for g, w in zip(got, want))
        row.apart = {n: against_alone(program, ours, n, folder) for n in compared}
    return row


def seconds(fn: Callable[..., Any], program: Program, lengths: list[int]) -> tuple[float, list[Any]]:
    """The time that one call with each length takes together, and the results."""
    args, results, total = [program.args(n) for n in lengths], [], 0.0
    for one in args:
        start = time.perf_counter()
        results.append(jax.block_until_ready(fn(*one)))
        total += time.perf_counter() - start
    return total, results


def against_alone(program: Program, ours: Callable[..., Any], length: int, folder: str) -> float:
    """The time of a call over that of a program that was made for this length only."""
    alone = dynacomp.jit(program.fn, dynamic=False, options={"cache_dir": folder})
    args = program.args(length)
    rounds = timed({"ours": lambda: ours(*args), "alone": lambda: alone(*args)}, blocks=BLOCKS)
    return ratio(rounds["ours"], rounds["alone"])


def table(rows: list[Row]) -> Table:
    made = Table("program", "captures", "with length 1", "seconds", "jax.jit", "share", "error",
                 "a call against one length's program", "missed")
    for r in rows:
        apart = ", ".join(f"{n}: {ratio:.2f}" for n, ratio in r.apart.items())
        made.add_row(r.name, str(r.captures), str(r.with_one), f"{r.ours:.2f}", f"{r.theirs:.2f}",
                     f"{r.ours / r.theirs:.3f}", f"{r.error:.0e}", apart, "; ".join(r.misses))
    return made


if __name__ == "__main__":
    sys.exit(main())
