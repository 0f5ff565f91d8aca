"""The whole package with its extensions built with the address and undefined-behaviour sanitizers.

`tests/capture/native/test_native_sanitized.py` looks at `_native` alone; here a program (sanitized_program.py) goes
from the compiled callable through guards, cache and templates to the launcher and its stock."""

from pathlib import Path

import pytest

from tests.sanitizers import ROOT, SANITIZE, STAGES, assemble, extensions, run


def test_every_source_is_listed():
    listed = sorted(sum(extensions().values(), []))
    assert listed == sorted(str(p.relative_to(ROOT)) for s in STAGES for p in (ROOT / s).rglob("*.c"))


def test_it_builds_without_a_warning(tmp_path):
    assemble(tmp_path, "-O2")


@pytest.mark.slow
def test_no_sanitizer_complains(tmp_path):
    assemble(tmp_path, *SANITIZE)
    said = run(tmp_path, str(Path(__file__).with_name("sanitized_program.py")), str(tmp_path), paths=(ROOT,))
    assert said.split()[-1] == "done"
