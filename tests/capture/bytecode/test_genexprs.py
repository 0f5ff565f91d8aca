"""Generator expressions as functions of one item, and those that are none."""

import types

import pytest

from dynacomp.capture.bytecode.genexprs import function_of_item

K = 3


def expressions(xs, w):
    return [(x * w + K for x in xs), ([y + w for y in x] for x in xs), (a + b for a, b in xs),
            ((lambda: x)() for x in xs), (x if x else w for x in xs), (x and w for x in xs)]


def others(xs):
    return [(x for x in xs if x), (a for x in xs for a in x), (x async for x in xs), (x for x in xs if x if K),
            (lambda: (yield xs))]


def codes(fn):
    return [c for c in fn.__code__.co_consts if isinstance(c, types.CodeType)]


@pytest.mark.parametrize("k", range(6))
def test_the_function_gives_for_an_item_what_the_generator_yields(k):
    for items in ([[1, 2], [0, 5]], [(3, 4)], []) if k in (1, 2) else ([1, 0, 2], []):
        gen = expressions(items, 7)[k]
        made = function_of_item(gen.gi_code)
        cells = tuple(types.CellType(7) for _ in made.co_freevars)
        fn = types.FunctionType(made, globals(), "fn", None, cells or None)
        assert [fn(x) for x in items] == list(gen)


def test_others_have_none():
    assert [function_of_item(code) for code in codes(others)] == [None] * 5
    assert function_of_item(codes.__code__) is None
