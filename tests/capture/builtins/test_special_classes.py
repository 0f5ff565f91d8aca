"""Named tuples and typed dictionaries whose classes the captured code makes."""

import gc
import typing
from collections import namedtuple
from typing import Any, NamedTuple, Protocol, TypedDict

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph

INPUTS = [(jnp.arange(4.0) + n, n) for n in range(10)]


def test_a_call_of_namedtuple_is_part_of_the_graph():
    def program(x, n):
        pair = namedtuple("pair", ["a", "b", "a"], rename=True, defaults=(2, 3))
        p = pair(x * n)
        names = pair.__name__, pair.__module__, pair.__qualname__, pair._fields, pair._field_defaults
        return p._replace(b=n).b, p._asdict(), tuple(pair._make([x, n, 1])), names, type(p) is pair

    check_one_graph(program, *INPUTS, captures=2)


def test_a_class_statement_of_named_tuples():
    def program(x, n):
        class Pair(NamedTuple):
            """Says so."""
            a: Any
            b: int = 3

            @property
            def product(self):
                return self.a * self.b

            def __add__(self, other):
                return Pair(self.a + other.a, self.b)

        match Pair(x, n) + Pair(x):
            case Pair(a, b):
                return a, b, Pair(x).product, Pair.__doc__, Pair.__annotations__["b"], Pair._field_defaults

    check_one_graph(program, *INPUTS, captures=2)


def test_a_protocol_that_annotates():
    def program(x, n):
        class Sized(Protocol):
            position: Any

            def size(self) -> int:
                ...

        def go(obj: Sized) -> Sized:
            return obj * n

        try:
            Sized()
        except TypeError as error:
            return go(x), Sized.__name__, Sized.__annotations__, str(error), Sized._is_protocol

    check_one_graph(program, *INPUTS, captures=2)


def test_a_subclass_of_a_protocol_that_takes_no_questions():
    """`super()` asks what a class derives from, not what its metaclass says of it: that raised (a defect of ours)."""
    def program(x, n):
        class Sized(Protocol):
            def size(self) -> int:
                ...

        class Many(Sized):
            def size(self):
                return x * n

        return Many().size()

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for args in INPUTS[:4]:
        assert jnp.array_equal(compiled(*args), program(*args))
    assert "internal" not in dynacomp.stats()["frames_eager"]


def test_a_subclass_of_a_call_of_namedtuple():
    def program(x, n):
        class Pair(namedtuple("Pair", "a b")):
            __slots__ = ()

            def total(self):
                return self.a + self.b

        return Pair(x, n).total(), tuple(Pair(x, n)._replace(b=2)), isinstance(Pair(1, 2), tuple)

    check_one_graph(program, *INPUTS, captures=2)


def test_typed_dictionaries():
    def program(x, n):
        class Row(TypedDict):
            a: int

        row: Row = {"a": n}
        return x * row["a"], Row(a=n), list(Row.__annotations__)

    check_one_graph(program, *INPUTS, captures=2)


class Given(TypedDict):
    a: int


def test_what_a_typed_dictionary_makes_is_a_dict():
    def program(x, n):
        class Row(TypedDict):
            a: int

        made = Row(a=n), Given(a=n), Given({"a": 1})
        return made, [type(d) for d in made], x * 2

    check_one_graph(program, *INPUTS[:4], captures=2)
    assert [type(d) for d in dynacomp.jit(program, backend="eager")(*INPUTS[0])[0]] == [dict] * 3


def pairs():
    return {cls for cls in tuple.__subclasses__() if cls.__name__ == "pair" and cls.__module__ == __name__}


def test_each_call_makes_a_class_of_its_own():
    def program(x, n):
        pair = namedtuple("pair", "a b")
        return pair(x * n, n), pair

    dynacomp.reset()
    compiled, classes, before = dynacomp.jit(program), set(), pairs()
    for x, n in INPUTS:
        p, pair = compiled(x, n)
        assert type(p) is pair and pair.__module__ == __name__ and pair._make((1, 2))._asdict() == {"a": 1, "b": 2}
        classes.add(pair)
    assert len(classes) == len(INPUTS) and dynacomp.stats()["frames_captured"] == 2
    gc.collect()
    assert pairs() <= before | classes


@pytest.mark.parametrize("fields", ["a a", "class", "_a"])
def test_what_python_refuses_raises(fields):
    def program(x):
        try:
            return namedtuple("pair", fields)
        except ValueError as error:
            return str(error), x + 1

    compiled = dynacomp.jit(program, backend="eager")
    for x, _ in INPUTS[:2]:
        assert repr(compiled(x)) == repr(program(x))


def test_transformations_and_what_leaves():
    def program(x, n):
        pair = namedtuple("pair", "a b")
        grad = jax.grad(lambda p: (p.a * p.b).sum() * n)(pair(x, x + 1))
        scaled = jax.tree.map(lambda v: v * n, pair(x, x))
        return type(grad) is pair, tuple(grad), type(scaled) is pair, scaled.a, pair._make.__name__

    def parts(x, n):
        class Pair(NamedTuple):
            a: Any
            b: Any = x

        return Pair(n).b, typing.get_type_hints(Pair)["a"] is Any

    for fn in (program, parts):
        compiled = dynacomp.jit(fn, backend="eager")
        for args in INPUTS[:4]:
            assert repr(compiled(*args)) == repr(fn(*args))


def test_a_call_of_typing_namedtuple():
    def program(x, n):
        Pair = NamedTuple("Pair", [("a", Any), ("b", int)])  # noqa: UP014
        return Pair(x * n, n)._replace(b=2).a, Pair._fields, Pair.__module__, Pair.__annotations__["b"] is int

    check_one_graph(program, *INPUTS, captures=2)


def test_what_leaves_has_its_fields():
    def printed(x, n):
        class Pair(NamedTuple):
            a: jax.Array
            b: int = 3

        class Row(TypedDict):
            a: int

        said = repr(Row.__annotations__), Row.__required_keys__
        dynacomp.graph_break()
        return Pair(x * n), Pair(a=x, b=n)._replace(a=2), Pair, said, Row

    compiled = dynacomp.jit(printed, backend="eager")
    for x, n in INPUTS[:5]:
        pair, other, cls, said, row = compiled(x, n)
        assert type(pair) is type(other) is cls and cls._fields == ("a", "b") and cls._field_defaults == {"b": 3}
        assert repr(pair) == repr(printed(x, n)[0]) and repr(other) == f"Pair(a=2, b={n})"
        assert cls.__annotations__ == {"a": jax.Array, "b": int} and row.__annotations__ == {"a": int}
        assert cls(1) == (1, 3) and said == printed(x, n)[3]
