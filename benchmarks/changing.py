"""Sizes and numbers that change from call to call: dynacomp against plain Python, one table of what fails.

    python benchmarks/changing.py [--filter slices] [--variants base,grad,break] [--backend cpp] [--every 7] [--all]

The functions stand in `tests/changing/entries/`, what is made of each (gradients, batches, breaks) in
`tests/changing/variants.py`. A function fails where a call differs from plain Python, where it crashes the
process, ends in plain Python, or needs more than three captures for one code object. The exit status is 1
where any does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# What eager JAX compiles for each size is compiled once, not in each run.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / "build" / "changing-cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
os.environ.setdefault("DYNACOMP_CACHE_DIR", str(ROOT / "build" / "changing-cache" / "code"))

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from tests.changing.kit import Entry, Result  # noqa: E402
from tests.changing.run import results  # noqa: E402
from tests.changing.variants import everything  # noqa: E402


def main() -> int:
    chosen, asked = parsed()
    console, start = Console(width=None if sys.stdout.isatty() else 200), time.perf_counter()
    status = console.status("")
    kept = open(asked.json or os.devnull, "w")

    def show(result: Result) -> None:
        status.update(result.name)
        print(json.dumps(asdict(result)), file=kept, flush=True)

    with status, kept:
        found = results(chosen, asked.backend, show)
    shown = [r for r in found if r.bad or asked.all]
    if shown:
        console.print(table(shown))
    console.print(f"{time.perf_counter() - start:.0f} s")
    console.print(closing(found), soft_wrap=True, highlight=False)
    return int(any(r.bad for r in found))


def parsed() -> tuple[list[Entry], argparse.Namespace]:
    """The entries that the command line asks for, and its options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="what an entry's name must contain")
    parser.add_argument("--variants", default="", help="only these, with commas; `base` is the function itself")
    parser.add_argument("--backend", default="auto", help="of dynacomp.jit")
    parser.add_argument("--all", action="store_true", help="print the entries that are right as well")
    parser.add_argument("--json", default="", help="a file for all results, one a line")
    parser.add_argument("--every", type=int, default=1, help="only one of so many")
    asked = parser.parse_args()
    wanted = set(filter(None, asked.variants.split(",")))
    fitting = [e for e in everything() if asked.filter in e.name and (not wanted or variant(e) in wanted)]
    return fitting[::asked.every], asked


def variant(e: Entry) -> str:
    return e.name.partition(": ")[2] or "base"


def table(shown: list[Result]) -> Table:
    """One row for each entry: what is wrong with it."""
    made = Table("entry", "captures", "seconds", "what is wrong")
    for r in shown:
        made.add_row(r.name, f"{r.captures}{' of ' + str(r.codes) + ' frames' if r.codes > 1 else ''}",
                     f"{r.seconds:.1f}", "; ".join(failures(r)))
    return made


def failures(r: Result) -> list[str]:
    """What is wrong with an entry, in words."""
    plain = ", ".join(f"{reason} {count:g}" for reason, count in r.plain.items())
    return [*([f"crash: {r.crash}"] if r.crash else []), *([f"wrong: {r.wrong}"] if r.wrong else []),
            *([f"plain Python: {plain}"] if plain else []), *([f"{r.captures} captures"] if r.many else [])]


def closing(found: list[Result]) -> str:
    wrong, crashes, plain, many = (sum(map(bool, column)) for column in zip(
        *((r.wrong, r.crash, r.plain, r.many) for r in found))) if found else (0, 0, 0, 0)
    return (f"{len(found)} entries, {wrong} wrong, {crashes} crashes, {plain} in plain Python, "
            f"{many} with more than 3 captures")


if __name__ == "__main__":
    sys.exit(main())
