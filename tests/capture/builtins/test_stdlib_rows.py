"""Rows for the standard library: loggers that exist are found without the lock that making one takes."""

import functools
import inspect
import logging
import types

import jax.numpy as jnp

import dynacomp


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
