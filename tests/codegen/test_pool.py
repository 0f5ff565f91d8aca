"""codegen/_launch/pool.c and places.c by themselves: what each piece of a job is, which thread has it, and where."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.sanitizers import ROOT, SANITIZE

FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread")


def said_by_program(folder: Path, name: str, *flags: str) -> str:
    include = (f"-I{ROOT / 'codegen' / '_launch'}", f"-I{sysconfig.get_path('include')}")
    sources = (Path(__file__).with_name(name), *(ROOT / "codegen" / "_launch" / c for c in ("pool.c", "places.c")))
    binary = folder / "pool"
    subprocess.run(["gcc", *FLAGS, *flags, *include, *sources, "-o", binary], check=True)
    done = subprocess.run([binary], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_each_index_once_and_each_section_its_threads(tmp_path):
    assert said_by_program(tmp_path, "pool_program.c", "-O2") == "done\n"


def test_threads_on_one_cpu_go_apart(tmp_path):
    said = "done\n" if len(os.sched_getaffinity(0)) > 1 else "one CPU\n"
    assert said_by_program(tmp_path, "places_program.c", "-O2") == said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pool_program.c", "places_program.c"])
def test_without_undefined_behaviour(tmp_path, name):
    assert said_by_program(tmp_path, name, *SANITIZE).endswith(("done\n", "one CPU\n"))
