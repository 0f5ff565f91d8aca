"""`copy.copy` and `copy.deepcopy` of instances: by `__new__`, attributes, and the methods of the copy."""

import copy
import copyreg
import dataclasses

import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph

LOG = []


class Stack(list):
    def append(self, item):
        LOG.append(item)
        super().append(item)


class Table(dict):
    def __setitem__(self, key, value):
        LOG.append(key)
        super().__setitem__(key, value)


class Counted:
    def __new__(cls, n=0):
        LOG.append(n)
        return super().__new__(cls)


class Demanding:
    def __new__(cls, n):
        return super().__new__(cls)


class Known:
    pass


def made(kind, *args, **attrs):
    obj = kind(*args)
    vars(obj).update(attrs)
    return obj


@pytest.mark.parametrize("make", [
    lambda x: made(Stack, [x, 1], tag=x), lambda x: made(Table, {"a": [x]}, tag=[1]), lambda x: made(Counted, 3, a=x),
    lambda x: Demanding(1), lambda x: made(Known, a=x)])
def test_copies(make):
    def copies(x):
        obj = make(x)
        found = [copy.copy(obj), copy.deepcopy(obj)]
        return [(type(f), getattr(f, "items", list)(), list(f) if isinstance(f, list) else 0, vars(f)) for f in found]

    def outcome(fn):
        LOG.clear()
        try:
            return repr(fn(jnp.ones(2))), repr(LOG)
        except TypeError as error:
            return str(error)

    assert outcome(dynacomp.jit(copies)) == outcome(copies)
    copyreg.pickle(Known, lambda obj: (Counted, (7,)))
    try:
        assert outcome(dynacomp.jit(copies)) == outcome(copies)
    finally:
        del copyreg.dispatch_table[Known]


def test_containers_are_copied_without_a_break():
    def copies(x):
        pair, parts, table = (x, [1]), [x, [2]], {"a": [x], "b": (1, 2)}
        shallow = copy.copy(pair), copy.copy(parts), copy.copy(table), copy.copy({1, 2})
        deeply = copy.deepcopy(pair), copy.deepcopy(parts), copy.deepcopy(table), copy.deepcopy({3: {4}})
        same = shallow[0] is pair, shallow[1][1] is parts[1], deeply[0][1] is pair[1], deeply[2]["b"] is table["b"]
        parts[1].append(x + 1)
        return shallow, deeply, same

    check_one_graph(copies, (jnp.ones(2),), (jnp.zeros(2),))


def test_numbers_that_change_are_copied_without_a_break():
    @dataclasses.dataclass(frozen=True)
    class Config:
        rate: float
        name: str = "sgd"

    def step(x, config, k):
        copied = dataclasses.asdict(config), copy.copy(k), copy.deepcopy([k, x[0].item()])
        return x * copied[0]["rate"], copied

    check_one_graph(step, *((jnp.arange(1.0, 4.0), Config(0.1 * k), k) for k in range(2, 8)), captures=2)


class Cached:
    """Says what its state is, and what becomes of it."""

    def __init__(self, a):
        self.a, self.cache = a, 5

    def __getstate__(self):
        return {name: held for name, held in vars(self).items() if name != "cache"}

    def __setstate__(self, state):
        vars(self).update(state)
        self.cache = 7


class Bare:
    def __init__(self, a):
        self.a = a

    def __getstate__(self):
        return {"a": self.a, "seen": True}


class Restored:
    def __init__(self, **held):
        vars(self).update(held)

    def __setstate__(self, state):
        self.state = state


class Pair:
    def __init__(self, a):
        self.a = a

    def __getstate__(self):
        return self.a, 3

    def __setstate__(self, state):
        self.a, self.n = state


@pytest.mark.parametrize("make", [
    lambda x: Cached(x), lambda x: Bare([x]), lambda x: Pair([x]), lambda x: Restored(a=[x]), lambda x: Restored()],
    ids=["both", "getstate", "pair", "setstate", "empty"])
def test_states_of_their_own(make):
    """Each broke the graph, twice."""
    def copies(x):
        one = make(x)
        return [sorted(vars(copied).items()) for copied in (copy.copy(one), copy.deepcopy(one), one)]

    check_one_graph(copies, (jnp.ones(2),), (jnp.zeros(2),))


def test_dataclasses_of_chex():
    chex = pytest.importorskip("chex")

    @chex.dataclass
    class State:
        a: object
        b: object

    def copies(x, given):
        one = copy.deepcopy(given)
        one.a = one.a + x
        other = copy.copy(given)
        other.b.append(1)
        return one.a, one.b, given.a, given.b, other.b is given.b, copy.deepcopy(State(a=x, b=[x])).b

    dynacomp.reset()
    compiled, x = dynacomp.jit(copies, backend="eager"), jnp.arange(3.0)
    for _ in range(3):
        assert repr(compiled(x, State(a=x, b=[x]))) == repr(copies(x, State(a=x, b=[x])))
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] == 1


def test_an_object_that_is_copied_at_two_places_has_one_copy():
    """Also after a call in which two objects stood there."""
    def changed(p, q):
        a, b = copy.deepcopy((p, q))
        a["w"] = a["w"] * 2
        return b["w"]

    dynacomp.reset()
    compiled = dynacomp.jit(changed, backend="eager")
    for twice in [False, True, False, True]:
        p, q = {"w": jnp.ones(2)}, {"w": jnp.ones(2)}
        assert (compiled(p, p if twice else q) == (2 if twice else 1)).all()
    assert dynacomp.stats()["frames_captured"] == 2
