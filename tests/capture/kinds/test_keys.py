"""What objects are as keys of dicts and elements of sets: by value, by identity, by their own hash and equality."""

import collections
import enum
import gc
import weakref

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.base.hashes import HASHED
from tests.capture.program_kit import check_one_graph, outcome

X = jnp.arange(3.0)


class Plain:
    pass


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __hash__(self):
        return hash((self.x, self.y))

    def __eq__(self, other):
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    def __repr__(self):
        return f"Point({self.x}, {self.y})"


class Equal:
    def __eq__(self, other):
        return True


class Colour(enum.Enum):
    RED = 1


class Odd:
    def __hash__(self):
        return "text"


def by_value(x):
    table = {1: "a", "k": x, (1, "t"): 2, None: 3, 1.5: 4, Colour.RED: 5, frozenset([1]): 6, int: 7, len: 8}
    table[True] = "also one"
    table[1.0] = "and again"
    return (table[1], list(table)[:3], table[(1, "t")], table[Colour.RED], table[frozenset([1])],
            table[int], table[len], {1} == {1}, len({0.0, -0.0}), hash("k") == hash("k"), {**table}[None], x)


def by_identity(x):
    one, two = Plain(), Plain()
    table = {one: "one", two: "two"}
    seen = {one, two, one}
    fn = lambda: 0  # noqa: E731
    return table[one], table[two], len(seen), Plain() in seen, one in seen, {fn: 1}[fn], {one.__class__: x}[Plain]


def by_own_hash(x):
    table = {Point(1, 2): "first"}
    table[Point(1, 2)] = "second"
    nested = {(Point(0, 0), "a"): x}
    return (table, len(table), Point(1, 2) in table, Point(2, 1) in table, nested[(Point(0, 0), "a")],
            {Point(1, 1), Point(1, 1)},
            table.pop(Point(1, 2)), table, hash(Point(1, 2)) == hash((1, 2)), {Point(0, 1)} | {Point(0, 1)})


def pairs(x):
    return (dict([("a", 1), ["b", x]]), dict({"a": 1}, b=2), dict(zip("ab", [1, 2])), dict(["xy", "zw"]), dict(a=x),
            collections.OrderedDict([("a", 1)], b=2), dict.fromkeys("aba", 0), {**dict(a=1), "a": 2},
            dict(dict(k=x).items()))


@pytest.mark.parametrize("program", [by_value, by_identity, by_own_hash, pairs])
def test_one_graph(program):
    check_one_graph(program, (X,), (X + 1,))


@pytest.mark.parametrize("program", [
    lambda x: {[]: 1}, lambda x: {(1, []): 1}, lambda x: {1, {}}, lambda x: {Equal(): 1}, lambda x: {Odd(): 1},
    lambda x: {}["k"],
    lambda x: {Point(1, 2): 1}[Point(2, 1)], lambda x: dict([1]), lambda x: dict(["abc"]), lambda x: {()}.add([]),
    lambda x: hash([]),
    lambda x: {1}.remove(2), lambda x: {collections.deque(): 1}, lambda x: {collections.OrderedDict()},
    lambda x: hash({}),
    lambda x: {bytearray(b"a"): 1}])
def test_what_raises_raises_the_same(program):
    want = outcome(program, (X,))
    compiled = dynacomp.jit(program, backend="eager")
    assert issubclass(want[0], Exception)
    assert outcome(compiled, (X,)) == want == outcome(compiled, (X,))


def test_a_key_that_the_program_drops_is_let_go():
    def program(x, table):
        table.clear()
        return x + len(table)

    key = Plain()
    alive, table = weakref.ref(key), {key: 1}
    compiled = dynacomp.jit(program, backend="eager")
    compiled(X, table)
    del key
    gc.collect()
    assert alive() is None and table == {}


LIBRARYS = """
def listed(kinds, show=False):
    found = {kind for kind in kinds}
    return str(found) if show else [k for k in found if k in found]

def made(kinds):
    return set(kinds)

def gone_through(kinds):
    return [k for k in kinds]
"""


@pytest.mark.parametrize(("name", "use", "rests"), [
    ("flax.of_the_test", lambda lib, x: (lib["listed"]((Plain, Point)), x), False),
    ("flax.of_the_test", lambda lib, x: (lib["listed"]("ab"), x), False),
    ("flax.of_the_test", lambda lib, x: (list(lib["made"]((Plain, Point))), x), True),
    ("flax.of_the_test", lambda lib, x: (lib["gone_through"]({Plain, Point}), x), True),
    ("flax.of_the_test", lambda lib, x: (lib["listed"]((Plain, Point), show=True), x), True),
    ("of_the_test", lambda lib, x: (lib["listed"]((Plain, Point)), x), True),
    ("json.of_the_test", lambda lib, x: (lib["listed"]((Plain, Point)), x), True)])
def test_what_rests_on_the_order_of_a_set(name, use, rests):
    """Not what a library makes of one of its own, which gives the same in every process."""
    library = {"__name__": name}
    exec(LIBRARYS, library)
    dynacomp.reset()
    compiled, before = dynacomp.jit(use, backend="eager"), list(HASHED)
    for i in range(3):
        assert repr(compiled(library, X + i)) == repr(use(library, X + i))
    assert (HASHED != before) == rests and dynacomp.stats()["frames_captured"] == 1


ASKED = []


class Asked:
    """Hashed and compared by code that notes it."""

    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return 1

    def __eq__(self, other):
        ASKED.append((self.n, other.n))
        return self.n == other.n


def test_keys_are_compared_as_often_as_python_does():
    def program(x):
        ASKED.clear()
        table = {Asked(1): 1, (Asked(2),): 2}
        found = [table[Asked(1)], table.get((Asked(2),)), table.setdefault(Asked(1), 3), Asked(1) in table]
        table[Asked(1)] = 4
        del table[Asked(1)]
        return x + table.pop((Asked(2),)), found, list(ASKED)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(3):
        assert repr(compiled(X + i)) == repr(program(X + i))
    assert dynacomp.stats()["frames_captured"] == 2  # the list is empty at first
