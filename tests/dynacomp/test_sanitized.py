"""The whole package with both extensions built with the address and undefined-behaviour sanitizers.

`tests/capture/test_native_sanitized.py` looks at `_native` alone; here programs run from the compiled
callable through guards, cache and templates to the launcher and its stock, with threads and lifetimes.
CPython allocates with malloc, so that a use after free is seen."""

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
STAGES = ("capture", "lowering", "codegen", "kernels")
TESTS = ("codegen/test_program.py", "codegen/test_stock.py", "dynacomp/test_lifetimes.py", "dynacomp/test_donation.py",
         "dynacomp/test_misses.py", "dynacomp/test_threads.py", "dynacomp/test_api.py")
LEFT_OUT = "fork or interrupt or memory_is_used or limited"  # a child under a sanitizer, and what only takes long
FLAGS = ["-std=gnu11", "-O1", "-g", "-fno-omit-frame-pointer", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra",
         "-Werror"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def extensions() -> dict[str, list[str]]:
    """Module name → C sources."""
    rows = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    return {row["name"]: row["sources"] for row in rows}


def assemble(folder: Path, *flags: str) -> None:
    """The package in `folder`: links to the Python files and headers, extensions of its own."""
    package = folder / "dynacomp"
    for stage, target in (("dynacomp", package), *((s, package / s) for s in STAGES)):
        target.mkdir(parents=True)
        for file in (ROOT / stage).iterdir():
            if file.suffix in (".py", ".h"):
                (target / file.name).symlink_to(file)
    for name, sources in extensions().items():
        target = folder / f"{name.replace('.', '/')}{sysconfig.get_config_var('EXT_SUFFIX')}"
        include = sysconfig.get_path("include")
        subprocess.run(["gcc", *FLAGS, *flags, f"-I{include}", *sources, "-o", target], cwd=ROOT, check=True)


def test_every_source_is_listed():
    listed = sorted(sum(extensions().values(), []))
    assert listed == sorted(str(p.relative_to(ROOT)) for s in STAGES for p in (ROOT / s).rglob("*.c"))


def test_it_builds_without_a_warning(tmp_path):
    assemble(tmp_path, "-O2")


def runtime(name: str) -> str:
    return subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()


@pytest.mark.slow
def test_no_sanitizer_complains(tmp_path):
    library = runtime("libasan.so")
    if not os.path.isabs(library):
        pytest.skip("gcc has no libasan here")
    assemble(tmp_path, *SANITIZE)
    env = os.environ | {
        "LD_PRELOAD": f"{library} {runtime('libubsan.so')} {runtime('libstdc++.so')}",
        "PYTHONMALLOC": "malloc", "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, ROOT))),
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1:handle_segv=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    where = subprocess.run([sys.executable, "-c", "import dynacomp; print(dynacomp.__file__)"], env=env, cwd=tmp_path,
                           capture_output=True, text=True)
    assert where.stdout.startswith(str(tmp_path)), where.stdout + where.stderr
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k",
                           f"not ({LEFT_OUT})", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT),
                           *(str(ROOT / "tests" / t) for t in TESTS)],
                          cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
