"""`numbers.applied`: recipes as functions of what changes."""

import numpy as np

from dynacomp.capture.numbers.applied import Applied, Given, described


def test_recipes_tell_what_differs():
    a, b = (described(((Given(0), x), {"axis": 0})) for x in (np.zeros(2), np.ones(2)))
    assert a != b
    assert Applied(np.arange, (Given(0), 9, 2), {})(3).tolist() == [3, 5, 7]
    stored = Applied(np.put, (Given(0), 1, Given(1)), {}, stores=True)
    base = np.zeros(3)
    assert stored(base, 5).tolist() == [0, 5, 0] and not base.any()
