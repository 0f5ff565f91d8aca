"""`@dataclass` on classes that captured code makes."""

import dataclasses
import typing
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

import dynacomp
from tests.capture.builtins.test_class_statements import X, check
from tests.capture.flow_kit import same
from tests.capture.program_kit import check_one_graph


@dataclass
class Outside:
    first: int = 1
    many: list = field(default_factory=list)


def test_fields_and_the_methods_made_of_them():
    def f(x):
        @dataclass
        class Local:
            a: int
            b: float = 3.0
            c: list = field(default_factory=list)
            d: typing.ClassVar[int] = 4
            e: "int" = 5

            def scaled(self):
                return x * self.a * self.b

        o = Local(2)
        return (o.scaled(), o.c is Local(1).c, repr(o), o == Local(2), o == Local(3), Local.d, Local.__doc__,
                Local.__match_args__, [g.name for g in dataclasses.fields(o)], dataclasses.is_dataclass(Local),
                o, Local)

    check(f)


def test_flags():
    def f(x):
        @dataclass(frozen=True, order=True)
        class Local:
            a: object
            b: object = 1

        o = Local(1, x)
        try:
            o.a = 2
        except dataclasses.FrozenInstanceError as error:
            said = str(error)
        return (said, o.b, {Local(1): 3}[Local(1)], Local(1) < Local(2), dataclasses.replace(o, a=x).a,
                dataclasses.asdict(Local(1)), dataclasses.astuple(Local(2)), o)

    check(f)


def test_bases_that_are_dataclasses():
    def f(x):
        @dataclass
        class A(Outside):
            v: object = 2

            def __post_init__(self):
                self.w = self.v * self.first

        @dataclass(repr=False)
        class B(A):
            z: object = 5

        return A(3, [], x).w, B(v=x).w, B().z, repr(A(1)), [g.name for g in dataclasses.fields(B)], B(), A.__mro__[1:]

    check(f)


def test_defaults_that_only_exist_at_run_time():
    class Held:
        def __init__(self, v):
            self.v = v

    def f(x):
        held = Held(x)

        @dataclass
        class Local:
            """Doc."""

            a: object = held
            b: object = field(default=held)
            c: object = field(default_factory=lambda: [x])

        o = Local()
        return o.a.v, o.b is held, o.c, Local.a is held, Local().c is o.c, o

    check(f)


def test_derivatives():
    def f(x):
        @dataclass
        class Layer:
            w: object
            b: object = 0.0

            def loss(self, y):
                return jnp.sum(self.w * y + self.b)

        return jax.grad(lambda w: Layer(w).loss(x))(x)

    check(f)


def refused(x):
    try:
        @dataclass
        class Local:
            a: list = []  # noqa: RUF008
    except ValueError as error:
        return x, str(error)


def slotted(x):
    @dataclass(slots=True)
    class Local:
        a: int = 3

    return x, Local().a, Local.__slots__


def only_at_run_time(x):
    @dataclass
    class Local:
        a: dataclasses.InitVar[int] = 3

        def __post_init__(self, a):
            self.b = a

    return x, Local().b, vars(Local(4))


def test_what_is_pythons():
    for fn in (refused, slotted, only_at_run_time):
        compiled = dynacomp.jit(fn, backend="eager")
        for _ in range(2):
            assert same(compiled(X), fn(X))


def test_what_only_the_class_has_is_the_classs():
    def f(x):
        @dataclass
        class Local:
            a: int = 3

        return Local.__init__, Local.__dataclass_fields__, Local

    compiled = dynacomp.jit(f, backend="eager")
    for _ in range(2):
        init, fields, cls = compiled(X)
        assert cls.__init__ is init and cls.__dataclass_fields__ is fields and cls(4).a == 4


def test_fields_with_metadata_in_a_class_statement():
    def scaled(x):
        @dataclasses.dataclass
        class Scale:
            by: object = dataclasses.field(default=2, metadata={"unit": "m"})
            seen: list = dataclasses.field(default_factory=list, metadata={})

        scale = Scale()
        scale.seen.append(x)
        return scale.by * scale.seen[0], dataclasses.fields(Scale)[0].metadata["unit"]

    dynacomp.reset()
    compiled = dynacomp.jit(scaled, backend="eager")
    for n in (3, 3, 4, 5, 6):
        found, unit = compiled(jnp.arange(n))
        assert found.tolist() == [2 * i for i in range(n)] and unit == "m"
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and not stats["frames_eager"]


def test_metadata_that_the_call_computes():
    def scaled(x):
        @dataclasses.dataclass
        class Scale:
            by: object = dataclasses.field(default=2, metadata={"x": x})

        return dataclasses.fields(Scale)[0].metadata["x"] + Scale().by

    compiled = dynacomp.jit(scaled, backend="eager")
    for _ in range(3):
        assert compiled(jnp.arange(3)).tolist() == [2, 3, 4]


def test_slots_make_another_class():
    def program(x, n):
        @dataclasses.dataclass(slots=True, order=True)
        class Point:
            n: int
            x: Any = dataclasses.field(default=None, compare=False)
            seen: list = dataclasses.field(default_factory=list)

            def __post_init__(self):
                self.seen.append(self.n)

            @property
            def twice(self):
                return self.x * 2

            @classmethod
            def at(cls, x):
                return cls(1, x)

        @dataclasses.dataclass(slots=True, frozen=True, weakref_slot=True)
        class Fixed:
            x: Any

        p = Point(n, x)
        p.x = p.x + n
        try:
            p.y = 1
        except AttributeError as error:
            said = type(error).__name__
        less = Point(1) < Point(2), Point(n) == Point(n), repr(Point(3)), Point.__slots__, hasattr(p, "__dict__")
        other = dataclasses.replace(Fixed(x), x=x * n)
        return p.twice, Point.at(x).x, said, less, other.x, dataclasses.asdict(Point(n))

    check_one_graph(program, *[(jnp.arange(3.0) + n, n) for n in range(6)], captures=2)


def test_a_class_with_slots_leaves_and_is_registered():
    def program(x, n):
        @jax.tree_util.register_dataclass
        @dataclasses.dataclass(slots=True)
        class Pair:
            a: Any
            b: Any

            def total(self):
                return self.a + self.b

        made = jax.tree.map(lambda leaf: leaf * n, Pair(x, x + 1))
        return made, Pair, jax.grad(lambda p: (p.total() * n).sum())(made).b

    compiled, seen = dynacomp.jit(program, backend="eager"), set()
    dynacomp.reset()
    for n in range(6):
        x = jnp.arange(3.0) + n
        made, cls, grad = compiled(x, n)
        assert type(made) is cls and (made.total() == (2 * x + 1) * n).all() and (grad == n).all()
        assert not hasattr(made, "__dict__") and jax.tree.map(jnp.sum, made).b.shape == ()
        seen.add(cls)
    assert len(seen) == 6 and not dynacomp.stats()["breaks"] and dynacomp.stats()["frames_captured"] == 2
