"""Rows for the standard library: loggers that exist are found without the lock that making one takes."""

import functools
import inspect
import logging
import operator
import threading
import types

import jax.numpy as jnp

import dynacomp
from tests.capture.program_kit import outcome


def named(x):
    logger = logging.getLogger("dynacomp.tests.made_by_nobody_else")
    logger.debug("never shown: %s", x.shape)
    return x + 1, logger


def test_loggers():
    dynacomp.reset()
    compiled = dynacomp.jit(named, backend="eager")
    made = compiled(jnp.ones(2))[1]
    assert made is logging.getLogger(made.name)
    compiled(jnp.ones(2))
    before = dynacomp.stats()["breaks"]
    dynacomp.reset()
    assert before and [compiled(jnp.ones(2))[1] is made for _ in range(2)] == [True, True]
    assert dynacomp.stats()["breaks"] == {}


def test_signatures_are_what_inspect_says():
    def annotated(a, b: "foo", *, c: float = 2.0) -> int: ...  # noqa: F821

    class Thing:
        def any(*args): ...
        def usual(self, arg1, arg2=1) -> int: ...
        half = functools.partialmethod(usual, 1)

    def look(x, thing):
        def made(a, b: "foo", *, c: float = 2.0) -> 123: ...  # noqa: F821
        def starred(*args): ...

        @functools.wraps(thing.usual)
        def wrapper(*args, **kwargs): ...

        def told(*args): ...
        told.__signature__ = inspect.signature(made)
        found = (annotated, made, wrapper, told, thing.any, thing.usual, types.MethodType(starred, x), Thing.half)
        return [str(inspect.signature(f)) for f in found]

    assert dynacomp.jit(look)(1, Thing()) == look(1, Thing())


CONTEXTS = {}


class Context(dict):
    def __init__(self, state, seed):
        super().__init__(state)
        self.seed = seed


def pure(fn):
    """As Ninjax has it: the state of the thread's innermost call."""
    def purified(state, *args, seed):
        before = CONTEXTS.get(threading.get_ident())
        try:
            context = CONTEXTS[threading.get_ident()] = Context(state, seed)
            out = fn(*args)
            return dict(context), out
        finally:
            CONTEXTS[threading.get_ident()] = before
    return purified


def layer(x):
    context = CONTEXTS[threading.get_ident()]
    context["calls"] += 1
    return x @ context["w"] + context.seed


def stateful(x, seed):
    return pure(layer)({"w": jnp.ones((3, 3)), "calls": 0}, x, seed=seed)


def test_what_each_thread_has_under_its_number():
    dynacomp.reset()
    CONTEXTS.clear()
    compiled, wrong = dynacomp.jit(stateful, fullgraph=True), []

    def calls():
        for n in range(6):
            x = jnp.ones((2 + n % 2, 3))
            if str(compiled(x, float(n))) != str(stateful(x, float(n))):
                wrong.append(n)

    calls()
    assert dynacomp.stats()["frames_captured"] <= 2
    compiled = dynacomp.jit(stateful)
    for _ in range(3):
        threads = [threading.Thread(target=calls) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong and set(CONTEXTS.values()) == {None}
    assert dynacomp.stats()["frames_captured"] <= 6


class Scaled:
    @functools.singledispatchmethod
    def of(self, by, x):
        raise NotImplementedError(type(by).__name__)

    @of.register
    def _(self, by: int, x):
        return x * by

    @of.register
    def _(self, by: str, x):
        return x + len(by)


def test_a_method_is_dispatched_by_the_class_of_its_first_argument():
    """The cache in `functools` is a dict of weak references, at which the graph broke, once for each call."""
    def f(x, by):
        return jnp.tanh(Scaled().of(by, x)), Scaled.of.__get__(Scaled()).__name__

    compiled = dynacomp.jit(f, backend="eager")
    dynacomp.reset()
    for by in (2, "ab", 2, "ab"):
        assert str(compiled(jnp.ones(2), by)) == str(f(jnp.ones(2), by))
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"]


def test_makers_of_getters_refuse_what_is_no_name():
    def fn(x, name):
        return x, operator.methodcaller(name)("a"), operator.attrgetter(name)("a").__name__

    compiled = dynacomp.jit(fn, backend="eager")
    for name in ("upper", "lower", None, 3):
        assert repr(outcome(compiled, (jnp.ones(2), name))) == repr(outcome(fn, (jnp.ones(2), name)))
    assert "internal" not in dynacomp.stats()["frames_eager"]
