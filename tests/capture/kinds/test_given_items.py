"""Items under a key that changes: a few captures for all keys, no break, and plain Python's values and objects."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.changing.kit import outcome, unlike

NAMES = [f"k{i}" for i in (0, 1, 2, 3, 4, 5, 6, 7, 3, 0)]
PLACES = [0, 1, 2, 3, 4, 5, 6, 7, -1, -2, 3, 0]


def array(i, n=3):
    return jnp.asarray(np.random.RandomState(i).randn(n), jnp.float32)


def arrays():
    return {f"k{i}": array(i) for i in range(8)}


def numbers():
    return {f"k{i}": i * 1.5 - 3 for i in range(8)}


def rows():
    return [array(i) for i in range(8)]


class Layer:
    def __init__(self, i):
        self.weight, self.calls = array(i), 0

    def __call__(self, x):
        self.calls += 1
        return x * self.weight + self.calls


@dataclasses.dataclass
class Options:
    rate: float
    name: str


def captures(fn, made, keys, backend="eager"):
    """How often `fn(container, key, x)` was captured; all calls end as in plain Python, which has a container of its
    own."""
    dynacomp.reset()
    compiled, plain, ours = dynacomp.jit(fn, backend=backend), made(), made()
    for at, key in enumerate(keys):
        wrong = unlike(outcome(fn, (plain, key, array(at))), outcome(compiled, (ours, key, array(at))))
        assert not wrong, f"{key!r}: {wrong}"
    return dynacomp.stats()["frames_captured"]


def scaled(table, key, x):
    return x * table[key]


def same(table, key, x):
    return table[key] * x, table[key] is table[key], table[key] is table[0]


def looped(table, key, x):
    for i in range(8):
        x = x + table[f"k{i}"]
    return x * table[key]


def if_there(table, key, x):
    return (x * 2 if key in table else x), key not in table, table.get(key, 7.0) * x


def pair(table, key, x):
    return x * table.get(key, -1.0), table.get((key[1], key[0]), 0.0)


def called(layers, k, x):
    return layers[k](x), layers[k].calls, layers[k] is layers[0]


def changed(table, key, x):
    table[key]["bias"] += 1.0
    table["k0"]["bias"] -= 0.5
    return x * table[key]["weight"] * table[key]["bias"]


def shared(table, key, x):
    table[key][0] += 1
    return x * table["k3"][0] * table[key][0], table[key] is table["k3"]


def branched(options, k, x):
    return x * options[k].rate if options[k].name == "a" else x + options[k].rate


def differentiated(table, key, x):
    return jax.grad(lambda p: (p["weight"].sum() * x).sum())(table[key])


def in_fours():
    lists = [[i * 1.0] for i in range(4)]
    return {f"k{i}": lists[i // 2] for i in range(8)}


def nested():
    return {f"k{i}": {"weight": array(i), "bias": i / 2} for i in range(8)}


PROGRAMS = [
    (scaled, arrays, NAMES, 2), (scaled, numbers, NAMES, 2), (scaled, rows, PLACES, 2),
    (scaled, lambda: tuple(rows()), PLACES, 2), (looped, arrays, NAMES, 2), (same, rows, PLACES, 2),
    (if_there, numbers, [*NAMES, "none", "k1", "other"], 3),
    (pair, lambda: {(i, j): i * 10.0 + j for i in range(3) for j in range(3)}, [(0, 1), (1, 2), (2, 2), (9, 9), (0, 1)],
     3),
    (called, lambda: [Layer(i) for i in range(8)], PLACES, 4), (changed, nested, NAMES, 5),
    (shared, in_fours, NAMES, 5), (branched, lambda: [Options(i / 9, "ab"[i % 2]) for i in range(8)], PLACES, 4),
    (differentiated, nested, NAMES, 3)]


@pytest.mark.parametrize(("fn", "made", "keys", "most"), PROGRAMS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_few_captures_for_all_keys(fn, made, keys, most):
    assert captures(fn, made, keys) <= most
    assert not dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]


def test_native_kernels():
    assert captures(scaled, arrays, NAMES, "cpp") == 2


def test_other_types_and_shapes_are_other_entries():
    made = lambda: {"k0": 1, "k1": 2.5, "k2": True, "k3": jnp.ones(3), "k4": jnp.arange(3), "k5": jnp.ones((2, 3))}
    assert captures(scaled, made, NAMES[:6] * 3) <= 7
    assert not dynacomp.stats()["frames_eager"]


def test_signs_and_keys_that_are_equal():
    made = lambda: {0: -0.0, 1: 0.0, 2: float("nan"), 3: 5}
    captures(lambda table, key, x: (x * table[key], 1 / (x * table[key]), table[key]), made,
             [0, 1, 2, 3, True, False, 1, 0])


# --- what has changed, or is made when it is asked for


def stored_before(table, key, x):
    table["k2"] = x
    return table[key] + 1


def stored_behind(table, key, x):
    found = table[key]
    table[key] = found * x
    return found, table[key]


def appended(items, k, x):
    items.append(x)
    return items[k] * 2


def aliased(tables, key, x):
    one, other = tables
    other[key] = 5.0
    return x * one[key]


def two_names():
    table = numbers()
    return table, table


@pytest.mark.parametrize(("fn", "made", "keys"), [
    (stored_before, arrays, NAMES), (stored_behind, arrays, NAMES), (appended, rows, PLACES),
    (aliased, two_names, NAMES)],
    ids=lambda x: getattr(x, "__name__", ""))
def test_what_the_program_has_changed_is_no_longer_what_guards_find(fn, made, keys):
    captures(fn, made, keys * 2)
    assert not dynacomp.stats()["frames_eager"]


def test_guards_put_nothing_into_a_table():
    made = lambda: collections.defaultdict(float, {"k0": 1.0})
    captures(lambda table, key, x: (x * table[key], sorted(table.items())), made, NAMES * 2)
    captures(lambda table, key, x: (x * (table[key] if key in table else 2.0), sorted(table.items())), made, NAMES * 2)


class Name:
    """Equal to the string that it holds; asks are counted."""

    asked = 0

    def __init__(self, text):
        self.text = text

    def __hash__(self):
        return hash(self.text)

    def __eq__(self, other):
        Name.asked += 1
        return (other.text if isinstance(other, Name) else other) == self.text


def test_keys_with_an_equality_of_their_own():
    made = lambda: {Name("k0"): 1.0, **{f"k{i}": float(i) for i in range(1, 8)}}
    captures(scaled, made, NAMES * 2)


RATES = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 5.0}


@pytest.mark.parametrize("program, most", [
    (lambda x, i, name: x * [0.1, 0.2, 0.3, 0.4, 0.5][i], 2),
    (lambda x, i, name: (x, ["a", "b", "c", "d", "e"][i], {0: 1, 1: 2, 2: 3, 3: 4, 4: 5}[i]), 2),
    (lambda x, i, name: x * {**RATES, "f": 2.5}[name], 2),
    (lambda x, i, name: (x * {"a": 1, "b": 2}.get(name, 5), {"d": 1.0}.get(name), name in {"b": 1, "c": 2}), 5),
    (lambda x, i, name: (x, ["a", "b", "a", "c", "d", "e"].index(name)), 2),
    (lambda x, i, name: jnp.ones({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}[name]), 2),
    (lambda x, i, name: jax.lax.fori_loop(0, i, lambda k, c: c + [0.1, 0.2, 0.3, 0.4, 0.5][i], x), 2)])
def test_what_the_code_has_made_is_asked_for_a_key_that_changes(program, most):
    """`[0.1, 0.01][stage]` took an entry for each stage, and then a break."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in (1, 3, 2, 4, 0, 1, 2, 4, 3, 0):
        args = jnp.arange(3.0), i, "abcde"[i]
        assert repr(compiled(*args)) == repr(program(*args))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= most and not stats["frames_eager"] and not stats["breaks"]


@pytest.mark.parametrize("program", [
    lambda x, key: x * {1: 0.1, 0: 0.2}.get(key, 3), lambda x, key: (x, key in {1: "one", 2: "two"}),
    lambda x, key: x * {1: 0.1, 2: 0.2}[key], lambda x, key: x * [5, 6, 7][key],
    lambda x, key: (x, [1, 0, 2].index(key))])
def test_keys_of_other_types_and_none_that_is_there(program):
    """True and 1 and 1.0 are one key; where there is none, Python's exception comes in its words."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for key in (1, True, 2, 1.0, 5, 0, False, 7, -1, -4, 2.0, 1):
        args = jnp.arange(3.0), key
        assert not unlike(outcome(compiled, args), outcome(program, args))


def test_what_the_code_has_stored_since():
    def program(x, name, rate):
        table = {"a": 1.0, "b": 2.0}
        table["c"] = rate
        if name in table:
            table[name] = table[name] + 1
        return x * table.get(name, rate), table

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(12):
        args = jnp.arange(3.0), "abcd"[i * 5 % 4], i * 0.5
        assert repr(compiled(*args)) == repr(program(*args))
    assert not dynacomp.stats()["frames_eager"]
