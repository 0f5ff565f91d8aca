"""Iterators that are alive where captured code ends: of Python's class, at their place, over the very container."""

import itertools
import sys

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.kinds.emit_iterators import (
    count_iterator,
    ended_calls,
    ended_generator,
    generator,
    iterator_at,
    move_to,
    repeated,
    reversed_at,
    sequence_protocol_iterator,
    slice_iterator,
    table_iterator,
)
from tests.capture.program_kit import outcome

X = jnp.arange(3.0)


def left(it):
    return [repr(v) for v in itertools.islice(it, 12)]


@pytest.mark.parametrize("seq", [[1, 2, 3], (1, 2, 3), "abc", range(3), b"abc"], ids=repr)
def test_iterators_over_sequences_stand_where_they_should(seq):
    for index in range(4):
        assert left(iterator_at(seq, index)) == left(iter(seq[index:]))
        assert type(seq) is range or left(reversed_at(seq, index - 1)) == left(reversed(seq[:index]))
    moved = iter(seq)
    move_to(moved, seq, 2)
    assert left(moved) == left(iter(seq[2:]))


def test_iterators_over_tables_and_what_has_ended():
    table = {"a": 1, "b": 2, "c": 3}
    assert left(table_iterator(table, "items", 1)) == left(iter([("b", 2), ("c", 3)]))
    assert left(table_iterator(table, "keys", -1)) == [] == left(ended_calls())
    over = table_iterator(table, "keys", 1)
    table["d"] = 4
    with pytest.raises(RuntimeError, match="changed size"):
        next(over)


def test_numbers_repetitions_and_slices():
    assert left(count_iterator(3, None, 2))[:2] == ["3", "5"] and left(count_iterator(3, 8, 2)) == ["3", "5", "7"]
    assert left(repeated("x", 2)) == ["'x'"] * 2 and len(left(repeated("x", None))) == 12
    assert left(slice_iterator(iter("abcdefg"), 1, 6, 2)) == ["'b'", "'d'", "'f'"]


def test_the_sequence_protocol():
    class Squares:
        def __getitem__(self, n):
            if n > 4:
                raise IndexError
            return n * n

    assert left(sequence_protocol_iterator(Squares(), 3)) == ["9", "16"]
    assert left(sequence_protocol_iterator(Squares(), -1)) == []


def test_generators_that_have_not_started_and_have_ended():
    def gen(a, *rest, key=2, **more):
        yield a, rest, key, more

    names = gen.__code__.co_varnames[:4]
    values = dict(a=1, key=5, rest=(2, 3), more={"z": 4})
    assert next(generator(gen, names, tuple(values[n] for n in names))) == (1, (2, 3), 5, {"z": 4})
    ended = ended_generator(gen)
    assert ended.__name__ == "gen" and left(ended) == [] and ended.gi_frame is None


def starred(*xs, key, **more):
    for x in xs:
        yield x * key


def squares(x):
    for k in range(5):
        yield x * k


MADE = {
    "list": lambda x: iter([x, x + 1, x + 2]), "tuple": lambda x: iter((x, x + 1)),
    "reversed": lambda x: reversed([x, x + 1, x + 2]), "range": lambda x: iter(range(2, 9, 3)),
    "down": lambda x: iter(range(9, 1, -2)),
    "reversed range": lambda x: reversed(range(5)), "given arguments": lambda x: starred(x, x + 1, key=3),
    "str": lambda x: iter("abc"),
    "dict": lambda x: iter({"a": x, "b": x + 1}),
    "items": lambda x: iter({"a": x, "b": x + 1}.items()), "values": lambda x: iter({"a": x, "b": x}.values()),
    "set": lambda x: iter({3}), "zip": lambda x: zip([x, x + 1], (1, 2, 3)),
    "strict": lambda x: zip([x, x + 1], (1, 2), strict=True), "enumerate": lambda x: enumerate([x, x + 1], 5),
    "map": lambda x: map(jnp.sin, [x, x + 1, x]), "filter": lambda x: filter(None, [0, x.shape, 3]),
    "chain": lambda x: itertools.chain([x], (x + 1, x)), "repeat": lambda x: itertools.repeat(x, 3),
    "count": lambda x: itertools.count(3, 2), "islice": lambda x: itertools.islice([x, x + 1, x, x], 1, None, 2),
    "call": lambda x: iter(lambda: 2, 3), "generator": squares, "rows": lambda x: iter(x),
    "accumulate": lambda x: itertools.accumulate([1, 2, 3]), "comprehension": lambda x: (v * 2 for v in (x, x + 1)),
}


def taken(make, steps):
    def program(x):
        it = make(x)
        got = [next(it, "end") for _ in range(steps)]
        return got, it, x * 2

    return program


@pytest.mark.parametrize("steps", [0, 1, 9])
@pytest.mark.parametrize("name", MADE)
def test_what_is_left_of_an_iterator_that_the_program_made(name, steps):
    dynacomp.reset()  # all of them are one code, which a few would fill
    program = taken(MADE[name], steps)
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(3):
        (got, ours, _), (want, theirs, _) = compiled(X + n), program(X + n)
        assert repr(got) == repr(want)
        assert type(ours) is type(theirs) and getattr(ours, "__name__", "") == getattr(theirs, "__name__", "")
        assert left(ours) == left(theirs)
    assert dynacomp.stats()["frames_captured"]


def test_most_of_them_need_no_break():
    dynacomp.reset()
    for make in MADE.values():
        dynacomp.jit(taken(make, 1), backend="eager")(X)
    assert set(dynacomp.stats()["breaks"]) <= {"iterator", "live", "unbuildable", "call"}
    assert sum(dynacomp.stats()["breaks"].values()) <= 2, dynacomp.stats()["breaks"]


def test_an_iterator_over_a_list_goes_on_with_the_list():
    def program(items, x):
        it = iter(items)
        first = next(it)
        items.append(x)
        items.insert(1, x + 5)
        return first, it

    compiled, ours, theirs = dynacomp.jit(program, backend="eager"), [1, 2], [1, 2]
    for _ in range(2):
        (a, mine), (b, plain) = compiled(ours, X), program(theirs, X)
        ours.append("later")
        theirs.append("later")
        assert a == b and left(mine) == left(plain) and repr(ours) == repr(theirs)


def shrinks_below(items, x):
    rounds = 0
    for item in reversed(items):
        del items[::2]
        rounds += 1
        print(item, end="", file=sys.stderr)
    return x * rounds, items


def grows_again(items, x):
    back, on = reversed(items), iter(items)
    first = next(back), next(on), next(on)
    del items[1:]
    print(end="", file=sys.stderr)
    items.extend([8, 9, 10, 11])
    return x + first[0], back, on


def left_to_the_caller(items, x):
    back, on = reversed(items), iter(items)
    first = next(back), next(on), next(on)
    del items[1:]
    return x + first[0], back, on


@pytest.mark.parametrize("fn", [shrinks_below, grows_again, left_to_the_caller], ids=lambda f: f.__name__)
def test_an_iterator_stands_where_its_list_has_no_items_any_more(fn):
    """`__setstate__` puts one at the end of its list at the farthest: loops went on over what was left."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for given in ([4, 0, 1, 2, 5], [4, 0, 1, 2, 5], [3, 2], [1, 2, 3, 4, 5, 6], [1, 2, 3]):
        ours, theirs = list(given), list(given)
        got, want = compiled(ours, X), fn(theirs, X)
        ours.append("later")
        theirs.append("later")
        assert repr(got[0]) == repr(want[0]) and ours == theirs
        assert [*map(list, got[1:])] == [*map(list, want[1:])]
    assert dynacomp.stats()["graphs"] and not dynacomp.stats()["frames_eager"]


def over_grown_items(x, table, count):
    table["new"] = count
    return x, sorted(itertools.chain.from_iterable(itertools.starmap(itertools.repeat, table.items())))


def over_a_grown_set(x, found, count):
    found.add(count)
    positive = itertools.takewhile(lambda n: n > 0, found)
    print(end="", file=sys.stderr)
    return x, sorted(positive)


def over_what_grows_later(x, table, count):
    powers = itertools.starmap(pow, table.items())
    table[str(count)] = count
    print(end="", file=sys.stderr)
    return x, list(powers)


@pytest.mark.parametrize(("fn", "given"), [
    (over_grown_items, {"a": 1, "b": 2}), (over_a_grown_set, {1, 2}), (over_what_grows_later, {2: 3, 3: 2})])
def test_an_iterator_of_itertools_is_made_after_its_container_has_changed(fn, given):
    """It was made before the side effects: RuntimeError, dictionary changed size during iteration."""
    compiled = dynacomp.jit(fn, backend="eager", options={"capture_idle": True})
    for count in (3, 3, 5, 4, 0, 1):
        ours, theirs = given.copy(), given.copy()
        assert repr(outcome(compiled, (X, ours, count))) == repr(outcome(fn, (X, theirs, count))) and ours == theirs
    assert not dynacomp.stats()["frames_eager"]
