"""Calls and recompiles leak nothing; JAX's own caches, which are bounded, are emptied before counting."""

import gc
import resource
import sys
import time
import tracemalloc
import types
import weakref

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.bytecode import resume

X = jnp.ones(8)


def held():
    """Bytes that Python holds when nothing is cached or waits for collection."""
    jax.clear_caches()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def grown(work, rounds):
    """Bytes that Python holds more after `rounds` of work than after a warm-up."""
    work(rounds // 4 or 1)
    tracemalloc.start()
    try:
        work(rounds // 4 or 1)
        before = held()
        work(rounds)
        return held() - before
    finally:
        tracemalloc.stop()


def calls(n):
    f = dynacomp.jit(lambda a, k: {"y": jnp.abs(a) * k, "x": a})

    def work(rounds):
        for _ in range(rounds):
            f(X, 2)

    references = sys.getrefcount(X)
    bytes_grown = grown(work, n)
    assert sys.getrefcount(X) - references < 5
    return bytes_grown


# What makes each call a recompile: program text with the round's number in it; `f` is called with X.
KINDS = {
    "break": "def f(a): return (print(end=''), a + {k})[1] * 2",
    "closure": "def f(a, k={k}): return (lambda v: v + k)(a)",
    "global": "n = {k}\ndef f(a):\n global n\n n += 1\n return a * n",
    "exception": "def f(a):\n try:\n  raise KeyError({k})\n except KeyError as e:\n  return a + e.args[0]",
    "raises": "def f(a): return a + 1, [][{k}]",
    "inner generator": "def f(a): return sum(a + i for i in range(3)) + {k}",
    "class": "class C:\n def m(self, a): return a + {k}\ndef f(a): return C().m(a), C",
    "loop": "def f(a):\n for i in range(2):\n  print(end='')\n  a = a + i + {k}\n return a",
    "generator": "def f(a):\n for i in range(2):\n  print(end='')\n  yield a + i + {k}",
    "coroutine": "async def g(a): return a + {k}\nasync def f(a): return await g(a) * 2",
    "async generator": "async def g(a): yield a + {k}\nasync def f(a): return [b async for b in g(a)]",
    "property": "class C:\n p = property(lambda self: {k})\ndef f(a): return a + C().p, C",
    "class method": "class C:\n @classmethod\n def m(cls, a): return a + {k}\ndef f(a): return C.m(a), C",
    "slots": "class C:\n __slots__ = 'x'\nc = C()\nc.x = {k}\ndef f(a): return a + c.x, c",
    "namespace": "from types import SimpleNamespace\nc = SimpleNamespace(x={k})\ndef f(a): return a + c.x, c",
    "own function": "def f(a, n=2):\n print(end='')\n return f(a, n - 1) if n else a + {k}",
}


def finished(result):
    """What a call gives, generators and coroutines run to their end."""
    if not isinstance(result, types.CoroutineType):
        return list(result)
    try:
        result.send(None)
    except StopIteration as stop:
        return stop.value


def recompile(kind, k):
    """One compiled function in a namespace of its own, which is returned."""
    namespace = {}
    exec(KINDS[kind].format(k=k), namespace)
    try:
        assert len(finished(dynacomp.jit(namespace["f"], backend="eager")(X)))
    except IndexError:
        assert kind == "raises"
    return namespace


def recompiles(n, kinds=tuple(KINDS)):
    def work(rounds):
        for k in range(rounds):
            recompile(kinds[k % len(kinds)], k)

    return grown(work, n)


def shapes(n):
    f = dynacomp.jit(lambda a: a + 1, backend="eager", dynamic=False)

    def work(rounds):
        for k in range(rounds):
            assert f(jnp.ones(k % 50 + 1)).shape == (k % 50 + 1,)
            dynacomp.reset() if k % 8 == 7 else None

    return grown(work, n)


def least(measure, bound):
    """What remains, at its least of three times: a table of JAX's or of ours that grows once is no leak."""
    found = measure()
    for _ in range(2):
        found = found if found < bound else measure()
    return found


def test_calls():
    assert calls(10_000) < 20_000


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", KINDS)
def test_recompiles(kind):
    bound = 25 * 2_000  # the long version is strict
    assert least(lambda: recompiles(25, (kind,)), bound) < bound


@pytest.mark.slow
def test_shapes():
    assert least(lambda: shapes(80), 80 * 2_000) < 80 * 2_000


def left_of(held):
    """What lives on once JAX has computed what nobody waits for: arrays that are made behind the program know the
    code that asked for them (JAX's tracebacks), and let go of it at the collection that follows."""
    for _ in range(100):
        gc.collect()
        if all(ref() is None for ref in held):
            break
        time.sleep(0.02)
    return [ref() for ref in held]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_outlives_the_function(kind):
    """Neither its namespace nor its code, nor the code that was made of it."""
    jax.clear_caches()
    gc.collect()
    before = len(resume._MADE)
    namespace = recompile(kind, 3)
    namespace["here"] = here = types.FunctionType((lambda: 0).__code__, namespace)
    held = [weakref.ref(namespace["f"]), weakref.ref(namespace["f"].__code__), weakref.ref(here)]
    del namespace, here
    jax.clear_caches()
    assert left_of(held) == [None] * 3 and len(resume._MADE) == before


@pytest.mark.slow
def test_many_recompiles():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert recompiles(1_000) < 1_000 * 500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
