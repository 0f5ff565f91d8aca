"""The compiler that one process finds serves the next, while its file is the same."""

import pytest

from dynacomp.codegen import cache, compiler
from dynacomp.codegen.compiler import CompilerError, find
from dynacomp.codegen.toolchain import _remembered, toolchain


def another_process():
    _remembered.cache_clear()
    compiler._probed.cache_clear()


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """What is run from now on; the installation has found no compiler."""
    monkeypatch.setattr(cache, "PREBUILT", tmp_path / "none")
    ran, real = [], compiler.run_together
    monkeypatch.setattr(compiler, "run_together", lambda all, *rest: (ran.extend(all), real(all, *rest))[1])
    another_process()
    yield ran
    another_process()


def test_it_is_looked_for_once(tmp_path, runs):
    first = toolchain((), tmp_path)
    assert len(runs) == 3 and first == find(())
    for _ in range(2):
        runs.clear()
        assert toolchain((), tmp_path) == first and not runs
        another_process()


def test_another_file_is_another_compiler(tmp_path, runs):
    real = find(()).command[0]
    file = tmp_path / "cxx"
    for n in range(2):
        another_process()
        file.write_text(f"#!/bin/sh\n#{'x' * n}\nexec {real} \"$@\"\n")
        file.chmod(0o755)
        runs.clear()
        assert toolchain((str(file),), tmp_path / "cache").command == (str(file),) and len(runs) == 3


def test_a_failure_is_not_remembered(tmp_path, runs):
    file = tmp_path / "cxx"
    file.write_text("#!/bin/sh\nexit 1\n")
    file.chmod(0o755)
    for _ in range(2):
        runs.clear()
        with pytest.raises(CompilerError):
            toolchain((str(file),), tmp_path / "cache")
        assert runs


def test_a_folder_that_cannot_be_used_is_none(tmp_path, runs):
    (tmp_path / "file").write_text("")
    assert toolchain((), tmp_path / "file") == find(())
