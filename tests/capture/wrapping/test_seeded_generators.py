"""Generators of random numbers with seeds and sizes that change: one graph, and Python's numbers."""

import copy
import pickle
import random
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.wrapping.seeded_generators import State, drawn, started, twin
from tests.capture.program_kit import check_one_graph


def draws(seed, n):
    r = np.random.RandomState(seed)
    x, y = r.randn(n, 2), r.uniform(-1, 1, size=n)
    return jnp.sin(x).sum() + jnp.asarray(y), r.randint(0, 5, 3), r.rand(), r.randint(n)


def sizes_of_one_seed(seed, n):
    rng = np.random.default_rng(0)
    first, some, last = rng.random(2), rng.normal(size=(n, 2)), rng.random(3)
    return jnp.sin(some) + first, last, rng.integers(0, n), rng.random() * seed


def shuffles(seed, n):
    rng = np.random.default_rng(seed)
    changing, fixed = np.arange(n), np.arange(5)
    rng.shuffle(changing)
    rng.shuffle(fixed)
    return jnp.arange(n)[changing] * 2, fixed, rng.permutation(5), rng.permutation(changing), rng.random()


def copies(seed, n):
    r = np.random.RandomState(seed)
    other = copy.deepcopy(r)
    again = np.random.default_rng(np.random.default_rng(seed))
    return other.rand(n) + jnp.asarray(r.rand(n)), other.rand() == r.rand(), again.random(), again.choice(n, 2, p=[
        1 / n] * n if n < 3 else np.ones(n) / n)


class Layers:
    def __init__(self, sizes, seed):
        self.rng = np.random.RandomState(seed)
        self.weights = [self.rng.randn(i, o).astype(np.float32) for i, o in zip(sizes, sizes[1:])]


def kept_by_an_object(seed, n):
    made = Layers([3, n, 2], seed)
    x = jnp.ones((2, 3))
    for w in made.weights:
        x = jnp.tanh(x @ w)
    return x, made.rng.rand(), made.weights


def in_a_transformation(seed, n):
    x = np.random.default_rng(seed).normal(size=(n, 2)).astype(np.float32)

    def loss(w):
        return jnp.mean((x @ w * np.random.default_rng(seed + 1).random() - 1) ** 2)
    return jax.grad(loss)(jnp.zeros(2))


def pythons_own(seed, n):
    r = random.Random(seed)
    kept, some = copy.deepcopy(r), r.choices([1.5, 2.5], k=2)
    return (jnp.arange(3.0) * r.random() + r.gauss(0, n), r.randint(0, n), r.choice(["a", "bb", "ccc"]), some,
            r.choice((1, 5)), r.uniform(-1, n), kept.random())


@pytest.mark.parametrize("program", [draws, sizes_of_one_seed, shuffles, copies, kept_by_an_object,
                                     in_a_transformation, pythons_own], ids=lambda p: p.__name__)
def test_one_graph_serves_all_seeds_and_sizes(program):
    check_one_graph(program, *((seed, 4 + seed) for seed in range(6)), captures=2)


def test_data_is_drawn_from():
    def bootstrap(seed, data):
        rng = np.random.default_rng(seed)
        return jnp.mean(data[rng.integers(0, len(data), 4)]), rng.choice(data, 2), rng.permutation(data)
    check_one_graph(bootstrap, *((n, np.arange(5.0 + n)) for n in range(5)), captures=2)


def states(compiled, seed, n, box):
    """What a generator draws that has left, or outlives a graph break."""
    rng, x = compiled(seed, n, box)
    return repr((x, rng.random(), box[0].random(), box[0] is rng))


def leaves(seed, n, box):
    rng = np.random.default_rng(seed)
    x = jnp.asarray(rng.random(n))
    box.append(rng)
    last = rng.random()
    print(end="")
    return rng, x * 2 + rng.random() + last


def test_a_generator_leaves_in_its_state():
    dynacomp.reset()
    compiled = dynacomp.jit(leaves, backend="eager")
    for seed in range(5):
        assert states(compiled, seed, 3 + seed, []) == states(leaves, seed, 3 + seed, [])


def raises(seed, n):
    try:
        return jnp.asarray(np.random.default_rng(seed).integers(0, n, 2))
    except (TypeError, ValueError) as error:
        return str(error)


def into_arrays(seed, n):
    rng, a, items = np.random.default_rng(seed), np.zeros(n), list(range(n))
    rng.random(n, np.float64, a)
    rng.shuffle(items)
    return jnp.asarray(a), items, rng.permuted(a, out=a) is a, rng.choice(["a", "b"]), rng.bytes(2)


def sides(seed, n):
    rng, x = np.random.default_rng(seed), jnp.zeros(3)
    for _ in range(n):
        if rng.random() < 0.5:
            x = x.at[rng.integers(0, 3)].add(1.0)
    return x


def by_pythons_code(seed, n):
    """What is asked of things that are not known is what Python's own code makes of the numbers that it draws."""
    r, x = random.Random(seed % 2), jnp.arange(3.0)
    order = list(range(n))
    r.shuffle(order)
    first = r.random(), r.choice([x, x + 1]), r.sample([x * 2, x], 1)
    r.seed(4)
    state = r.getstate()
    return first, order, r.random(), r.gauss(0, 1), r.setstate(state), r.random(), x * r.randint(1, n), r.randbytes(2)


def numpys_own(seed, n):
    np.random.seed(seed % 2)
    x = jnp.asarray(np.random.rand(n))
    return x * np.random.rand(), np.random.randint(0, n)


@pytest.mark.parametrize(("program", "inputs"), [
    (by_pythons_code, [(n, 3 + n) for n in range(6)]), (numpys_own, [(n, 3 + n) for n in range(5)]),
    (raises, [(1, 3), (2, 0), (3, 2), (-1, 2), (4, -2), (5, 6), (1.5, 2), (True, 2)]),
    (into_arrays, [(n, 3 + n) for n in range(4)]), (sides, [(n, 2 + n % 3) for n in range(6)])])
def test_results_are_pythons_where_the_graph_breaks(program, inputs):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for args in inputs:
        try:
            want = repr(program(*args))
        except ValueError as error:
            with pytest.raises(ValueError, match=re.escape(str(error))):
                compiled(*args)
        else:
            assert repr(compiled(*args)) == want


def test_a_state_stays_what_it_is():
    state = started("default_rng", 3)
    first, _ = behind = drawn(state, "random", 2)
    assert twin(state).random() == np.random.default_rng(3).random()
    np.testing.assert_array_equal(first, np.random.default_rng(3).random(2))
    assert drawn(behind, "random")[0] == np.random.default_rng(3).random(3)[2]
    again = [drawn(behind, "random")[1], drawn(behind, "random")[1], drawn(behind, "integers", 0, 5)[1]]
    assert [twin((moment,)).random() for moment in again] == [np.random.default_rng(3).random(4)[3]] * 2 + [
        twin(drawn(behind, "integers", 0, 5)).random()]
    with pytest.raises(ValueError, match="high <= 0"):
        drawn(behind, "integers", 0, -1)
    assert twin(behind).random() == np.random.default_rng(3).random(3)[2]
    fixed = State(pickle.dumps(np.random.RandomState(1)))
    items = np.arange(9)
    drawn(fixed, "shuffle", items)
    assert list(items) == [*range(9)] and twin(fixed).random() == twin(fixed).random()
    assert repr(fixed) != repr(State(pickle.dumps(np.random.RandomState(2))))
