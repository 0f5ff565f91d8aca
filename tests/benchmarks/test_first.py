"""benchmarks/first.py: a process reports what its first calls cost, and rows become ratios."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import first  # noqa: E402
from first_programs import NAMES, First, program  # noqa: E402


def test_only_first_calls_are_counted():
    counted = First(lambda fn: fn)
    waits = counted(lambda seconds: time.sleep(seconds))
    waits(0.01)
    once = counted.clock
    waits(0.05)
    assert 0.01 <= once == counted.clock


@pytest.mark.slow
def test_a_process_says_where_its_seconds_went():
    script = str(ROOT / "benchmarks" / "first_programs.py")
    done = subprocess.run([sys.executable, script, "small_gpt.forward", "dynacomp"], capture_output=True, text=True,
                          env=dict(os.environ))
    cost = first.Cost(**json.loads(done.stdout))
    assert {"capture", "lower", "schedule", "codegen cpp", "compiler"} <= set(cost.stages)
    assert cost.cpu > 0 and sum(cost.stages.values()) == pytest.approx(cost.clock, rel=0.2)


def test_every_name_is_a_program():
    assert all(callable(program(n)) for n in NAMES if n.startswith(("plain_training", "small_gpt")))


def row(name, jax, ours):
    return first.Row(name, {"jax": first.Cost(jax, jax), "dynacomp": first.Cost(ours, 2 * ours)})


def test_ratios_and_their_mean():
    rows = [row("a", 1.0, 2.0), row("b", 1.0, 8.0), first.Row("c", {}, "jax: refused")]
    assert first.ratios(rows, "dynacomp", "jax", "clock") == [2.0, 8.0]
    assert first.closing(rows).splitlines() == [
        "dynacomp / jax: 4.00, at most 8.00; of the CPUs 8.00, at most 16.00 (2 programs)", "failed: c: jax: refused"]
    assert first.table(rows).row_count == 3


@pytest.mark.slow
def test_a_child_that_fails_says_why(tmp_path):
    assert "no_such" in first.child("plain_training.no_such", "jax", tmp_path)
