"""`__del__` runs when it would in plain Python, whatever is captured around it."""

import gc
import weakref

import jax.numpy as jnp
import pytest

import dynacomp

LOG = []


class Noted:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(self.name)


def deleted(x):
    one = Noted("one")
    y = x + 1
    del one
    gc.collect()
    return y, list(LOG)


def forgotten(x):
    Noted("two")
    other = Noted("three")
    seen = list(LOG)
    other = None  # noqa: F841
    return x * 2, seen, list(LOG)


def test_finalizers_run_in_time():
    for fn in (deleted, forgotten):
        runs = []
        for call in (fn, dynacomp.jit(fn), dynacomp.jit(fn)):
            LOG.clear()
            runs.append((str(call(jnp.ones(2))), list(LOG)))
        assert runs[0] == runs[1] == runs[2]


def kept(x):
    guard = Noted("four")  # noqa: F841
    print(end="")
    y = x + len(LOG)
    print(end="")
    return y, list(LOG)


class Plain:
    pass


def watched(x):
    thing = Plain()
    seen = weakref.ref(thing)
    print(end="")
    alive = seen() is not None
    thing = None
    return x + 1, alive, seen()


def argument(x):
    def inner(thing):
        print(end="")
        return list(LOG)

    return inner(Noted("five")), list(LOG)


def test_what_no_instruction_reads_any_more_lives_to_the_end_of_its_frame():
    for fn in (kept, watched, argument):
        runs = []
        for call in (fn, dynacomp.jit(fn), dynacomp.jit(fn)):
            LOG.clear()
            runs.append((str(call(jnp.ones(2))), list(LOG)))
        assert runs[0] == runs[1] == runs[2]


def handles_twice(x):
    def fails():
        local = obj
        raise Holds(local)

    obj = Plain()
    ref = weakref.ref(obj)
    try:
        fails()
    except Holds:
        try:
            try:
                raise
            finally:
                raise
        except Holds:
            pass
    obj = None
    return ref() is None


class Holds(Exception):
    pass


def walks_a_chain(x):
    def steps(error):
        while error is not None:
            yield error
            error = error.__cause__

    caught = Holds(1)
    ref = weakref.ref(caught)
    kept = [type(e) for e in steps(caught)]
    print(end="")
    caught = None
    return kept == [Holds] and ref() is None


class Told(dict):
    def __del__(self):
        GONE.append(len(self))


GONE = []


def drops_a_table(x):
    GONE.clear()
    table = Told(x=x)
    print(end="")
    table["more"] = Told(table)
    print(end="")
    del table
    return GONE == [2, 1]


@pytest.mark.parametrize("fn", [handles_twice, walks_a_chain, drops_a_table])
def test_a_capture_lets_go_without_the_garbage_collector(fn):
    gc.collect()
    gc.disable()
    try:
        compiled = dynacomp.jit(fn)
        assert compiled(jnp.ones(2)) and compiled(jnp.ones(2))
    finally:
        gc.enable()
