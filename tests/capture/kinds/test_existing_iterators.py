"""Iterators that somebody else has made: read ahead without being asked, moved to where captured code has come to."""

import collections
import itertools

import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import captured

X = jnp.arange(3.0)


def two(it, x):
    return next(it, "end"), next(it, "end"), x * 2


GIVEN = {
    "list": lambda: iter([1, X, 3, 4]), "tuple": lambda: iter((1, 2, X)), "range": lambda: iter(range(3, 30, 4)),
    "big range": lambda: iter(range(1 << 65, (1 << 65) + 3)), "str": lambda: iter("äbc"), "bytes": lambda: iter(b"abc"),
    "dict": lambda: iter({"a": 1, "b": X, "c": 2}), "items": lambda: iter({"a": 1, "b": X, "c": 2}.items()),
    "values": lambda: iter({"a": 1, "b": X}.values()), "set": lambda: iter({5}),
    "reversed": lambda: reversed([1, 2, X]),
    "deque": lambda: iter(collections.deque([1, 2, X])), "enumerate": lambda: enumerate([X, 2, 3], 7),
    "zip": lambda: zip([1, 2, 3], (X, X, X)), "strict": lambda: zip([1, 2], [3, 4], strict=True),
    "map": lambda: map(abs, [-1, -2, -3]), "filter": lambda: filter(None, [0, 1, 0, 2, 3]),
    "map of two": lambda: map(pow, [1, 2, 3], [2, 2, 2]), "zip of enumerate": lambda: zip(enumerate("abc"), range(9)),
}


@pytest.mark.parametrize("name", GIVEN)
def test_it_is_moved_as_python_moves_it(name):
    """The real one, made anew for each call, and begun already."""
    dynacomp.reset()
    compiled = dynacomp.jit(two, backend="eager")
    for skipped in (0, 1, 0, 1):
        ours, theirs = GIVEN[name](), GIVEN[name]()
        for it in (ours, theirs):
            collections.deque(itertools.islice(it, skipped), maxlen=0)
        for _ in range(3):
            assert repr(compiled(ours, X)) == repr(two(theirs, X))
        assert repr(list(ours)) == repr(list(theirs))
    assert not dynacomp.stats()["breaks"]


def test_what_it_will_give_is_guarded_and_its_end_is():
    guards = captured(two, iter([1, 2]), X).guards
    assert "type(L['it']) is list_iterator" in guards
    assert "ends after 1 items" in captured(two, iter([1]), X).guards


def test_another_number_comes():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda it, x: x * next(it), backend="eager")
    for n in range(8):
        assert jnp.array_equal(compiled(iter([n]), X), X * n)
    assert dynacomp.stats()["frames_captured"] <= 3


def test_a_list_that_has_only_grown_is_gone_through():
    def program(items, it, x):
        items.append(x)
        return list(it), x + 1

    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(3):
        ours, theirs = [1, 2], [1, 2]
        assert repr(compiled(ours, iter(ours), X)) == repr(program(theirs, iter(theirs), X))


def test_a_dict_that_has_grown_meanwhile_is_refused():
    def program(table, it, x):
        first = next(it)
        table["new"] = x
        try:
            next(it)
        except RuntimeError as error:
            return first, str(error), x + 1

    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(3):
        ours, theirs = {"a": 1, "b": 2}, {"a": 1, "b": 2}
        assert repr(compiled(ours, iter(ours), X)) == repr(program(theirs, iter(theirs), X))
        assert repr(ours) == repr(theirs)


def test_values_that_change_while_it_goes_through_are_the_new_ones():
    def program(table, it, x):
        table["b"] = x
        return list(it), x + 1

    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(3):
        ours, theirs = {"a": 1, "b": 2}, {"a": 1, "b": 2}
        assert repr(compiled(ours, iter(ours.items()), X)) == repr(program(theirs, iter(theirs.items()), X))


def test_an_iterator_over_another_container_than_the_changed_one():
    """Guarded: the list that changes is not the one that is gone through."""
    def program(items, it, x):
        first = next(it)
        items[:] = [x]
        return first

    compiled = dynacomp.jit(program, backend="eager")
    for shared in (False, True, False):
        a, b = [1, 2, 3], [1, 2, 3]
        ours, theirs = iter(a if shared else [7, 8]), iter(b if shared else [7, 8])
        assert repr(compiled(a, ours, X)) == repr(program(b, theirs, X))
        assert repr((a, list(ours))) == repr((b, list(theirs)))


def test_numbers_beyond_the_machine_are_left_to_python():
    make = lambda: enumerate("abc", 1 << 63)
    assert dynacomp.jit(two, backend="eager")(make(), X)[:2] == two(make(), X)[:2]
