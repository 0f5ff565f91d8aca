"""What instances of subclasses of built-in classes inherit: which hooks run, and what kind of object comes back."""

import collections
import enum

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.calls.payload_methods import INHERITED, INITS
from dynacomp.capture.wrapping.builtin_subclasses import MUTABLE
from tests.capture.program_kit import check_one_graph

X = jnp.arange(3.0)
LOG = []


class Items(list):
    """A list with an attribute."""

    tag = "items"


class Loud(list):
    """A list that notes what its own `append` is given."""

    def append(self, item):
        LOG.append("append")
        super().append(item)


class Missing(dict):
    """A dict whose keys that are not there are made."""

    def __missing__(self, key):
        return f"no {key}"


class Table(collections.OrderedDict):
    """An OrderedDict that counts stores."""

    stores = 0

    def __setitem__(self, key, value):
        self.stores += 1
        super().__setitem__(key, value)


class Counts(collections.defaultdict):
    """A defaultdict of the program's class."""


class Line(collections.deque):
    """A deque of the program's class."""


class Level(int):
    """A number of the program's class."""


class Name(str):
    """A string of the program's class."""


class Pair(tuple):
    """A tuple of the program's class."""


class Few(frozenset):
    """A frozenset of the program's class."""


class Colour(enum.IntEnum):
    """Numbers with names."""

    RED = 1
    BLUE = 2


def kinds(*values):
    return [(type(v).__name__, v) for v in values]


PROGRAMS = {
    "list": lambda x: kinds(Items([x, 1]) + [2], Items([1]) * 2, Items([1, 2])[:1], Items([1]).copy(), Items([x]).tag),
    "own append": lambda x: kinds(Loud([1]), Loud([1]).append(x)), "extend": lambda x: Loud([1]).extend([x, x]),
    "missing": lambda x: (Missing(a=x)["a"], Missing()["b"], Missing().get("b"), "b" in Missing()),
    "ordered": lambda x: kinds(Table(a=1, b=x), Table(a=1, b=2).stores),
    "default": lambda x: (lambda c: (c["n"], c, c.default_factory))(Counts(int, a=2)),
    "deque": lambda x: kinds(Line([1, 2, 3], 2), Line([x]).maxlen, Line([1, 2]).copy(), Line([1, 2]).popleft()),
    "int": lambda x: kinds(Level(3) + 1, Level(3) * 2.0, -Level(3), Level(7) // 2, 10 - Level(3), Level(3).real),
    "int text": lambda x: (repr(Level(3)), f"{Level(3):>4}", str(Level(3)), hash(Level(3)) == hash(3)),
    "str": lambda x: kinds(Name("ab") + "c", Name("ab").upper(), Name("a-b").split("-"), Name(",").join("ab")),
    "str text": lambda x: (f"{Name('a')}", Name("{}").format(3), Name("%d!") % 4, f"{Name('a')!r}", Name("a") == "a"),
    "tuple": lambda x: kinds(Pair((x, 1))[1], Pair((1, 2))[:], Pair((1,)) + (2,), Pair((1, 2)).index(2)),
    "frozenset": lambda x: kinds(Few([1, 2]) | {3}, Few([1]).copy(), 1 in Few([1]), len(Few([1, 1]))),
    "fromkeys": lambda x: kinds(Missing.fromkeys("ab", 1), Level.from_bytes(b"\x05", "big"), dict.fromkeys([1], x)),
    "enum": lambda x: (Colour.RED + 1, Colour.BLUE > Colour.RED, Colour(2).name, x * Colour.BLUE),
    "new": lambda x: kinds(int.__new__(Level, 5), str.__new__(Name, "q"), tuple.__new__(Pair, (1, x))),
    "array": lambda x: x * Level(3) + Level(1), "init again": lambda x: (lambda v: (v.__init__([x]), v))(Items([1, 2])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_they_inherit(name):
    check_one_graph(PROGRAMS[name], (X,), (X + 1,))


REFUSED = {
    "no key": lambda x: Table()["k"], "no attribute": lambda x: Items().none, "index": lambda x: Items()[3],
    "not a subclass": lambda x: int.__new__(str, 3), "unhashable": lambda x: hash(Items([1])),
    "compared": lambda x: Level(1) < "a", "no factory": lambda x: Counts()["k"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_they_refuse(name):
    """With Python's own exception and words."""
    def program(x):
        try:
            return REFUSED[name](x)
        except Exception as error:
            return type(error), str(error), x + 1

    check_one_graph(program, (X,))


def test_objects_from_before_change_in_place():
    def program(items, table, line, x):
        items.append(x)
        table["new"] = x
        line.appendleft(x)
        return len(items), list(table), line.maxlen

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    ours, theirs = ((Items([1]), Table(a=1), Line([1, 2], 3)) for _ in range(2))
    for _ in range(3):
        assert repr(compiled(*ours, X)) == repr(program(*theirs, X))
        assert repr(ours) == repr(theirs) and ours[1].stores == theirs[1].stores
    assert not dynacomp.stats()["breaks"]


def test_what_c_calls_and_what_it_does_not():
    """An OrderedDict's methods call what a subclass overrides, a dict's do not: where that matters, Python runs."""
    def program(x):
        t = Table(a=x)
        t.setdefault("b", 1)
        t.update(c=2)
        return t, t.stores, t.copy(), x + 1

    dynacomp.reset()
    assert repr(dynacomp.jit(program, backend="eager")(X)) == repr(program(X))
    assert set(dynacomp.stats()["breaks"]) == {"call"}


def test_tables_speak_of_the_same_classes():
    assert set(INITS) == set(MUTABLE)
    assert all((kind, "__init__") in INHERITED for kind in INITS)
