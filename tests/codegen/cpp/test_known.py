"""What is known where code stands, and the conditions that it decides."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from dynacomp.codegen.cpp.known import Known, bounds, parted, reduced
from dynacomp.lowering.kernel_ir.loops import Apply, Const, Index, Ref
from dynacomp.lowering.sizes.symbols import symbol

BOOL, INT = np.dtype(bool), np.dtype(np.int32)
I, J = symbol("i"), symbol("j")


def compare(fn, left, right):
    sides = [Const(x, INT) if isinstance(x, int) else Index(x, INT) for x in (left, right)]
    return Apply(fn, tuple(sides), BOOL)


def both(a, b):
    return Apply("and", (a, b), BOOL)


def truth(condition, known):
    found = reduced(condition, known)
    return found.value if isinstance(found, Const) else None


@pytest.mark.parametrize("fn", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize("expr", [I, -I, 2 * I - 3, 3 - I + J])
def test_ranges_decide_what_holds_for_all_or_none(fn, expr):
    ranges = {"i": (2, 5), "j": (0, 3)}
    known = Known(ranges=ranges)
    values = [int(expr.subs({I: i, J: j})) for i in range(2, 6) for j in range(4)]
    for limit in range(-12, 12):
        answers = {{"lt": v < limit, "le": v <= limit, "gt": v > limit, "ge": v >= limit}[fn] for v in values}
        assert truth(compare(fn, expr, limit), known) == (answers.pop() if len(answers) == 1 else None)
    assert bounds(expr, known) == (min(values), max(values))


def test_no_range_decides_nothing():
    assert truth(compare("ge", I, 0), Known()) is None
    assert truth(compare("lt", I * J, 3), Known(ranges={"i": (0, 1), "j": (0, 1)})) is None
    assert truth(compare("ge", sympy.Abs(I), 0), Known()) is None


def test_what_was_tested_narrows():
    below = compare("lt", I, 1)
    yes, no = (Known().assuming(below, holds) for holds in (True, False))
    assert truth(below, yes) and truth(below, no) is False
    assert truth(compare("ge", I, 1), yes) is False and truth(compare("ge", I, 1), no) is True
    assert truth(compare("lt", I, 5), yes) and truth(compare("lt", I, 5), no) is None
    assert truth(compare("gt", 4, I), yes) and truth(compare("le", -I, -1), no)
    moved = Known().assuming(compare("lt", I - J, 1), True)  # of two variables: only itself
    assert truth(compare("lt", I - J, 1), moved) and truth(compare("lt", I - J, 2), moved) is None


def test_names_and_conjunctions():
    first, second = compare("ge", I, 1), compare("lt", J, 9)
    known = Known().naming("t", both(first, second)).naming("u", first)
    assert reduced(Ref("t", BOOL), known) == Ref("t", BOOL)
    assert reduced(Ref("t", BOOL), known.within("i", 1, 7)) == second
    assert truth(Ref("t", BOOL), known.within("i", -3, 0)) is False
    inside = known.assuming(Ref("t", BOOL), True)
    assert truth(first, inside) and truth(second, inside) and truth(Ref("u", BOOL), inside)
    outside = known.assuming(Ref("t", BOOL), False)
    assert truth(Ref("t", BOOL), outside) is False and truth(first, outside) is None
    either = Apply("or", (first, second), BOOL)
    assert truth(first, Known().assuming(either, False)) is False
    assert truth(first, Known().assuming(either, True)) is None
    nothing = Apply("not", (first,), BOOL)
    assert truth(nothing, Known().assuming(first, False)) and truth(first, Known().assuming(nothing, False))


def test_conjunctions_come_apart():
    stays, moves, data = compare("ge", I, 1), compare("lt", J, 9), Ref("mask", BOOL)
    moving = lambda e: "j" in repr(e) or e == data or isinstance(e, Ref)
    known = Known().naming("t", both(stays, both(moves, data)))
    assert parted(Ref("t", BOOL), moving, known) == (stays, both(moves, data))
    assert parted(stays, moving, known) == (stays, None)
    assert parted(both(moves, data), moving, known) == (None, both(moves, data))
    assert parted(data, moving, known) == (None, data)
