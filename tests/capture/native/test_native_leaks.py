"""Nothing leaks: every path a few hundred times, then references and memory are where they were."""

import gc
import sys
import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture import _native as native

from .native_kit import active, check, direct, isolated  # noqa: F401

pytestmark = pytest.mark.usefixtures("isolated")


class Thing:
    kind = 1

    def method(self):
        return self


def fn(a, b=2, *args, k=3, **kw):
    return a


def replacement(a, b, k, args, kw):
    return b


def raising(*args):
    raise ValueError


def swallow(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except (ValueError, TypeError, IndexError, SystemError):
        pass


def guards_hit_and_miss(thing):
    cell = thing
    steps = [("local", 0, 0), ("type", 1, 0), ("attr", 2, 0, "x"), ("dict", 3, 0), ("key", 4, 3, "x"),
             ("item", 5, 4, 0), ("closure", 6, 0), ("global", 7, "Thing"), ("const", 8, 3),
             ("const", 9, thing), ("const", 10, Thing.method), ("get", 11, 10, "__code__"),
             ("is_type", 0, Thing), ("is", 0, thing), ("eq", 4, (1.5, frozenset({"a"}), np.float32(2))),
             ("keys", 3, ("x",)), ("len", 3, 1), ("missing", 0, "y"), ("missing_key", 3, "y"),
             ("missing_global", "nope"), ("type_unchanged", 7, ("method",), (Thing.method,)),
             ("names_unchanged", 3, ("y",), (NotImplemented,)), ("functions_unchanged", (Thing.method, raising)),
             ("plain_function", 10, Thing.method.__code__),
             ("int_size", 0, 8), ("size_check", (("size", 0), ("int", 3), "eq"))]
    guards = native.GuardProgram(steps)
    user = lambda: cell
    thing.x = (1.5, frozenset({"a"}), np.float32(2))
    assert guards.check(user, (thing,)) == -1
    assert guards.registers(user, (thing,))[0] is thing
    for other in (Thing(), 3, None, {}):
        assert guards.check(user, (other,)) > 0
    del thing.x


def refused(thing):
    for bad in ([("is", 0, thing)], [("local", 0, 0), ("eq", 0, thing)], [("nonsense", thing)],
                [("local", 0)], [("const", 0, thing), ("attr", 1, 0, 3)],
                [("const", 0, thing), ("size_check", (thing,))]):
        swallow(native.GuardProgram, bad)
    guards = native.GuardProgram([("const", 0, thing)])
    for options in ({}, {"program": len, "inputs": (9,)},
                    {"program": len, "template": ("tuple", [("x", thing)])},
                    {"program": len, "template": ("call", thing, [("const", thing)], {"k": 3})}):
        swallow(native.Entry, guards, **options)
    swallow(native.CompiledFunction, thing)


def entries_and_calls(thing):
    compiled = native.CompiledFunction(fn, key=thing)
    both = ("list", [("reg", 0), ("const", thing)])
    template = ("call", dict, [("dict", ["a"], [("out", 0)])], {"r": both})
    other = Thing()
    guards = [("local", 0, 0), ("is", 0, thing), ("is_not", 0, other)]
    direct(fn, lambda *a: a, guards, (0,), template=template, info=thing)
    assert compiled(thing, 1, 2, k=5, z=thing) == {"a": thing, "r": [thing, thing]}
    assert compiled(3, z=4) == 3
    swallow(compiled)
    del other  # and the entry with it
    native.add_entry(fn.__code__, native.Entry(native.GuardProgram([]), fn_code=replacement.__code__))
    assert compiled(thing, thing) is thing
    with active():
        assert fn(thing, thing) is thing and fn(thing) == 2
    native.clear(fn.__code__)


def errors(thing):
    for program in (raising, lambda *a: (), lambda *a: thing):
        direct(fn, program, [("local", 0, 0)], (0,), template=("tuple", [("const", thing), ("out", 0)]))
        swallow(native.CompiledFunction(fn), thing)
        with active():
            swallow(fn, thing, thing, k=thing)
        native.clear(fn.__code__)
    for answer in (raising, lambda *a: thing, lambda *a: None, lambda *a: True):
        swallow(native.CompiledFunction(fn, on_miss=answer), thing, b=thing)
    swallow(hooked, raising, thing)


def hooked(on_miss, thing):
    with active(on_miss):
        fn(thing)


def callables(thing):
    compiled = native.CompiledFunction(thing.method, key=thing)
    compiled.me = compiled
    assert compiled() is thing and compiled.__doc__ is None and repr(compiled)
    assert compiled.__get__(None, Thing) is compiled and compiled.__get__(thing).__self__ is thing
    swallow(getattr, compiled, "nothing", None)
    native.run_eager(lambda *a, **k: a, (thing,), {"k": thing})


WIDE, TALL = jnp.ones((2, 3)), jnp.ones((3, 2))  # made once: JAX itself keeps a little of each new array


def configuration(thing):
    x = WIDE
    guards = native.GuardProgram([("jax_config", native.jax_config_token()), ("local", 0, 0),
                                  ("array", 0, (None, 3), x.dtype, False, x.sharding, False),
                                  ("dim", 0, 0, 0)])
    for value in (x, TALL, np.ones((2, 3)), thing):
        guards.check(check, (value,))
    array = native.GuardProgram([("local", 0, 0), ("ndarray", 0, (2, None), np.dtype("float32"), True)])
    for value in (np.ones((2, 3), "f"), np.ones((2, 3)), thing):
        array.check(check, (value,))


ROUNDS = 150


def growth(run):
    """The bytes that are left after `run()`, ROUNDS rounds of something: the first that are few, or the last.

    CPython's free lists and caches fill up for a while; what leaks never stops to grow."""
    tracemalloc.start()
    for _ in range(20):
        before = tracemalloc.get_traced_memory()[0]
        run()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        if grown < ROUNDS * 8:
            break
    tracemalloc.stop()
    return grown


PATHS = [guards_hit_and_miss, refused, entries_and_calls, errors, callables, configuration]


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.__name__)
def test_references_and_memory_come_back(path):
    thing = Thing()
    watched = [thing, Thing, Thing.method, fn.__code__, replacement.__code__, fn.__globals__, native.Entry]

    def counts():
        gc.collect()
        return [sys.getrefcount(o) for o in watched]

    def run():
        for _ in range(ROUNDS):
            path(thing)

    run()
    before = counts()
    grown = growth(run)
    assert counts() == before
    assert grown < ROUNDS * 8, f"{grown} bytes in {ROUNDS} rounds"


def test_codes_and_entries_come_and_go():
    def make():
        namespace = {}
        exec("def fn(a): return a\ndef new(a): return [a]", namespace)
        entry = native.Entry(native.GuardProgram([("local", 0, 0)]), fn_code=namespace["new"].__code__)
        native.add_entry(namespace["fn"].__code__, entry)
        assert native.CompiledFunction(namespace["fn"])(1) == [1]

    def run():
        for _ in range(ROUNDS):
            make()

    run()
    assert growth(run) < ROUNDS * 8
