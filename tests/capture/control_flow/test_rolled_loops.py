"""Long loops of Python as one node: `fori_loop` and `while_loop`, with what Python computes on the way."""

import time

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.flow_kit import breaks_of


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def vector():
    return (jnp.linspace(0.0, 1.0, 8),)


def iterated(x):
    for _ in range(300):
        x = jnp.sin(x) * 0.99 + 0.001
    return x


def counted(x):
    for i in range(2, 900, 3):
        x = jnp.sin(x) + i * 0.001 - 1 / (i + 1)
    return x, i


def weak_first(x):
    total = 0.0
    for i in range(300):
        total = total + x[0] * i
    return total


def scheduled(x):
    rate = 0.0
    for step in range(300):
        rate = 0.1 * (1 - step / 300)
        x = x - rate * jnp.tanh(x)
    return x, rate, step


def branching(x):
    even = 0
    for i in range(300):
        if i % 2 == 0:
            x = x + 1
            even += 1
        elif x.sum() > 300:
            x = x / 2
    return x, even


def nested(x):
    for i in range(60):
        for j in range(60):
            x = x * 0.99 + 0.001 * i + j
    return x


def whiles(x):
    i = 0
    while i < 300:
        x = jnp.cos(x) + i
        i += 1
    return x, i


def keys(x):
    key = jax.random.key(0)
    for i in range(200):
        x = x + jax.random.normal(jax.random.fold_in(key, i), x.shape)
    return x


def state(x):
    memory = {"h": jnp.zeros(8), "n": 0}
    for _ in range(200):
        memory["h"] = jnp.tanh(memory["h"] + x)
        memory["n"] += 1
    return memory


def indexed(x):
    for i in range(200):
        x = x.at[i % 8].add(x[(i + 1) % 8] * 0.5)
    return x


def leaves_by_break(x):
    for i in range(300):  # noqa: B007
        x = x * 1.1
        if x.sum() > 50:
            break
    return x, i


def float_state(x):
    t = 0.0
    for _ in range(300):
        t += 0.1
        x = jnp.sin(x + t)
    return x, t


ROLLED = [iterated, float_state, counted, weak_first, scheduled, branching, nested, whiles, keys, state, indexed,
          leaves_by_break]


@pytest.mark.parametrize("fn", ROLLED, ids=[f.__name__ for f in ROLLED])
def test_long_loops_become_nodes(fn):
    assert breaks_of(fn, vector, backend="xla", rtol=1e-4) == {}


def test_derivatives_of_long_loops():
    x = vector()[0]

    def inside(x):
        return jax.grad(lambda v: iterated(v).sum())(x)

    assert breaks_of(inside, vector, backend="xla", rtol=1e-4) == {}
    around = jax.grad(lambda v: dynacomp.jit(iterated)(v).sum())(x)
    assert jnp.allclose(around, inside(x), rtol=1e-5)


def fills_a_dict(x):
    seen = {}
    for i in range(300):
        x = jnp.sin(x)
        seen[i] = x
    return x, len(seen)


def test_other_long_loops_run_in_python():
    assert breaks_of(fills_a_dict, vector, backend="xla", rtol=1e-4)["long_loop"] >= 1


def steps(n):
    def loop(x):
        for i in range(n):
            x = jnp.sin(x) * 0.5 + i
        return x
    return loop


def test_compile_time_is_flat():
    def first_call(n):
        times = []
        for _ in range(2):
            dynacomp.reset()
            start = time.perf_counter()
            jax.block_until_ready(dynacomp.jit(steps(n), backend="xla")(vector()[0]))
            times.append(time.perf_counter() - start)
        return min(times)

    first_call(3)
    short, long = first_call(10), first_call(1000)
    print(f"10 steps {short:.2f} s, 1000 steps {long:.2f} s")
    assert long < 3 * short + 0.5


# --- what goes on as ranges do


def walked(x):
    total = jnp.zeros(3)
    for row in x:
        total = jnp.tanh(total + row)
    return total


def numbered(x):
    total = jnp.zeros(3)
    for k, row in enumerate(x, 2):
        total = total * 0.5 + row * k
    return total


def paired(x):
    total = jnp.zeros(())
    for a, b in zip(x[:-1], x[1:]):
        total = total + (a * b).sum()
    return total


def backward(x):
    total = jnp.zeros(3)
    for row in reversed(x):
        total = total * 0.9 + row
    return total


def counted_down(x):
    total = jnp.zeros(3)
    for t in reversed(range(x.shape[0])):
        total = total * 0.9 + x[t]
    return total


def from_the_middle(x):
    total, n = jnp.zeros(3), x.shape[0]
    for t in range(n // 2, n):
        total = total + x[t] * t
    return total


def first_apart(x):
    rows = iter(x)
    most = next(rows)
    for row in rows:
        most = jnp.maximum(most * 0.9, row)
    return most


def rows_of_rows(x):
    total = jnp.zeros(3)
    for row in x:
        for v in row:
            total = total + v * row
    return total


def in_a_dict(x):
    state = {"sum": jnp.zeros(3), "rows": 0}
    for row in x:
        state["sum"] = state["sum"] + row
        state["rows"] += 1
    return state["sum"] / state["rows"], state["rows"]


def mapped(x):
    total = jnp.zeros(3)
    for y in map(lambda a, b: a * b, x, x[::-1]):
        total = total + y
    return total


WALKS = {walked: 2, numbered: 2, paired: 3, backward: 2, counted_down: 2, from_the_middle: 3, first_apart: 3,
         rows_of_rows: 2, in_a_dict: 2, mapped: 2}
ROUND_BY_ROUND = {
    "call": lambda f: f,
    "gradient": lambda f: jax.grad(lambda x: sum(map(jnp.sum, jax.tree.leaves(f(x))))),
    "batch": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x * 2])),
}


def rows(n):
    return jnp.sin(jnp.arange(3.0 * n)).reshape(n, 3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fn, how", [*((f, "call") for f in WALKS), (walked, "gradient"), (numbered, "gradient"),
                                     (paired, "batch"), (counted_down, "gradient"), (backward, "batch")])
def test_rows_whose_number_changes(fn, how):
    plain = ROUND_BY_ROUND[how](fn)
    compiled = dynacomp.jit(plain)
    for n in (5, 6, 9, 4, 20, 2):
        for a, b in zip(jax.tree.leaves(compiled(rows(n))), jax.tree.leaves(plain(rows(n))), strict=True):
            assert type(a) is type(b) and jnp.allclose(a, b, rtol=1e-4, atol=1e-5)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= WALKS[fn] and not stats["breaks"] and not stats["frames_eager"], stats


@pytest.mark.parametrize("fn", [walked, numbered, backward])
def test_many_rows_are_one_node(fn):
    compiled = dynacomp.jit(fn)
    for factor in (1.0, 1.5):
        x = rows(700) * factor
        assert jnp.allclose(compiled(x), fn(x), rtol=1e-4, atol=1e-4)
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 1 and not stats["breaks"] and stats["operations"] < 60, stats


def test_a_loop_over_rows_with_a_break_in_it():
    """The iterator is alive where Python goes on: it is made anew there."""
    seen = []

    def broken(x):
        total = jnp.zeros(3)
        for k, row in enumerate(x):
            total = total + row * k
            seen.append(k)
            dynacomp.graph_break()
        return total

    compiled = dynacomp.jit(broken)
    for n in (4, 5, 6, 3):
        seen.clear()
        assert jnp.allclose(compiled(rows(n)), sum(k * row for k, row in enumerate(rows(n))), rtol=1e-5)
        assert seen == list(range(n))


# --- `while` loops that a size ends


def counts_up(x):
    i, y = 0, jnp.zeros(())
    while i < len(x):
        y = y * 0.5 + x[i] * i
        i += 1
    return y, i


def halves(x):
    lo, hi = 0, len(x)
    y = x.sum()
    while lo + 1 < hi:
        y = jnp.sin(y) + lo
        lo += 2
    return y, lo


@pytest.mark.parametrize("fn", [counts_up, halves])
def test_a_while_loop_over_a_size_is_a_node(fn):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in (5, 7, 4, 9, 12, 6, 20, 3, 2):
        x = jnp.arange(1.0, n + 1)
        got, want = compiled(x), fn(x)
        assert jnp.allclose(got[0], want[0], rtol=1e-5) and got[1] == want[1] and type(got[1]) is int
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 4 and not stats["breaks"] and not stats["frames_eager"], stats


def test_a_list_that_keeps_its_last_items_is_carried_once_it_is_full():
    def stacked(xs):
        frames = []
        for x in xs:
            frames.append(jnp.tanh(x))
            if len(frames) > 3:
                frames.pop(0)
        return jnp.stack(frames)

    dynacomp.reset()
    compiled = dynacomp.jit(stacked, backend="eager")
    for n in (8, 12, 9, 15, 7, 11, 10, 6):
        xs = jnp.sin(jnp.arange(4.0 * n)).reshape(n, 4)
        assert jnp.allclose(compiled(xs), stacked(xs))
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


def products_of_rows(x, y):
    total = 0.0
    for i, (a, b) in enumerate(zip(x, y)):
        total = total + (a @ b) * (i + 1) / len(x)
    return total


def test_a_loop_over_two_arrays_of_unknown_lengths():
    """Only the shorter one says how far the other is gone through."""
    compiled = dynacomp.jit(products_of_rows, backend="eager")
    for n, m in ((4, 5), (5, 6), (6, 6), (3, 9), (12, 20), (8, 8)):
        x, y = jnp.ones((n, 3)) * 0.5, jnp.arange(m * 3.0).reshape(m, 3)
        assert jnp.allclose(compiled(x, y), products_of_rows(x, y), rtol=1e-5)
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"]
