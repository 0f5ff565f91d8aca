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
