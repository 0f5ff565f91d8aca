"""The standard library in use: itertools, operator, copy, random, contextvars, logging, warnings."""

from __future__ import annotations

import bisect
import re
import collections
import contextlib
import copy
import functools
import hashlib
import heapq
import io
import itertools
import json
import logging
import operator
import queue
import random
import string
import threading
import warnings
import weakref

import jax
import jax.numpy as jnp
import numpy as np
from tests.corpus.kit import ANY, program


class Node:
    def __init__(self, v, kids=()):
        self.v, self.kids = v, list(kids)


class Own:
    def __init__(self):
        self.copied = 0

    def __copy__(self):
        made = Own()
        made.copied = self.copied + 1
        return made

    def __deepcopy__(self, memo):
        made = Own()
        made.copied = self.copied + 10
        return made


@program
def itertools_finite(x):
    return (x, list(itertools.chain([1], (2,), "a")), list(itertools.islice("abcdef", 1, 5, 2)),
            list(itertools.product([1, 2], "ab")), list(itertools.permutations([1, 2, 3], 2)),
            list(itertools.combinations("abc", 2)), list(itertools.accumulate([1, 2, 3])),
            list(itertools.zip_longest([1, 2], "a", fillvalue="-")), list(itertools.pairwise([1, 2, 3])),
            list(itertools.starmap(pow, [(2, 3), (3, 2)])), list(itertools.compress("abcd", [1, 0, 1, 0])),
            list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])), list(itertools.dropwhile(lambda v: v < 3, [1, 3, 1])),
            list(itertools.filterfalse(None, [0, 1, 2])), list(itertools.chain.from_iterable([[1], [2, 3]])),
            list(itertools.repeat("r", 2)), list(itertools.accumulate([1, 2, 3], operator.mul, initial=10)))


@program
def itertools_groupby(x):
    return x, [(k, list(g)) for k, g in itertools.groupby("aabbb")], [
        (k, len(list(g))) for k, g in itertools.groupby([1, 3, 2, 4], key=lambda v: v % 2)]


@program
def itertools_endless(x):
    c = itertools.count(5, 2)
    y = itertools.cycle("ab")
    return x, next(c), next(c), list(itertools.islice(c, 2)), [next(y) for _ in range(5)], list(zip(itertools.count(), "ab"))


@program
def itertools_tee(x):
    a, b = itertools.tee(iter([1, 2, 3]))
    return x, next(a), list(b), list(a)


@program
def operators(x):
    get, attr, call = operator.itemgetter(1, 0), operator.attrgetter("v"), operator.methodcaller("upper")
    return (x, get([5, 6]), attr(Node(3)), call("a"), operator.add(1, 2), operator.mul(x, 2), operator.truth([]),
            operator.contains([1], 1), operator.itemgetter("a")({"a": 4}), operator.concat([1], [2]), operator.index(3))


@program
def copying(x):
    inner = [1, x]
    n = Node(inner, [Node(1)])
    a, b = copy.copy(n), copy.deepcopy(n)
    d = copy.deepcopy({"p": inner, "q": inner})
    inner.append("late")
    return a, b, d, d["p"] is d["q"], copy.copy(inner), copy.copy(Own()).copied, copy.deepcopy([Own()])[0].copied


@program(args=lambda: (jnp.arange(3.0), {"a": [1, 2], "n": Node(1)}))
def copy_of_an_argument(x, d):
    e = copy.deepcopy(d)
    e["a"].append(3)
    e["n"].v = x
    f = copy.copy(d)
    f["z"] = 1
    return e, f


@program
def random_numbers(x):
    r = random.Random(0)
    order = [1, 2, 3, 4]
    r.shuffle(order)
    return x * r.random(), order, r.randint(1, 100), r.choice([x, "other"]), r.sample(range(100), 3), r.gauss(0, 1)


@program
def random_arrays(x):
    state, g = np.random.RandomState(0), np.random.default_rng(1)
    order, things = state.permutation(5), ["a", x, 3]
    g.shuffle(order)
    state.shuffle(things)
    return x * state.randn() + g.normal(size=6).astype(np.float32), order, g.integers(10), state.choice(5, 2), things


@program
def generators_of_modules(x):
    np.random.seed(0)
    w = np.random.randn(6).astype(np.float32)
    order = [1, 2, 3]
    np.random.shuffle(order)
    np.random.seed(1)
    return x * w, np.random.permutation(4), order, np.random.get_state()[2]


@program
def text_in_memory(x):
    out = io.StringIO()
    out.write("a")
    print("shape", x.shape, sep="=", file=out)
    with io.StringIO("l1\nl2") as lines:
        first = lines.readline()
    return x, out.getvalue(), first, lines.closed


@program
def redirected(x):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print("inside", x.dtype)
    print("inside again", file=out)
    return x * 2, out.getvalue()


@program
def digests(x):
    h = hashlib.sha256(b"seed")
    h.update(bytearray(b"more"))
    return x * int(hashlib.md5(b"layer").hexdigest()[:2], 16), h.hexdigest(), h.name


class Account:
    def __init__(self):
        self.lock, self.total = threading.Lock(), 0

    def add(self, n):
        with self.lock:
            self.total += n
        return self.lock.locked()


@program
def locks_of_ones_own(x):
    a = Account()
    waiting = queue.Queue()
    waiting.put(a.add(2))
    return x * a.total, waiting.get(), waiting.qsize(), a.lock.acquire(blocking=False)


@program(args=lambda: (jnp.arange(3.0), random.Random(3)), breaks=ANY, hits=False)
def sampling_with_a_generator(x, generator):
    return x * generator.random(), generator.randint(1, 100)


@functools.lru_cache
def lower_triangle(n):
    return jnp.tril(jnp.ones((n, n)))


@functools.cache
def settings(n, *, kind="plain"):
    return {"n": n, "kind": kind}


class Tables:
    @staticmethod
    @functools.lru_cache(maxsize=None, typed=True)
    def row(n):
        return tuple(range(n))


@program
def cached_functions(x):
    y = x @ lower_triangle(6)
    return (y + jax.grad(lambda v: (v @ lower_triangle(6)).sum())(x), lower_triangle(6) is lower_triangle(6),
            settings(2) is settings(2), settings(2, kind="other"), Tables.row(3), Tables().row(2))


@program
def heaps(x):
    h = []
    for v in (5, 1, 4):
        heapq.heappush(h, v)
    return x, heapq.heappop(h), h, heapq.nsmallest(2, [3, 1, 2])


@program
def bisection(x):
    a = [1, 3, 5]
    bisect.insort(a, 4)
    return x, a, bisect.bisect_left(a, 3)


@program
def json_text(x):
    return x, json.dumps({"a": [1, None, True]}), json.loads('{"b": 1.5}')


@program(breaks=ANY, hits=False)
def strings_module(x):
    return x, string.ascii_lowercase[:3], string.Template("$a!").substitute(a=1)


@program(breaks={"effect": 2})
def printing(x):
    print("before", x.shape)
    y = x * 2
    print("sum", float(y.sum()) if False else "later")
    return y + 1


@program(breaks={"effect": 1})
def printing_an_array(x):
    y = x + 1
    print(y)
    return y * 2


@program
def logs(x):
    logging.getLogger("corpus").debug("value %s", x.shape)
    return x + 1


@program
def warns(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("careful", stacklevel=1)
    return x, len(seen)


@program
def warnings_as_errors(x):
    said = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        for kind in (DeprecationWarning, RuntimeWarning):
            try:
                warnings.warn("overflow", kind)
            except RuntimeWarning as error:
                said.append(str(error))
    return x * len(said), said


@program(breaks=ANY, hits=False)
def weak_references(x):
    n = Node(1)
    r = weakref.ref(n)
    return x, r() is n


@program(breaks=ANY, hits=False)
def weak_references_to_functions(x):
    def local():
        return x

    def used(fn):
        print(fn.__name__)

    r = weakref.ref(local)
    used(local)
    alive = r() is local
    del local
    return x, alive, r() is None, weakref.ref(add_one)() is add_one


def add_one(x):
    return x + 1


class Task:
    def __init__(self, cost, name):
        self.cost, self.name = cost, name

    def __lt__(self, other):
        return self.cost < other.cost


@program
def heap_of_objects(x):
    h = [Task(3, "c"), Task(1, "a"), Task(2, "b")]
    heapq.heapify(h)
    first = heapq.heappop(h)
    heapq.heappush(h, Task(0, "z"))
    return x * first.cost, first.name, [t.name for t in h], heapq.nlargest(2, [1, 5, 3]), heapq.heappushpop(h, first).name


@program
def counting(x):
    c = collections.Counter("hello")
    c.update("lo")
    c["z"] += 2
    d = collections.Counter(a=1, l=2)
    return x * c["l"], c, c + d, c - d, c & d, c | d, sum(c.values()), c.total(), c["none"], +c


@program
def matches(x):
    found = [m.start() for m in re.finditer("a", "aba")]
    return x, found, re.sub(r"\d", lambda m: str(int(m.group()) + 1), "a1b2", count=1), re.escape("a.b"), list[int]((1,))
