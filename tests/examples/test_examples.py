"""Every example under every compiler, for a few steps: the same losses as eager JAX."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = "4"


def results(example: str, compiler: str) -> list[dict]:
    command = [sys.executable, str(EXAMPLES / example), "--compiler", compiler, "--steps", STEPS, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.medium
@pytest.mark.slow  # `make demo` runs all
@pytest.mark.parametrize("compiler", ["dynacomp", "jax"])
@pytest.mark.parametrize("example", ["solver.py", "digits.py", "gpt.py"])
def test_losses_are_those_of_eager_jax(example, compiler):
    for got, eager in zip(results(example, compiler), results(example, "eager"), strict=True):
        assert got["name"] == eager["name"]
        assert got["checked_loss"] == pytest.approx(eager["checked_loss"], rel=1e-4)
        assert got["step_ms"] > 0 and got["steps"] == int(STEPS)


@pytest.mark.parametrize("arguments, message", [
    (["--compiler", "torch"], "invalid choice: 'torch'"),
    pytest.param(["--steps", "many"], "invalid int value", marks=pytest.mark.slow),
    pytest.param(["--steps", "0"], "at least 1", marks=pytest.mark.slow),
])
def test_bad_arguments_say_what_is_wrong(arguments, message):
    done = subprocess.run([sys.executable, str(EXAMPLES / "solver.py"), *arguments],
                          capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr
