"""benchmarks/guards.py: the pieces of a call are told apart, and the bars of cost per call hold."""

import functools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

import guards  # noqa: E402


@functools.cache
def models():
    return {case.name: case for case in guards.models()}


MODULES = [pytest.param(f"{library} module", marks=pytest.mark.slow) for library in ("Equinox", "NNX")]


@pytest.mark.parametrize("name", ["arrays", "dict of arrays", *MODULES])
def test_pieces_and_bars(name):
    found = guards.row(guards.of_arrays(2, 3) if name == "arrays" else models()[name], blocks=5, seconds=0.001)
    assert set(found) == set(guards.COLUMNS)
    assert found["lookup"] > 0 and found["launch"] > 0 and found["guard"] > -found["lookup"]
    assert found["total"] < 2 * found["rival"]  # the bar is 1; a busy machine may not fail a test


def test_models_have_200_leaves_and_300_attributes():
    equinox, nnx_module, _ = models().values()
    assert len(guards.jax.tree.leaves(equinox.args[0])) == guards.LEAVES == 200
    values = [vars(layer)[name] for layer in nnx_module.args[0].layers for name in ("name", "rate", "enabled")]
    assert len(values) == guards.ATTRIBUTES == 300
