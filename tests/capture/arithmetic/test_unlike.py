"""`==` of a number or text that changes, and of what is of another kind: no answer depends on the number."""

import enum
import operator

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.arithmetic import unlike
from dynacomp.capture.values.constant import Const
from tests.capture.program_kit import check_one_graph


class Missing:
    pass


class Mode(enum.Enum):
    SAME = 4


class Like:
    """Says itself what it equals."""

    def __eq__(self, other):
        return other == 4

    __hash__ = None


OTHERS = {"class": Missing, "none": None, "object": Missing(), "text": "a", "member": Mode.SAME, "tuple": (4,),
          "list": [4], "dict": {4: 4}, "set": {4}, "slice": slice(4), "range": range(4), "module": operator,
          "function": len, "method": Mode.SAME.__str__, "ellipsis": ...}


@pytest.mark.parametrize("name", OTHERS)
def test_no_number_equals_it(name):
    other = OTHERS[name]

    def program(x, n):
        return x * 2, n == other, other == n, n != other, x.shape[0] == other, n in ("a", None, other), n * 2 == other

    check_one_graph(program, *((jnp.ones(n), n) for n in range(2, 8)), captures=2)
    check_one_graph(lambda x, s: program(x, s)[:4], *((jnp.ones(3), n + 0.5) for n in range(2, 8)), captures=2)


def test_no_text_equals_it():
    def program(x, s):
        return x * 2, s == None, s != 3, s in (3, None, Missing), [s, 1].index(1), s == b"a1", b"a1" != s  # noqa: E711

    check_one_graph(program, *((jnp.ones(3), f"a{n}") for n in range(6)), captures=2)


def test_what_a_class_says_itself_is_asked():
    class Later:
        pass

    def program(x, n):
        return x * 2, n == Like(), Like() == n, n != Like(), n == 4.0, n == True, Later() == n  # noqa: E712

    check_one_graph(program, *((jnp.ones(3), n) for n in (3, 4, 5, 6, 4, 1)), captures=3)
    compiled = dynacomp.jit(lambda n: Later() == n)
    assert [compiled(n) for n in (2, 3, 4)] == [False] * 3
    Later.__eq__ = lambda self, other: other == 4
    assert [compiled(n) for n in (2, 3, 4)] == [False, False, True]


def test_only_equality_is_said():
    assert unlike.compare(None, operator.lt, Const(1), Const("a")) is None


class Text(str):
    """Says itself what it equals, and what comes before it."""

    def __eq__(self, other):
        return other == 3 or other == "b"

    def __ne__(self, other):
        return not self == other

    def __gt__(self, other):
        return other < 4 if isinstance(other, int) else other == "a"

    __hash__ = str.__hash__


@pytest.mark.parametrize("values", [(2, 3, 4, 5, 3), (0.5, 3.0, 1.5, 3.0)])
def test_a_subclass_with_methods_of_its_own_is_asked_behind_the_number(values):
    def program(x, n):
        return x * n, n == Text("q"), n != Text("q"), Text("q") == n, n in (Text("q"), None)

    check_one_graph(program, *((jnp.arange(3.0), n) for n in values), captures=3)  # its `or` branches


def test_a_subclass_with_methods_of_its_own_orders_numbers():
    check_one_graph(lambda x, n: (x * n, n < Text("q")), *((jnp.arange(3.0), n) for n in (2, 3, 4, 5)), captures=2)
