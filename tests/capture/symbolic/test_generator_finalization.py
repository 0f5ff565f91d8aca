"""Generators that wait inside `with`: noticing that none is lost costs little, whatever else the program holds."""

import collections
import contextlib
import functools
import operator

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.symbolic import generator_finalization


@contextlib.contextmanager
def entered(log, k):
    log.append(k)
    try:
        yield
    finally:
        log.append(-k)


def walks(fn, monkeypatch, size):
    """How many objects are looked into while `fn` is captured."""
    seen = []
    inside = generator_finalization._inside
    monkeypatch.setattr(generator_finalization, "_inside", lambda cls: seen.append(cls) or inside(cls))
    x, many = jnp.arange(3.0), [[k] for k in range(size)]
    assert dynacomp.jit(fn)(x, many)[0] == fn(x, many)[0]
    monkeypatch.undo()
    return len(seen)


def test_a_with_in_a_loop_does_not_look_at_all_that_the_program_holds(monkeypatch):
    def looped(x, given):
        log, made = [], [[g[0]] for g in given]
        for k in range(20):
            with entered(log, k):
                made[0].append(k)
        return log, x + len(made)

    few, many = walks(looped, monkeypatch, 10), walks(looped, monkeypatch, 400)
    assert 0 < many < 2 * few


def test_what_was_held_is_noticed_when_it_is_lost_later():
    """The way on which a generator was seen to be held is followed again at each step, whatever was on it."""
    def lost(x, n):
        log, box = [], []
        for k in range(n):
            context = entered(log, k)
            log.append(context.__enter__())
            box.append(context)
            held = [context, context.gen]
            for _ in range(3):
                log.append(len(held))
            context = held = None
            log.append("held")
            box = []
            log.append("lost")
        return x * 2, log

    def nested(x, n):
        log = []
        with entered(log, 7):
            for k in range(n):
                gen = entered(log, k).gen
                next(gen)
                log.append("held")
                gen = None
                log.append("lost")
        return x * 2, log

    for fn in (lost, nested):
        compiled = dynacomp.jit(fn)
        for n in (3, 3, 5, 1):
            (got, log), (want, said) = compiled(jnp.arange(3.0), n), fn(jnp.arange(3.0), n)
            assert log == said and "lost" in log and (got == want).all()


class Holder:
    """An object with an attribute."""


def emptied_attribute(g):
    held = Holder()
    held.g = g
    return lambda: setattr(held, "g", None)


def deleted_attribute(g):
    held = Holder()
    held.g = g
    return lambda: delattr(held, "g")


EMPTIED = {
    "list.clear": lambda g: [g].clear,
    "list.pop": lambda g: [g].pop,
    "list.__delitem__": lambda g: functools.partial([g].__delitem__, 0),
    "list slice": lambda g: functools.partial([g].__setitem__, slice(None), []),
    "list *= 0": lambda g: functools.partial(operator.imul, [g], 0),
    "dict.clear": lambda g: {1: g}.clear,
    "dict.pop": lambda g: functools.partial({1: g}.pop, 1),
    "dict.__setitem__": lambda g: functools.partial({1: g}.__setitem__, 1, 0),
    "dict.update": lambda g: functools.partial({1: g}.update, {1: 0}),
    "set.clear": lambda g: {g}.clear,
    "deque.clear": lambda g: collections.deque([g]).clear,
    "deque of one": lambda g: functools.partial(collections.deque([g], maxlen=1).append, 0),
    "attribute": emptied_attribute,
    "deleted attribute": deleted_attribute,
}


@pytest.mark.parametrize("made", EMPTIED.values(), ids=EMPTIED.keys())
def test_what_a_container_lets_go_of_is_closed_at_once(made):
    log = []

    def waiting():
        try:
            yield 1
        finally:
            log.append("closed")

    def f(x):
        g = waiting()
        log.append(next(g))
        empty = made(g)
        del g
        log.append("held")
        empty()
        log.append("after")
        return x + 1

    f(0)
    want, fn = list(log), dynacomp.jit(f)
    assert want.index("closed") == 2
    for size in (3, 3, 4, 5):
        log.clear()
        fn(jnp.ones(size))
        assert log == want
