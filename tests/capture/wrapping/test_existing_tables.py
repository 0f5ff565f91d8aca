"""Dicts and sets that a program is given: their keys, whatever these hash by, and which changes need an entry."""

import collections
import types
import weakref

import jax
import jax.numpy as jnp
import optax
import pytest

import dynacomp
from dynacomp.capture.wrapping.existing_tables import hashes_itself


class Name:
    """A key whose hash and equality are the program's code."""

    def __init__(self, text):
        self.text = text

    def __hash__(self):
        return hash(self.text)

    def __eq__(self, other):
        return isinstance(other, Name) and self.text == other.text


class Plain:
    pass


A, B = Name("a"), Name("b")


@pytest.mark.parametrize("key, itself", [
    (A, True), ((1, (A,)), True), (frozenset({A}), True), (Plain(), False), ("a", False), (Name, False),
    ((1, 2), False)])
def test_keys_that_hash_by_themselves(key, itself):
    assert hashes_itself(key) is itself


def scaled(x, table):
    return {k: x * v for k, v in table.items()}, len(table)


def looked_up(x, table):
    return x * table.get(Name("a"), 5), Name("b") in table, x + sum(table.values())


def of_elements(x, held):
    return x * len(held), sorted(map(repr, held)), 2 in held


PROGRAMS = {
    "dict": (scaled, lambda k: {"a": k, "b": 2}),
    "ordered": (scaled, lambda k: collections.OrderedDict(b=k, a=1)),
    "default": (lambda x, table: (x * table["a"], x + table["new"], len(table)),
                lambda k: collections.defaultdict(int, a=k)),
    "proxy": (scaled, lambda k: types.MappingProxyType({"a": k})),
    "its own hash": (looked_up, lambda k: {A: k, B: 2}),
    "set": (of_elements, lambda k: {1, 2, "c"}),
    "frozen": (of_elements, lambda k: frozenset({(1, 2), None})),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_made_anew_in_ten_calls(name):
    program, make = PROGRAMS[name]
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for k in (1, 2, 3, 4, 5, 6, 7, 8, 2, 3):
        given, also = make(k), make(k)
        got, want = compiled(jnp.ones(2) * k, given), program(jnp.ones(2) * k, also)
        assert repr(got) == repr(want) and given == also and list(given) == list(also)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"]


def test_another_key_is_another_entry():
    compiled = dynacomp.jit(looked_up, backend="eager")
    for table in ({A: 1}, {B: 1}, {A: 2, B: 3}, {Name("a"): 4}):
        assert repr(compiled(jnp.ones(2), table)) == repr(looked_up(jnp.ones(2), table))


@pytest.mark.parametrize("table", [{weakref.ref(A): 1}, {(A,), (B,)}], ids=["references", "tuples of objects"])
def test_keys_that_no_guard_can_hold_run_in_python(table):
    dynacomp.reset()

    def program(x, table):
        return x * 2, len(table)

    assert dynacomp.jit(program)(jnp.ones(2), table)[1] == len(table)
    assert dynacomp.stats()["breaks"]


def few(n, *left):
    """A set that has had more elements."""
    made = set(range(n))
    for k in range(n):
        if k not in left:
            made.discard(k)
    return made


def added(s, x):
    s.add(200)
    return x * len(s), [x * k for k in s], s.pop(), s


def test_a_set_that_has_had_more_elements_takes_new_ones_in_its_own_order():
    run = dynacomp.jit(added)
    for make in (lambda: {97, 98, 99}, lambda: few(100, 97, 98, 99)) * 3:
        mine, theirs = make(), make()
        assert repr(run(mine, jnp.arange(4.0))) == repr(added(theirs, jnp.arange(4.0)))
        assert list(mine) == list(theirs)


def test_a_set_that_the_program_makes_and_takes_from_has_the_order_that_it_had():
    def program(n, x):
        left = set(range(n))
        for k in range(n):
            if k not in (5, 9):
                left.remove(k)
        return x * len(left), left, list(left)

    run = dynacomp.jit(program)
    for n in (10, 10, 12, 40, 40):
        assert repr(run(n, jnp.arange(4.0))) == repr(program(n, jnp.arange(4.0)))
    assert not dynacomp.stats()["breaks"]


def test_a_set_that_is_filled_anew_has_the_order_of_what_filled_it():
    def program(s, x):
        s.clear()
        s.update(range(40))
        for k in range(40):
            if k not in (5, 9, 33):
                s.discard(k)
        return x * len(s), s

    run = dynacomp.jit(program)
    for n in range(4):
        mine, theirs = set(range(n)), set(range(n))
        assert repr(run(mine, jnp.arange(4.0))) == repr(program(theirs, jnp.arange(4.0)))
        assert list(mine) == list(theirs)


def test_what_many_are_taken_from_at_once_lets_go_of_places():
    def program(s, x):
        s.difference_update(range(43))
        s.update(range(37, 51))
        own = set(range(60))
        own.difference_update([*range(50)], (51,))
        return x * len(s), s, own

    run = dynacomp.jit(program, backend="eager")
    for n in (60, 60, 61, 62, 63, 64, 65, 50):
        mine, theirs = set(range(n)), set(range(n))
        assert repr(run(mine, jnp.arange(4.0))) == repr(program(theirs, jnp.arange(4.0)))
        assert list(mine) == list(theirs)


def test_elements_that_stand_in_each_others_places_stay_in_their_order():
    def program(x):
        s = set()
        for k in (0, 64, 128, 192, 7, 71):
            s.add(k)
        s.discard(0)
        s.update((256, 0))
        return x * len(s), s, s - {7} | {1}

    run = dynacomp.jit(program)
    assert repr(run(jnp.arange(4.0))) == repr(program(jnp.arange(4.0)))


# --- the order of a dict's keys

SGD = optax.sgd(0.1)
ORDERS = ["wbca", "abcw", "bwac", "wbca", "cabw"]


def with_keys(order, cls=dict):
    table = cls() if cls is dict else cls(list)
    table.update((key, jnp.arange(3.0) + n) for n, key in enumerate(order))
    return table


def mapped(p):
    return jax.tree.map(lambda a: a * 2, {"z": p, "a": [p, (p["w"],)]})


def differentiated(p):
    return jax.grad(lambda q: sum((n + 1) * jnp.sum(v ** 2) for n, v in enumerate(q.values())))(p)


def jitted(p):
    return jax.jit(lambda q: [v * n for n, v in enumerate(q.values())])(p)


def structure(p):
    leaves, treedef = jax.tree.flatten(p)
    return jax.tree.unflatten(treedef, [2 * a for a in leaves]), str(treedef)


def updated(p):
    return optax.apply_updates(p, SGD.update(p, SGD.init(p), p)[0])


def carried(p):
    return jax.lax.scan(lambda c, x: (jax.tree.map(lambda a: a + x, c), c["w"].sum()), p, jnp.arange(3.0))


def sorted_names(p):
    return [p[k] * n for n, k in enumerate(sorted(p))]


def stored(p):
    p["w"], p["new"] = p["w"] * 2, p["b"] + 1
    return p


def refilled(p):
    twice = jax.tree.map(lambda a: 2 * a, p)
    p.clear()
    p.update(twice)
    return p


def copied(p):
    return jax.tree.map(lambda a: 2 * a, p.copy())


@pytest.mark.parametrize("cls", [dict, collections.defaultdict])
@pytest.mark.parametrize("fn", [mapped, differentiated, jitted, structure, updated, carried, sorted_names, stored,
                                refilled, copied], ids=lambda fn: fn.__name__)
def test_jax_takes_dicts_apart_whatever_their_order(fn, cls):
    """Parameters come back from a first training step with their keys in order: that is no other entry."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for order in ORDERS:
        assert seen(fn, with_keys(order, cls)) == seen(compiled, with_keys(order, cls))
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


def gone_through(p):
    return [v * n for n, v in enumerate(p.values())], list(p)


def first(p):
    return p[next(iter(p))] * 2


def back_again(p):
    p["w"] = p.pop("w") * 2
    return p


def rebuilt(p):
    return {**p, "new": p["w"] + 1}


def gone_and_copied(p):
    p.clear()
    return p


def copied_first(p):
    held = p.copy()
    p.clear()
    return [v * n for n, v in enumerate(held.values())]


@pytest.mark.parametrize("cls", [dict, collections.OrderedDict])
@pytest.mark.parametrize("fn", [gone_through, first, back_again, rebuilt, gone_and_copied, copied_first, mapped],
                         ids=lambda fn: fn.__name__)
def test_who_goes_through_a_dict_sees_its_order(fn, cls):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    made = (lambda order: with_keys(order, cls)) if cls is not collections.OrderedDict else (
        lambda order: cls(with_keys(order)))
    for order in ORDERS:
        assert seen(fn, made(order)) == seen(compiled, made(order))
    assert not dynacomp.stats()["frames_eager"]


def seen(fn, table):
    """What comes of a call, and of its argument, with the order of all dicts."""
    def shown(x):
        if isinstance(x, dict):
            return type(x).__name__, [(k, shown(v)) for k, v in x.items()]
        if isinstance(x, (list, tuple)):
            return [*map(shown, x)]
        return x if isinstance(x, str) else jnp.asarray(x).tolist()

    return shown(fn(table)), shown(table)
