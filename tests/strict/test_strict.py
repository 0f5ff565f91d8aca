"""CPython's own tests pass strictly as they pass plainly, but for those in `failures.txt` (for Python 3.12 in
`failures-3.12.txt`), which may only shrink.

A line of such a file is a test's id and why it fails; `module (internal)` stands for frames of that module
that a defect in capture makes run eagerly. The quick modules run in `make test`, all in `make test-slow`;
under other Pythons than 3.11 all count as slow.
"""

import sys
from pathlib import Path

import pytest

from tests.strict.modules import MODULES, NAMES, QUICK
from tests.strict.run import run_module

FILES = {(3, 11): "failures.txt", (3, 12): "failures-3.12.txt"}
VERSION = sys.version_info[:2]


def read(name):
    lines = (Path(__file__).parent / name).read_text().splitlines()
    return dict(line.split("  # ", 1) for line in lines if line)


KNOWN = read(FILES[VERSION]) if VERSION in FILES else {}


def of(module):
    return {name for name in KNOWN if name.split(".")[0].split(" ")[0] == module}


@pytest.mark.skipif(VERSION not in FILES, reason="no file speaks of the tests of this Python")
@pytest.mark.parametrize("module", [pytest.param(m, marks=() if m in QUICK and VERSION == (3, 11) else pytest.mark.slow)
                                    for m in MODULES])
def test_module(module):
    report = run_module(module, "strict")
    found = {*report.bad, *([f"{module} (internal)"] if report.defects else [])}
    new = found - of(module)
    excused = set(run_module(module, "plain").bad) if new else set()
    why = "\n\n".join(f"{name}: {report.why.get(name, report.defects)}" for name in sorted(new - excused))
    assert not why
    assert not of(module) - found, "these pass now: take them out of failures.txt"


@pytest.mark.parametrize("name", FILES.values())
def test_the_list_is_in_order(name):
    known = read(name)
    assert list(known) == sorted(known)
    assert all(reason.strip() for reason in known.values())
    assert {test.split(".")[0].split(" ")[0] for test in known} <= set(NAMES)


def test_there_are_sixty_modules_and_more():
    assert len(MODULES) >= 60
