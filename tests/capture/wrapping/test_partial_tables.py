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


CACHE: collections.OrderedDict = collections.OrderedDict()


def cached(key, x):
    if key in CACHE:
        CACHE.move_to_end(key)
        return CACHE[key]
    value = CACHE[key] = x * 2
    if len(CACHE) > 4:
        CACHE.popitem(last=False)
    return value


@pytest.mark.parametrize("keys", ["abcdefgabcaagfe", [3, 4, 5, 3, 6, 7, 8, 3, 8, 9, 5, 6]])
def test_a_cache_that_forgets_what_was_used_longest_ago(keys):
    """Each call was captured, for the keys that the cache had then, up to where Python ran it."""
    def calls(fn):
        CACHE.clear()
        return [(repr(fn(key, jnp.arange(3.0) + at)), list(CACHE)) for at, key in enumerate(keys)]

    dynacomp.reset()
    want = calls(cached)
    assert calls(dynacomp.jit(cached, backend="eager")) == want
    assert dynacomp.stats()["frames_captured"] <= 7 and not dynacomp.stats()["frames_eager"]
    assert set(dynacomp.stats()["breaks"]) <= {"scalar_branch"}  # whether the key is there, with the fifth capture


MOVES = [
    lambda d, x, a, b: (d.move_to_end(a), list(d), len(d), x * d[a]),
    lambda d, x, a, b: (d.move_to_end(a), d.move_to_end(b), d.update({b: x}), d.pop(a), b in d),
    lambda d, x, a, b: (d.move_to_end(a), d.update({"new": x * len(d)}), d.move_to_end(b), next(iter(d))),
    lambda d, x, a, b: (d.move_to_end(a, last=False), d.popitem(), x),
    lambda d, x, a, b: (d.popitem(last=False), d.popitem(last=False), d.move_to_end(b) if b in d else x, len(d)),
    lambda d, x, a, b: (d.pop(a), d.update({a: x}), d.popitem(last=False), d.move_to_end(a) if a in d else x * 2),
]


@pytest.mark.parametrize("fn", MOVES)
def test_entries_that_move(fn):
    dynacomp.reset()
    compiled = dynacomp.jit(lambda d, *args: (fn(d, *args), args[0] * 2), backend="eager")
    for at in range(12):
        names = [f"k{(at * 5 + k * 3) % 11}" for k in range(3 + at % 3)]
        plain, ours = ({name: jnp.arange(2.0) * k for k, name in enumerate(names)} for _ in range(2))
        plain, ours = collections.OrderedDict(plain), collections.OrderedDict(ours)
        args = jnp.arange(2.0) + at, names[at % 3], names[(at // 2) % 3]
        if args[1] == args[2]:
            continue
        assert repr(compiled(ours, *args)[0]) == repr(fn(plain, *args)) and repr(ours) == repr(plain)
        assert list(reversed(ours)) == list(reversed(plain))


def test_a_key_that_moves_stays_the_object_that_it_was():
    """It was 1 from then on."""
    def fn(x, table, key, last):
        table.move_to_end(key, last)
        return x * len(table), list(table)

    for last in (True, False):
        dynacomp.reset()
        compiled = dynacomp.jit(fn, backend="eager")
        for at, (other, key) in enumerate([("a", True), ("b", 1), ("c", 1.0), ("d", 1)]):
            table = collections.OrderedDict({other: 0, True: 1, "z": 2})
            assert compiled(jnp.arange(2.0) + at, table, key, last)[1] == list(table)
            assert len(table) == 3 and list(table)[-1 if last else 0] is True
