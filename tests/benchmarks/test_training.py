"""benchmarks/training.py: a training step of twelve layers needs at most 60 % of jax.jit's temporary memory."""

import sys
from pathlib import Path

import pytest

import dynacomp

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

import training  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("name", training.SETTINGS)
def test_memory_of_a_step(name):
    dynacomp.reset()
    found = training.measured(training.SETTINGS[name], 3)
    stats = dynacomp.stats()
    assert found.error < training.TOLERANCE
    assert found.share <= training.MOST_MEMORY
    assert found.speed >= 1
    assert stats["breaks"] == {} and stats["externs"] == {}
