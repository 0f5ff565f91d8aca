"""benchmarks/models.py: it measures what it says: one model, forward and step."""

import sys
from pathlib import Path

import pytest

import dynacomp

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

import models  # noqa: E402


@pytest.mark.medium
def test_one_model():
    dynacomp.reset()
    found = {name: models.measured(fn, args, 1, eager=False) for name, fn, args in models.functions("gcn", [1])}
    assert set(found) == {"plain_gcn ×1", "plain_gcn ×1 step"}
    for one in found.values():
        assert one["error"] < models.TOLERANCE and one["jit"] > 0 and one["seams"] == []
