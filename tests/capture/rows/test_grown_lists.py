"""Lists that loops of the Graph fill: two captures for all lengths, three with a length of one, and no break."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.changing.kit import outcome, unlike

LENGTHS = (5, 7, 4, 9, 5, 7, 4, 9, 5, 2)  # most of them again: Python compiles for each length


def rows(n):
    return jnp.asarray(np.random.RandomState(n).randn(n, 4), jnp.float32)


def recurrent(xs):
    h, outs = jnp.zeros(4), []
    for x in xs:
        h = jnp.tanh(h * 0.5 + x)
        outs.append(h)
    return jnp.stack(outs), h, len(outs), outs[0], outs[-1]


def returned(xs):
    found = []
    for i, x in enumerate(xs):
        found.append((i, x.sum(), "a", None, {"k": x, "z": [x, 1]}))
    return found


def weak(xs):
    y, found = jnp.asarray(0.0) * 1, []
    for _ in range(len(xs)):
        y = y + 1.0
        found.append(y)
    return found, jnp.stack(found), jnp.array(found)


def floats_of_arrays(xs):
    losses = [0.5]
    for x in xs:
        losses.append(float(x.sum()))
    return losses, bool(losses)


def looks_back(xs):
    found = [jnp.zeros(4), jnp.ones(4)]
    for x in xs:
        found.append(found[-1] + found[-2] * x)
    return jnp.stack(found), found[-1], found[-2], found[1]


def branches(xs):
    found = []
    for i, x in enumerate(xs):
        if i % 2:
            found.append(x)
        elif x.sum() > 0:
            found.append(x * 3)
        else:
            found.append(-x)
    return jnp.stack(found, 1)


def alternating(xs):
    found = []
    for i, x in enumerate(xs):
        if i % 2:
            found.append(x * x)
        else:
            found.append(x * 3)
    return jnp.stack(found, 1)


def two_a_round(xs):
    found = [xs[0]]
    for x in xs:
        found.append(x)
        found.append(x * 2)
    return jnp.stack(found), found[-2], found


def two_loops(xs):
    found = [xs[0]]
    for x in xs:
        found.append(x)
    for x in xs:
        found.append(x + 1)
    found.append(xs[-1])
    return jnp.stack(found), jnp.concatenate(found), jnp.vstack(found), jnp.hstack(found), found[1:][::-1]


def matrices(xs):
    found = [jnp.outer(x, x)[:2] for x in xs]
    return (jnp.concatenate(found, 1), jnp.concatenate(found, -2), jnp.vstack(found), jnp.hstack(found),
            jnp.stack(found, -1), jnp.concatenate(found, None), jnp.column_stack(found))


def scalars(xs):
    found = [x.sum() for x in xs]
    return jnp.array(found), jnp.hstack(found), jnp.vstack(found), jnp.column_stack(found), sum(found)


def pairs(xs):
    return jnp.array([[x[0], x[1] * 2] for x in xs]), jnp.asarray([(i, 2) for i in range(len(xs))])


class State(NamedTuple):
    h: jax.Array
    c: jax.Array


def named(xs):
    h, found = jnp.zeros(xs.shape[1:]), []
    for x in xs:
        h = jnp.tanh(h + x)
        found.append(State(h, x * 2))
    total = jnp.zeros_like(h)
    for s in reversed(found):
        total = total * 0.5 + s.h * s.c
    for s, x in zip(found, xs):
        total = total + s._replace(c=x).c
    return total, found[-1]


def named_over_a_break(xs):
    states = iter([State(x + 1, x.sum()) for x in xs])
    print(next(states).c > 1e9)
    return [type(s) is State and s.h for s in states]


def walked(xs):
    found, total = [], 0.0
    for x in xs:
        found.append((x, x.sum()))
    for i, (a, b) in enumerate(found):
        total = total + a * b + i
    for a, b in reversed(found):
        total = total * 0.5 + a * b
    for i in range(len(found)):
        total = total + found[i][0] * i
    return total


def mapped_trees(xs):
    found = [(x, x.sum()) for x in xs]
    return jax.tree.map(lambda v: v * 2, found), jax.tree.map(jnp.sum, list(xs))


def taken_apart(xs):
    first, *rest = xs
    everything = list(xs)
    mapped = list(map(jnp.negative, xs))
    return first, jnp.stack(everything), jnp.stack(mapped), len(rest), sum(everything)


def copies(xs):
    one = [x * 2 for x in xs]
    two, three = one.copy(), one[:]
    two.append(xs[0])
    three += one
    four = one + [xs[1]]
    one.reverse()
    return len(one), jnp.stack(one), jnp.stack(two), jnp.stack(three), jnp.stack(four), jnp.stack(one[::-1])


class Recorder:
    def __init__(self):
        self.log, self.seen = {"a": [], "b": []}, 0

    def push(self, x):
        for name, held in self.log.items():
            held.append(x if name == "a" else x * 2)
        self.seen += 1


def in_an_object(xs):
    recorder = Recorder()
    alias = recorder.log["a"]
    for x in xs:
        recorder.push(x)
    alias.append(xs[0])
    return {k: jnp.stack(v) for k, v in recorder.log.items()}, recorder.seen, alias is recorder.log["a"]


def nested(xs):
    found = []
    for x in xs:
        row = []
        for j in range(4):
            row.append(x[j] * j)
        found.append(jnp.stack(row))
    return jnp.stack(found)


def the_same_each_time(xs):
    z, found = jnp.ones(3), []
    for _ in xs:
        found.append(z)
    return jnp.stack(found), found[0] is z, len(found)


def constants(xs):
    found, total = [], jnp.zeros(4)
    for x in xs:
        total = total + x
        found.append("seen")
    return found, total, len(found)


def noise(xs):
    key, found = jax.random.key(0), []
    for x in xs:
        key, k = jax.random.split(key)
        found.append(x + jax.random.normal(k, (4,)))
    return jnp.stack(found)


def discounted(xs):
    total, found = jnp.zeros(4), []
    for t in reversed(range(xs.shape[0])):
        total = xs[t] + 0.9 * total
        found.insert(0, total)
    return jnp.stack(found), found[0], found[-1]


def two_in_front(xs):
    found = [xs[0]]
    for i, x in enumerate(xs):
        found.insert(0, x)
        found.insert(0, (i, x * 2))
    return found


def batched(xs):
    def scaled(v):
        found = []
        for i in range(v.shape[0]):
            found.append(v[i] * i)
        return jnp.stack(found)
    return jax.vmap(scaled)(xs), jax.vmap(scaled, 1)(xs)


WHOLE = [recurrent, named, returned, weak, floats_of_arrays, looks_back, branches, two_a_round, two_loops, matrices,
         scalars,
         pairs, walked, mapped_trees, taken_apart, copies, in_an_object, nested,
         the_same_each_time, constants, noise, batched, discounted, two_in_front]


def check(fn, most, kinds=(), lengths=LENGTHS):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in lengths:
        wrong = unlike(outcome(fn, (rows(n),)), outcome(compiled, (rows(n),)))
        assert not wrong, f"length {n}: {wrong}"
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= most, stats
    assert set(stats["breaks"]) <= set(kinds) and not stats["frames_eager"], stats


@pytest.mark.parametrize("fn", WHOLE, ids=[f.__name__ for f in WHOLE])
def test_one_entry_for_all_lengths(fn):
    check(fn, 3)


@pytest.mark.medium
@pytest.mark.parametrize("fn", [recurrent, looks_back, alternating, walked], ids=lambda f: f.__name__)
def test_derivatives(fn):
    def total(xs):
        return sum(jnp.sum(v) for v in jax.tree.leaves(fn(xs)))
    check(jax.grad(total), 3, lengths=(5, 7, 4, 5, 9))


@pytest.mark.medium
def test_native_kernels():
    compiled = dynacomp.jit(recurrent, backend="cpp")
    for n in LENGTHS[:4]:
        assert not unlike(outcome(recurrent, (rows(n),)), outcome(compiled, (rows(n),)))


# --- what is no run of rows


def uneven(xs):
    found = []
    for i, x in enumerate(xs):
        if i % 2:
            found.append(x)
    return jnp.stack(found, 1)


def grows_while_walked(xs):
    found, n = list(xs), 0
    for _ in found:
        if len(found) < 9:
            found.append(xs[0])
        n += 1
    return n, len(found), found[-1]


def changed_in_place(xs):
    found = list(xs)
    found[0] = found[0] * 9
    found.insert(1, xs[0])
    last = found.pop()
    found.sort(key=lambda x: -x.shape[0])
    return found, last


def items_are_the_same_objects(xs):
    found = []
    for x in xs:
        found.append([x])
    found[0].append(xs[1])
    return found, found[0] is found[0]


def items_in_two_lists(xs):
    one, two = [], []
    for x in xs:
        row = [x]
        one.append(row)
        two.append(row)
    two[0].append(xs[1])
    return one, two, one[0] is two[0]


def at_both_ends(xs):
    found = []
    for x in xs:
        found.insert(0, x)
        found.append(x * 2)
    return jnp.stack(found)


def in_front_and_read(xs):
    found = [xs[0]]
    for x in xs:
        found.insert(0, found[-1] * 0.5 + found[0] + x)
        found.pop()
    return found


def printed(xs):
    found = [x * 2 for x in xs]
    print("n", len(found))
    return jnp.stack(found)


@pytest.mark.parametrize("fn", [uneven, grows_while_walked, changed_in_place, items_are_the_same_objects,
                                items_in_two_lists, printed, named_over_a_break, at_both_ends, in_front_and_read],
                         ids=lambda f: f.__name__)
def test_other_lists_are_right(fn):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in LENGTHS:
        wrong = unlike(outcome(fn, (rows(n),)), outcome(compiled, (rows(n),)))
        assert not wrong, f"length {n}: {wrong}"


@pytest.mark.medium
def test_a_returned_list_under_transformations():
    """The compiled function gives tracers there, which lie on no device."""
    def scaled(xs):
        found = []
        for i, x in enumerate(xs):
            found.append((i, jnp.sin(x) * i))
        return found

    compiled = dynacomp.jit(scaled, backend="eager")

    def total(fn):
        return lambda xs: sum(jnp.sum(v) * i for i, v in fn(xs))

    for n in LENGTHS[:4]:
        for transformed in (jax.grad, jax.jit, jax.jacfwd):
            np.testing.assert_allclose(transformed(total(compiled))(rows(n)), transformed(total(scaled))(rows(n)),
                                       rtol=1e-4, atol=1e-5)


def test_what_a_filled_list_holds_is_alive():
    """A generator that the list had before the loop is dropped with the list, not before."""
    def run(xs):
        log = []

        def steps():
            try:
                yield 1
            finally:
                log.append("closed")

        gen = steps()
        box = [next(gen), gen]
        gen = None
        for x in xs:
            box.append(x)
        log.append("filled")
        last, many = box[-1] * 2, len(box)
        box = None
        log.append("dropped")
        return last, many, log

    check(run, 3)
    assert run(rows(3))[2] == ["filled", "closed", "dropped"]


# --- lists that exist before the loop


class Log:
    def __init__(self):
        self.items, self.kinds = [], ["a"]


def noted(xs, log):
    for x in xs:
        log.items.append((x.sum(), x * 2))
        log.kinds.append("b")
    log.items.append("end")
    for x in xs:
        log.items.append(x.max())
    return xs.sum()


def noted_and_read(xs, log):
    mine = log.items
    for x in xs:
        mine.append(x.sum())
    total = 0.0
    for s in log.items:
        total = total + s
    return mine is log.items, jnp.stack(log.items).mean(), log.items[-1], len(mine), total


def after_a_break(xs):
    found, mean = [], 0.0
    print("start")
    for x in xs:
        mean = 0.9 * mean + 0.1 * x
        found.append(mean)
    return jnp.stack(found), len(found)


def looked_into(xs, log):
    log.items.append(xs.sum())
    for x in xs:
        log.items.append(log.items[-1] * 0.5 + x.sum() + len(log.items))
    log.items.insert(0, 1)
    return log.items[0]


@pytest.mark.parametrize(("fn", "captures"), [(noted, 2), (noted_and_read, 3), (looked_into, None)])
def test_a_list_that_exists_is_extended_by_a_loop(fn, captures):
    """Nobody has to look into it: what the object holds is as Python leaves it, call by call."""
    for kept in (False, True):
        dynacomp.reset()
        compiled, logs = dynacomp.jit(fn, backend="eager"), (Log(), Log())
        for n in (5, 7, 4, 9, 12, 3):
            logs = logs if kept and captures == 2 else (Log(), Log())
            wrong = unlike(outcome(fn, (rows(n), logs[0])), outcome(compiled, (rows(n), logs[1])))
            assert not wrong, f"length {n}: {wrong}"
            assert not unlike(outcome(lambda: vars(logs[0]), ()), outcome(lambda: vars(logs[1]), ()))  # noqa: B023
        stats = dynacomp.stats()
        assert captures is None or stats["frames_captured"] <= captures and not stats["breaks"], stats


def test_a_list_that_outlives_a_break_is_extended_by_a_loop():
    check(after_a_break, 4, ("effect",))
