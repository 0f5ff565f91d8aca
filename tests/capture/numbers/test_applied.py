"""`numbers.applied`: recipes as functions of what changes."""

import numpy as np
import pytest

from dynacomp.capture.numbers.applied import FIRST, Applied, Given, described, laid, written


def test_recipes_tell_what_differs():
    a, b = (described(((Given(0), x), {"axis": 0})) for x in (np.zeros(2), np.ones(2)))
    assert a != b
    assert Applied(np.arange, (Given(0), 9, 2), {})(3).tolist() == [3, 5, 7]
    stored = Applied(np.put, (Given(0), 1, Given(1)), {}, changes=0)
    base = np.zeros(3)
    assert stored(base, 5).tolist() == [0, 5, 0] and not base.any()
    constant = Applied(np.put, (base, 1, Given(0)), {}, changes=FIRST)
    assert constant(5).tolist() == [0, 5, 0] and not base.any()
    into = Applied(np.add, (Given(0), Given(1)), {"out": Given(1)}, changes=1)
    assert into(base + 1, base).tolist() == [1, 1, 1] and not base.any()


def test_what_a_call_writes_even_where_that_changes_nothing():
    a, b, c = np.zeros(3), np.zeros(3), np.zeros(3)
    assert written(np.add, (a, b), {}) == []
    assert [id(x) for x in written(np.add, (a, b), {"out": c})] == [id(c)]
    assert [id(x) for x in written(np.divmod, (a, a + 1), {"out": (b, c)})] == [id(b), id(c)]
    assert [id(x) for x in written(np.multiply, (a, 1, a), {})] == [id(a)]
    assert [id(x) for x in written(np.copyto, (b, a), {})] == [id(b)]
    assert [id(x) for x in written(np.add.at, (b, [0], a[:1]), {})] == [id(b)]
    assert not (a.any() or b.any() or c.any()) and a.flags.writeable


def test_a_call_neither_names_nor_walks_through_what_it_applies():
    class Counted:
        named = 0

        def __call__(self, *args):
            return args

        def __repr__(self):
            Counted.named += 1
            return "counted"

    made = Applied(Counted(), (Given(1), "a", Given(0)), {})
    before = Counted.named
    assert made.laid is not None and made(1, 2) == (2, "a", 1) and Counted.named == before
    inner, before = Applied(made, (Given(0), [Given(1)]), {}), Counted.named
    assert inner.laid is None and inner(1, 2) == ([2], "a", 1) and Counted.named == before
    assert laid(([],)) is None and laid((3,))(()) == (3,) and laid((Given(2),))((0, 1, 2)) == (2,)


def test_what_numpy_would_warn_of_raises():
    for made in (Applied(np.divide, (Given(0), 0.0), {}), Applied(np.mean, (Given(0),), {})):
        with pytest.raises((FloatingPointError, ValueError)):
            made(np.ones(0) if made.says else np.float64(1))
