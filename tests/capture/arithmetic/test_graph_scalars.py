"""Python numbers that the Graph computes: exact, or a graph break."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.capture.flow_kit import breaks_of
from tests.capture.program_kit import check_one_graph


@pytest.fixture(autouse=True)
def fresh():
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
    return jnp.full(2, float(x[0]) * 3 + 1)


def whole(x):
    return int(x[1])


def shape(x):
    return jnp.zeros(x.argmax().item())


def shown(x):
    return str([float(x[0])])


@pytest.mark.parametrize("fn", [arithmetic, whole, shape, shown])
def test_what_needs_the_number_breaks(fn):
    assert breaks_of(fn, argument)


def test_ints_that_could_overflow_are_pythons_own():
    def added(n):
        return n.item() + 1

    assert not breaks_of(added, lambda: (jnp.array(2**31 - 1),))
    assert breaks_of(lambda n: jnp.ones(2) * added(n), lambda: (jnp.array(2**31 - 2),))


TENTH = jnp.array([0.1, 2.0, 0.7])


@pytest.mark.parametrize("limits", [
    (0.1, float(np.float32(0.1)), 0.1 + 1e-12, 3.5), (1e300, -1e300, float("inf"), float("nan"))])
def test_a_float_compares_with_all_bits_of_a_number_that_changes(limits):
    def compared(x, limit):
        v = x[0].item()
        return v < limit, v <= limit, v > limit, v >= limit, v == limit, v != limit, limit < v, limit >= v

    check_one_graph(compared, *((TENTH, limit) for limit in limits), captures=2)


def test_a_step_size_controller_compares_with_its_tolerance():
    def step(x, tolerance):
        if float(jnp.max(jnp.abs(x))) <= tolerance:
            return x * 2
        return x / 2

    check_one_graph(step, *((TENTH, 0.5 * i) for i in range(8)), captures=2)


def test_an_int_compares_with_a_size_that_changes():
    def is_last(x):
        return x.argmax().item() == len(x) - 1

    check_one_graph(is_last, *((jnp.arange(n) % 5,) for n in range(3, 9)), captures=2)


def test_an_int_beyond_what_jax_takes_is_compared_by_python():
    def below(x, limit):
        return x.argmax().item() < limit

    breaks = breaks_of(below, *(lambda n=n: (TENTH, n) for n in (1, 2, 3, 2**31 - 1, 2**31, 2**40, -2**31, 0)))
    assert set(breaks) == {"leaves"}  # Python compares with what is larger


def best_so_far(x):
    best, log = -math.inf, []
    for _ in range(3):
        x = jnp.sin(x * 3)
        best = max(best, float(x.max()))
        log.append(best)
    return x * best, log


def clipped(x):
    a, b, c = map(float, x)
    exact = max(a, b), max(b, a), min(a, b), min(b, a, c), max(a, 0.0), max(-0.0, b), min(math.nan, a), min(a, math.nan)
    return exact, max(a, 0.1), min(0.3, b, c), x * max(1.0, 2.0, a)


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_the_greatest_of_floats(backend):
    """What an array of their dtype holds is asked in the graph, else Python asks once it has run."""
    given = ([0.5, -2.0, 3.0], [math.nan, 1.0, 2.0], [1.0, math.nan, 2.0], [0.0, -0.0, 0.1], [-0.0, 0.0, 0.1])
    for fn in (best_so_far, clipped):
        dynacomp.reset()
        compiled = dynacomp.jit(fn, backend=backend)
        for values in given:
            x = jnp.array(values, jnp.float32)
            (want, *floats), (got, *ours) = fn(x), compiled(x)
            assert fn is best_so_far or repr((want, floats[:2])) == repr((got, ours[:2]))
            close = jax.tree.map(lambda a, b: np.allclose(a, b, 1e-6, equal_nan=True), (want, floats), (got, ours))
            assert jax.tree.all(close)
        assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]
