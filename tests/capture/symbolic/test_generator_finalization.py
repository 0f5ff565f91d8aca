"""Generators that wait inside `with`: noticing that none is lost costs little, whatever else the program holds."""

import contextlib

import jax.numpy as jnp

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
    walk = generator_finalization._walk
    monkeypatch.setattr(generator_finalization, "_walk",
                        lambda *args: (seen.append(v) or v for v in walk(*args)))
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
