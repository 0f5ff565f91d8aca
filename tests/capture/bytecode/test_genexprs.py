"""Generator expressions as functions of one item, and those that are none."""

from __future__ import annotations

import types

import pytest

from dynacomp.capture.bytecode.genexprs import function_of_item, loop_codes

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


def cut(xs, size):
    n = len(xs)
    for i in range(0, n, size):
        yield xs[i:i + size]


def doubled(xs):
    """With a docstring, and the flag of a module that begins as this one does."""
    for x in xs:
        y = x * 2
        yield y


def scaled(k):
    def items(xs, *, by=2):
        for x in xs:
            yield x * k, by
    return items


def carries(xs):
    total = 0
    for x in xs:
        total = total + x
        yield total


def goes_on(xs):
    for x in xs:
        yield x + 1
    print("end")


def yields_twice(xs):
    for x in xs:
        yield x
        yield x


def skips(xs):
    for x in xs:
        if x:
            yield x


def tidies_up(xs):
    try:
        for x in xs:
            yield x + 1
    finally:
        print("end")


def nested(xs):
    for x in xs:
        for y in x:
            yield y + 1


def asks_another(xs, ys):
    for x in xs:
        yield x, next(ys)


def with_a_cell(xs):
    n = len(xs)
    for x in xs:
        yield lambda: (n, x)  # noqa: B023


@pytest.mark.parametrize(("fn", "args"), [(cut, ([1, 2, 3, 4, 5], 2)), (doubled, ([1, 2],)), (scaled(3), ([1, 2], 5))])
def test_a_generator_function_in_two(fn, args):
    codes = loop_codes(fn.__code__)
    before, item = (types.FunctionType(c, globals(), "fn", None, fn.__closure__) for c in (codes.before, codes.item))
    items, *given = before(*args)
    want = fn(*args) if fn.__code__.co_kwonlyargcount == 0 else fn(args[0], by=args[1])
    assert [item(*given, x) for x in items] == list(want)


@pytest.mark.parametrize("fn", [carries, goes_on, yields_twice, skips, tidies_up, nested, asks_another, with_a_cell,
                                codes], ids=lambda f: f.__name__)
def test_what_is_no_such_generator_function(fn):
    assert loop_codes(fn.__code__) is None
