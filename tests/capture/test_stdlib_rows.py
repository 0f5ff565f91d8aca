"""Rows for the standard library: loggers that exist are found without the lock that making one takes."""

import logging

import jax.numpy as jnp

import dynacomp
from dynacomp.capture import frame


def named(x):
    logger = logging.getLogger("dynacomp.tests.made_by_nobody_else")
    logger.debug("never shown: %s", x.shape)
    return x + 1, logger


def test_loggers(monkeypatch):
    monkeypatch.setattr(frame, "strict_errors", True)
    dynacomp.reset()
    compiled = dynacomp.jit(named, backend="eager")
    made = compiled(jnp.ones(2))[1]
    assert made is logging.getLogger(made.name)
    compiled(jnp.ones(2))
    before = dynacomp.stats()["breaks"]
    dynacomp.reset()
    assert before and [compiled(jnp.ones(2))[1] is made for _ in range(2)] == [True, True]
    assert dynacomp.stats()["breaks"] == {}
