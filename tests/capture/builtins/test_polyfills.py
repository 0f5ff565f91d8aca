"""C functions by their twins in Python: the same results, and the program's own comparisons entered in order."""

import bisect
import collections
import collections.abc
import heapq
import inspect
import re

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.builtins.polyfills import TWINS, count_elements, shadowed_dict, twin
from tests.capture.program_kit import check_one_graph, outcome

X = jnp.arange(3.0)
LOG = []


class Job:
    def __init__(self, rank, what=None):
        self.rank, self.what = rank, what

    def __lt__(self, other):
        LOG.append((self.rank, other.rank))
        return self.rank < other.rank

    def __repr__(self):
        return f"Job({self.rank})"


def heaps(x):
    heap = [Job(n) for n in (5, 1, 4)]
    heapq.heapify(heap)
    heapq.heappush(heap, Job(0, x))
    first = heapq.heappop(heap)
    other = heapq.heappushpop(heap, Job(3))
    return first, first.what, other, heap, heapq.nsmallest(2, heap), heapq.nlargest(1, [3, 9, 4]),
    list(heapq.merge([1, 4], [2]))


def places(x):
    items = [Job(1), Job(3)]
    bisect.insort(items, Job(2))
    return items, bisect.bisect_left([1, 2, 2, 3], 2), bisect.bisect([1, 2, 2, 3], 2),
    bisect.bisect([3, 1], 2, key=lambda n: -n), x


def counts(x):
    found = collections.Counter("abca")
    found.update({"b": 5})
    return found, found.most_common(1), collections.Counter([Job, Job])[Job], x * found["a"]


def texts(x):
    seen = []

    def loud(match):
        seen.append(match.span())
        return None if match.group() == "b" else match.group().upper()

    return (re.compile("[a-c]").sub(loud, "a-b-c-d"), seen, re.compile("x*").sub(lambda m: "-", "axb"),
            re.compile("a").sub(loud, "aaa", 2), re.compile("a").sub(loud, "aaa", -1),
            re.compile(b"a").sub(lambda m: b"z", b"aba"),
            re.compile("(a)(b)").sub(r"\2\1", "abab"), x)


@pytest.mark.parametrize("program", [heaps, places, counts, texts])
def test_one_graph(program):
    check_one_graph(program, (X,), (X + 1,))


@pytest.mark.parametrize("program", [heaps, places])
def test_the_programs_comparisons_run_in_the_order_of_c(program):
    logs = []
    for fn in (program, dynacomp.jit(program, backend="eager")):
        LOG.clear()
        fn(X)
        logs.append(list(LOG))
    assert logs[0] == logs[1] and logs[0]


@pytest.mark.parametrize("program", [
    lambda x: heapq.heappop([]), lambda x: heapq.heapify((1,)), lambda x: bisect.bisect([1], "a"),
    lambda x: bisect.insort([1], 2, -1), lambda x: collections.Counter(1),
    lambda x: re.compile("a").sub(lambda m: 1, "ba")])
def test_what_raises_raises_the_same(program):
    want, got = outcome(program, (X,)), outcome(dynacomp.jit(program, backend="eager"), (X,))
    assert issubclass(want[0], Exception) and got[0] is want[0]


def test_a_twin_is_another_module_without_its_c_part():
    made = twin("heapq", "_heapq")
    assert made is not heapq and made.heappush is not heapq.heappush and made.heappush.__code__
    assert TWINS[heapq.heappush].__module__ == "heapq"
    table = {"a": 1}
    count_elements(table, "abb")
    assert table == {"a": 2, "b": 2}


def aliases(x):
    asked, made = collections.abc.Callable[[int], str], collections.deque[int]([1, 2])
    return asked.__args__, str(collections.abc.Callable[..., int]), str(collections.abc.Iterable[int]), made, x


def test_generic_classes_of_collections_with_arguments():
    """They never change: no graph breaks where one is made, each by a class in the place of a method."""
    check_one_graph(aliases, (X,), (X + 1,))


class Hiding:
    __slots__ = {"__dict__": "a place with a text"}


class Named:
    kind = "named"

    def __init__(self, size):
        self.size = size


def statically(x, n):
    made = Named(n)
    ask = inspect.getattr_static
    return x * ask(made, "size"), ask(Named, "kind"), ask(made, "other", None), ask(Named, "mro", 1), \
        ask(Hiding(), "n", n)


def test_attributes_are_looked_up_without_running_code():
    check_one_graph(statically, *((X, n) for n in (2, 3, 4)), captures=2)
    for cls in (Named, Hiding, int, type):
        assert shadowed_dict(cls) is inspect._shadowed_dict(cls)


def test_a_function_that_replaces_matches_in_what_is_no_text():
    def fn(x, text, most):
        return x, re.compile("a+").sub(lambda match: match[0].upper(), text, most)

    compiled = dynacomp.jit(fn, backend="eager")
    for args in (("baac", 0), ("abab", 1), (None, 0), (b"aa", 0), ("aa", None), ("aba", True)):
        assert repr(outcome(compiled, (X, *args))) == repr(outcome(fn, (X, *args)))
    assert "internal" not in dynacomp.stats()["frames_eager"]
