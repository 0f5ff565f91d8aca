"""`dynacomp.sight`: which frames have no JAX in sight; these are left to Python at their first graph break."""

import contextvars
import functools
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.sight import finds

X = jnp.arange(4.0)


class Env:
    """An environment in NumPy."""

    def __init__(self, seed):
        self.rng, self.state = np.random.RandomState(seed), np.zeros(2)

    def step(self, act):
        noise = [self.rng.randn() for _ in self.state]
        self.state = 0.9 * self.state + 0.1 * act + np.array(noise)
        self.log = [f"{s:.1f}" for s in self.state]
        return self.state.astype("f4"), bool(self.rng.rand() < 0.1)


class Net:
    def __init__(self, w):
        self.w = w

    def __call__(self, x):
        return jnp.tanh(x) * self.w


def squares(n):
    for i in range(n):
        yield i * i


def doubled(n):
    for i in range(n):
        yield X * i


def calls_net(x):
    return Net(2)(x)


def begun(gen):
    next(gen)
    return gen


VARIABLE = contextvars.ContextVar("variable")
QUIET = {"numbers": [1, 2.0, "a"], "numpy": np.ones(3), "env": Env(0), "generator": begun(squares(4)), "random":
         random.Random(0), "method": Env.step, "zip": zip([1], (2,)), "lambda": lambda x: x + len("a"),
         "partial": functools.partial(squares, 3), "class": Env, "module": random, "append": [1].append}
LOUD = {"array": X, "list": [1, [X]], "net": Net(2), "class": Net, "function": calls_net, "generator": doubled(3),
        "begun": begun(doubled(3)), "partial": functools.partial(calls_net, 1), "zip": zip([1], [X]),
        "variable": VARIABLE,
        "jitted": jax.jit(lambda x: x), "iterator": iter({1: X}.values()), "method": Net(2).__call__,
        "inner": lambda: (lambda x: jnp.sin(x)), "append": [X].append, "objects": np.array([X, None], object)}


@pytest.mark.parametrize("name", QUIET)
def test_what_computes_nothing(name):
    assert not finds([QUIET[name]])


@pytest.mark.parametrize("name", LOUD)
def test_what_may(name):
    assert finds([LOUD[name]])


def test_too_much_to_look_at_counts_as_jax():
    assert finds([[[str(i), [i], [i]] for i in range(40)] for _ in range(49)])


def twenty(fn, given):
    """Runs it plainly and compiled on the same twenty inputs; how many captures there were in each call."""
    dynacomp.reset()
    made, counts = dynacomp.jit(fn, backend="eager", options={"capture_idle": False}), []
    for i in range(20):
        before = dynacomp.stats()["frames_captured"]
        jax.tree.map(np.testing.assert_array_equal, made(*given(i)), fn(*given(i)))
        counts.append(dynacomp.stats()["frames_captured"] - before)
    return counts


def test_an_environment_in_numpy_is_left_to_python():
    """It broke at each call of its random numbers, and was captured in pieces again and again: 73 captures."""
    def rollout(env, w):
        found = []
        for _ in range(3):
            state, _ = env.step(1.0)
            found.append(jnp.asarray(state) @ w)
        return jnp.stack(found)

    counts = twenty(rollout, lambda i: (Env(i), jnp.ones((2, 2))))
    assert sum(counts) <= 12 and not any(counts[6:])


def test_generators_without_jax_in_sight_are_left_to_python():
    def shuffled(items, seed):
        rng, kept = random.Random(seed), []
        for item in items:
            if len(kept) < 2:
                kept.append(item)
                continue
            at = rng.randrange(2)
            yield kept[at]
            kept[at] = item
        yield from kept

    def epoch(n, seed, w):
        total = 0.0
        for k in shuffled(squares(n), seed):
            print(end="")
            total += float(jnp.sum(w * k))
        return total

    counts = twenty(epoch, lambda i: (5 + i % 3, i, X))
    assert sum(counts) <= 12 and not any(counts[6:])


def test_what_its_callees_compute_stays_compiled():
    """A frame that reads no array, but calls what does, is captured behind its break."""
    def outer(n):
        print(end="")
        return calls_net(jnp.ones(3)) * n

    dynacomp.reset()
    made = dynacomp.jit(outer, backend="eager", options={"capture_idle": False})
    for n in range(6):
        np.testing.assert_array_equal(made(n), calls_net(jnp.ones(3)) * n)
    assert dynacomp.stats()["graphs"] >= 1 and dynacomp.stats()["frames_idle"] == 0
