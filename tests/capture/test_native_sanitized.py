"""The native tests once more, against a build with the address and undefined-behaviour sanitizers.

The extension is built alone, into an otherwise empty package `dynacomp`, so that only it is under
test. CPython allocates with malloc, so that a use after free is seen."""

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FLAGS = ["-std=c11", "-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-fPIC",
         "-shared"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def sources() -> list[str]:
    rows = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    return next(row["sources"] for row in rows if row["name"] == "dynacomp.capture._native")


def build(folder: Path, *flags: str) -> Path:
    """A package `dynacomp` in `folder` that holds nothing but the extension."""
    package = folder / "dynacomp" / "capture"
    package.mkdir(parents=True)
    for init in (package / "__init__.py", package.parent / "__init__.py"):
        init.touch()
    target = package / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = sysconfig.get_path("include")
    subprocess.run(["gcc", *FLAGS, *flags, f"-I{include}", *sources(), "-o", target], cwd=ROOT, check=True)
    return target


def test_it_builds_without_a_warning(tmp_path):
    build(tmp_path, "-O3")


def test_every_source_is_listed():
    there = (ROOT / "capture" / "_native").glob("*.c")
    assert sorted(sources()) == sorted(str(p.relative_to(ROOT)) for p in there)


def runtime(name: str) -> str:
    return subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()


@pytest.mark.slow
def test_no_sanitizer_complains(tmp_path):
    library = runtime("libasan.so")
    if not os.path.isabs(library):
        pytest.skip("gcc has no libasan here")
    build(tmp_path, *SANITIZE)
    tests = [str(p) for p in sorted(Path(__file__).parent.glob("test_native_*.py")) if str(p) != __file__]
    env = os.environ | {
        "LD_PRELOAD": f"{library} {runtime('libubsan.so')} {runtime('libstdc++.so')}",
        "PYTHONMALLOC": "malloc", "PYTHONPATH": str(tmp_path),
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-c",
                           str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), *tests],
                          cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
