"""Dataclasses, enums, NamedTuples, typing."""

from __future__ import annotations

import collections
import dataclasses
import enum
import typing
from dataclasses import dataclass, field

from tests.corpus.kit import ANY, program


@dataclass
class Item:
    name: str
    price: float = 1.0
    tags: list = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    a: typing.Any
    b: int = 2


@dataclass(order=True)
class Ordered:
    rank: int
    name: str = field(compare=False, default="")


@dataclass(slots=True)
class Slotted:
    a: int
    b: int = 3


@dataclass(kw_only=True)
class Derived(Item):
    extra: int = 0

    def __post_init__(self):
        self.extra += 100


class Color(enum.Enum):
    RED = 1
    GREEN = 2

    @property
    def nice(self):
        return self.name.lower()

    def mix(self, other):
        return (self.value + other.value, self is other)


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()
    AB = A | B


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Pair(typing.NamedTuple):
    left: typing.Any
    right: typing.Any = 0

    def swap(self):
        return Pair(self.right, self.left)

    @property
    def both(self):
        return (self.left, self.right)


Coord = collections.namedtuple("Coord", "x y z", defaults=[9])


@program
def dataclass_basics(x):
    a, b = Item("n"), Item("n", 1.0, [])
    a.tags.append(1)
    return x, a, b, a == b, Item("n") == b, repr(b), Item("m", tags=[2]).tags


@program
def dataclass_frozen(x):
    f = Frozen(x)
    try:
        f.a = 1
    except dataclasses.FrozenInstanceError as error:
        return f, str(error), f.b, hash(Frozen(1)) == hash(Frozen(1)), Frozen(1) == Frozen(1, 2)


@program
def dataclass_ordered(x):
    items = [Ordered(3, "c"), Ordered(1, "a"), Ordered(2, "b")]
    return x, [i.name for i in sorted(items)], Ordered(1) < Ordered(2), max(items).name


@program
def dataclass_slots(x):
    s = Slotted(1)
    s.b = 7
    try:
        s.c = 1
    except AttributeError:
        return x, s


@program
def dataclass_functions(x):
    a = Derived(name="n", extra=1)
    b = dataclasses.replace(a, name="m")
    return x, a, b, dataclasses.asdict(a), dataclasses.astuple(Slotted(1)), [f.name for f in dataclasses.fields(a)]


@program
def dataclass_made_inside(x):
    @dataclass
    class Local:
        v: int
        w: int = 2

    return x, Local(1).w, Local(1) == Local(1), repr(Local(3)).rpartition(".")[2]


@program(args=lambda: (__import__("jax.numpy").numpy.arange(3.0), Item("given", 2.0, [1])))
def dataclass_argument(x, item):
    item.price *= 2
    item.tags += [3]
    return dataclasses.replace(item, name="copy"), x * item.price


@program
def enums(x):
    c = Color.RED
    return (x, c, c.name, c.value, Color(2), Color["GREEN"], c is Color.RED, c == Color.GREEN, c.nice, c.mix(Color.RED),
            [m.name for m in Color], len(Color), Color.RED in {Color.RED: 1}, isinstance(c, Color), repr(c), str(c))


@program
def enum_flags(x):
    f = Flags.A | Flags.B
    return x, f is Flags.AB, bool(f & Flags.A), Flags.A in f, Level.HIGH + 1, Level.LOW < Level.HIGH, [1, 2, 3][Level.LOW]


@program
def enum_errors(x):
    try:
        Color(9)
    except ValueError as error:
        return x, str(error)


@program(args=lambda: (__import__("jax.numpy").numpy.arange(3.0), Color.GREEN, Level.LOW))
def enum_arguments(x, c, level):
    return x * c.value + level, c, {Color.GREEN: "g"}[c]


@program
def named_tuples(x):
    p = Pair(x, 2)
    a, b = p
    c = Coord(1, y=2)
    return (p, p.swap(), b, p[0], p.both, c, c._replace(z=5), c._asdict(), Coord._fields, Coord._make([1, 2, 3]), len(c),
            c == (1, 2, 9), c + (4,), hash(c) == hash((1, 2, 9)), repr(c), isinstance(c, tuple), c > (1,), c.index(2))


@program(args=lambda: (__import__("jax.numpy").numpy.arange(3.0), Pair(Pair(1, [2]), 3)))
def named_tuple_argument(x, p):
    p.left.right.append(4)
    return x + p.right, p, p.left.left


@program
def named_tuple_errors(x):
    found = []
    for f in (lambda: Pair(), lambda: Pair(1, 2, 3), lambda: Pair(1, up=2), lambda: Coord(1)._replace(w=1)):
        try:
            f()
        except (TypeError, ValueError) as error:
            found.append(str(error))
    return x, found


@program
def typing_names(x):
    v: int = 3
    t = typing.cast(int, "a")
    o = typing.Optional[int]
    return x, v, t, o is not None, typing.get_origin(list[int]) is list


@program(breaks=ANY, hits=False)
def typed_dict_and_generic(x):
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, v: T):
            self.v = v

    class Movie(typing.TypedDict):
        name: str

    m: Movie = {"name": "n"}
    return x, Box(3).v, Box[int](4).v, m


@program
def match_dataclass(x):
    def kind(v):
        match v:
            case Item(name="n", price=p):
                return ("item", p)
            case Frozen(a, b):
                return ("frozen", a, b)
            case Pair(left, right):
                return ("pair", left, right)
            case Color.RED:
                return "red"
            case Level():
                return "level"
            case _:
                return "other"

    return x, [kind(v) for v in (Item("n", 3), Frozen(1), Pair(5, 6), Color.RED, Level.LOW, 3, Item("z"))]
