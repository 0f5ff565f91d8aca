"""`control_flow.long_loops`: long loops become nodes or run in Python, as far as they are long by themselves."""

import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture import frame
from dynacomp.capture.control_flow import long_loops
from dynacomp.capture.symbolic import machine
from tests.changing.kit import outcome, unlike


def numbers(n):
    table = {}
    for i in range(n):
        for j in range(n):
            table[i, j] = i * j
    k = 0
    while k < n * n:
        k += 1
    return len(table), k


@pytest.mark.medium
def test_a_loop_of_numbers_is_not_unrolled():
    compiled = dynacomp.jit(numbers)
    began = time.process_time()
    assert compiled(400) == numbers(400)
    assert time.process_time() - began < 24  # 5 to 12 on one machine, by its load
    assert "long_loop" in dynacomp.stats()["breaks"]


def test_a_short_one_vanishes():
    before = dict(dynacomp.stats()["breaks"])
    assert dynacomp.jit(numbers)(10) == numbers(10)
    assert dynacomp.stats()["breaks"] == before


def denoised(x):
    for _ in range(40):
        for _ in range(3):
            x = jnp.sin(x) * 0.5 + jnp.cos(x)
    return x


def blocks(x):
    for _ in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12):
        for _ in range(3):
            for _ in (1, 2, 3):
                x = jnp.sin(x) * 0.5 + jnp.cos(x)
    return x


@pytest.mark.parametrize("f, least, most", [(denoised, 10, 40), (blocks, 432, 432)])
def test_a_long_loop_becomes_a_node_and_short_ones_in_another_loop_do_not(f, least, most):
    dynacomp.reset()
    compiled = dynacomp.jit(f, backend="eager")
    for size in (3, 4, 5):
        np.testing.assert_allclose(compiled(jnp.ones(size)), f(jnp.ones(size)), rtol=1e-6)
    told = dynacomp.stats()
    assert least <= told["operations"] / told["frames_captured"] <= most and not told["breaks"]


# --- `while` loops that an int ends which changes from call to call


def counted(x, n):
    i = 0
    while i < n:
        x = x * 1.1 + i
        i += 1
    return x, i, i == n


def in_steps(x, n):
    held = [0]
    while held[0] <= n // 2:
        if held[0] == 3:
            x = x - 1
        x, held[0] = x + n, held[0] + 1
    return x, held


def until(x, n):
    i = 0
    while i < n and x.sum() < 50:
        x = x + 1
        i += 1
    return x, i


def one_in_another(x, n):
    i = 0
    while i < n:
        j = 0
        while j < i:
            x = x + j
            j += 1
        i += 1
    return x


@pytest.mark.parametrize("fn", [counted, in_steps, until, one_in_another])
def test_an_int_that_ends_a_while_is_a_size(fn):
    dynacomp.reset()
    compiled, made = dynacomp.jit(fn, backend="eager"), []
    for n in (4, 6, 3, 8, 0, 1, -2, 11, 2, 7, 30, 5):
        wrong = unlike(outcome(fn, (jnp.arange(3.0), n)), outcome(compiled, (jnp.arange(3.0), n)))
        assert not wrong, f"{n}: {wrong}"
        made.append(dynacomp.stats()["frames_captured"])
    assert made[3] == 2 and made[-1] == made[6] <= 4  # none, one, and below zero are entries of their own
    assert not dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]


def batches(x):
    while True:
        x = jnp.sin(x) + 1
        yield x


def trained(steps):
    w = jnp.ones(3)
    for _, x in zip(range(steps), batches(jnp.ones(3))):
        w = w - 0.1 * jax.grad(lambda w: jnp.tanh(w * x).sum())(w)  # noqa: B023
    return w


def test_steps_that_a_range_ends_beside_a_generator_are_told_after_two(monkeypatch):
    left, leave = [], long_loops.leave

    def noted(cap, loop, reason, detail=""):
        left.append((reason, loop.rounds))
        leave(cap, loop, reason, detail)

    monkeypatch.setattr(long_loops, "leave", noted)
    dynacomp.reset()
    np.testing.assert_allclose(dynacomp.jit(trained)(900), trained(900), rtol=1e-3)
    assert left[0][0] == "long_loop" and left[0][1] <= 4
    assert dynacomp.stats()["breaks"]["long_loop"] == 1


def optimized(x, steps):
    seen = []
    for k in range(steps):
        names = sorted(f"{i % 7}_{i}" for i in range(40))  # as an optimizer that walks over the parts of a model
        x = x - jnp.sin(x) / len(names)
        seen.append(names[k % 3])
    return x, seen


def test_a_loop_of_many_instructions_runs_in_python_and_the_rest_stays_compiled(monkeypatch):
    """All ran in Python, once the instructions of a whole capture were spent."""
    monkeypatch.setattr(long_loops, "MAX_LOOP_STEPS", 20_000)
    monkeypatch.setattr(long_loops, "MAX_LOOP_OPS", 1000)
    dynacomp.reset()
    compiled, made = dynacomp.jit(optimized), []
    for n in range(6):
        x = jnp.arange(3.0 + n)
        wrong = unlike(outcome(optimized, (x, 50 + n)), outcome(compiled, (x, 50 + n)))
        assert not wrong, wrong
        made.append(dynacomp.stats()["frames_captured"])
    assert made[-1] == made[2] and not dynacomp.stats()["frames_eager"]
    assert "long_loop" in dynacomp.stats()["breaks"]


class Layer:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        for k in range(10):
            x = jnp.tanh(x * self.scale) + jnp.sin(x) * k - jnp.mean(x)
        return x


class Layers:
    """A container whose `__iter__` is a generator, as that of `flax.nnx.List`."""

    def __init__(self, *layers):
        self.layers = layers

    def __iter__(self):
        for i in range(len(self.layers)):
            yield self.layers[i]


def through(model, x):
    for layer in model:
        x = layer(x)
    return x


def made_anew(model, x):
    return through(Layers(*(Layer(layer.scale) for layer in model)), x)


@pytest.mark.parametrize("fn", [through, made_anew])
def test_layers_that_a_generator_gives_are_captured_at_the_first_attempt(fn, monkeypatch):
    """A loop over objects becomes no node: it was tried four times (a model of NNX with eight layers)."""
    attempts, attempt = [], frame.attempt
    monkeypatch.setattr(frame, "attempt", lambda cap: attempts.append(cap.root.code.co_name) or attempt(cap))
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in range(4):
        model, x = Layers(*(Layer(jnp.asarray(k / 4)) for k in range(12))), jnp.ones(3 + n)
        np.testing.assert_allclose(compiled(model, x), fn(model, x), rtol=1e-5)
    assert len(attempts) == dynacomp.stats()["frames_captured"] <= 2 and not dynacomp.stats()["breaks"]


def many(x, texts):
    for text in texts:
        x = x + len("".join(sorted(f"{i}{text}" for i in range(20))))
    return x


def test_array_operations_allow_for_more_instructions(monkeypatch):
    """A large model of a library whose own code is entered: it ran in Python, after the time for a capture."""
    texts, x = [f"a{k}" for k in range(30)], jnp.ones(2)
    monkeypatch.setattr(machine, "MAX_STEPS", 1000)
    for ops in (20_000, 5):
        dynacomp.reset()
        monkeypatch.setattr(machine, "MAX_OPS", ops)
        assert (dynacomp.jit(many, backend="eager")(x, texts) == many(x, texts)).all()
        done = dynacomp.stats()
        assert done["frames_eager"] == ({} if ops > 30 else {"too_long": 1}), done
        assert ops < 30 or done["frames_captured"] == 1


def test_loops_over_many_leaves_stay_in_the_graph():
    """Those of a container are so many, and no more: from 257 on they were left to Python, below `grad` for good."""
    def step(leaves, x):
        grads = jax.grad(lambda leaves: sum(jnp.sum(leaf * x) for leaf in leaves))(leaves)
        return [leaf - 0.1 * grad for leaf, grad in zip(leaves, grads)]

    dynacomp.reset()
    compiled = dynacomp.jit(step, backend="eager")
    for n in range(3):
        leaves, x = [jnp.full(2, i + n, jnp.float32) for i in range(300)], jnp.float32(n)
        np.testing.assert_allclose(compiled(leaves, x), step(leaves, x))
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


def test_what_took_too_long_to_capture_is_not_tried_again_in_the_next_calls(monkeypatch):
    attempts, attempt = [], frame.attempt
    monkeypatch.setattr(frame, "attempt", lambda cap: attempts.append(cap.root.code) or attempt(cap))
    monkeypatch.setattr(machine, "MAX_STEPS", 1000)
    monkeypatch.setattr(machine, "MAX_OPS", 5)
    dynacomp.reset()
    compiled, texts = dynacomp.jit(many, backend="eager"), [f"a{k}" for k in range(30)]
    for n in range(1, 9):
        assert (compiled(jnp.ones(n), texts) == many(jnp.ones(n), texts)).all()
    assert attempts.count(many.__code__) == 1 and dynacomp.stats()["frames_eager"]["too_long"] == 8


def test_a_zip_with_the_items_of_a_container_ends_with_them():
    def scaled(leaves, x):
        return [leaf * x + k for k, leaf in zip(itertools.count(), leaves)]

    dynacomp.reset()
    compiled = dynacomp.jit(scaled, backend="eager")
    for n in range(3):
        leaves = [jnp.full(2, i + n, jnp.float32) for i in range(300)]
        np.testing.assert_allclose(compiled(leaves, jnp.float32(n)), scaled(leaves, jnp.float32(n)))
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]
