"""What `_native` reads of generators and iterators that stand still, and changes in them."""

import collections
import sys

import pytest

from dynacomp.capture import _native as native


def numbers(a):
    b = a + 1
    yield b
    yield from inner(b)


def inner(c):
    yield c


async def waiting(x):
    await x


def test_a_generator_in_its_stages():
    made = numbers(1)
    assert native.suspended(made) == (numbers.__code__, True)
    assert native.suspended_local(made, 0) == 1 and native.suspended_local(made, -1) is globals()
    assert next(made) == 2
    assert native.suspended(made) == (numbers.__code__, False)
    assert [native.suspended_local(made, n) for n in (0, 1)] == [1, 2]
    assert next(made) == 2
    assert native.suspended_delegate(made) is made.gi_yieldfrom
    assert list(made) == []
    assert native.suspended(made) is None


def test_its_locals_and_its_delegate_change():
    made = numbers(1)
    next(made)
    native.set_suspended_local(made, 1, 10)
    assert next(made) == 10
    held = iter([7])
    before = sys.getrefcount(held)
    native.set_suspended_delegate(made, held)
    inside = sys.getrefcount(held)
    assert list(made) == [7]
    assert (inside, sys.getrefcount(held)) == (before + 1, before)


def test_what_has_nothing_to_see():
    running = []

    def looks():
        running.append(native.suspended(me))
        yield

    me = looks()
    next(me)
    assert running == [None]
    made = numbers(1)
    for bad in (3, None, iter([])):
        assert native.suspended(bad) is None
    for call in (lambda: native.suspended_local(3, 0), lambda: native.suspended_local(made, 99),
                 lambda: native.suspended_delegate(made), lambda: native.set_suspended_local(made, 99, 0),
                 lambda: native.set_suspended_delegate(made, 0)):
        with pytest.raises(ValueError, match="generator"):
            call()


def test_coroutines_are_seen_too():
    made = waiting(inner(1))
    assert native.suspended(made) == (waiting.__code__, True)
    made.close()
    assert native.suspended(made) is None


ITERATORS = {
    "list": lambda: iter([1, 2, 3]), "tuple": lambda: iter((1, 2, 3)), "range": lambda: iter(range(1, 20, 7)),
    "long range": lambda: iter(range(1 << 70, (1 << 70) + 3)), "str": lambda: iter("abc"),
    "wide str": lambda: iter("äöü"), "bytes": lambda: iter(b"abc"),
    "set": lambda: iter({1, 2, 3}), "dict": lambda: iter({1: 2, 3: 4, 5: 6}),
    "values": lambda: iter({1: 2, 3: 4, 5: 6}.values()), "items": lambda: iter({1: 2, 3: 4, 5: 6}.items()),
    "reversed list": lambda: reversed([1, 2, 3]), "reversed dict": lambda: reversed({1: 2, 3: 4, 5: 6}),
    "deque": lambda: iter(collections.deque([1, 2, 3])), "reversed deque": lambda: reversed(collections.deque("abc"))}


@pytest.mark.parametrize("make", ITERATORS.values(), ids=ITERATORS)
def test_upcoming_items(make):
    expected = list(make())
    it = make()
    for taken in range(len(expected) + 1):
        left = expected[taken:]
        assert [native.upcoming(it, n) for n in range(len(left))] == [(x,) for x in left]
        assert native.upcoming(it, len(left)) == ()
        assert next(it, "end") == (left[0] if left else "end")
    assert native.upcoming(it, 0) == ()


def test_what_cannot_be_looked_into():
    for it in (numbers(1), map(str, []), 3):
        with pytest.raises(TypeError, match="upcoming"):
            native.upcoming(it, 0)
    table = {1: 2, 3: 4}
    it = iter(table)
    next(it)
    table[5] = 6
    with pytest.raises(RuntimeError, match="changed size"):
        native.upcoming(it, 0)
    grown = collections.deque([1])
    it = iter(grown)
    grown.append(2)
    with pytest.raises(RuntimeError, match="mutated"):
        native.upcoming(it, 0)


def test_iterated():
    items, table = [1], {1: 2}
    assert native.iterated(iter(items)) is items and native.iterated(reversed(items)) is items
    assert native.iterated(iter(table.items())) is table
    kept = collections.deque([1])
    assert native.iterated(iter(kept)) is kept and native.iterated(reversed(kept)) is kept
    assert native.iterated(iter(range(3))) is None and native.iterated(map(str, items)) is None


def test_the_next_number_of_an_enumerate():
    counting = enumerate("abc", 5)
    assert next(counting) == (5, "a")
    native.set_enumerate(counting, 40)
    assert next(counting) == (40, "b")
    with pytest.raises(OverflowError):
        native.set_enumerate(counting, sys.maxsize)
    with pytest.raises(OverflowError):
        native.set_enumerate(enumerate([], 1 << 80), 3)
    with pytest.raises(TypeError):
        native.set_enumerate(iter([]), 3)


def holds(*steps, value):
    def fn(a):
        return a

    return native.GuardProgram([("local", 0, 0), *steps]).check(fn, (value,)) == -1


def test_guards_of_generators():
    started = numbers(1)
    next(started)
    ended = numbers(1)
    ended.close()
    code = numbers.__code__
    for value, at_start, at_two, over in ((numbers(1), True, False, False), (started, False, True, False),
                                          (ended, False, False, True), (3, False, False, False)):
        assert holds(("suspended", 0, code, None, 0), value=value) == at_start
        assert holds(("suspended", 0, code, 2, 1), value=value) == at_two
        assert not holds(("suspended", 0, inner.__code__, 2, 1), value=value)
        assert holds(("has_ended", 0), value=value) == over
    assert not holds(("suspended", 0, code, 3, 1), value=started)
    assert holds(("suspended_local", 1, 0, 1), ("eq", 1, 2), value=started)
    assert not holds(("suspended_delegate", 1, 0), value=started)


def test_guards_of_iterators():
    for n, (item, ended) in enumerate([(4, False), (5, False), (None, True)]):
        it = iter([4, 5])
        assert holds(("upcoming", 1, 0, n), value=it) == (item is not None)
        assert holds(("ended", 0, n), value=it) == ended
        assert list(it) == [4, 5]
    assert not holds(("upcoming", 1, 0, 0), value=[4]) and not holds(("ended", 0, 0), value=[4])
    assert holds(("reduced", 1, 0), ("len", 1, 2), value=zip("a", "b"))
    assert not holds(("reduced", 1, 0), value=iter([]))


def test_guards_refuse_what_they_do_not_know():
    for step in (("suspended", 0, 3, None, 0), ("suspended", 0, numbers.__code__, "key", 0)):
        with pytest.raises(TypeError, match="suspended"):
            native.GuardProgram([("local", 0, 0), step])
