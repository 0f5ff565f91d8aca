"""benchmarks/region_table.py: every region traces, and there are enough of them."""

import jax
import pytest

from benchmarks.region_table import REGIONS


@pytest.mark.parametrize("name", REGIONS)
def test_a_region_traces_to_arrays(name):
    region = REGIONS[name]
    out = jax.eval_shape(region.fn, *jax.eval_shape(region.make))
    assert jax.tree.leaves(out)


def test_there_are_enough():
    assert len(REGIONS) >= 24
