"""`set_layout`, `lay_out` and the guard of that name: which order a set has, and gives to what it takes."""

import gc
import random
import sys

import pytest

from dynacomp.capture import _native as native
from dynacomp.capture._native import frozen_as, lay_out, set_layout


def copied(real):
    return lay_out(set(), tuple(real), set_layout(real))


def left_over(n, gone):
    made = set(range(n))
    for k in gone:
        made.discard(k)
    return made


@pytest.mark.parametrize("seed", range(30))
def test_a_copy_behaves_as_the_original_does_from_then_on(seed):
    draw = random.Random(seed)
    real = set()
    for _ in range(draw.randrange(120)):
        draw.choice((real.add, real.add, real.discard))(draw.choice((draw.randrange(300), f"k{draw.randrange(40)}")))
    for _ in range(draw.randrange(3)):
        real and real.pop()
    copy = copied(real)
    assert copy == real and list(copy) == list(real) and copy.__sizeof__() == real.__sizeof__()
    for _ in range(200):
        change, key = draw.choice(("add", "discard", "pop")), draw.randrange(300)
        if change == "pop" and not real:
            continue
        assert getattr(copy, change)(*[key][change == "pop":]) == getattr(real, change)(*[key][change == "pop":])
        assert list(copy) == list(real)
        assert set_layout(copy) == set_layout(real)


def test_what_the_layout_does_not_fit_is_taken_one_by_one():
    layout = set_layout({1, 2, 3})
    for elements in ((4, 9, 17), (1,), (), tuple(range(50))):
        assert list(lay_out({7, 8}, elements, layout)) == list(set(iter(elements)))
    assert lay_out(set(), (1, 2, 3), b"") == {1, 2, 3}
    assert lay_out(set(), (1, 2, 3), b"\2" * 16) == {1, 2, 3}
    with pytest.raises(TypeError):
        lay_out(set(), ([],), set_layout({1}))


def test_elements_are_kept_and_let_go():
    class Element:
        """Known by its address."""

    made = [Element() for _ in range(20)]
    real = set(made)
    copy = copied(real)
    assert copy == real
    del real, made
    gc.collect()
    assert all(type(x) is Element for x in copy)


def test_the_guard():
    few = left_over(100, range(97))
    guards = native.GuardProgram([("local", 0, 0), ("set_layout", 0, set_layout(few))])

    def holds(s):
        return guards.check(lambda s: None, (s,)) == -1

    assert holds(few) and holds(left_over(100, range(97)))
    assert not holds({97, 98, 99}) and not holds([97, 98, 99]) and not holds(frozenset(few))
    few.add(5)
    assert not holds(few)


@pytest.mark.parametrize("layout", [b"", "x", 3])
def test_what_is_no_layout(layout):
    with pytest.raises(TypeError, match="layout"):
        native.GuardProgram([("local", 0, 0), ("set_layout", 0, layout)])
    with pytest.raises(TypeError):
        set_layout([])


@pytest.mark.parametrize("seed", range(10))
def test_a_frozenset_of_a_layout_is_one_like_the_original(seed):
    draw = random.Random(seed)
    grown = set(draw.sample(range(300), draw.randrange(60)))
    for k in draw.sample(sorted(grown), len(grown) // 2):
        grown.discard(k)
    real = frozenset(grown) - {draw.randrange(300)} | {draw.randrange(300), "a"}
    made = frozen_as(tuple(real), set_layout(real))
    assert type(made) is frozenset and made is not real and made == real and hash(made) == hash(real)
    assert list(made) == list(real) and set_layout(made) == set_layout(real)
    assert list(made | {7, 500}) == list(real | {7, 500}) and list(made - {1}) == list(real - {1})
    gc.collect()
    assert sorted(map(str, made)) == sorted(map(str, real))


def test_a_frozenset_keeps_its_elements_and_lets_them_go():
    elements = tuple(object() for _ in range(20))
    before = [sys.getrefcount(x) for x in elements]
    made = frozen_as(elements, set_layout(frozenset(elements)))
    assert made == frozenset(elements)
    del made
    assert [sys.getrefcount(x) for x in elements] == before
    with pytest.raises(TypeError):
        frozen_as(list(elements), b"")
    assert frozen_as((1, 2), b"") == {1, 2} and frozen_as((), b"") == frozenset()
