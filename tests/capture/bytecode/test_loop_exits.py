"""`capture.bytecode.loop_exits`: where a frame goes on that leaves the loop in which it has stopped."""

import pytest

from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.bytecode.loop_exits import ends, exits
from dynacomp.capture.bytecode.resume import HANDLED, VALUE, Layout, layout_of, resume_code


def stopped(fn, line, stack, *names):
    """The resume function that goes on where the line of `fn` with this number (from its `def`) begins."""
    decoded = decode(fn.__code__)
    at = next(i.index for i in decoded.instrs if i.line == fn.__code__.co_firstlineno + line)
    return resume_code(decoded, Layout(at, stack, None, names))


def lines(fn, resumed):
    """By loop, the outermost first: the lines that come behind it, what lies on the stack there, and the locals."""
    decoded = decode(fn.__code__)
    found = [[layout_of(code) for code in behind] for behind in exits(resumed)]
    return [sorted((decoded.instrs[s.target].line - fn.__code__.co_firstlineno, s.stack, s.locals) for s in behind)
            for behind in found]


def counted(words, x):
    counts = {}
    for word in words:
        if word == "stop":
            break
        if word == "none":
            return None
        last = counts[word] = counts.get(word, 0) + 1
    return x * len(counts) + last


def test_the_end_of_a_loop_and_its_break_are_one_place_and_a_return_is_another():
    resumed = stopped(counted, 7, (VALUE,), "counts", "word", "x")
    kept = ("counts", "last", "word", "x")
    assert lines(counted, resumed) == [[(6, (), kept), (8, (), kept)]]


def nested(rows, x):
    total = 0
    for row in rows:
        while row:
            total += row.pop()
    return x * total


def test_the_outermost_loop_comes_first():
    resumed = stopped(nested, 4, (VALUE,), "row", "total", "x")
    outer, inner = lines(nested, resumed)
    assert outer == [(5, (), ("row", "total", "x"))]
    assert inner and all(stack == (VALUE,) and names == ("row", "total", "x") for _, stack, names in inner)


def test_what_is_kept_without_being_read_is_kept_behind_the_loop_too():
    resumed = stopped(nested, 4, (VALUE,), "row", "rows", "total", "x")
    assert next(iter(lines(nested, resumed))) == [(5, (), ("row", "rows", "total", "x"))]


def caught(names, x):
    try:
        raise KeyError
    except KeyError:
        for name in names:
            x = x + len(name)
    return x


def yielding(names):
    for name in names:
        yield len(name)


@pytest.mark.parametrize("fn, line, stack", [
    (counted, 8, ()),  # in no loop
    (caught, 5, (HANDLED, VALUE)),  # an exception is being handled
    (yielding, 2, (VALUE,)),  # a generator is cut otherwise
])
def test_places_that_are_left_in_no_other_way(fn, line, stack):
    assert list(exits(stopped(fn, line, stack))) == []


def test_other_code_than_that_of_resume_functions_is_in_no_loop():
    assert list(exits(counted.__code__)) == []


def behind_ends(fn, resumed, *names):
    """Where a frame may be left that Python runs for a while, the farthest place first: its line, and the locals."""
    found = []
    for left in ends(resumed, set(names)):
        for state in map(layout_of, left):
            line = decode(fn.__code__).instrs[state.target].line - fn.__code__.co_firstlineno
            found.append((line, state.stack, state.locals))
    return found


def prepared(words, x):
    known = {}
    for word in words:
        known[word] = len(word)
    longest = max(known.values())
    y = x * longest
    if longest > 3:
        last = words[-1]
    z = y + len(words)
    return z, last


def test_statements_behind_loops_and_calls_from_the_beginning_the_farthest_first():
    found = behind_ends(prepared, prepared.__code__)
    assert [line for line, _, _ in found if line <= 5] == [5, 4]
    assert (5, (), ("known", "longest", "words", "x")) in found
    assert all(stack == () for _, stack, _ in found)


def test_one_place_for_each_choice_of_locals_that_may_have_no_value():
    found = behind_ends(prepared, prepared.__code__)
    ends_of = [set(names) for line, _, names in found if line == 9]
    assert len(ends_of) == 2 and ends_of[0] ^ ends_of[1] == {"last"}


def test_statements_that_read_what_changes():
    def program(words, n, x):
        pair = words[0]
        other = n + 1
        return x * other, pair

    lines = {line for line, _, _ in behind_ends(program, program.__code__, "words")}
    assert 2 in lines and 3 not in lines and not behind_ends(program, program.__code__)


def test_of_what_goes_on_later_only_what_comes_then():
    resumed = stopped(prepared, 5, (), "words", "x", "longest")
    assert {line for line, _, _ in behind_ends(prepared, resumed)} == {9}
    assert not behind_ends(nested, stopped(nested, 5, (), "total", "x"))
