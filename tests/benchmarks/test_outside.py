"""benchmarks/outside.py: a case is measured, and what it computes is right."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

import outside  # noqa: E402


def test_a_case_is_measured():
    micros, over_jit, over_eager, error = outside.measured(outside.CASES[0], blocks=1)
    assert micros > 0 and over_jit > 0 and over_eager > 0 and error < 1e-5


def test_names_are_told_apart():
    assert len({c.name for c in outside.CASES}) == len(outside.CASES) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in outside.CASES if c.name.startswith("grad")], ids=lambda c: c.name)
def test_gradients_cost_no_more_than_those_of_jax_jit(case):
    assert max(outside.measured(case, blocks=7)[1] for _ in range(2)) > 0.95
