"""benchmarks/measure.py: errors are found, contestants take turns."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import measure


@pytest.mark.parametrize("got, expected, error", [
    (jnp.ones(3), jnp.ones(3), 0.0),
    (jnp.array([1.0, 2.0]), jnp.array([1.0, 4.0]), 0.5),
    (jnp.array([np.nan, 2.0]), jnp.array([np.nan, 2.0]), 0.0),
    (jnp.array([np.nan, 2.0]), jnp.array([1.0, 2.0]), math.inf),
    (jnp.ones(3), jnp.ones((3, 1)), math.inf),
    (jnp.ones(3, jnp.int32), jnp.ones(3), math.inf),
    ((jnp.ones(3), jnp.zeros(2)), (jnp.ones(3), jnp.zeros(2)), 0.0),
    ((jnp.ones(3),), [jnp.ones(3)], math.inf),
])
def test_worst_error(got, expected, error):
    assert measure.worst_error(got, expected) == error


def test_contestants_take_turns_and_the_first_changes(monkeypatch):
    calls = []
    monkeypatch.setattr(measure, "FEWEST", 1)
    monkeypatch.setattr(measure, "MOST", 1)
    times = measure.timed({name: lambda name=name: calls.append(name) for name in "abc"}, blocks=3)
    assert set(times) == set("abc") and all(len(t) == 3 for t in times.values())
    assert "".join(calls) == "aaabbbccc" + "aaabbbccc" + "bbbcccaaa" + "cccaaabbb"


def test_a_ratio_is_taken_round_by_round():
    assert measure.ratio([2.0, 200.0, 9.0], [1.0, 100.0, 1.0]) == 2
    with pytest.raises(ValueError):
        measure.ratio([1.0], [1.0, 2.0])


def test_geometric_mean_and_machine():
    assert measure.geometric_mean([2.0, 8.0]) == pytest.approx(4)
    assert math.isnan(measure.geometric_mean([]))
    assert "jax" in measure.machine()
