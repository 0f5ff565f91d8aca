"""Rows of tables: which calls they have parameters for, as Python says it."""

import inspect

import pytest

from dynacomp.capture.base.rows import fits


def named(cap, x, *, key):
    return x


ROWS = (lambda cap: 0, lambda cap, x: x, lambda cap, x, y=None: x, lambda cap, *xs, key=None: xs, lambda cap, **k: k,
        named)
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
