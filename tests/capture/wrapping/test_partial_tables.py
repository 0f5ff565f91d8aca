"""`capture.wrapping.partial_tables`: of given dicts only what is asked for is guarded, whatever classes override."""

import collections

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp


class Counting(dict):
    """It overrides what guards must not ask."""

    asked = 0

    def __getitem__(self, key):
        type(self).asked += 1
        return super().__getitem__(key)

    def __contains__(self, key):
        type(self).asked += 1
        return super().__contains__(key)

    def items(self):
        raise RuntimeError("not asked for")


class Longer(dict):
    def __len__(self):
        return super().__len__() + 100


def bumped(x, table, n):
    table[n] = dict.get(table, n, 0) + 1
    return x * dict.get(table, n), len(table), 3 in table


@pytest.mark.parametrize("cls", [dict, collections.Counter, collections.OrderedDict, Counting, Longer])
def test_given_tables_of_many_classes(cls):
    dynacomp.reset()
    compiled, plain, ours = dynacomp.jit(bumped, backend="eager", options={"measure": False}), cls(), cls()
    for at, n in enumerate([5, 7, 1, 3, 0, 2, 9, 4, 8, 6] * 2):
        Counting.asked = 0
        want = bumped(jnp.arange(3.0) + at, plain, n)
        asked, Counting.asked = Counting.asked, 0
        got = compiled(jnp.arange(3.0) + at, ours, n)
        assert want[0].tolist() == got[0].tolist() and want[1:] == got[1:]
        assert Counting.asked == asked and list(dict.items(plain)) == list(dict.items(ours))


def test_a_counter_that_grows_is_captured_a_few_times():
    def count(x, table, n):
        table[n] += 1
        return x * table[n]

    dynacomp.reset()
    plain, ours = collections.Counter(), collections.Counter()
    compiled = dynacomp.jit(count, options={"measure": False})
    for at, n in enumerate([1, 2, 3, 1, 0, 2, 3, 3, 1, 5, 6, 0]):
        x = jnp.arange(3.0) + at
        assert count(x, plain, n).tolist() == compiled(x, ours, n).tolist() and plain == ours
    assert dynacomp.stats()["frames_captured"] <= 5 and not dynacomp.stats()["breaks"]


ASKING = [
    lambda x, table, k: x * table.get(k, 0.5),
    lambda x, table, k: (x + len(table), 3 in table, table.get(5)),
    lambda x, table, k: [(key, value * x) for key, value in table.items()],
    lambda x, table, k: sum(x * table[key] for key in sorted(table)),
]
MIXED = [int, np.int64, np.uint8, float, np.int32]


@pytest.mark.parametrize("fn", ASKING)
def test_integers_of_numpy_are_keys_like_pythons(fn):
    """Other ones in each call: what is asked for is guarded, then Python looks."""
    dynacomp.reset()
    compiled, captures = dynacomp.jit(fn, backend="eager", options={"measure": False}), []
    for at in range(15):
        made = np.int64 if at < 12 else MIXED[at % 5]
        table = {made(k): k / 2 for k in ((at * 5) % 7, (at * 3) % 11 + 7)}
        args = jnp.arange(3.0) + at, table, made((at * 2) % 5)
        before = dynacomp.stats()["frames_captured"]
        assert repr(compiled(*args)) == repr(fn(*args))
        captures.append(dynacomp.stats()["frames_captured"] - before)
    assert sum(captures[8:12]) == 0, captures
