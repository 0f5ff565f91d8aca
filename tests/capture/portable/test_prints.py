"""dynacomp.capture.portable: objects as digests and as data; what nothing is known of has neither."""

from __future__ import annotations

import _collections_abc
import collections
import contextlib
import datetime
import decimal
import enum
import functools
import pathlib
import re
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.literals import TypedFloat, TypedInt, TypedNdArray

import dynacomp
from dynacomp.capture.portable.homes import Unportable
from dynacomp.capture.portable.paths import Finder
from dynacomp.capture.portable.prints import prints_of
from dynacomp.capture.portable.references import Reader, Writer

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


def test_what_dynacomp_has_made_of_a_function():
    def compiled(by=1, **options):
        return dynacomp.jit(made(by), **options)

    assert prints_of(compiled()) == prints_of(compiled())
    others = [compiled(), compiled(2), compiled(dynamic=True), compiled(donate_argnums=0), compiled(donate_argnums=1)]
    assert len(set(map(prints_of, others))) == len(others)


def test_numbers_and_arrays_that_jax_has_typed():
    kinds = [TypedFloat(1.0, np.dtype("f4")), TypedFloat(1.0, np.dtype("f8")), TypedFloat(2.0, np.dtype("f4")),
             TypedInt(1, np.dtype("i4")), TypedNdArray(np.ones(2)), TypedNdArray(np.ones(2, "f4")), 1.0]
    assert len(set(map(prints_of, kinds))) == len(kinds)
    number = Reader().read(Writer().write(kinds[0]))
    assert type(number) is TypedFloat and number == 1.0 and number.dtype == "float32"


def test_methods_in_c_paths_and_functions_that_remember():
    @functools.lru_cache(maxsize=2)
    def cached(n):
        return n

    others = [[].append, [1].append, [].extend, pathlib.Path("a"), pathlib.Path("b"), cached,
              functools.lru_cache(maxsize=3)(cached.__wrapped__), functools.lru_cache(maxsize=2)(made(1)),
              datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), datetime.date(2020, 1, 2),
              decimal.Decimal("1.5"), decimal.Decimal("1.50"), re.compile("a"), re.compile("a", re.I), re.compile(b"a")]
    assert len(set(map(prints_of, others))) == len(others)
    assert prints_of([].append) == prints_of([].append) and prints_of(cached) == prints_of(
        functools.lru_cache(maxsize=2)(cached.__wrapped__))
    assert prints_of(_collections_abc) in ("module _collections_abc", "module collections.abc")


def test_nobody_is_asked_for_what_an_object_is():
    """Its class says so: asking the object would run the program's code."""
    asked = []

    class Shy(Plain):
        def __getattribute__(self, name):
            asked.append(name)
            return object.__getattribute__(self, name)

    class Module(types.ModuleType):
        __getattribute__ = Shy.__getattribute__

    for shy in (Shy(1), Module("shy"), [Shy(2)], {"a": Shy(3)}):
        with contextlib.suppress(Unportable):
            prints_of(shy)
        finder = Finder()
        finder.add("root", (shy, Shy))
        assert finder.path(object()) is None
    assert not asked
