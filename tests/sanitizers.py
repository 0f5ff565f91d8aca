"""The extensions built anew, with the address and undefined-behaviour sanitizers or for another interpreter.

    assemble(folder, *SANITIZE)                  the package `dynacomp` in `folder`, with extensions of its own
    run(folder, "-m", "pytest", ...)             Python on that package, under the sanitizers

CPython allocates with malloc then, so that a use after free is seen.
"""

import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STAGES = ("capture", "lowering", "codegen", "kernels")
FLAGS = ("-std=gnu11", "-g", "-fno-omit-frame-pointer", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror")
SANITIZE = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


def extensions() -> dict[str, list[str]]:
    """Module name → C sources."""
    rows = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    return {row["name"]: row["sources"] for row in rows}


def build(name: str, folder: Path, *flags: str, include: str = sysconfig.get_path("include"),
          suffix: str = sysconfig.get_config_var("EXT_SUFFIX")) -> None:
    """The extension `name`, where a package in `folder` has it."""
    target = folder / f"{name.replace('.', '/')}{suffix}"
    subprocess.run(["gcc", *FLAGS, *flags, f"-I{include}", *extensions()[name], "-o", target], cwd=ROOT, check=True)


def link(folder: Path) -> None:
    """The package in `folder`: links to the Python files and headers of this one, of its rooms too."""
    package = folder / "dynacomp"
    for stage, target in (("dynacomp", package), *((s, package / s) for s in STAGES)):
        for file in (ROOT / stage).rglob("*.*"):
            if file.suffix in (".py", ".h"):
                place = target / file.relative_to(ROOT / stage)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(file)


def assemble(folder: Path, *flags: str) -> None:
    link(folder)
    for name in extensions():
        build(name, folder, *flags)


def runtime(name: str) -> str:
    """Where gcc has a library that is loaded first; skips the test where it has none."""
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(found):
        pytest.skip(f"gcc has no {name} here")
    return found


def run(folder: Path, *command: str, paths: Iterable[Path] = ()) -> str:
    """What Python prints under the sanitizers; fails with its last words when it does."""
    env = os.environ | {
        "LD_PRELOAD": " ".join(map(runtime, ("libasan.so", "libubsan.so", "libstdc++.so"))),
        "PYTHONMALLOC": "malloc", "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(map(str, (folder, *paths))),
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1:handle_segv=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    done = subprocess.run([sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stdout
