"""Subscripts: `obj[key]` of arrays, constants, classes and instances, as plain Python has them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph

X = jnp.arange(12.0).reshape(4, 3)


class Table:
    def __init__(self, rows):
        self.rows = rows

    def __getitem__(self, key):
        return self.rows[key] * 2


class Box:
    def __class_getitem__(cls, item):
        return f"{cls.__name__} of {item.__name__}"


PROGRAMS = {
    "an array": lambda x, k: x[k] + x[1:, -k],
    "an array, by an array": lambda x, k: x[jnp.array([k, 0])] + x[np.array([1, k])],
    "a constant, by an array": lambda x, k: np.arange(3.0)[k] * x + (1.5, 2.5, 3.5)[k],
    "an instance": lambda x, k: Table(x)[k] + Table((1, 2, 3))[k],
    "a text that changes": lambda x, k: (x + k, str(k + 10)[0]),
    "classes": lambda x, k: (x + k, Box[int], list[int] == list[int], dict[str, int] is None),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_pythons(name):
    fn = PROGRAMS[name]
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for k in (1, 2, 1, 0, 2):
        want, got = fn(X, k), compiled(X, k)
        want, got = (v if isinstance(v, tuple) else (v,) for v in (want, got))
        np.testing.assert_array_equal(got[0], want[0])
        assert got[1:] == want[1:]
    stats = dynacomp.stats()
    assert not stats["breaks"] and stats["frames_captured"] <= 3


@pytest.mark.parametrize("fn", [lambda x: Table[0], lambda x: object()[0], lambda x: (x, 3)[2], lambda x: {"a": x}["b"],
                                lambda x: Table(x)["a"], lambda x: x["a"], lambda x: 3[0]])
def test_what_it_raises_is_pythons(fn):
    compiled = dynacomp.jit(fn, backend="eager")
    for _ in range(2):
        with pytest.raises((TypeError, IndexError, KeyError)) as want:
            fn(X)
        with pytest.raises(want.type) as got:
            compiled(X)
        assert str(got.value) == str(want.value)


@pytest.mark.parametrize("program", [
    lambda x, n: (x * 2, "abcde"[n], "abcde"[n:n + 2], "abcde"[-n:]), lambda x, n: (x, b"abcde"[n], "abcdefg"[n]),
    lambda x, n: x * len("abcde"[n] + "xy"), lambda x, n: x * (0.1, 0.2, 0.3, 0.4, 0.5)[n]])
def test_constants_are_asked_for_a_place_that_changes(program):
    """A constant text at a place that changes was a break, and an entry for each place."""
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x, n: (x + 1, program(x, n)), backend="eager")
    for n in (1, 0, 3, 2, 4, 1, 3, 0, 2, 4):
        assert repr(compiled(X, n)) == repr((X + 1, program(X, n)))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["frames_eager"] and not stats["breaks"]


def test_a_place_that_changes_to_where_nothing_is():
    compiled = dynacomp.jit(lambda x, n: (x + 1, "abc"[n]), backend="eager")
    for n in (0, 1, 2, -1, -3, 1, 0):
        assert compiled(X, n)[1] == "abc"[n]
    for n in (3, -4):
        with pytest.raises(IndexError, match="string index out of range"):
            compiled(X, n)


@pytest.mark.parametrize("program", [
    lambda x, n: jnp.c_[jnp.sin(x[0]), x[1]] * n, lambda x, n: jnp.r_[0:n, x[0], n], lambda x, n: jnp.r_["0,2", x, x],
    lambda x, n: jax.lax.scan(lambda c, _: (jnp.c_[c[:, 1], c[:, 0]], c[0]), x[:, :2], length=3),
    lambda x, n: (x[np.s_[n:]], x[jnp.index_exp[x.astype(int)[0] * 0]])])
def test_objects_of_libraries_that_are_made_to_be_subscripted(program):
    """Arrays and numbers that change in `jnp.c_[...]` were a break, in a scan's body the whole frame Python's."""
    check_one_graph(program, *((X[:4 - k % 2] + k, 1 + k % 3) for k in range(5)), captures=2)
