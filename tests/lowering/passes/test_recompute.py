"""Values computed again rather than kept: less memory, the same numbers, fusion does not bring them back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.driver.pass_list import DEFAULT, Pass, within
from dynacomp.driver.pipeline import is_ours
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.passes import recompute as module
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.passes.recompute import recompute
from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering.closed import same_as_eager


def loss(weights, x):
    for w in weights:
        x = x + jax.nn.gelu((x - x.mean(-1, keepdims=True)) @ w)
    return (x ** 2).mean()


def step(weights, x):
    value, grads = jax.value_and_grad(loss)(weights, x)
    return value, [w - 0.1 * g for w, g in zip(weights, grads)]


def given(rows=256, width=16, layers=6):
    random = np.random.RandomState(0)
    return [random.randn(width, width).astype(np.float32) / 8 for _ in range(layers)], \
        random.randn(rows, width).astype(np.float32)


def arena(graph):
    return int(schedule(graph).arena)


@pytest.fixture
def low(monkeypatch):
    """Graphs that keep little are looked at, too."""
    monkeypatch.setattr(module, "SMALL", 1 << 12)


def test_less_memory_the_smaller_the_budget(low, monkeypatch):
    with monkeypatch.context() as m:
        m.setattr(module, "SMALL", 1 << 40)
        whole = optimise(lower_function(step, *given()))
    sizes = [arena(recompute(whole, budget)) for budget in (1, 0.5, 0)]
    assert sizes[0] == arena(whole)
    assert sizes[1] < 0.75 * sizes[0] and sizes[2] <= sizes[1]


def test_what_keeps_little_stays_as_it_is():
    graph = optimise(lower_function(step, *given()))
    assert recompute(graph) is graph
    assert not any(n.target.name == "again" for n in graph.calls if hasattr(n.target, "name"))


def test_the_same_numbers(low):
    same_as_eager(step, *given(), scale=100)
    same_as_eager(jax.value_and_grad(lambda w, x: jax.nn.softmax(jnp.tanh(x @ w) @ w.T).std()), given()[0][0],
                  given()[1], scale=100)


def test_complex_values_are_held_by_no_copy(low):
    """Loops read their parts: `again` of one was a seam."""
    def transformed(a):
        y = jnp.fft.fft(a)
        x = z = y.real * 2
        for _ in range(3):
            z = jnp.tanh(z @ z) * x + y.imag
        return y, z

    for seed in (0, 1):
        parts = np.random.RandomState(seed).randn(2, 64, 64).astype(np.float32)
        same_as_eager(transformed, parts[0] + 1j * parts[1], scale=1000)


def test_once_is_enough(low):
    graph = optimise(lower_function(step, *given()))
    again = recompute(graph)
    assert arena(again) <= arena(graph)


@pytest.mark.slow
def test_a_training_step():
    """Compiled with several budgets: the same step, one capture each; `explain` says what is kept."""
    dynacomp.reset()
    weights, x = given(2048, 256, 6)
    want = step(weights, x)
    peaks = []
    for budget in (1, 0.5):
        compiled = dynacomp.jit(step, options={"memory_budget": budget})
        before = dynacomp.stats()["frames_captured"]
        for scale in (1.0, 0.5, 2.0):
            got, plain = compiled(weights, jnp.asarray(x) * scale), step(weights, jnp.asarray(x) * scale)
            for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(plain)):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)
        assert dynacomp.stats()["frames_captured"] == before + 1
        report = dynacomp.explain(step, options={"memory_budget": budget})(weights, x)
        peaks.append(int(report.regions[0].schedule.arena))
        assert f"temporaries: {peaks[-1]} bytes" in str(report)
        np.testing.assert_allclose(report.result[0], want[0], rtol=1e-4)
    assert peaks[1] < 0.75 * peaks[0]
    assert dynacomp.stats()["breaks"] == {}


def test_bad_budgets():
    for wrong in (-0.1, 1.5, "half", True):
        with pytest.raises(ValueError, match="memory_budget"):
            dynacomp.jit(step, options={"memory_budget": wrong})


def test_sizes_that_change_are_planned_for_those_at_hand(monkeypatch):
    """They counted as 256 each, so that a step on short sequences computed again what it had room to keep."""
    def attended(w, x):
        scores = jax.nn.softmax(x @ w @ x.swapaxes(1, 2), -1)
        return jax.value_and_grad(lambda v: ((scores * v) @ x).sum())(w.sum())

    seen = []
    monkeypatch.setattr(module, "crowded", lambda place, size: seen.append(max(map(size, place))))
    dynacomp.reset()
    compiled = dynacomp.jit(attended)
    w = jnp.ones((4, 4))
    for length in (6, 9, 12):
        compiled(w, jnp.ones((3, length, 4)))
    assert dynacomp.stats()["frames_captured"] == 2
    assert seen == [3 * 6 * 6 * 4, 3 * 18 * 18 * 4]  # twice the second length


def test_passes_with_arguments_are_still_ours():
    listed = within(DEFAULT, 0.25, (("s0", 9),))
    row = next(p for p in listed.rows if p.name == "recompute")
    assert is_ours(row) and row.run.keywords == {"budget": 0.25, "at_hand": (("s0", 9),)}
    assert not is_ours(Pass("recompute", lambda graph: graph)) and within(DEFAULT, module.BUDGET) is DEFAULT
