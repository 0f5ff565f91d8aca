"""What generated programs find around them: classes, context managers, generators, decorators."""

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator

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


@jax.jit
def scaled(a):
    return a * 2 + 1


class Layer(eqx.Module):
    w: jax.Array

    def __call__(self, x):
        return jnp.tanh(x * self.w)


layer = Layer(jnp.asarray(0.5))

NAMES = {k: v for k, v in dict(globals()).items() if not k.startswith("__")}
__all__ = ["NAMES", "Box", "collections", "dataclasses", "itertools", "math", "np", "operator"]
