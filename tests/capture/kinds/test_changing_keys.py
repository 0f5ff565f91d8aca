"""Dicts with keys that change from call to call: plain Python's entries in its order, few captures for all keys."""

import collections
import copy
import types

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.changing.kit import outcome, unlike

NUMBERS = [5, 7, 1, 5, 0, 2, 9, -1, -2, 3, 1, 300]
WORDS = ["a", "b", "w1", "x", "a", "loss", "zz", "x", "k", "y"]


def array(at):
    return jnp.arange(3.0) + at


def agree(fn, compiled, at, plain, ours, key):
    """Results, and what is in the tables afterwards."""
    wrong = unlike(outcome(fn, (array(at), plain, key)), outcome(compiled, (array(at), ours, key)))
    wrong = wrong or unlike(outcome(plain.copy, ()), outcome(ours.copy, ()))
    assert not wrong, f"{key!r}: {wrong}"


def captures(fn, keys, made=dict):
    """How often `fn(x, table, key)` was captured; results and tables are those of plain Python in each call."""
    dynacomp.reset()
    compiled, plain, ours = dynacomp.jit(fn, backend="eager", options={"measure": False}), made(), made()
    for at, key in enumerate(keys):
        agree(fn, compiled, at, plain, ours, key)
    assert dynacomp.stats()["breaks"].keys() <= {"raises"}, dynacomp.stats()["breaks"]
    return dynacomp.stats()["frames_captured"]


# --- new dicts


def before_a_constant(x, table, n):
    d = {n: x}
    d[5] = x + 1
    return d, len(d), 5 in d, d.get(7), n in d


def behind_a_constant(x, table, n):
    d = {5: x, True: x - 1}
    d[n] = x + 1
    return d, list(d), list(d.values())


def sums(x, table, n):
    return {n: x, n + 1: x * 2, 6: x * 3}


def a_float(x, table, n):
    return {1.0: x, n: x + 1, None: 3}


def taken_out(x, table, n):
    d = {5: x, n: x + 1, "k": x}
    first, second = d.pop(5), d.pop(n, None)
    d[n] = first
    del d[n]
    return d, first, second


def last_out(x, table, n):
    d = {"k": x, 5: x, n: x + 1}
    return d.popitem(), d, d.setdefault(n, x), d.setdefault(n, 1)


def floats(x, table, n):
    d = {}
    for rate in (n / 8, n + 0.5, 0.625):
        d[rate] = x * rate
    return d, d[n / 8], n / 8 in d, {(n / 4, "wd"): x, (1.25, "wd"): x + 1}, {0.0 * n: x, n: 1}


def tuples(x, table, n):
    d = {(n, 1): x, (5, 1): x + 1}
    d[5, n] = x * 2
    return d, (n, 1) in d, d.get((5, 5)), d.get((n,))


def made_of_others(x, table, n):
    d = {5: x}
    d.update({n: x + 1, 7: 2})
    return {**d, n + 1: x}, d | {n: 0}, dict(d), d.copy(), copy.copy(d), {k: v + 1 for k, v in d.items()}


def nested(x, table, n):
    d = {}
    d.setdefault(n, {})[5] = x
    d.setdefault(5, {})[n] = x + 1
    return d


def counted(x, table, n):
    d = collections.defaultdict(list)
    d[5].append(x)
    d[n].append(x + 1)
    return dict(d), len(d[n])


def shown(x, table, n):
    d = {}
    proxy = types.MappingProxyType(d)
    d[5] = x
    return proxy[5], {n: x}[n]


def of_a_loss(x, table, n):
    def loss(w):
        d = {n: w * 2}
        d[5] = w * 3
        return (d[n] * d[5]).sum()
    return jax.grad(loss)(x), jax.vmap(lambda w: {5: w, n: w + 1}[n])(x)


NEW = {before_a_constant: 3, behind_a_constant: 4, sums: 4, a_float: 3, floats: 4, taken_out: 3, last_out: 3, tuples: 3,
       made_of_others: 4, nested: 2, counted: 3, shown: 2, of_a_loss: 2}


@pytest.mark.parametrize("fn", NEW)
def test_new_dicts(fn):
    assert captures(fn, NUMBERS) <= NEW[fn]


@pytest.mark.parametrize("fn", [
    lambda x, table, w: {f"{w}_loss": x, "x_loss": 1},
    lambda x, table, w: {w: x, b"a": x + 1, 1: 2},
    lambda x, table, w: (dict(a=1, b=x).get(w), w in dict(a=1, b=x), dict(dict(a=x), **{"b": 1})),
])
def test_texts(fn):
    assert captures(fn, WORDS) <= 3


def test_each_nan_is_a_key_of_its_own():
    def fn(x, table, rates):
        return dict.fromkeys(rates, x * 0), {rates[0]: 1, rates[0]: 2, rates[0] * 1: 3}, {rates[1]: 0}

    nan, compiled = float("nan"), dynacomp.jit(fn, backend="eager", options={"measure": False})
    for at, pair in enumerate([(0.5, 1.0), (1.5, 2.0), (nan, 2.0), (nan, 3.0), (nan, nan)]):
        agree(fn, compiled, at, {}, {}, pair)


def test_two_keys_that_are_equal_at_times():
    def fn(x, table, pair):
        n, m = pair
        d = {n: x, m: x + 1}
        d.pop(n)
        return d, m in d, len(d), {(n, m): x, (m, n): x + 1, n: 0}
    assert captures(fn, [(5, 7), (7, 5), (1, 1), (0, 1), (5, 5), (2, 3), (9, 9), (4, 6)]) <= 4


def test_dicts_with_changing_keys_are_equal_where_pythons_are():
    def fn(x, table, n):
        return {n: 1} == {5: 1}, {n: 1} == {n: 1}, {n: 1}.keys() & {5, 7}, {n: 1}.keys() == {5: 2}.keys(), x + 1
    compiled = dynacomp.jit(fn, backend="eager", options={"measure": False})
    for n in NUMBERS:
        agree(fn, compiled, 0, {}, {}, n)


def test_the_attributes_of_a_new_function():
    def fn(x, table, w):
        def made():
            pass
        vars(made)[w] = x
        made.loss = x + 1
        return sorted(vars(made)), vars(made)[w]
    compiled = dynacomp.jit(fn, backend="eager", options={"measure": False})
    for at, word in enumerate(WORDS):
        agree(fn, compiled, at, {}, {}, word)


# --- dicts that the call was given


def stored(x, table, n):
    table[n] = x.sum()
    return len(table)


def stored_and_read(x, table, n):
    table[n] = x + 1
    return table.get(n), n in table


def added(x, table, n):
    table[n] = table.get(n, 0) + 1
    return x * table[n]


def looked_for(x, table, n):
    if n not in table:
        table[n] = x * 2
    return x


def taken(x, table, n):
    table.pop(n, None)
    table[n] = x
    return len(table)


def grouped(x, table, n):
    table.setdefault(n, []).append(x)
    return x


GIVEN = {stored: 4, stored_and_read: 4, looked_for: 4, taken: 4}


@pytest.mark.parametrize("fn", GIVEN)
def test_given_dicts(fn):
    assert captures(fn, NUMBERS) <= GIVEN[fn]


@pytest.mark.parametrize("fn", [stored, looked_for, taken])
def test_in_each_call_another_dict(fn):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager", options={"measure": False})
    for at, n in enumerate(NUMBERS):
        plain, ours = ({k: array(k) for k in range(2 + at % 4)} for _ in range(2))
        agree(fn, compiled, at, plain, ours, n)
    assert dynacomp.stats()["frames_captured"] <= 6


@pytest.mark.parametrize("fn", [added, grouped])
def test_items_that_change_their_type_break_at_most(fn):
    dynacomp.reset()
    compiled, plain, ours = dynacomp.jit(fn, backend="eager", options={"measure": False}), {}, {}
    for at, n in enumerate(NUMBERS * 2):
        agree(fn, compiled, at, plain, ours, n)


def test_a_key_with_a_hash_of_its_own_is_asked_by_python():
    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return hash(self.n)

        def __eq__(self, other):
            return self.n == (other.n if isinstance(other, Key) else other)

    def fn(x, table, n):
        table[n] = x
        return [getattr(k, "n", k) for k in table], len(table)

    compiled, plain, ours = dynacomp.jit(fn, options={"measure": False}), {Key(5): 1}, {Key(5): 1}
    for at, n in enumerate(NUMBERS):
        agree(fn, compiled, at, plain, ours, n)


def leaves_the_tables(x, table, n):
    out = []
    for i in range(3):
        out.append({n: x * i, 5: x})
    made = type("C", (), {f"k{n}": 1, "k5": 2})
    return out, copy.deepcopy({n: {5: x}}), jax.tree.map(lambda v: v * 2, {n: x, 5: x}), made.k5


class Noting(collections.OrderedDict):
    """It shows what its `__setitem__` is given."""

    def __setitem__(self, key, value):
        super().__setitem__(key, (type(key).__name__, value))


def of_a_subclass(x, table, n):
    made = Noting([(n, x)], z=3)
    print(end="")
    made[n] = 4
    made.setdefault(5, 6)
    return list(made.items())


@pytest.mark.parametrize("fn", [leaves_the_tables, of_a_subclass])
def test_keys_that_others_see_are_pythons(fn):
    compiled = dynacomp.jit(fn, backend="eager", options={"measure": False, "capture_idle": True})
    for at, n in enumerate(NUMBERS[:8]):
        agree(fn, compiled, at, {}, {}, n)
