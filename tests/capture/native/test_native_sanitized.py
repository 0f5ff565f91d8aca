"""The native tests once more, against a build with the address and undefined-behaviour sanitizers.

The extension is built alone, into an otherwise empty package `dynacomp`, so that only it is under test."""

from pathlib import Path

import pytest

from tests.sanitizers import ROOT, SANITIZE, build, extensions, run

NAME = "dynacomp.capture._native"


def bare(folder: Path) -> None:
    """A package `dynacomp` in `folder` that holds nothing."""
    package = folder / "dynacomp" / "capture"
    package.mkdir(parents=True)
    for init in (package / "__init__.py", package.parent / "__init__.py"):
        init.touch()


@pytest.mark.slow
def test_it_builds_without_a_warning(tmp_path):
    bare(tmp_path)
    build(NAME, tmp_path, "-O3")


def test_every_source_is_listed():
    there = (ROOT / "capture" / "_native").glob("*.c")
    assert sorted(extensions()[NAME]) == sorted(str(p.relative_to(ROOT)) for p in there)


@pytest.mark.slow
def test_no_sanitizer_complains(tmp_path):
    bare(tmp_path)
    build(NAME, tmp_path, *SANITIZE)
    tests = [str(p) for p in sorted(Path(__file__).parent.glob("test_native_*.py")) if str(p) != __file__]
    run(tmp_path, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--noconftest",  # conftest.py wants all of it
        "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), *tests)
