"""What the first call costs: dynacomp against `jax.jit`, each in a fresh process; one table and the geometric means.

    python benchmarks/first.py [--filter nnx] [--repeat 3] [--json FILE] [--stages]

The programs are the models of `tests/frameworks/models/` that the framework's own jit takes, those of the examples and
the small GPT. Of each the first call of every function that it wraps is timed, imports and data excluded, in four
processes:

    jax              jax.jit (or equinox.filter_jit, flax.nnx.jit), no persistent cache
    dynacomp         an empty cache of ours
    jax again        a second process with JAX's persistent cache, which another has filled
    dynacomp again   a second process, with our cache

Seconds are given twice: on the clock, and of the CPUs (all threads, and the processes that were started), which a
busy machine changes less. An empty cache is not an empty installation: the usual templates were compiled by `make
env` (see `codegen/prebuilt.py`), as jaxlib's products and convolutions were by its makers. `--stages` shows where
dynacomp's seconds go.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from first_programs import NAMES  # noqa: E402
from measure import geometric_mean  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import track  # noqa: E402
from rich.table import Table  # noqa: E402

CONTESTANTS = ("jax", "dynacomp", "jax again", "dynacomp again")
TIMEOUT = 600


@dataclass(frozen=True)
class Cost:
    """Seconds of a program's first calls, by the clock and of the CPUs, and where dynacomp spent those of the clock."""

    clock: float
    cpu: float
    stages: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One program: its cost by contestant (those that failed are missing), and the first failure."""

    name: str
    costs: dict[str, Cost]
    failed: str = ""

    @property
    def is_left_out(self) -> bool:
        """Whether a library is not installed that the program needs, without us too."""
        return self.failed.startswith("jax: ModuleNotFoundError")


def main() -> int:
    asked = parsed()
    names = [n for n in NAMES if any(part in n for part in asked.filter.split(","))]
    console = Console(width=None if sys.stdout.isatty() else 160)
    rows = list(measured(names, asked.repeat))
    console.print(table(rows))
    if asked.stages:
        console.print(stages(rows))
    console.print(closing(rows), soft_wrap=True, highlight=False)
    if asked.json:
        Path(asked.json).write_text(json.dumps([asdict(r) for r in rows]))
    return int(any(r.failed and not r.is_left_out for r in rows))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="what a program's name must contain, several with commas")
    parser.add_argument("--repeat", type=int, default=1, help="processes for each, of which the median counts")
    parser.add_argument("--stages", action="store_true", help="where dynacomp's seconds go")
    parser.add_argument("--json", default="", help="a file for the results")
    return parser.parse_args()


def measured(names: list[str], repeat: int) -> Iterator[Row]:
    """The programs' rows, each told on stderr when it is there; Ctrl-C ends them, and those that are done count."""
    told = Console(stderr=True)
    with contextlib.suppress(KeyboardInterrupt):
        for name in track(names, console=told, transient=True):
            row = row_of(name, repeat)
            costs = ", ".join(f"{c} {cost.clock:.2f} s ({cost.cpu:.2f})" for c, cost in row.costs.items())
            told.print(f"{name}: {costs}", row.failed, highlight=False)
            yield row


def row_of(name: str, repeat: int) -> Row:
    """Runs one program: the contestants in turn, so that a slow minute of the machine is everyone's."""
    seen: dict[str, list[Cost]] = {c: [] for c in CONTESTANTS}
    failed = ""
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder:
            child(name, "jax again", Path(folder))  # fills the cache
            for contestant in CONTESTANTS:
                cost = child(name, contestant, Path(folder))
                if isinstance(cost, Cost):
                    seen[contestant].append(cost)
                else:
                    failed = failed or f"{contestant}: {cost}"
    return Row(name, {c: middle(costs) for c, costs in seen.items() if costs}, failed)


def middle(costs: list[Cost]) -> Cost:
    """The median of each figure; the stages are those of the run in the middle."""
    by_clock = sorted(costs, key=lambda c: c.clock)
    return Cost(statistics.median(c.clock for c in costs), statistics.median(c.cpu for c in costs),
                by_clock[len(costs) // 2].stages)


def child(name: str, contestant: str, folder: Path) -> Cost | str:
    """One process: what it cost, or the last line of its complaint."""
    command = [sys.executable, str(ROOT / "benchmarks" / "first_programs.py"), name, contestant.split()[0]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT,
                              env={**os.environ, **environment(contestant, folder)})
    except subprocess.TimeoutExpired:
        return f"no end within {TIMEOUT} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:100]
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def environment(contestant: str, folder: Path) -> dict[str, str]:
    """The caches that a process may use."""
    caches = {"DYNACOMP_CACHE_DIR": str(folder / "code"), "JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": ""}
    if contestant == "jax again":
        caches |= {"JAX_COMPILATION_CACHE_DIR": str(folder / "xla"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                   "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    return caches


def ratios(rows: list[Row], one: str, other: str, of: str) -> list[float]:
    return [getattr(r.costs[one], of) / getattr(r.costs[other], of) for r in rows
            if one in r.costs and other in r.costs]


PAIRS = (("dynacomp", "jax"), ("dynacomp again", "dynacomp"), ("dynacomp again", "jax again"))


def table(rows: list[Row]) -> Table:
    """Seconds on the clock and of the CPUs, and the ratios on the clock."""
    made = Table("program", *(f"{c}, s (CPU)" for c in CONTESTANTS), *(f"{a} / {b}" for a, b in PAIRS))
    for r in rows:
        seconds = [f"{r.costs[c].clock:.2f} ({r.costs[c].cpu:.2f})" if c in r.costs else "" for c in CONTESTANTS]
        found = [ratios([r], a, b, "clock") for a, b in PAIRS]
        made.add_row(r.name, *seconds, *(f"{f[0]:.2f}" if f else r.failed[:40] for f in found))
    return made


def stages(rows: list[Row]) -> Table:
    """Where dynacomp's seconds go, cold."""
    costs = [(r.name, r.costs["dynacomp"]) for r in rows if "dynacomp" in r.costs]
    names = sorted({s for _, c in costs for s in c.stages}, key=lambda s: -sum(c.stages.get(s, 0) for _, c in costs))
    made = Table("program", *names)
    for name, cost in costs:
        made.add_row(name, *(f"{cost.stages.get(s, 0):.2f}" for s in names))
    made.add_section()
    made.add_row("all", *(f"{sum(c.stages.get(s, 0) for _, c in costs):.1f}" for s in names))
    return made


def closing(rows: list[Row]) -> str:
    return "\n".join(lines(rows))


def lines(rows: list[Row]) -> Iterator[str]:
    """The geometric means and the worst ratios."""
    for one, other in PAIRS:
        clock, cpu = (ratios(rows, one, other, of) for of in ("clock", "cpu"))
        if clock:
            yield (f"{one} / {other}: {geometric_mean(clock):.2f}, at most {max(clock):.2f}; "
                   f"of the CPUs {geometric_mean(cpu):.2f}, at most {max(cpu):.2f} ({len(clock)} programs)")
    yield from (f"{'left out' if r.is_left_out else 'failed'}: {r.name}: {r.failed}" for r in rows if r.failed)


if __name__ == "__main__":
    sys.exit(main())
