"""One table: graph breaks and eager frames of every program of the corpus.

    python -m tests.corpus.report
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2]))

from dynacomp.notices import Notice  # noqa: E402
from tests.corpus.kit import check, differences, load  # noqa: E402
from tests.corpus.leaving import why  # noqa: E402


def main() -> int:
    """Prints the table; the exit status is the number of programs that differ from plain Python."""
    table = Table("program", "frames", "graphs", "operations", "breaks", "eager", "same")
    breaks: Counter[str] = Counter()
    leaving: Counter[str] = Counter()
    wrong = 0
    for program in load():
        report = check(program)
        bad = differences(program, report)
        wrong += bool(bad)
        stats = report.stats
        breaks.update(stats["breaks"])
        leaving.update(what_leaves(report.notices))
        table.add_row(program.name, *(str(stats[k]) for k in ("frames_captured", "graphs", "operations")),
                      words(stats["breaks"]), words(stats["frames_eager"]), "no" if bad else "yes")
    Console().print(table)
    Console().print(f"{table.row_count} programs, {wrong} differ; breaks: {words(breaks) or 'none'}")
    Console().print(f"places where they stand, by what leaves there: {words(leaving) or 'none'}")
    return min(wrong, 1)


def what_leaves(notices: Iterable[Notice]) -> list[str]:
    """For each place of a graph break what leaves there; its notice where nothing has to."""
    return [why(n.reason) or f"NOTHING ({n})" for n in notices if n.kind == "graph break"]


def words(counts: dict[str, float]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counts.items())


if __name__ == "__main__":
    sys.exit(main())
