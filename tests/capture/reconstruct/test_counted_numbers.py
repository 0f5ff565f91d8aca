"""What a call counts is an input from the first call on: one capture however many calls follow, as in plain Python."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import dynacomp

X = jnp.arange(3.0)


class Counter:
    __slots__ = ("__dict__", "seen")

    def __init__(self):
        self.steps, self.seen, self.rate, self.table, self.slots = 0, 3, 1.0, {"n": 0, "kept": 7}, [0, 5]


def attributes(c, x):
    c.steps += 1
    c.rate *= 0.5
    return x * c.steps + c.rate


def slot(c, x):
    c.seen += 2
    return x * c.seen


def entry(c, x):
    c.table["n"] += x.shape[0]
    return x * c.table["n"] + c.table["kept"]


def item(c, x):
    c.slots[0] += 1
    return x + c.slots[0] * c.slots[1]


def branches(c, x):
    c.steps += 1
    return x * 2 if c.steps > 0 else x


def put_back(c, x):
    c.seen += 1
    found = x * c.seen
    c.seen -= 1
    return found


@pytest.mark.parametrize("fn", [attributes, slot, entry, item, branches, put_back], ids=lambda fn: fn.__name__)
def test_one_capture(fn):
    ours, plain = Counter(), Counter()
    compiled = dynacomp.jit(fn, backend="eager")
    dynacomp.reset()
    for _ in range(5):
        assert (compiled(ours, X) == fn(plain, X)).all()
        assert vars(ours) == vars(plain) and ours.seen == plain.seen
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


TOTAL = 0


def test_globals_and_cells():
    count = 0

    def counted(x):
        global TOTAL
        nonlocal count
        TOTAL += 1
        count += 2
        return x * count + TOTAL

    dynacomp.reset()
    compiled = dynacomp.jit(counted, backend="eager")
    first = TOTAL
    assert [float(compiled(X)[1]) - first for _ in range(4)] == [2 * n + n for n in (1, 2, 3, 4)]
    assert (TOTAL - first, count) == (4, 8) and dynacomp.stats()["frames_captured"] == 1


@pytest.mark.parametrize("compiled_inside", [False, True])
def test_cells_of_functions_from_around(compiled_inside):
    """What is called counts, not the function that is compiled: the cell is found in its closure."""
    count = 0

    def step(x):
        nonlocal count
        count += 1
        return x * count

    inner = dynacomp.jit(step, backend="eager") if compiled_inside else step
    outer = dynacomp.jit(lambda x: inner(inner(x)) + count, backend="eager")
    dynacomp.reset()
    assert [float(outer(X)[1]) for _ in range(4)] == [1 * 2 + 2, 3 * 4 + 4, 5 * 6 + 6, 7 * 8 + 8]
    stats = dynacomp.stats()
    assert count == 8 and stats["frames_captured"] == 1 and not stats["frames_eager"]


def test_what_has_to_be_a_constant_is_one():
    """The number of a name, an axis: as where it was seen to change."""
    class Names:
        made = 0

    def named(x, names, table):
        names.made += 1
        return x * table[f"layer{names.made % 2}"], jnp.flip(x, axis=names.made % 2)

    dynacomp.reset()
    compiled, x = dynacomp.jit(named, backend="eager"), jnp.ones((2, 3))
    ours, plain, table = Names(), Names(), {"layer0": 2.0, "layer1": 3.0}
    for _ in range(8):
        assert all((a == b).all() for a, b in zip(compiled(x, ours, table), named(x, plain, table)))
        assert ours.made == plain.made
    assert not dynacomp.stats()["frames_eager"]


def test_who_wants_constants_has_them():
    dynacomp.reset()
    compiled, ours = dynacomp.jit(branches, backend="eager", dynamic=False), Counter()
    for _ in range(3):
        compiled(ours, X)
    assert dynacomp.stats()["frames_captured"] == 3


@dataclasses.dataclass
class State:
    w: Any
    step: int = 0
    rate: float = 1.0


class Pair(NamedTuple):
    w: Any
    step: int = 0


def made(s, x):
    return State(s.w * x, s.step + 1, s.rate * 0.5)


def replaced(s, x):
    return dataclasses.replace(s, w=s.w + x, step=s.step + 1), x.sum()


def of_tuple(s, x):
    return s._replace(w=s.w * x, step=s.step + 1)


def of_dict(s, x):
    return {"w": s["w"] * x, "step": s["step"] + 1}


def inside(s, x):
    return {"inner": [State(s["inner"][0].w + x, s["inner"][0].step + 1)], "n": 3}


@pytest.mark.parametrize("fn, start", [
    (made, State(X)), (replaced, State(X)), (of_tuple, Pair(X)), (of_dict, {"w": X, "step": 0}),
    (inside, {"inner": [State(X)], "n": 3})], ids=lambda v: getattr(v, "__name__", ""))
def test_the_state_that_comes_back_counts(fn, start):
    """`state.replace(step=state.step + 1)`: an input from the first call on, though nothing is stored."""
    ours = plain = start
    compiled = dynacomp.jit(fn, backend="eager")
    dynacomp.reset()
    for _ in range(5):
        ours, plain = compiled(ours, X), fn(plain, X)
        ours, plain = (s[0] if type(s) is tuple else s for s in (ours, plain))
        assert repr(ours) == repr(plain) and type(ours) is type(plain)
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


def test_a_result_of_another_class_does_not_count():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda s, x: (Pair(s.w * x, s.step + 1), x * s.step), backend="eager")
    assert [int(compiled(State(X, 3), X)[0].step) for _ in range(3)] == [4, 4, 4]
    assert dynacomp.stats()["frames_captured"] == 1
    assert [int(compiled(State(X, n), X)[0].step) for n in (5, 6, 7)] == [6, 7, 8]
    assert dynacomp.stats()["frames_captured"] == 2


def test_numbers_of_a_result_that_would_break_the_graph_are_constants():
    """`eqx.tree_at` finds what it replaces by identity: a number that changes would be left to Python there."""
    class Model(eqx.Module):
        w: jax.Array
        n: int = 0

    def step(m, x):
        return eqx.tree_at(lambda m: (m.w, m.n), m, (m.w * 2, m.n + 1))

    dynacomp.reset()
    compiled, ours, plain = dynacomp.jit(step, backend="eager"), Model(X), Model(X)
    for _ in range(5):
        ours, plain = compiled(ours, X), step(plain, X)
        assert repr(ours) == repr(plain) and (ours.w == plain.w).all()
    assert not dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]
