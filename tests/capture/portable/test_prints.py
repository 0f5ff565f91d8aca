"""dynacomp.capture.portable: objects as digests and as data; what nothing is known of has neither."""

from __future__ import annotations

import collections
import enum
import functools
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.portable.homes import Unportable
from dynacomp.capture.portable.prints import prints_of

Pair = collections.namedtuple("Pair", "one two")


class Way(enum.Flag):
    IN, OUT = 1, 2


class Plain:
    def __init__(self, x):
        self.x = x


class Slotted(Plain):
    __slots__ = ("y",)


def made(by, default=1):
    def inner(x, y=default):
        return x * by + y
    return inner


@pytest.mark.parametrize("make", [
    lambda n: n, lambda n: float(n), lambda n: (n, "a"), lambda n: [n], lambda n: {"k": n}, lambda n: {n},
    made, lambda n: made(1, n), lambda n: functools.partial(made(1), n), Plain, Slotted, lambda n: Pair(n, None),
    lambda n: Plain([Pair(made(n), n)]), lambda n: Plain(made(n)).x, lambda n: types.MappingProxyType({"a": n}),
    lambda n: types.MethodType(made(1), Plain(n)), lambda n: (lambda: n).__closure__[0],
    lambda n: collections.OrderedDict(a=n), lambda n: collections.deque([n]), lambda n: jnp.full(3, n),
    lambda n: made(jnp.zeros(n)), lambda n: jax.jit(made(n)), lambda n: jax.jit(made(1), static_argnums=n - 1),
])
def test_equal_contents_and_no_others_have_equal_prints(make):
    assert prints_of(make(1)) == prints_of(make(1)) != prints_of(make(2))


def test_kinds_are_told_apart():
    different = [1, 1.0, True, "1", b"1", (1,), [1], {1}, frozenset({1}), 0.0, -0.0, None, jnp.exp, jnp.sin, np.exp,
                 len, Plain, Slotted, np.dtype("f4"), np.dtype("i4"), jax, np, Plain(1), Slotted(1),
                 jnp.ones(()), jnp.asarray(1.0), jnp.ones(1), jnp.ones(1, int), jnp.zeros(1), -jnp.zeros(1)]
    assert len({prints_of(x) for x in different}) == len(different)


def test_flags_have_prints_those_without_a_name_too():
    found = [prints_of(f) for f in (Way(0), Way(0), Way.IN, Way.IN | Way.OUT, Way.OUT)]
    assert found[0] == found[1] and len(set(found)) == 4


def test_a_function_that_holds_itself():
    def made_again():
        def walk(n):
            return n and walk(n - 1)
        return walk
    assert prints_of(made_again()) == prints_of(made_again())


@pytest.mark.parametrize("obj", [
    threading.local(), threading.Lock(), np.ones(2), iter([1]), jnp.ones((1 << 22) + 1), Plain(threading.Lock()),
    made(np.ones(2)), jax.tree_util.DictKey("a"), object(),
    types.SimpleNamespace(a=1),
])
def test_what_nothing_is_known_of_has_no_print(obj):
    if type(obj) is object:
        assert prints_of(obj) == prints_of(object())  # which holds nothing
        return
    with pytest.raises(Unportable):
        prints_of(obj)
