"""codegen/_launch/pool.c by itself: what each piece of a job is, and which thread has it."""

import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.sanitizers import ROOT, SANITIZE

FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread")
PROGRAM = Path(__file__).with_name("pool_program.c")


def said_by_program(folder: Path, *flags: str) -> str:
    include = (f"-I{ROOT / 'codegen' / '_launch'}", f"-I{sysconfig.get_path('include')}")
    sources = (PROGRAM, ROOT / "codegen" / "_launch" / "pool.c")
    binary = folder / "pool"
    subprocess.run(["gcc", *FLAGS, *flags, *include, *sources, "-o", binary], check=True)
    done = subprocess.run([binary], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_each_index_once_and_each_section_its_threads(tmp_path):
    assert said_by_program(tmp_path, "-O2") == "done\n"


@pytest.mark.slow
def test_without_undefined_behaviour(tmp_path):
    assert said_by_program(tmp_path, *SANITIZE) == "done\n"
