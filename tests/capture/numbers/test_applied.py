"""`numbers.applied`: recipes as functions of what changes."""

import numpy as np

from dynacomp.capture.numbers.applied import FIRST, Applied, Given, described, written


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
