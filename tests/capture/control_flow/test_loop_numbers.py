"""Floats of Python's in loops that become nodes: exact, one entry for all numbers of rounds."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.control_flow.loop_numbers import Apply, Element, Last, Rounds, State, Table
from dynacomp.capture.numbers.applied import Given
from tests.changing.kit import outcome, unlike

LENGTHS = (5, 7, 4, 9, 5, 7, 4, 9, 5, 2)  # most of them again: Python compiles for each length


def rows(n):
    return jnp.asarray(np.random.RandomState(n).randn(n, 4), jnp.float32)


def euler(xs):
    n, y = xs.shape[0], jnp.zeros(4)
    h = 1.0 / n
    for i in range(n):
        t = i * h
        y = y + h * jnp.cos(t + y)
    return y, t


def decay(xs):
    rate, y = 0.1, jnp.zeros(4)
    for x in xs:
        y = y - rate * x
        rate *= 0.9
    return y, rate


def powers(xs):
    y = jnp.zeros(4)
    for i, x in enumerate(xs):
        y = y + 0.9 ** i * x / (i + 1) + 2.0 ** -i
    return y


def clock(xs):
    t, dt, y, late = 0.0, 0.1, jnp.zeros(4), 0
    for x in xs:
        y = y + math.sin(t) * x + math.exp(-t / 3)
        if t > 0.35:
            y = y * 1.5
            late += 1
        t += dt
    return y, t, late, t > 0.5


def two_floats(xs):
    a, b, y = 0.0, 1.0, jnp.zeros(4)
    for x in xs:
        a, b = b, a + 0.5 * b
        y = y + a * x - b
    return y, a, b


def moments(xs):
    m, v, b1, b2 = jnp.zeros(4), jnp.zeros(4), 0.9, 0.999
    for t in range(1, len(xs) + 1):
        g = xs[t - 1]
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        y = m / (1 - b1 ** t) / (jnp.sqrt(v / (1 - b2 ** t)) + 1e-8)
    return y


def schedule(xs):
    steps, y = len(xs), jnp.zeros(4)
    for step in range(steps):
        warm = min(1.0, (step + 1) / 3)
        y = y + 0.5 * (1 + math.cos(math.pi * step / steps)) * xs[step] * warm
    return y


def whole(xs):
    y = jnp.zeros(4)
    for i in range(0, 2 * len(xs), 2):
        y = y + float(i) * xs[i // 2] + i ** 2 + int(i / 4)
    return y


def halved_once(xs):
    rate, y = 1.0, jnp.zeros(4)
    for i, x in enumerate(xs):
        if i > 3:
            rate = rate * 0.5
        elif i == 1:
            rate += 0.25
        y = y + rate * x
    return y, rate


def last_step_shorter(xs):
    t, dt, out = 0.0, 0.1, []
    for x in xs:
        t += dt
        if t > 0.45:
            dt = 0.05
        out.append(x * math.sin(t))
    return jnp.stack(out), t, dt


def in_a_cell(xs):
    scale = 1.0

    def step(x):
        nonlocal scale
        scale *= 0.9
        return x * scale

    return jnp.stack([step(x) for x in xs]), scale


def in_containers(xs):
    state, counts = {"rate": 1.0, "h": jnp.zeros(4)}, [0.5, 0]
    for x in xs:
        state["h"] = state["h"] + state["rate"] * x
        state["rate"] *= 0.9
        counts[0], counts[1] = counts[0] * 0.5 + 0.01, counts[1] + 1
    return state, counts


class Momentum:
    def __init__(self):
        self.rate, self.steps, self.velocity = 0.1, 0, jnp.zeros(4)

    def update(self, gradient):
        self.steps += 1
        self.rate = self.rate * 0.99
        if self.steps > 4:
            self.rate *= 0.5
        self.velocity = 0.9 * self.velocity + gradient
        return self.velocity * self.rate


def in_an_object(xs):
    optimizer, y = Momentum(), jnp.ones(4)
    for x in xs:
        y = y - optimizer.update(x * y)
    return y, optimizer.rate, optimizer.steps


def counts_down(xs):
    left, total, y = 3, 1, jnp.zeros(4)
    for i, x in enumerate(xs):
        left = max(left - 1, 0)
        total += i
        y = y + x * left + min(left, i) - total
    return y, left, total


def backwards(xs):
    y = jnp.zeros(4)
    for i, x in enumerate(reversed(xs)):
        y = y * 0.5 + x * i
    return y, i, x


def patience(xs):
    state, rate, y = {"waited": 1}, 0.1, jnp.zeros(4)
    for i, x in enumerate(xs):
        if state["waited"] % 3 == 1:
            state["waited"] = max(state["waited"] - 1, 0)
            rate *= 0.5
        if i % 2 == 0:
            state["waited"] += 1
        y = y + x * rate
    return y, state, rate


@pytest.mark.parametrize("fn", [euler, decay, powers, clock, two_floats, moments, schedule, whole, halved_once,
                                last_step_shorter, in_a_cell, in_containers, in_an_object, counts_down, backwards,
                                patience], ids=lambda f: f.__name__)
def test_one_entry_for_all_lengths(fn):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in LENGTHS:
        wrong = unlike(outcome(fn, (rows(n),)), outcome(compiled, (rows(n),)))
        assert not wrong, f"length {n}: {wrong}"
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"], stats


def test_numbers_that_change_from_outside():
    def march(x, h, steps):
        t = 1.5
        for i in range(steps):
            x = x + h * jnp.sin(t * x + i * h)
            t += h
        return x, t

    dynacomp.reset()
    compiled = dynacomp.jit(march, backend="eager")
    for h, steps in ((0.1, 5), (0.2, 7), (0.3, 9), (0.1, 4), (0.7, 12), (0.1, 5), (-0.5, 30)):
        assert not unlike(outcome(march, (jnp.ones(3), h, steps)), outcome(compiled, (jnp.ones(3), h, steps)))
    assert dynacomp.stats()["frames_captured"] <= 3 and not dynacomp.stats()["breaks"]


@pytest.mark.medium
def test_derivatives_and_kernels():
    def loss(xs):
        return decay(xs)[0].sum() + clock(xs)[0].sum()

    compiled = dynacomp.jit(jax.grad(lambda xs: (decay(xs)[0] ** 2).sum()), backend="cpp")
    dynacomp.reset()
    for n in (5, 7, 9, 4):
        want = jax.grad(lambda xs: (decay(xs)[0] ** 2).sum())(rows(n))
        np.testing.assert_allclose(compiled(rows(n)), want, rtol=1e-4, atol=1e-5)
    assert dynacomp.stats()["frames_captured"] <= 2 and not dynacomp.stats()["breaks"]
    around = jax.grad(lambda xs: dynacomp.jit(loss)(xs))(rows(6))
    np.testing.assert_allclose(around, jax.grad(loss)(rows(6)), rtol=1e-4, atol=1e-5)


def test_numbers_that_raise_in_a_later_round():
    def divided(xs):
        y = jnp.zeros(4)
        for i in range(len(xs)):
            y = y + 1.0 / (i - 8.0)
        return y

    compiled = dynacomp.jit(divided, backend="eager")
    for n in (5, 7, 4, 12, 6, 9):
        assert not unlike(outcome(divided, (rows(n),)), outcome(compiled, (rows(n),)))


def test_a_round_chooses_between_numbers_that_change_from_outside():
    """Which index rows, from both ends; what the other side would raise is not asked for."""
    def chosen(xs, a, b):
        y, t = jnp.zeros(4), 0.0
        for i, x in enumerate(xs):
            k = a if i > 2 else b
            if i > 0:
                t = t + 1.0 / i
            y = y + x * t + xs[k]
        return y, k, t

    dynacomp.reset()
    compiled = dynacomp.jit(chosen, backend="eager")
    for n, a, b in ((6, 1, 2), (4, 2, 3), (9, 5, 1), (5, 0, 4), (7, -1, 2), (8, 3, 3), (6, 5, -6), (12, 11, 10)):
        assert not unlike(outcome(chosen, (rows(n), a, b)), outcome(compiled, (rows(n), a, b)))
    assert dynacomp.stats()["frames_captured"] <= 3 and not dynacomp.stats()["breaks"]


def test_a_float_that_arrays_choose_is_no_number_of_rounds():
    def searched(xs):
        rate, y = 1.0, jnp.zeros(4)
        for x in xs:
            if (y * x).sum() > 0:
                rate = rate * 0.5
            y = y + rate * x
        return y, rate

    compiled = dynacomp.jit(searched, backend="eager")
    for n in (5, 7, 4, 12, 6):
        assert not unlike(outcome(searched, (rows(n),)), outcome(compiled, (rows(n),)))


class Schedule:
    def __init__(self):
        self.steps, self.rate = 0, 0.1

    def at_next(self):
        self.steps += 1
        return self.rate * 0.9 ** self.steps


def updated(optimizer, xs):
    for x in xs:
        optimizer.update(x)
    return optimizer.velocity * optimizer.rate


def scheduled(schedule, xs):
    y = jnp.ones(4)
    for x in xs:
        y = y - schedule.at_next() * x
    return y


def counted(schedule, xs):
    y = jnp.ones(4)
    for x in xs:
        schedule.steps += 2
        y = y + x * schedule.steps
    return y


@pytest.mark.parametrize("fn, make", [(updated, Momentum), (scheduled, Schedule), (counted, Schedule)])
def test_objects_that_existed_are_changed_as_python_changes_them(fn, make):
    """Their numbers change from call to call, too."""
    mine, python_s = make(), make()
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in (5, 7, 4, 12, 6, 3):
        assert not unlike(outcome(fn, (python_s, rows(n))), outcome(compiled, (mine, rows(n))))
        assert (mine.rate, mine.steps) == (python_s.rate, python_s.steps)
    assert dynacomp.stats()["frames_captured"] <= 3 and not dynacomp.stats()["breaks"]


# --- the expressions


def test_an_evaluation():
    times = Apply(float.__mul__, (State(0), 0.5))
    rounds = Rounds(((Given(0), times),), (State(0), Element(3, 2)), (float, int))
    assert rounds(3, 8.0) == ([[8.0, 4.0, 2.0], [3, 5, 7]], [2.0], [1.0])
    assert rounds(3, 8.0) is rounds(3, 8.0)
    assert Table(rounds, float, np.float32)(3, 8.0).tolist() == [[8.0], [4.0], [2.0]]
    assert Last(rounds, State(0), True)(3, 8.0) == 1.0 and Last(rounds, State(0), False)(3, 8.0) == 2.0


def test_literals_of_other_types_are_other_expressions():
    assert Apply(max, (1, 2)) != Apply(max, (1.0, 2)) and Apply(max, (1, 2)) == Apply(max, (1, 2))


def test_numbers_of_another_type_are_refused():
    with pytest.raises(TypeError, match="no float"):
        Rounds((), (Apply(max, (Element(0, 1), 1.5)),), (float,))(4)
    with pytest.raises(OverflowError, match="JAX does not hold"):
        Table(Rounds((), (Element(1 << 40, 1),), (int,)), int, np.int32)(2)
