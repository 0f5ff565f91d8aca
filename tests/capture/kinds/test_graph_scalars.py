"""Python numbers that the Graph computes: exact, or a graph break."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture import frame
from tests.capture.flow_kit import breaks_of


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setattr(frame, "strict_errors", True)
    dynacomp.reset()


def argument():
    return (jnp.array([0.1, 2.0, 0.7]),)


def leave_late(x):
    loss = float(x.sum())
    return x * loss, loss, -loss, x.argmax().item(), not x[0] > 1, bool(x[1] > 1)


def thresholds(x):
    """0.1 has other bits in 32 than in 64: Python compares with all of them."""
    v = float(x[0])
    return v < 0.1, v <= 0.1, v > 0.1, v >= 0.1, v == 0.1, v != 0.1, v > 0, 1e300 > v, v == float(np.float32(0.1))


def weak_arguments(x):
    return x.astype(jnp.bfloat16) * float(x[1]), jnp.arange(3) + x.argmax().item(), x[x.argmax().item()]


@pytest.mark.parametrize("fn", [leave_late, thresholds, weak_arguments])
def test_numbers_stay_in_the_graph(fn):
    assert breaks_of(fn, argument) == {}


def arithmetic(x):
    return float(x[0]) * 3 + 1


def whole(x):
    return int(x[1])


def shape(x):
    return jnp.zeros(x.argmax().item())


def shown(x):
    return f"{float(x[0]):.3f}"


@pytest.mark.parametrize("fn", [arithmetic, whole, shape, shown])
def test_what_needs_the_number_breaks(fn):
    assert breaks_of(fn, argument)


def test_ints_that_could_overflow_break():
    def added(n):
        return n.item() + 1

    assert breaks_of(added, lambda: (jnp.array(2**31 - 1),))
