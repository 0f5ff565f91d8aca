"""Lists, tuples, dicts, sets: their methods, views, operators, slices, aliasing."""

from __future__ import annotations

import array
import collections

import jax.numpy as jnp
from tests.corpus.kit import ANY, program

TABLE: dict = {"a": 1}
NAMES: set = {"one", "two", "three"}


def lists():
    inner = [1, 2]
    return jnp.arange(3.0), [inner, inner, 5], {"k": inner}


@program
def list_methods(x):
    a = [3, 1, 2]
    a.append(5)
    a.extend((7, 8))
    a.insert(1, "i")
    a.remove(7)
    b = a.pop(), a.pop(0), a.index(2), a.count(1)
    a.reverse()
    c = a.copy()
    c.clear()
    d = sorted([3, 1, 2], reverse=True)
    d.sort()
    return x, a, b, c, d


@program
def list_slices(x):
    a = list(range(10))
    b = a[2:8:2], a[::-1], a[-3:], a[:100]
    a[1:3] = ["x", "y", "z"]
    del a[-2:]
    a[::4] = [0] * len(a[::4])
    return x, a, b


@program
def list_operators(x):
    a = [1, 2]
    b = a
    b += [3]
    c = a + [4]
    a *= 2
    return x, a, b is a, c, [0] * 3, [1] < [2], [1, 2] == [1, 2], 2 in a, [x, 1] == [x, 1]


@program(args=lists)
def aliased_arguments(x, a, d):
    a[0].append(x)
    d["k"].append(4)
    a[1][0] = "first"
    a.append(d)
    return a[0] is d["k"], len(a[1])


@program(args=lambda: (jnp.arange(3.0), [1], [2]))
def distinct_arguments(x, a, b):
    a.append(x)
    b.extend(a)
    return a is b


@program(args=lambda: (lambda q: (jnp.arange(3.0), q, q))([1]))
def same_argument_twice(x, a, b):
    a.append(2)
    b.append(3)
    return a is b, len(a)


@program
def list_of_itself(x):
    a = [1]
    a.append(a)
    return x, a


@program
def nested_structures(x):
    t = {"a": [1, {"b": (2, [x])}]}
    t["a"][1]["b"][1].append(x * 2)
    (_, [_, y]) = t["a"][1]["b"]
    return t, y


@program
def mutation_while_iterating(x):
    a = [1, 2, 3]
    for v in a:
        if v < 5:
            a.append(v + 3)
    return x, a


@program
def dict_methods(x):
    d = {"a": 1, "b": 2}
    d["c"] = x
    out = [d.get("a"), d.get("z"), d.get("z", 9), d.setdefault("d", []), d.pop("b"), d.pop("no", None)]
    d.setdefault("d", 5).append(1)
    d.update({"e": 5}, f=6)
    out.append(d.popitem())
    e = d.copy()
    del d["a"]
    return out, d, e, list(e), len(d), "a" in d, dict.fromkeys("ab", 0), dict(zip("ab", (1, 2))), dict(a=1, **{"b": 2})


@program
def dict_views_are_live(x):
    d = {"a": 1}
    keys, values, items = d.keys(), d.values(), d.items()
    d["b"] = 2
    return (x, list(keys), list(values), list(items), len(keys), "b" in keys, 2 in values, ("b", 2) in items,
            keys & {"a"}, keys | {"z"}, keys - {"a"}, keys == {"a", "b"}, sorted(items), keys, values, items,
            keys.isdisjoint({"q"}), items & {("a", 1)})


@program
def dict_operators(x):
    a, b = {"a": 1, "b": 2}, {"b": 3}
    c = a | b
    a |= b
    return x, c, a, a == {"a": 1, "b": 3}, {**a, "z": 0}, list(reversed(a)), {1: "a"} == {1.0: "a"}, {True: 1}[1]


@program
def dict_changed_while_iterating(x):
    d = {"a": 1, "b": 2}
    try:
        for k in d:
            d[k + "x"] = 1
    except RuntimeError as error:
        return x, str(error), d


@program(args=lambda: (jnp.arange(3.0), {"b": 1, "a": [2]}))
def dict_argument(x, d):
    d["c"] = x
    d["a"].append(3)
    del d["b"]
    d["b"] = 5
    for k, v in list(d.items()):
        if k == "c":
            d[k] = v + 1
    return sorted(d)


@program
def comprehensions(x):
    return (x, [a * b for a in range(3) for b in range(a)], {k: v for k, v in zip("ab", range(2))},
            {c for c in "hello"} == set("hello"), [[c for c in r] for r in ([1, 2], [3])],
            [y for y in range(10) if y % 2 if y > 3], sum(i * j for i in range(3) for j in range(3)))


@program
def comprehension_scopes(x):
    y = 10
    z = [y * i for i in range(3)]
    fs = [lambda: i + y for i in range(2)]
    return x, z, [f() for f in fs], [(i, j) for i in range(2) for j in [i * 10]]


@program
def set_methods(x):
    s = {1, 2, 3}
    s.add(4)
    s.discard(9)
    s.remove(1)
    s.update([7, 8], {9})
    t = s.copy()
    t.intersection_update({2, 3, 100})
    u = {1, 2} | {3}, {1, 2} & {2}, {1, 2} - {2}, {1, 2} ^ {2, 3}, {1} <= {1, 2}, {1, 2} > {1}
    s -= {2}
    s |= {50}
    return x, s, t, u, s.union([1]), s.isdisjoint({99}), len(s), frozenset([1, 2]) | {3}, 3 in s, {1, 2} == {2, 1}


@program(hits=False)  # putting NAMES back changes its order
def set_order(x):
    s = {"pear", "apple", "fig"}
    t = set("hello world")
    t.discard("h")
    return x, list(s), list(t), sorted(t), [n for n in NAMES], "".join({"a", "b", "c"}), {10, 3, 7}.pop()


@program(hits=False)  # the same
def set_global_mutated(x):
    NAMES.add("four")
    NAMES.discard("one")
    return x, len(NAMES)


@program
def frozen_sets_as_keys(x):
    d = {frozenset((1, 2)): "a", (1, (2, 3)): "b"}
    return x, d[frozenset((2, 1))], d[1, (2, 3)]


@program
def tuples(x):
    t = (1, x, "a")
    a, b, c = t
    return t + (2,), t * 2, t[1:], t.index("a"), (1, 2, 1).count(1), len(t), (1, 2) < (1, 3), a, (), (c,), hash((1, 2))


@program
def unpacking(x):
    (a, b), [c, *d] = (1, 2), "xyz"
    e, = [9]
    *f, g = range(4)
    h = i = [0]
    h.append(1)
    a, b = b, a
    return x, a, b, c, d, e, f, g, i


@program
def unpack_errors(x):
    found = []
    for value in ([1], [1, 2, 3], 5, {"a": 1, "b": 2}, "xy"):
        try:
            p, q = value
            found.append((p, q))
        except (ValueError, TypeError) as error:
            found.append(str(error))
    try:
        a, b, *c = [1]
    except ValueError as error:
        found.append(str(error))
    return x, found


@program
def unpack_an_array(x):
    a, b, *rest = x
    return a + b, len(rest), rest[0] * 2


@program
def default_dict(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    d["a"].append(1)
    e = collections.defaultdict(int, {"z": 5})
    for c in "hello":
        e[c] += 1
    return d, e, d.get("no"), "no" in d, e["new"], d.default_factory is list


@program
def counter(x):
    c = collections.Counter("hello")
    c.update("lo")
    c["z"] -= 1
    return x, c["l"], c["none"], c.most_common(1), sorted(c.elements()), dict(c + collections.Counter("h"))


@program
def deques(x):
    d = collections.deque([1, 2, 3], maxlen=3)
    d.append(4)
    d.appendleft(0)
    e = collections.deque("ab")
    e.rotate(1)
    e.extendleft([1, 2])
    return x, d, d.maxlen, e, e.pop(), e.popleft(), len(d), d[0], 2 in d, list(reversed(d))


@program
def ordered_dict(x):
    d = collections.OrderedDict(a=1, b=2)
    d.move_to_end("a")
    d["c"] = x
    d.move_to_end("c", last=False)
    return d, list(d), d.popitem(last=False)[0], collections.OrderedDict(a=1) == {"a": 1}


@program
def chain_map(x):
    base, top = {"a": 1, "b": 2}, {"a": 10}
    m = collections.ChainMap(top, base)
    m["c"] = 3
    return x, m["a"], m["b"], top, sorted(m), len(m)


@program
def user_containers(x):
    class_made = collections.UserDict(a=1)
    class_made["b"] = x
    u = collections.UserList([1, 2])
    u.append(3)
    return class_made.data, len(u), u.data


class Stack(list):
    def push(self, v):
        self.append(v)
        return self

    @property
    def top(self):
        return self[-1]


class Config(dict):
    def __getattr__(self, name):
        return self[name]


class Celsius(float):
    def warm(self):
        return Celsius(self + 1)


@program(breaks=ANY, hits=False)
def list_subclass(x):
    s = Stack([1])
    s.push(2).push(x)
    s.name = "s"
    return s, len(s), s.top, isinstance(s, list), s[0]


@program(breaks=ANY, hits=False)
def dict_subclass(x):
    c = Config(a=1)
    c["b"] = x
    return c, c.a, c.b + 1, sorted(c)


@program(breaks=ANY, hits=False)
def float_subclass(x):
    c = Celsius(20.5)
    return x * c, c.warm(), type(c.warm()).__name__, c + 1


@program(args=lambda: (jnp.arange(3.0), Config(lr=0.5, n=2), Stack([1, 2])), breaks=ANY, hits=False)
def subclass_arguments(x, config, stack):
    stack.push(3)
    config["seen"] = True
    return x * config.lr + config["n"], stack.top


@program
def slices_as_objects(x):
    s = slice(1, 5, 2)
    return x[s], [0, 1, 2, 3, 4, 5][s], s.start, s.indices(4), slice(3) == slice(None, 3, None), "abcdef"[s]


@program
def ranges(x):
    r = range(2, 20, 3)
    return x, r[1], r[-1], len(r), 5 in r, list(r[1:3]), r.index(8), list(reversed(r)), r == range(2, 19, 3), r, r.step


@program
def sorting(x):
    words = ["pear", "fig", "apple"]
    pairs = [(2, "b"), (1, "z"), (2, "a")]
    return (x, sorted(words, key=len), sorted(pairs), sorted(pairs, key=lambda p: (-p[0], p[1])), min(words, key=len),
            max(pairs)[1], max(3, 1, 2), min([4], default=0), max([], default="d"), sorted({"b": 1, "a": 2}))


@program
def zip_enumerate_reversed(x):
    out = list(zip("ab", range(5))), list(enumerate("ab", start=1)), list(reversed([1, 2])), list(zip())
    try:
        list(zip([1], [1, 2], strict=True))
    except ValueError as error:
        out += (str(error),)
    try:
        list(zip([1, 2], [1], strict=True))
    except ValueError as error:
        out += (str(error),)
    return x, out, list(map(max, [1, 5], [3, 2]))


@program
def any_all_short_circuit(x):
    log = []

    def note(v):
        log.append(v)
        return v

    return x, any(note(v) for v in [0, 1, 2]), all(note(v) for v in [1, 0, 2]), any([]), all([]), log


@program
def del_and_membership(x):
    a = {"k": [1, 2, 3]}
    del a["k"][0], a["k"][-1]
    return x, a, 1 not in a["k"], "k" in a


@program
def augmented_targets(x):
    a = {"n": 1, "l": [1]}
    a["n"] += 2
    a["l"] += [2]
    b = [1, 2, 3]
    b[-1] *= 10
    b[0:1] += ["z"]
    return x, a, b


@program
def equality_of_nested(x):
    return (x, [1, [2, {"a": (3,)}]] == [1, [2, {"a": (3,)}]], (1,) == [1], {"a": [1]} != {"a": [2]}, [1] is [1],
            float("nan") == float("nan"), [float("inf")] == [float("inf")], 0.0 == -0.0)


@program
def bytearrays(x):
    b = c = bytearray(b"abc")
    b[0] = 65
    b.extend(b"d")
    b += bytearray([1, 2])
    del b[1:3]
    try:
        b.append(256)
    except ValueError as error:
        said = str(error)
    return x * len(b), bytes(b), b.hex(), c is b, [n for n in b], 65 in b, b == b"A", b"p" + b + b"q", said


@program
def typed_arrays(x):
    a = array.array("f", [1, 2])
    a.append(3)
    a[0] = 5
    return x * a[0], a.tolist(), sum(a), a.typecode, a[1:] == array.array("f", [2, 3]), len(a)


class Knot:
    def __init__(self, value):
        self.value = value


@program
def sets_that_lead_to_themselves(x):
    tied = set()
    tied.add(Knot(tied))
    first, other = Knot(1), Knot(x)
    pair = {first}
    first.value, other.value = {2: pair}, frozenset([first])
    return x, tied, first, other, [k.value is tied for k in tied], first in pair
