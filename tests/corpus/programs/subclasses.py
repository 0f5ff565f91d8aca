"""Instances of subclasses of list, dict, tuple, set, int, float, str, ...: content, attributes, overridden methods."""

from __future__ import annotations

import collections

import jax.numpy as jnp

from tests.corpus.kit import program


class Stack(list):
    def __init__(self, xs=(), tag=""):
        super().__init__(xs)
        self.tag = tag

    def push(self, v):
        self.append(v)
        return self

    @property
    def top(self):
        return self[-1]


class Dot(dict):
    def __getattr__(self, k):
        try:
            return self[k]
        except KeyError:
            raise AttributeError(k) from None

    def __setattr__(self, k, v):
        self[k] = v


class Lengths(dict):
    def __missing__(self, k):
        v = self[k] = len(k)
        return v


class Meters(float):
    unit = "m"

    def __add__(self, o):
        return Meters(float(self) + float(o))


class Id(int):
    def __new__(cls, v, name="n"):
        made = super().__new__(cls, v)
        made.name = name
        return made


class Name(str):
    @property
    def head(self):
        return self[0]


class Pair(tuple):
    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))

    def swap(self):
        return Pair(self[1], self[0])


class Bag(set):
    def total(self):
        return sum(self)


class Recent(collections.OrderedDict):
    def __setitem__(self, k, v):
        super().__setitem__(k, v)
        self.move_to_end(k)


class Ring(collections.deque):
    def push(self, v):
        self.append(v)


class Groups(collections.defaultdict):
    kind = "groups"


class Loud(list):
    """Overrides what `len`, `in`, `[]`, `bool` and loops ask for."""

    def __len__(self):
        return 100

    def __getitem__(self, i):
        return ("item", super().__getitem__(i))

    def __iter__(self):
        return iter([9, 8])

    def __contains__(self, x):
        return x == 42

    def __bool__(self):
        return False

    def __eq__(self, other):
        return "equal"

    __hash__ = None


class Folded(str):
    def __eq__(self, other):
        return self.lower() == other.lower()

    def __hash__(self):
        return hash(self.lower())

    def __str__(self):
        return f"<{super().__str__()}>"


class Polar(complex):
    @property
    def size(self):
        return abs(self)


class Tag(bytes):
    pass


class Fixed(frozenset):
    def __repr__(self):
        return f"Fixed{sorted(self)}"


LOG = Stack(tag="log")


@program
def list_with_attributes(x):
    s = Stack([1, 2], tag="t")
    s.push(x * 2)
    s.tag += "!"
    return s, s.top + 1, len(s), s.tag, [v for v in s], s[0:2], s + [1], [0] + s, sum(s[:2]), 1 in s, s * 2


@program
def dict_by_attributes(x):
    d = Dot(a=x)
    d.b = d.a + 1
    d["c"] = 3
    return d, d.b * d.c, sorted(d), {**d}, dict(d), hasattr(d, "zz"), d | {"e": 1}, d == {"a": 1}


@program
def dict_with_missing(x):
    d = Lengths()
    return x * d["abc"], d, d.get("q"), "abc" in d


@program
def float_with_units(x):
    a, b = Meters(1.5) + Meters(2), Meters(3) * 2
    return a, b, x * a, a > 3, f"{a:.2f}", repr(a), a.unit, int(a), round(a), a.is_integer()


@program
def int_with_a_name(x):
    i = Id(2, "two")
    return (i, x[i], i + 1, 1 + i, [10, 20, 30][i], i == 2, {i: 1}[2], i.name, -i, i << 2, str(i), range(i), hash(i),
            x + i, i * x)


@program
def str_with_a_property(x):
    n = Name("hello")
    return (n, n.head, n + "!", n.upper(), "ell" in n, f"{n}>", {n: x}["hello"], len(n), list(n), "%s" % n,
            n.split("l"), ",".join([n, n]), n[1:3], n == "hello", "hello" == n)


@program
def tuple_with_methods(x):
    p = Pair(x, 2)
    a, b = p.swap()
    return p, a * b, isinstance(p, tuple), tuple(p), p + (1,), p[0], len(p), p[::-1]


@program
def set_with_methods(x):
    b = Bag([1, 2])
    b.add(3)
    return x * b.total(), b, b | {9}, 2 in b, len(b), b & {1}, {1} <= b, b == {1, 2, 3}


@program
def ordered_dict_that_moves(x):
    d = Recent(a=1, b=2)
    d["a"] = x
    return d, list(d)


@program
def deque_with_methods(x):
    d = Ring([1, 2], maxlen=3)
    d.push(x)
    d.push(4)
    return d, d.maxlen, d[0], len(d)


@program
def defaultdict_with_attributes(x):
    d = Groups(list)
    d["a"].append(x)
    d["b"]
    return d, d.default_factory, d.kind


@program
def overridden_protocol(x):
    s = Loud([1, 2])
    s.append(3)
    return x, len(s), s[0], list(s), 42 in s, bool(s), s == 1, [*s], list.__len__(s), list.__getitem__(s, 2)


@program
def text_with_its_own_equality(x):
    a, b = Folded("Abc"), Folded("aBC")
    return x, a == b, {a: 1}[b], a != "x", f"{a}", str(a), "%s" % "q", len({a, b}), a in [b]


@program
def other_bases(x):
    p, t, f = Polar(3, 4), Tag(b"ab"), Fixed([2, 1])
    return x * p.size, p.real, p + 1, t + b"c", t[0], len(t), repr(f), 1 in f, f | {7}, {f: 1}[f]


def existing_objects():
    return (jnp.arange(3.0), Stack([jnp.ones(2), 2], tag="q"), Dot(a=1, b=jnp.ones(2)), Id(4), Name("nm"), Bag([1]),
            Pair(1, jnp.zeros(2)), Ring([1, 2], 5), Groups(int, {"k": 1}), Recent(a=1, b=2))


@program(args=existing_objects)
def changes_to_existing_objects(x, s, d, i, n, b, p, q, g, r):
    s.push(x)
    s.tag = "changed"
    d.c = x * 2
    b.add(i)
    q.push(7)
    g["z"] += 1
    r["a"] = 3
    r["c"] = 5
    LOG.push(x)
    return x + s[0].sum() * i, s, n.head, p.swap(), len(q), s is s, [v for v in r], LOG.tag


@program(args=existing_objects, breaks={"effect": 1})
def across_a_break(x, s, d, i, n, b, p, q, g, r):
    s.push(x * 2)
    new = Stack([1], tag="n")
    new.push(3)
    first = Pair(new, x + 1)
    print("here")
    new.push(4)
    s.push(5)
    return s, new, first, first[1] * 2, s.tag


class Registry(dict):
    """Counts what happens to it, in methods that the built-in ones do not call."""

    def __init__(self, *args, **kwargs):
        self.stores = 0
        super().__init__(*args, **kwargs)

    def __setitem__(self, k, v):
        self.stores += 1
        super().__setitem__(k, v)

    def __delitem__(self, k):
        self.stores -= 1
        dict.__delitem__(self, k)


@program
def builtin_methods_bypass_overrides(x):
    r = Registry(a=1)
    r.update(b=2)
    r["c"] = x
    r.setdefault("d", 4)
    del r["a"]
    return r, r.stores, r.pop("b"), r.get("c"), list(r.items()), r.copy(), r.fromkeys


class Vector(collections.namedtuple("Vector", "x y")):
    __slots__ = ()

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __bool__(self):
        return False


@program
def named_tuple_with_operators(x):
    v = Vector(1, x) + Vector(2, 3)
    return v, bool(v), len(v), v._replace(x=5), v.x, [e for e in v]


class Point(collections.namedtuple("Point", "x y")):
    """Without __slots__: it has a dictionary too."""

    def norm(self):
        self.seen = True
        return self.x + self.y


@program
def named_tuple_with_a_dict(x):
    p = Point(x, 2)
    return p.norm(), p.seen, p, p._replace(y=3), p[0]
