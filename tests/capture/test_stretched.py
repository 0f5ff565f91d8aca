"""`capture.stretched`: what may compute with JAX in a frame that Python is to run."""

import collections
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.bytecode.resume import Layout, resume_code
from dynacomp.capture.stretched import DEPTH, computes, has_jax_in_sight, without_arrays

X = jnp.ones(2)


class Slotted:
    __slots__ = ("held", "unset")

    def __init__(self, held):
        self.held = held


class Asked:
    """It says when it is asked for anything."""

    def __getattr__(self, name):
        raise AssertionError(name)

    @property
    def __dict__(self):
        raise AssertionError("__dict__")

    def __iter__(self):
        raise AssertionError("iter")


@pytest.mark.parametrize("value", [
    X, jnp, jax.nn.relu, jnp.sin, jax.jit(lambda x: x), jnp.float32, [X], {"w": (X,)}, collections.deque([X]),
    Slotted(X), Slotted([X]), types.SimpleNamespace(w=X), jax.random.key(0)], ids=lambda value: type(value).__name__)
def test_what_may_compute(value):
    assert computes(value, DEPTH)


@pytest.mark.parametrize("value", [
    None, 1, "x", np.ones(2), np, np.sin, [1, "a"], {"k": np.ones(1)}, Slotted(3), types.SimpleNamespace(n=1), len,
    lambda x: x, Asked(), Slotted, iter([X])], ids=lambda value: type(value).__name__)
def test_what_may_not(value):
    assert not computes(value, DEPTH)


def rows_then_sum(rows, w):
    found = []
    for row in rows:
        found.append(row * FACTOR + len("w"))  # a constant, and no name
    return jnp.asarray(found) * w


FACTOR = 2


def seen(rows, **names):
    """Whether the loop of `rows_then_sum` has JAX in sight."""
    decoded = decode(rows_then_sum.__code__)
    head = next(i for i in decoded.instrs if i.name == "LOAD_GLOBAL" and i.argval == "jnp")
    behind = resume_code(decoded, Layout(head.index, (), None, ("found", "w")))
    fn = types.FunctionType(rows_then_sum.__code__, {**globals(), **names})
    return has_jax_in_sight(fn.__code__, fn, (rows, X), [behind])


def test_only_what_is_read_on_the_way_counts():
    assert not seen([1, 2])
    assert seen([X]) and seen([1], FACTOR=X)


def watched(rows, w, **names):
    """The places that may have no array of those that the loop of `rows_then_sum` reads."""
    decoded = decode(rows_then_sum.__code__)
    head = next(i for i in decoded.instrs if i.name == "LOAD_GLOBAL" and i.argval == "jnp")
    behind = resume_code(decoded, Layout(head.index, (), None, ("found", "w")))
    fn = types.FunctionType(rows_then_sum.__code__, {**globals(), **names})
    return sorted(str(guard) for guard in without_arrays(fn.__code__, fn, (rows, w), [behind]))


def test_places_that_had_no_array_may_not_have_one_later():
    assert watched([1, 2], X) == ["no array in G['FACTOR']", "no array in L['rows']"]
    assert watched([X], X, FACTOR=X) == []
