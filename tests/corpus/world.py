"""What generated programs find around them: classes, context managers, generators, decorators."""

import bisect
import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import heapq
import itertools
import json
import math
import operator
import random
import re
import statistics
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class Custom(Exception):
    def __init__(self, text="none", code=0):
        super().__init__(text, code)
        self.code = code


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    a: int
    b: int = 2


class Box:
    """A mutable object with a property, a method and items."""

    def __init__(self, value):
        self.value, self.count, self.name, self.kids = value, 3, "a", []

    @property
    def double(self):
        return self.count * 2

    @double.setter
    def double(self, value):
        self.count = value // 2

    def counter(self):
        self.count += 1
        return self.count

    def apply(self, fn, *args):
        self.value = fn(*args)
        return self.value

    def __setitem__(self, key, value):
        setattr(self, key, value)


class Vec:
    """A container with operators."""

    def __init__(self, xs):
        self.xs = list(xs)

    def __len__(self):
        return len(self.xs)

    def __getitem__(self, index):
        return self.xs[index]

    def __setitem__(self, index, value):
        self.xs[index] = value

    def __iter__(self):
        return iter(self.xs)

    def __contains__(self, x):
        return x in self.xs

    def __add__(self, other):
        return Vec(a + b for a, b in zip(self.xs, other))

    def __iadd__(self, other):
        self.xs = [*self.xs, *other][-5:]
        return self

    def __eq__(self, other):
        return isinstance(other, Vec) and self.xs == other.xs

    def scale(self, x):
        return x * (self.xs[0] if self.xs else 1)


class Noting:
    """A context manager that may swallow ValueErrors."""

    def __init__(self, seen, swallow):
        self.seen, self.swallow = seen, swallow

    def __enter__(self):
        self.seen.append("enter")
        return self

    def __exit__(self, kind, value, tb):
        self.seen.append(kind and kind.__name__)
        return self.swallow and kind is ValueError


@contextlib.contextmanager
def noted(seen, value):
    seen.append(value)
    try:
        yield value
    finally:
        seen.append("left")


def traced(seen):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            seen.append(fn.__name__)
            return fn(*args, **kwargs)
        return wrapper
    return decorate


def helper(a, b):
    return a * 2 if isinstance(b, int) else a + b


def twice(a):
    return a * 2 if a < 40 else a


def spread(a, *rest, k=1, **more):
    return (a + sum(rest) * k + len(more)) % 50


def total(*xs, start=0):
    return sum(xs, start)


def countup(n):
    k = 0
    while k < n:
        yield k
        k += 1


@functools.lru_cache
def cached(a):
    return a * 3 % 7


def fib(a):
    return a if a < 2 else fib(a - 1) + fib(a - 2)


@functools.singledispatch
def kind(value):
    return 0


@kind.register
def _(value: int):
    return 1 + value % 3


@kind.register(list)
@kind.register(tuple)
def _(value):
    return len(value)


@kind.register
def _(value: jax.Array):
    return value.ndim


class Base:
    """The base of generated classes with slots."""

    __slots__ = ("base",)

    def __init__(self, base):
        self.base = base

    def __call__(self, q):
        return self.base + q

    @property
    def half(self):
        return self.base // 2


@functools.total_ordering
class Grade:
    """Ordered by a number, with a value that is computed once."""

    def __init__(self, rank):
        self._rank = rank

    @functools.cached_property
    def rank(self):
        return int(self._rank) % 5

    def __eq__(self, other):
        return self.rank == other.rank if isinstance(other, Grade) else NotImplemented

    def __lt__(self, other):
        return self.rank < other.rank if isinstance(other, Grade) else NotImplemented

    def __hash__(self):
        return self.rank

    def __call__(self, x):
        return x * self.rank

    def __repr__(self):
        return f"Grade({self._rank})"


class Flags(enum.IntFlag):
    LOW = 1
    HIGH = 2


Pair = collections.namedtuple("Pair", "a b", defaults=())
setting = contextvars.ContextVar("setting", default=0)


@types.coroutine
def asleep():
    yield


def driven(coroutine):
    """What a coroutine returns, run without a loop."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value


@jax.custom_vjp
def leaky(x):
    return jnp.where(x > 0, x, x / 4)


leaky.defvjp(lambda x: (leaky(x), x), lambda x, g: (jnp.where(x > 0, g, g / 2),))


def inside(q, by):
    return jnp.tanh(q) * by if by else q


@jax.jit
def scaled(a):
    return a * 2 + 1


class Layer(eqx.Module):
    w: jax.Array

    def __call__(self, x):
        return jnp.tanh(x * self.w)


layer = Layer(jnp.asarray(0.5))

NAMES = {k: v for k, v in dict(globals()).items() if not k.startswith("__")}
__all__ = ["NAMES", "Box", "bisect", "collections", "copy", "dataclasses", "heapq", "itertools", "json", "math", "np",
           "operator", "random", "re", "statistics"]
