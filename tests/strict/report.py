"""CPython's own tests, plainly and with every frame sent through the symbolic machine: one table.

    python -m tests.strict.report                            every module of MODULES
    python -m tests.strict.report test_list test_generators  these modules
    python -m tests.strict.report --only test_repeat --why test_list
                                                             tests by a part of their id; why they fail
    python -m tests.strict.report --notices test_list        every break and eager frame, most frequent first
    python -m tests.strict.report --defects test_list        tracebacks of our own errors in capture

A test that fails strictly and not plainly is a defect of dynacomp; `failures.txt` lists those that are
known. "internal" counts frames that a defect in capture made run eagerly, "rejected" those captures
whose guards did not hold for the arguments that they were made for: defects too.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter

from rich.console import Console
from rich.table import Table

from tests.strict.modules import MODULES
from tests.strict.run import Report, run_module

COLUMNS = ("module", "tests", "fail plain", "fail strict", "captured", "breaks", "eager", "internal", "rejected",
           "plain s", "strict s")


def main() -> int:
    """Prints the table; the exit status says whether a test fails only strictly."""
    options = arguments()
    console = Console(width=None if sys.stdout.isatty() else 200)
    table, new = Table(*COLUMNS), 0
    for module in options.modules or MODULES:
        plain = run_module(module, "plain", options.only) if not options.no_plain else Report(module)
        strict = run_module(module, "strict", options.only)
        table.add_row(*row(plain, strict))
        print(f"{module}: {strict.seconds:.1f} s", file=sys.stderr)
        only_strict = [name for name in strict.bad if name not in plain.bad]
        new += len(only_strict)
        tell(console, strict, only_strict, options)
    console.print(table)
    return min(new, 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--only", default="", help="run the tests whose ids contain this")
    for name, text in (("--why", "print why tests fail"), ("--notices", "print breaks and eager frames"),
                       ("--defects", "print tracebacks of internal errors"), ("--no-plain", "run only strictly")):
        parser.add_argument(name, action="store_true", help=text)
    return parser.parse_args()


def row(plain: Report, strict: Report) -> tuple[str, ...]:
    eager = strict.counts.get("frames_eager", Counter())
    return (strict.module, str(len(strict.outcomes)), str(len(plain.bad)), str(len(strict.bad)),
            str(strict.counts.get("frames_captured", Counter())[""]), words(strict.counts.get("breaks", Counter())),
            words(eager), str(len(strict.defects)), str(strict.native["rejected"]),
            f"{plain.seconds:.1f}", f"{strict.seconds:.1f}")


def words(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.most_common())


def tell(console: Console, strict: Report, failing: list[str], options: argparse.Namespace) -> None:
    for name in failing:
        last = strict.why[name].strip().splitlines()[-1:]
        console.out(f"{name}  # {strict.outcomes[name]}: {''.join(last)}", highlight=False)
        if options.why:
            console.out(strict.why[name], highlight=False)
    shown = Counter(f"{d['error']}\n    {d['file']}:{d['line']} {d['code']} in {d['test']}" for d in strict.defects)
    for text, n in shown.items():
        console.out(f"{strict.module}: internal ({n}): {text}", highlight=False)
    if options.defects:
        for defect in strict.defects:
            console.out(defect["internal"], highlight=False)
    if options.notices:
        kinds = Counter(re.sub(r"^dynacomp: \S+ ", "", n) for n in strict.notices)
        for text, n in kinds.most_common():
            console.out(f"{n:5} {text}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
