"""Enumerations whose classes the captured code makes."""

import enum

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph

INPUTS = [(jnp.arange(4.0) + n, n) for n in range(6)]


def test_members_by_name_by_value_and_in_order():
    def program(x, n):
        class Color(enum.Enum):
            RED = 1
            CRIMSON = 1
            BLUE = (2, 3)

        a, b = Color.BLUE.value
        same = Color.CRIMSON is Color.RED, Color(1) is Color["RED"], Color.RED in Color, isinstance(Color.RED, Color)
        return x * a * n + b, [c.name for c in Color], len(Color), list(Color.__members__), same, repr(Color.BLUE)

    check_one_graph(program, *INPUTS, captures=2)


def test_methods_properties_and_texts():
    def program(x, n):
        class Level(enum.Enum):
            LOW = enum.auto()
            HIGH = enum.auto()

            def twice(self):
                return self.value * 2

            @property
            def half(self):
                return self.value / 2

            @classmethod
            def first(cls):
                return cls.LOW

            def __str__(self):
                return f"<{self.name}>"

        return x * Level.HIGH.twice() * n, Level.LOW.half, Level.first().name, str(Level.HIGH), f"{Level.LOW:>7}"

    check_one_graph(program, *INPUTS, captures=2)


def test_numbers_strings_and_flags():
    def program(x, n):
        class Size(enum.IntEnum):
            SMALL = 1
            LARGE = 5

        class Mode(enum.StrEnum):
            TRAIN = enum.auto()

        class Bits(enum.Flag):
            A = enum.auto()
            B = enum.auto()

        both = Bits.A | Bits.B
        made = x * Size.LARGE + n, x[Size.SMALL], Size.LARGE + 1, max(Size).name, Size.LARGE > Size.SMALL
        return made, {"train": 1}[Mode.TRAIN], f"{Mode.TRAIN}", both.value, Bits.A in both, bool(both & Bits.B)

    check_one_graph(program, *INPUTS, captures=2)


def test_members_that_decide_and_are_keys():
    def program(x, n):
        Op = enum.Enum("Op", ["RELU", "TANH"])
        table = {Op.RELU: jax.nn.relu, Op.TANH: jnp.tanh}
        match Op(n % 2 + 1):
            case Op.RELU:
                x = x + 1
            case Op.TANH:
                x = x * n
        return jax.grad(lambda x: table[Op.TANH](x).sum() * Op.TANH.value)(x), table[Op.RELU](x)

    check_one_graph(program, *INPUTS, captures=3)


def test_each_call_has_members_of_its_own():
    def program(x, n):
        class Bits(enum.IntFlag):
            A = 1
            B = 2

        return x * n, Bits, Bits.A, Bits.A | Bits.B, {Bits.B: n}

    compiled = dynacomp.jit(program, backend="eager")
    dynacomp.reset()
    classes = set()
    for x, n in INPUTS:
        y, cls, a, both, table = compiled(x, n)
        assert (y == x * n).all() and cls.A is a and both is cls(3) and table[cls.B] == n
        classes.add(cls)
    assert len(classes) == len(INPUTS) and not dynacomp.stats()["breaks"] and dynacomp.stats()["frames_captured"] == 2


def bound_again(x):
    class E(enum.Enum):
        A = 1
        A = 2  # noqa: PIE794

    return x, E


def read_again(x):
    class E(enum.Enum):
        A = enum.auto()
        B = A

    return x + E.B.value, E.B.name


def of_an_array(x):
    class E(enum.Enum):
        A = x

    return E.A.value * 2


def by_init(x):
    class E(enum.Enum):
        A = (1, 2)

        def __init__(self, a, b):
            self.sum = a + b

    return x * E.A.sum


def unknown(x):
    class E(enum.Enum):
        A = 1

    return x + 1, E(2)


@pytest.mark.parametrize("program", [bound_again, read_again, of_an_array, by_init, unknown])
def test_others_are_pythons(program):
    compiled = dynacomp.jit(program, backend="eager")
    for x, _ in INPUTS[:3]:
        try:
            want = repr(program(x))
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error), match=str(error)[:20].replace("(", "[(]")):
                compiled(x)
        else:
            assert repr(compiled(x)) == want
