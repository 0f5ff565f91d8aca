"""Objects that a program makes anew for each call: what makes one of a number, and what uses it.

    OBJECTS["partial"] == (lambda i: functools.partial(operator.mul, n(i)), lambda o, x: o(x))

Objects of two numbers differ in one thing, which the use shows, and in nothing else.
"""

# ruff: noqa: E731

from __future__ import annotations

import array
import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import operator
import pathlib
import random
import re
import string
import types
import typing
import uuid
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class E(enum.Enum):
    A, B, C = 1, 2, 3


class IE(enum.IntEnum):
    A, B, C = 1, 2, 3


class FL(enum.Flag):
    A, B, C = 1, 2, 4


P = collections.namedtuple("P", "a b")


class TN(typing.NamedTuple):
    a: float
    b: object = None


@dataclasses.dataclass
class D:
    a: object
    b: object = 1


@dataclasses.dataclass(frozen=True)
class FD:
    a: object
    b: object = 1


@dataclasses.dataclass(eq=False)
class ND:
    a: object


class S:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class O:  # noqa: E742
    def __init__(self, a):
        self.a = a

    def __call__(self, x):
        return x * self.a

    def m(self, x):
        return x + self.a

    @property
    def p(self):
        return self.a * 2


class SubInt(int):
    pass


class SubFloat(float):
    def __new__(cls, value, extra):
        made = float.__new__(cls, value)
        made.extra = extra
        return made


class SubStr(str):
    pass


class SubDict(dict):
    pass


class SubList(list):
    pass


class SubTuple(tuple):
    pass


class LyingEq:
    def __init__(self, a):
        self.a = a

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


class Getter:
    def __init__(self, a):
        object.__setattr__(self, "_d", {"a": a})

    def __getattr__(self, name):
        try:
            return object.__getattribute__(self, "_d")[name]
        except KeyError:
            raise AttributeError(name) from None


class Cached:
    def __init__(self, a):
        self.z = a

    @functools.cached_property
    def a(self):
        return self.z * 2


class Shown:
    def __get__(self, obj, cls):
        return obj.__dict__["q"]


class WithDescriptor:
    a = Shown()

    def __init__(self, q):
        self.__dict__["q"] = q


class Meta(type):
    @property
    def a(cls):
        return cls.q * 2


def class_of_three(i):
    return type("K", (), {"a": i})


def class_with_cell(i):
    class K:
        a = i

        def f(self, x):
            return x * i

    return K


def class_of_meta(i):
    class K(metaclass=Meta):
        q = i

    return K


def with_cell(i):
    def f(x):
        return x * i

    return f


def with_default(i):
    def f(x, k=i):
        return x * k

    return f


def with_keyword(i):
    def f(x, *, k=i):
        return x * k

    return f


def with_attribute(i):
    def f(x):
        return x * f.a

    f.a = i
    return f


def with_globals(i):
    scope = {"q": i}
    exec("def f(x): return x * q", scope)
    return scope["f"]


def with_code(i):
    return eval(f"lambda x: x * {i}")


def nested(i):
    def deep():
        def f(x):
            return x * i

        return f

    return deep()


def module(i):
    made = types.ModuleType("made")
    made.a = i
    return made


def begun(i):
    iterator = iter([1, 2, 3, i])
    next(iterator)
    if i % 2:
        next(iterator)
    return iterator


def manager(i):
    @contextlib.contextmanager
    def made():
        yield i

    return made


def with_property(i):
    class K:
        @property
        def a(self):
            return i

    return K()


def with_own_class(i):
    class K:
        pass

    made = K()
    made.a = i
    return made


def with_super(i):
    class K(O):
        def m(self, x):
            return super().m(x) * i

    return K(1)


def entered(manager, x):
    with manager() as value:
        return x * value


KEEP = [O(k + 1) for k in range(4)]
n = lambda i: i % 4 + 1
add = lambda o, x: x + o.a


OBJECTS: dict[str, tuple[Any, Any]] = {
    "int": (n, lambda o, x: x * o),
    "float": (lambda i: n(i) * 0.5, lambda o, x: x * o),
    "complex": (lambda i: complex(n(i), 1), lambda o, x: x * o),
    "bool": (lambda i: bool(i % 2), lambda o, x: x * o),
    "none": (lambda i: None if i % 3 == 0 else i, lambda o, x: x if o is None else x * 2),
    "str": (lambda i: "abcd"[:n(i)], lambda o, x: x * len(o)),
    "bytes": (lambda i: bytes([n(i)]), lambda o, x: x * o[0]),
    "bytearray": (lambda i: bytearray([n(i)]), lambda o, x: x * o[0]),
    "tuple": (lambda i: (n(i), 2), lambda o, x: x * o[0]),
    "list": (lambda i: [n(i), 2], lambda o, x: x * o[0]),
    "nest": (lambda i: {"a": [(n(i), {"b": i})]}, lambda o, x: x * o["a"][0][1]["b"]),
    "dict": (lambda i: {"a": n(i)}, lambda o, x: x * o["a"]),
    "dictorder": (
        lambda i: dict(reversed([("a", 1), ("b", 2)]) if i % 2 else [("a", 1), ("b", 2)]),
        lambda o, x: x * next(iter(o.values()))),
    "dictkeys": (lambda i: {n(i): 1}, lambda o, x: x * sum(o)),
    "set": (lambda i: {n(i), 9}, lambda o, x: x * min(o)),
    "frozenset": (lambda i: frozenset({n(i), 9}), lambda o, x: x * min(o)),
    "range": (lambda i: range(n(i)), lambda o, x: x * len(o)),
    "slice": (lambda i: slice(n(i) - 1, None), lambda o, x: x[o]),
    "ellipsis": (lambda i: ... if i % 2 else 0, lambda o, x: x[o]),
    "enum": (lambda i: list(E)[i % 3], lambda o, x: x * o.value),
    "intenum": (lambda i: list(IE)[i % 3], lambda o, x: x * o),
    "flag": (lambda i: FL(1 + i % 7), lambda o, x: x * o.value),
    "nt": (lambda i: P(n(i), 2), lambda o, x: x * o.a),
    "tn": (lambda i: TN(n(i)), lambda o, x: x * o.a),
    "dc": (lambda i: D(n(i)), add),
    "fdc": (lambda i: FD(n(i)), add),
    "ndc": (lambda i: ND(n(i)), add),
    "dcnest": (lambda i: FD(FD(D(n(i)))), lambda o, x: x * o.a.a.a),
    "slots": (lambda i: S(n(i)), add),
    "obj": (lambda i: O(n(i)), add),
    "objcall": (lambda i: O(n(i)), lambda o, x: o(x)),
    "objmeth": (lambda i: O(n(i)).m, lambda o, x: o(x)),
    "objprop": (lambda i: O(n(i)), lambda o, x: x * o.p),
    "subint": (lambda i: SubInt(n(i)), lambda o, x: x * o),
    "subfloat": (lambda i: SubFloat(1.0, n(i)), lambda o, x: x * o.extra),
    "substr": (lambda i: SubStr("ab" * n(i)), lambda o, x: x * len(o)),
    "subdict": (lambda i: SubDict(a=n(i)), lambda o, x: x * o["a"]),
    "sublist": (lambda i: SubList([n(i)]), lambda o, x: x * o[0]),
    "subtuple": (lambda i: SubTuple([n(i)]), lambda o, x: x * o[0]),
    "lyingeq": (lambda i: LyingEq(n(i)), add),
    "getter": (lambda i: Getter(n(i)), add),
    "cached": (lambda i: Cached(n(i)), add),
    "desc": (lambda i: WithDescriptor(n(i)), add),
    "cls": (lambda i: class_of_three(n(i)), add),
    "cls2": (lambda i: class_with_cell(n(i)), lambda o, x: o().f(x) + o.a),
    "cls3": (lambda i: class_of_meta(n(i)), add),
    "fn": (lambda i: with_cell(n(i)), lambda o, x: o(x)),
    "fn2": (lambda i: with_default(n(i)), lambda o, x: o(x)),
    "fn3": (lambda i: with_keyword(n(i)), lambda o, x: o(x)),
    "fn4": (lambda i: with_attribute(n(i)), lambda o, x: o(x)),
    "fn5": (lambda i: with_globals(n(i)), lambda o, x: o(x)),
    "fn6": (lambda i: with_code(n(i)), lambda o, x: o(x)),
    "fn7": (lambda i: nested(n(i)), lambda o, x: o(x)),
    "builtin": (lambda i: [jnp.sin, jnp.cos, abs, jnp.tanh][i % 4], lambda o, x: o(x)),
    "partial": (lambda i: functools.partial(operator.mul, n(i)), lambda o, x: o(x)),
    "partialkw": (lambda i: functools.partial(lambda x, k: x * k, k=n(i)), lambda o, x: o(x)),
    "partialfn": (lambda i: functools.partial([jnp.add, jnp.multiply][i % 2], 2), lambda o, x: o(x)),
    "itemgetter": (lambda i: operator.itemgetter(i % 3), lambda o, x: x * o([1, 2, 3])),
    "attrgetter": (lambda i: operator.attrgetter("ab"[i % 2]), lambda o, x: x * o(P(3, 5))),
    "methodcaller": (lambda i: operator.methodcaller("sum" if i % 2 else "max"), lambda o, x: o(x)),
    "jit": (lambda i: jax.jit(with_cell(n(i))), lambda o, x: o(x)),
    "grad": (lambda i: jax.grad(lambda v: (v * v * i).sum()), lambda o, x: o(x)),
    "vmap": (lambda i: jax.vmap(with_cell(n(i))), lambda o, x: o(x)),
    "jpartial": (lambda i: jax.tree_util.Partial(jnp.multiply, n(i)), lambda o, x: o(x)),
    "jpartial2": (lambda i: jax.tree_util.Partial([jnp.sin, jnp.cos][i % 2]), lambda o, x: o(x)),
    "mod": (lambda i: module(n(i)), add),
    "ns": (lambda i: types.SimpleNamespace(a=n(i)), add),
    "mapproxy": (lambda i: types.MappingProxyType({"a": n(i)}), lambda o, x: x * o["a"]),
    "chainmap": (lambda i: collections.ChainMap({} if i % 2 else {"a": 5}, {"a": n(i)}), lambda o, x: x * o["a"]),
    "counter": (lambda i: collections.Counter("aab" * n(i)), lambda o, x: x * o["a"]),
    "odict": (lambda i: collections.OrderedDict(a=n(i)), lambda o, x: x * o["a"]),
    "ddict": (lambda i: collections.defaultdict([int, lambda: 7][i % 2]), lambda o, x: x * (o["z"] + 1)),
    "deque": (lambda i: collections.deque([n(i), 2], maxlen=3), lambda o, x: x * o[0]),
    "frac": (lambda i: fractions.Fraction(n(i), 3), lambda o, x: x * float(o)),
    "dec": (lambda i: decimal.Decimal(n(i)), lambda o, x: x * float(o)),
    "date": (lambda i: datetime.date(2020, 1, n(i)), lambda o, x: x * o.day),
    "td": (lambda i: datetime.timedelta(n(i)), lambda o, x: x * o.days),
    "path": (lambda i: pathlib.Path("a" * n(i)), lambda o, x: x * len(o.name)),
    "re": (lambda i: re.compile("a" * n(i)), lambda o, x: x * len(o.pattern)),
    "uuid": (lambda i: uuid.UUID(int=n(i)), lambda o, x: x * o.int),
    "template": (lambda i: string.Template("$a" * n(i)), lambda o, x: x * len(o.template)),
    "arr": (lambda i: array.array("d", [n(i)]), lambda o, x: x * o[0]),
    "mv": (lambda i: memoryview(bytes([n(i)])), lambda o, x: x * o[0]),
    "npf": (lambda i: np.float32(n(i)), lambda o, x: x * o),
    "npi": (lambda i: np.int64(n(i)), lambda o, x: x * o),
    "npa": (lambda i: np.full(3, n(i), np.float32), lambda o, x: x * o),
    "npa0": (lambda i: np.array(float(n(i))), lambda o, x: x * o),
    "npdt": (lambda i: np.dtype([np.float16, np.int32, np.float32, np.int8][i % 4]), lambda o, x: x.astype(o)),
    "npcls": (lambda i: [np.float16, np.int32, np.float32, np.int8][i % 4], lambda o, x: x.astype(o)),
    "npdtarr": (lambda i: np.ones(3, [np.float16, np.int32, np.float32, np.int8][i % 4]), lambda o, x: x * o),
    "npobj": (lambda i: np.array([n(i), None], object), lambda o, x: x * o[0]),
    "npstr": (lambda i: np.array(["a" * n(i)]), lambda o, x: x * len(o[0])),
    "nprng": (lambda i: np.random.default_rng(i), lambda o, x: x * o.random()),
    "nprs": (lambda i: np.random.RandomState(i), lambda o, x: x * o.rand()),
    "rnd": (lambda i: random.Random(i), lambda o, x: x * o.random()),
    "npord": (
        lambda i: np.asarray(np.arange(6).reshape(2, 3) * n(i), order="CF"[i % 2]),
        lambda o, x: x * o.ravel("K")[:3]),
    "nptime": (lambda i: np.datetime64(f"2020-01-0{n(i)}"), lambda o, x: x * int(str(o)[-1])),
    "ja": (lambda i: jnp.full(3, n(i), jnp.float32), lambda o, x: x * o),
    "ja0": (lambda i: jnp.float32(n(i)), lambda o, x: x * o),
    "jadt": (lambda i: jnp.ones(3, [jnp.float16, jnp.int32, jnp.float32, jnp.int8][i % 4]), lambda o, x: x * o),
    "jaweak": (
        lambda i: jnp.asarray(2.0) if i % 2 else jnp.asarray(2.0, jnp.float32),
        lambda o, x: x.astype(jnp.float16) * o),
    "key": (lambda i: jax.random.key(i), lambda o, x: x + jax.random.normal(o, x.shape)),
    "prng": (lambda i: jax.random.PRNGKey(i), lambda o, x: x + jax.random.normal(o, x.shape)),
    "jdt": (lambda i: [jnp.float16, jnp.int32, jnp.float32, jnp.bfloat16][i % 4], lambda o, x: x.astype(o)),
    "finfo": (lambda i: jnp.finfo([jnp.float16, jnp.float32][i % 2]), lambda o, x: x * float(o.eps)),
    "sds": (lambda i: jax.ShapeDtypeStruct((n(i),), jnp.float32), lambda o, x: jnp.ones(o.shape, o.dtype) * x[0]),
    "treedef": (lambda i: jax.tree.structure([(0,) * n(i)]), lambda o, x: x * o.num_leaves),
    "intervals": (lambda i: jnp.linspace(0, n(i), 3), lambda o, x: x * o),
    "gen": (lambda i: (v * n(i) for v in range(3)), lambda o, x: x * sum(o)),
    "iter": (lambda i: begun(n(i)), lambda o, x: x * next(o)),
    "count": (lambda i: itertools.count(n(i)), lambda o, x: x * next(o)),
    "cycle": (lambda i: itertools.cycle([n(i), 2]), lambda o, x: x * next(o)),
    "chain": (lambda i: itertools.chain([n(i)], [2]), lambda o, x: x * next(o)),
    "zip": (lambda i: zip([n(i)], [2]), lambda o, x: x * next(o)[0]),
    "mapit": (lambda i: map(with_cell(n(i)), [1, 2]), lambda o, x: x * next(o)),
    "enumit": (lambda i: enumerate([5], n(i)), lambda o, x: x * next(o)[0]),
    "dictit": (lambda i: iter({n(i): 1}.items()), lambda o, x: x * next(o)[0]),
    "rev": (lambda i: reversed([1, n(i)]), lambda o, x: x * next(o)),
    "ctx": (lambda i: manager(n(i)), entered),
    "prop": (lambda i: with_property(n(i)), add),
    "dyn": (lambda i: with_own_class(n(i)), add),
    "over": (lambda i: with_super(n(i)), lambda o, x: o.m(x)),
    "weak": (lambda i: weakref.ref(KEEP[i % 4]), lambda o, x: x * o().a),
    "cmp": (
        lambda i: functools.cmp_to_key((lambda a, b: a - b) if i % 2 else lambda a, b: b - a),
        lambda o, x: x * sorted([3, 1, 2], key=o)[0]),
    "reduce": (lambda i: [operator.add, operator.mul][i % 2], lambda o, x: functools.reduce(o, [x, 2, 3])),
    "ufunc": (lambda i: [np.add, np.multiply][i % 2], lambda o, x: o(x, 3)),
    "jufunc": (lambda i: [jnp.add, jnp.multiply][i % 2], lambda o, x: o(x, 3)),
    "single": (lambda i: functools.singledispatch(with_cell(n(i))), lambda o, x: o(x)),
    "lru": (lambda i: functools.lru_cache(with_cell(n(i))), lambda o, x: x * o(2)),
    "wraps": (lambda i: functools.wraps(with_cell(1))(with_cell(n(i))), lambda o, x: o(x)),
    "static": (lambda i: staticmethod(with_cell(n(i))), lambda o, x: o(x)),
    "cell": (lambda i: types.CellType(n(i)), lambda o, x: x * o.cell_contents),
    "code": (lambda i: types.FunctionType(with_code(n(i)).__code__, {}), lambda o, x: o(x)),
    "methodtype": (lambda i: types.MethodType(lambda s, x: x * s, n(i)), lambda o, x: o(x)),
    "ann": (
        lambda i: type("A", (), {"__annotations__": {"a": int, "b": int} if i % 2 else {"a": int}}),
        lambda o, x: x * len(o.__annotations__)),
    "exc": (lambda i: ValueError("a" * n(i)), lambda o, x: x * len(str(o))),
    "typ": (lambda i: [int, float, list, dict][i % 4], lambda o, x: x * (1 + isinstance(1, o))),
    "union": (lambda i: (int, float) if i % 2 else (list,), lambda o, x: x * (1 + isinstance(1, o))),
    "alias": (lambda i: list[[int, float][i % 2]], lambda o, x: x * (2 if o.__args__[0] is int else 3)),
    "custom": (lambda i: jax.custom_jvp(with_cell(n(i))), lambda o, x: o(x) if o.__wrapped__ else x),
    "checkp": (lambda i: jax.checkpoint(with_cell(n(i))), lambda o, x: jax.grad(lambda v: o(v).sum())(x)),
}
