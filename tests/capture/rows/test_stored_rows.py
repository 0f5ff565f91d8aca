"""Lists into which loops store: one node for all numbers of rounds, and plain Python's values, types and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.changing.kit import outcome, unlike

SIZES = (5, 7, 9, 4, 2, 1, 0)


def rows(n):
    return jnp.asarray(np.random.RandomState(n).randn(n, 3), jnp.float32)


def captures(fn, sizes=SIZES, backend="eager", given=rows, breaks=False):
    """How often it was captured, without a break; all calls end as in plain Python."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend=backend)
    for n in sizes:
        wrong = unlike(outcome(fn, (given(n),)), outcome(compiled, (given(n),)))
        assert not wrong, f"{n}: {wrong}"
    assert breaks or not dynacomp.stats()["breaks"]
    return dynacomp.stats()["frames_captured"]


def forwards(x):
    n = x.shape[0]
    out, sums = [None] * n, [0.0] * (n + 2)
    for t in range(n):
        out[t] = x[t] * 2
        sums[t + 1] = x[t].sum()
    return out, len(out), sums, out is sums


def enumerated(x):
    out = [0] * len(x)
    for i, row in enumerate(x):
        out[i] = (row.sum(), i)
    return out


def backwards(x):
    n, total = x.shape[0], jnp.zeros(3)
    out = [None] * n
    for t in reversed(range(n)):
        total = x[t] + 0.9 * total
        out[t] = total
    return jnp.stack(out), out[0], out[-1]


def from_the_end(x):
    n = x.shape[0]
    out = [0.0] * n
    for t in range(n):
        out[n - 1 - t] = x[t].sum()
    return out


def one_before(x):
    n = x.shape[0]
    out = [None] * n
    out[0] = x[0]
    for t in range(1, n):
        out[t] = out[t - 1] * 0.5 + x[t]
    return jnp.stack(out)


def two_before(x):
    out = [jnp.ones(3)] * x.shape[0]
    for t in range(x.shape[0]):
        out[t] = out[t - 2] * 0.5 + out[t - 1] + x[t]  # out[-1] and out[-2] at first
    return out


def one_behind(x):
    n = x.shape[0]
    out = [jnp.zeros(3)] * (n + 1)
    for t in range(n - 1, -1, -1):
        out[t] = out[t + 1] * 0.9 + x[t]
    return out, len(out)


def added(x):
    n = x.shape[0]
    out = [0.0] * n
    for t in range(n):
        out[t] += x[t].sum()
    for t in range(n):
        out[t] *= len(out)
    return jnp.array(out)


def in_room(x):
    out = [None] * 16
    for t in range(x.shape[0]):
        out[t] = x[t]
        if t > 1:
            out[t] = out[t] * 3
    return out


@pytest.mark.parametrize("fn", [
    forwards, enumerated, backwards, from_the_end, one_before, two_before, one_behind, added, in_room])
def test_one_node_for_all_sizes(fn):
    assert captures(fn) <= 5 # two, and those of no row, of one and of two


def test_natively_and_differentiated():
    def loss(x):
        return (one_before(x) * backwards(x)[0]).sum()

    assert captures(lambda x: jax.value_and_grad(loss)(x), (5, 7, 4, 9), backend="auto") == 2


def advantages(rewards):
    n, last, values = len(rewards), 0.0, jnp.arange(len(rewards)) * 0.5
    out = [0.0] * n
    for t in reversed(range(n)):
        following = values[t + 1] if t + 1 < n else 0.0  # decided: the first round is captured by itself
        last = rewards[t] + 0.9 * following - values[t] + 0.8 * last
        out[t] = last
    return jnp.array(out)


def discounted(rewards):
    out, run = [0.0] * len(rewards), 0.0
    for i in range(len(rewards) - 1, -1, -1):
        run = rewards[i] + 0.5 * run
        out[i] = run
    return out, jnp.array(out)


@pytest.mark.parametrize("fn", [advantages, discounted])
def test_numbers_of_a_given_list(fn):
    assert captures(fn, SIZES[:4], given=lambda n: [i * 0.25 - 1 for i in range(n)]) <= 3


def several_places(x):
    out = [0.0] * (x.shape[0] + 1)
    for t in range(x.shape[0]):
        out[t] = x[t].sum()
        out[t + 1] = x[t].max()
    return out


def not_each(x):
    out = [0.0] * x.shape[0]
    for t in range(x.shape[0]):
        if x[t].sum() > 0:
            out[t] = x[t].sum()
    return out


def too_far(x):
    out = [None] * 6
    for t in range(x.shape[0]):
        out[t] = x[t]
    return out


def grows(x):
    out = [None] * x.shape[0]
    for t in range(x.shape[0]):
        out[t] = x[t].sum()
        out.append(out[t] + out[-1])
    return out


def of_the_loop_around(x):
    n = x.shape[0]
    out = [0.0] * n
    for i in range(n):
        for j in range(n):
            out[j] = out[j] + x[i, 0] * j
            out[i] = out[i] + x[j, 1]
    return out


@pytest.mark.parametrize("fn", [several_places, not_each, too_far, grows, of_the_loop_around])
def test_what_is_no_node_is_right(fn):
    compiled = dynacomp.jit(fn, backend="eager")
    for n in SIZES[:4]:
        assert not unlike(outcome(fn, (rows(n),)), outcome(compiled, (rows(n),)))
