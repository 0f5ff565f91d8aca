"""One table: every model of every framework under `dynacomp.jit`.

    python -m tests.frameworks.report [words that names must contain]

Columns: frames captured, graphs, operations, graph breaks and eager frames by reason, whether the
compiled run saw what plain Python saw, and how much faster it was (the quickest calls compared).
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.corpus.report import what_leaves, words  # noqa: E402
from tests.frameworks import registry  # noqa: E402


def main(*parts: str) -> int:
    """Prints the table; the exit status is 1 when a model differs from plain Python."""
    table = Table("model", "frames", "graphs", "operations", "breaks", "eager", "same", "speed-up")
    breaks: Counter[str] = Counter()
    leaving: Counter[str] = Counter()
    wrong, speedups, totals = 0, [], Counter[str]()
    for m in registry.load():
        if not all(part in m.name for part in parts):
            continue
        try:
            report = registry.check(m)
        except Exception as error:
            wrong += 1
            table.add_row(m.name, *[""] * 5, f"{type(error).__name__}: {str(error)[:60]}", "")
            continue
        bad = registry.compare(report.plain, report.compiled, m.tolerance)
        wrong += bool(bad)
        breaks.update(report.stats["breaks"])
        leaving.update(what_leaves(report.notices))
        speedups.append(report.speedup)
        numbers = {k: report.stats[k] for k in ("frames_captured", "graphs", "operations")}
        totals.update(numbers)
        table.add_row(m.name, *map(str, numbers.values()), words(report.stats["breaks"]),
                      words(report.stats["frames_eager"]), bad[0] if bad else "yes", f"{report.speedup:.1f}")
    middle = sorted(speedups)[len(speedups) // 2] if speedups else 0.0
    table.add_section()
    table.add_row(f"{table.row_count} models", *map(str, totals.values()), words(breaks) or "none", "",
                  f"{wrong} differ", f"median {middle:.1f}")
    Console().print(table)
    Console().print(f"places where they stand, by what leaves there: {words(leaving) or 'none'}")
    if registry.MISSING:
        Console().print(f"not installed: {', '.join(registry.MISSING)}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
