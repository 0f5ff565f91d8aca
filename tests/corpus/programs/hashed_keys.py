"""Keys with a hash or an equality of their own: when the program's code runs, and when it must not."""

from __future__ import annotations

import copy
import dataclasses

import jax.numpy as jnp

from tests.corpus.kit import program

HASHED: list = []


class Key:
    def __init__(self, a):
        self.a = a

    def __hash__(self):
        HASHED.append(self.a)
        return hash(self.a)

    def __eq__(self, other):
        return isinstance(other, Key) and self.a == other.a


class Node:
    """Hashed by identity."""

    def __init__(self, v):
        self.v, self.visits = v, 0


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int


def tables():
    args = jnp.arange(3.0), {Key(1): 10, Key(2): 20}, {Key(3)}
    HASHED.clear()
    return args


def graph():
    a, b = Node(1), Node(2)
    return jnp.arange(3.0), {a: b, b: None}, {a, b}, a


@program(args=tables, hits=False)
def asked_as_often_as_in_python(x, d, s):
    r = x * d[Key(1)]
    d[Key(5)] = 7
    s.add(Key(4))
    n, t = {Key(7): x}, {Key(8), Key(8)}
    return (r, d, s, Key(2) in d, Key(9) in d, Key(3) in s, n, len(t), t, [k.a for k in d], sorted(k.a for k in s),
            len(HASHED))


@program(args=tables, hits=False, breaks={"effect": 1})
def not_asked_at_a_break(x, d, s):
    n = {Key(7): x}
    d[Key(6)] = 1
    s.add(Key(4))
    print("here")
    return n, d, s, len(HASHED)


@program(args=graph, hits=False)
def objects_as_keys(x, d, s, a):
    total = x
    for k in d:
        total = total + k.v
        k.visits += 1
    for k in s:
        k.visits += 10
    return total, d[a].v, a in s, d


@program(args=lambda: (jnp.arange(3.0), {Frozen(1): 1, (Frozen(2), 3): 5}, frozenset([Frozen(1)])), hits=False)
def frozen_dataclasses(x, d, f):
    d[Frozen(3)] = x
    return x * d[Frozen(1)], d[Frozen(2), 3], Frozen(1) in f, d, f | {Frozen(4)}


@program
def same_objects(x):
    t, f = (1, x), frozenset([1])
    return (t * 1 is t, t[:] is t, t + () is t, () + t is t, f.copy() is f, frozenset(f) is f, tuple(t) is t,
            len(copy.deepcopy({Key(1)})))


@program
def views_compare_without_hashing(x):
    d = {"a": [1]}
    return x, d.items() == {"a": [1]}.items(), ("a", [1]) in d.items(), d.keys() <= {"a", "b"}, d.items() != {}.items()


@program
def steps_of_zero(x):
    out, xs = [], [1, 2, 3]
    for f in (lambda: xs[::0], lambda: (1, 2)[::0], lambda: xs[1.5], lambda: "abc"[::0], lambda: xs.__getitem__(3)):
        try:
            f()
        except (ValueError, TypeError, IndexError) as e:
            out.append((type(e).__name__, str(e)))
    try:
        xs[::0] = [1]
    except ValueError as e:
        out.append(str(e))
    try:
        del xs[::0]
    except ValueError as e:
        out.append(str(e))
    return x, out, xs


@program
def tuples_as_keys_are_themselves(x):
    keys = [(1, "a"), (None, 2.5)]
    table = dict.fromkeys(keys, x)
    held = {k: v for k, v in zip(keys, "ab")}
    return [a is b for a, b in zip(keys, table)], [a is b for a, b in zip(keys, held)], table, keys
