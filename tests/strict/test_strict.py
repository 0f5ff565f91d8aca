"""CPython's own tests pass strictly as they pass plainly, but for those in `failures.txt`, which may only shrink.

A line of that file is a test's id and why it fails; `module (internal)` stands for frames of that module
that a defect in capture makes run eagerly. The quick modules run in `make test`, all in `make test-slow`.
"""

import sys
from pathlib import Path

import pytest

from tests.strict.modules import MODULES, NAMES, QUICK
from tests.strict.run import run_module

FILE = Path(__file__).parent / "failures.txt"
KNOWN = dict(line.split("  # ", 1) for line in FILE.read_text().splitlines() if line)


def of(module):
    return {name for name in KNOWN if name.startswith((f"{module}.", f"{module} "))}


@pytest.mark.sampled(5)
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="failures.txt speaks of the tests of Python 3.11")
@pytest.mark.parametrize("module", [pytest.param(m, marks=() if m in QUICK else pytest.mark.slow) for m in MODULES])
def test_module(module):
    report = run_module(module, "strict")
    found = {*report.bad, *([f"{module} (internal)"] if report.defects else [])}
    new = found - of(module)
    excused = set(run_module(module, "plain").bad) if new else set()
    why = "\n\n".join(f"{name}: {report.why.get(name, report.defects)}" for name in sorted(new - excused))
    assert not why
    assert not of(module) - found, "these pass now: take them out of failures.txt"


def test_the_list_is_in_order():
    assert list(KNOWN) == sorted(KNOWN)
    assert all(reason.strip() for reason in KNOWN.values())
    assert set(KNOWN) == {name for module in NAMES for name in of(module)}


def test_there_are_sixty_modules_and_more():
    assert len(MODULES) >= 60
