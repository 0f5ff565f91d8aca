"""Loops over generators that are loops over a changing number of items: one node, or as ever."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.changing.kit import outcome, unlike


def rows(n):
    return jnp.asarray(np.random.RandomState(n).randn(n, 4), jnp.float32)


def batches(x, size):
    for start in range(0, len(x), size):
        yield x[start:start + size]


class Loader:
    def __init__(self, x, size):
        self.x, self.size = x, size

    def __iter__(self):
        """Parts, and where each begins."""
        n = len(self.x)
        for start in range(0, n, self.size):
            yield self.x[start:start + self.size], start

    def scaled(self, *, by):
        for row in self.x:
            yield row * by


def trained(x):
    w, losses = jnp.ones(4), []
    for _ in range(2):
        for part in batches(x, 4):
            loss, slope = jax.value_and_grad(lambda w, part=part: ((part @ w) ** 2).mean())(w)
            w = w - 0.01 * slope
            losses.append(loss)
    return w, jnp.stack(losses)


def loaded(x):
    found = jnp.zeros(4)
    for k, (part, start) in enumerate(Loader(x, 3)):
        found = found * 0.9 + part.sum(0) * k + start
    for row in Loader(x, 3).scaled(by=0.5):
        found = jnp.tanh(found + row)
    return found


def listed(x):
    return [part.mean(0) for part in batches(x, 4)]


def changed_on_the_way(x):
    """What a round changes of the object that the generator reads, the next item shows."""
    loader, found = Loader(x, 1), jnp.zeros(4)
    for row in loader.scaled(by=2.0):
        found = found + row
        loader.x = loader.x * 0.5
    return found, loader.x


def kept(x):
    parts, found = batches(x, 4), jnp.zeros(4)
    for part in parts:
        found = found + part.mean(0)
        break
    return found, [part.sum(0) for part in parts]


KEPT = []


def noted(parts):
    KEPT.append(parts)
    return parts


def shared(x):
    found = jnp.zeros(4)
    for k, part in enumerate(noted(batches(x, 4))):
        found = found + part.mean(0)
        if k == 1:
            break
    return found, [part.sum(0) for part in KEPT.pop()]


def printed(x):
    found = jnp.zeros(4)
    for part in batches(x, 4):
        found = found + part.mean(0)
        print("part")
    return found


def check(fn, lengths=(14, 15, 16, 7, 12, 33)):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in lengths:
        wrong = unlike(outcome(fn, (rows(n),)), outcome(compiled, (rows(n),)))
        assert not wrong, f"length {n}: {wrong}"
    return dynacomp.stats()


@pytest.mark.parametrize("fn", [trained, loaded, listed, changed_on_the_way], ids=lambda f: f.__name__)
def test_a_loop_that_has_made_its_generator_is_one_node(fn):
    stats = check(fn)
    assert stats["frames_captured"] <= 4 and not stats["breaks"] and not stats["frames_eager"]


@pytest.mark.parametrize("fn", [kept, shared, printed], ids=lambda f: f.__name__)
def test_other_loops_are_right(fn):
    check(fn, (14, 15, 9, 16))
