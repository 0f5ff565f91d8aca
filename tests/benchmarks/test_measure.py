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
    assert set(times) == set("abc") and all(t >= 0 for t in times.values())
    assert "".join(calls) == "aaabbbccc" + "aaabbbccc" + "bbbcccaaa" + "cccaaabbb"


def test_geometric_mean_and_machine():
    assert measure.geometric_mean([2.0, 8.0]) == pytest.approx(4)
    assert math.isnan(measure.geometric_mean([]))
    assert "jax" in measure.machine()
