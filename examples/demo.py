"""Every example under every compiler, and one table: the same losses, the speed-ups.

    python examples/demo.py

Each run is a process of its own. The exit status is 1 where a run fails, or where a loss after 50 steps is
further than 1e-4, relatively, from eager JAX's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import common
from rich.table import Table

EXAMPLES = ("digits.py", "gpt.py", "solver.py")
TOLERANCE = 1e-4


def run(example: str, compiler: str) -> list[common.Result]:
    """The results of one example under one compiler; its progress bars go to stderr."""
    command = [sys.executable, str(Path(__file__).with_name(example)), "--compiler", compiler, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        common.console.print(f"{example} failed under {compiler} (exit status {done.returncode})")
        return []
    return [common.Result(**row) for row in json.loads(done.stdout)]


def drift(result: common.Result, eager: common.Result) -> float:
    """How far the loss after 50 steps is from eager's, relative to it."""
    return abs(result.checked_loss - eager.checked_loss) / abs(eager.checked_loss)


def table(groups: list[list[common.Result]]) -> Table:
    """A group of rows for each example: eager first, then what is compared with it."""
    out = Table(title="The same losses, sooner")
    for heading in ("example", "compiler"):
        out.add_column(heading)
    for heading in ("last loss", f"step {common.CHECKED_STEP}: off eager's by", "ms / step", "× eager",
                    "first call, s", "breaks", "recompiles", "more"):
        out.add_column(heading, justify="right")
    for eager, *others in groups:
        for r in (eager, *others):
            out.add_row(r.name, r.compiler, f"{r.loss:.5f}", f"{drift(r, eager):.0e}", f"{r.step_ms:.2f}",
                        f"{eager.step_ms / r.step_ms:.2f}", f"{r.first_ms / 1e3:.2f}", str(r.breaks),
                        str(r.recompiles), ", ".join(f"{k} {v:.4g}" for k, v in r.extra.items()),
                        end_section=r is (eager, *others)[-1])
    return out


def main() -> int:
    results = [r for example in EXAMPLES for compiler in common.COMPILERS for r in run(example, compiler)]
    names = dict.fromkeys(r.name for r in results)
    groups = [[r for r in results if r.name == name] for name in names]
    complete = all([r.compiler for r in group] == list(common.COMPILERS) for group in groups) and groups
    if not complete:
        common.console.print("some runs failed: see above")
        return 1
    common.wide().print(table(groups))
    late = [f"{r.name} under {r.compiler}" for g in groups for r in g if drift(r, g[0]) > TOLERANCE]
    if late:
        common.console.print(f"losses differ by more than {TOLERANCE}: {', '.join(late)}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
