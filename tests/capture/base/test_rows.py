"""Rows of tables: which calls they have parameters for, as Python says it."""

import inspect

import pytest

from dynacomp.capture.base.rows import fits, named


def keyed(cap, x, *, key):
    return x


ROWS = (lambda cap: 0, lambda cap, x: x, lambda cap, x, y=None: x, lambda cap, *xs, key=None: xs, lambda cap, **k: k,
        keyed)
CALLS = [(args, kwargs) for args in ((), (1,), (1, 2), (1, 2, 3)) for kwargs in ({}, {"y": 1}, {"key": 1}, {"x": 1})]


@pytest.mark.parametrize("row", ROWS)
def test_as_python_binds(row):
    def binds(args, kwargs):
        try:
            inspect.signature(row).bind(None, *args, **kwargs)
        except TypeError:
            return False
        return True

    assert [fits(row, *call) for call in CALLS] == [binds(*call) for call in CALLS]


def test_what_a_row_takes_by_name_alone():
    def fn(x, y=1, z=2, *, key=None):
        return x

    def row(cap, x, **options):
        return x

    assert named(row, fn, (1, 2, 3), {"key": 4}) == ([1], {"y": 2, "z": 3, "key": 4})
    assert named(row, fn, (1,), {"y": 2}) == ([1], {"y": 2})
    for args, kwargs in (((1, 2), {"y": 3}), ((1, 2, 3, 4), {})):  # for Python to judge
        assert named(row, fn, args, kwargs) == (list(args), kwargs)
    assert named(row, len, (1, 2), {}) == ([1, 2], {})
