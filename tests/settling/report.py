"""One table: what ten calls of each program come to.

    python -m tests.settling.report [words that names must contain]

Columns: captures in all calls and in the tenth, frames left to Python and breaks by reason, share of array operations
in graphs, whether results are plain Python's, and how many times as fast as plain Python the last calls are.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.corpus.report import words  # noqa: E402
from tests.settling.kit import MISSING, Program, check, load, timed, wrong  # noqa: E402


def row(p: Program) -> tuple[str, ...]:
    try:
        counts, times = check(p), timed(p)
    except Exception as error:
        return p.name, *[""] * 6, f"{type(error).__name__}: {str(error)[:50]}", ""
    bad = wrong(p, counts) + wrong(p, times)
    stats = times.compiled.stats
    return (p.name, str(counts.compiled.captures), str(counts.tenth), words(counts.compiled.stats["frames_eager"]),
            words(counts.compiled.stats["breaks"]), words(stats["regions"]), f"{counts.share:.0%}",
            bad[0][:60] if bad else "yes", f"{times.against_plain:.1f}")


def main(*parts: str) -> int:
    """Prints the table, row by row as they come in where the output is no terminal."""
    table = Table("program", "captures", "in the tenth call", "eager", "breaks", "regions",
                  "share of array operations in graphs", "same", "against plain Python")
    for p in load():
        if any(part in p.name for part in parts or [""]):
            found = row(p)
            table.add_row(*found)
            print(*found, sep=" | ", file=sys.stderr, flush=True)
    Console().print(table)
    if MISSING:
        Console().print(f"not installed: {', '.join(MISSING)}")
    return int(any(r != "yes" for r in table.columns[7].cells))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
