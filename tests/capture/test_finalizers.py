"""`__del__` runs when it would in plain Python, whatever is captured around it."""

import gc

import jax.numpy as jnp

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
