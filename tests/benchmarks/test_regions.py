"""benchmarks/regions.py: one region, end to end and without capture; and failures are seen."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def regions(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "benchmarks" / "regions.py"), "--blocks", "1", "--json", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})


@pytest.mark.medium
@pytest.mark.parametrize("stage", [pytest.param("all", marks=pytest.mark.slow), "codegen"])
def test_a_region_is_compiled_timed_and_right(stage):
    done = regions("--filter", "small chain", "--stage", stage)
    assert done.returncode == 0, done.stderr
    row, = json.loads(done.stdout)["rows"]
    assert row["failure"] == "" and row["error"] < 1e-6
    assert row["seen"] == {"externs": 0, "breaks": 0, "eager": 0}
    assert row["over_eager"] > 0 and row["over_jit"] > 0


@pytest.mark.medium
def test_a_loop_is_a_region():
    done = regions("--loops", "--filter", "newton, grad")
    assert done.returncode == 0, done.stderr
    row, = json.loads(done.stdout)["rows"]
    assert row["failure"] == "" and row["seen"] == {"externs": 0, "breaks": 0, "eager": 0}


@pytest.mark.slow
@pytest.mark.medium
def test_a_failure_is_a_row_and_an_exit_status():
    done = regions("--filter", "small chain", "--stage", "codegen", "--backend", "fpga")
    assert done.returncode == 1
    row, = json.loads(done.stdout)["rows"]
    assert "fpga" in row["failure"]
