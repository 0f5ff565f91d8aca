"""`@dataclass` on classes that captured code makes."""

import dataclasses
import typing
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

import dynacomp
from tests.capture.builtins.test_class_statements import X, check
from tests.capture.flow_kit import same


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
