"""`capture.bytecode.stretches`: the same bytecode, left at the places of resume functions."""

import types

import pytest

from dynacomp.capture._native import Tail
from dynacomp.capture.bytecode.code import VERSION, decode
from dynacomp.capture.bytecode.resume import HANDLED, NULL, VALUE, Layout, resume_code
from dynacomp.capture.bytecode.stretches import stretch

LOOP_END = {(3, 11): 0, (3, 12): 1}.get(VERSION, 2)


class Left(Exception):
    """How these stretches end."""


def leaving(resumed):
    def leave(closure, arguments):
        raise Left(closure, dict(zip(resumed.co_varnames, arguments)))
    return leave


def behind_loop(fn, *names):
    """The resume function of what follows the first `for` of `fn`."""
    decoded = decode(fn.__code__)
    head = next(i for i in decoded.instrs if i.name == "FOR_ITER")
    return resume_code(decoded, Layout(decoded.at[head.argval] + LOOP_END, (), None, names))


def run(fn, resumes, *args):
    code = stretch(fn.__code__, resumes, leaving)
    assert code is not None
    return types.FunctionType(code, fn.__globals__, fn.__name__, None, fn.__closure__)(*args)


def summed(rows, log):
    total = 0
    for row in rows:
        if row < 0:
            return "negative"
        if row > 9:
            break
        total += row
    log.append("behind")
    return total, row


@pytest.mark.parametrize("rows, total, row", [([1, 2, 3], 6, 3), ([4, 10, 5], 4, 10)])
def test_it_is_left_behind_the_loop_however_that_ends(rows, total, row):
    log = []
    with pytest.raises(Left) as left:
        run(summed, [behind_loop(summed, "log", "row", "total")], rows, log)
    assert left.value.args == ((), {"log": log, "row": row, "total": total}) and log == []


def test_ways_that_pass_no_place_run_to_their_end():
    assert run(summed, [behind_loop(summed, "log", "row", "total")], [3, -1], []) == "negative"


def test_where_a_local_has_no_value_another_resume_function_goes_on_or_none():
    log = []
    with pytest.raises(UnboundLocalError, match="row"):
        run(summed, [behind_loop(summed, "log", "row", "total")], [], log)
    assert log == ["behind"]  # by the stretch itself
    with pytest.raises(Left) as left:
        run(summed, [behind_loop(summed, "log", "row", "total"), behind_loop(summed, "log", "total")], [], log)
    assert left.value.args == ((), {"log": log, "total": 0})


def test_cells_are_handed_on():
    def outer(k):
        def adding(rows):
            found = []
            for row in rows:
                found.append(lambda: row + k)  # noqa: B023 - the cell is what is tested
            return found, k
        return adding

    fn = outer(5)
    with pytest.raises(Left) as left:
        run(fn, [behind_loop(fn, "found")], [1, 2])
    cells, arguments = left.value.args
    assert [c.cell_contents for c in cells] == [2, 5] and [f() for f in arguments["found"]] == [7, 7]


def test_what_lies_on_the_stack_is_handed_on():
    def nested(groups):
        total = []
        for group in groups:
            for item in group:
                total.append(item)
            total.append(0)
        return total

    decoded = decode(nested.__code__)
    inner = [i for i in decoded.instrs if i.name == "FOR_ITER"][1]
    behind = resume_code(decoded, Layout(decoded.at[inner.argval] + LOOP_END, (VALUE,), None, ("total",)))
    with pytest.raises(Left) as left:
        run(nested, [behind], [[1, 2], [3]])
    arguments = left.value.args[1]
    assert arguments["total"] == [1, 2] and next(arguments["$s0"]) == [3]


def test_a_stretch_of_a_resume_function_is_left_for_others_of_the_same_original():
    def two(rows, more):
        for row in rows:
            print(end=str(row)[:0])
        for row in more:
            print(end=str(row)[:0])
        return row

    first = behind_loop(two, "more", "row")
    decoded = decode(two.__code__)
    second = [i for i in decoded.instrs if i.name == "FOR_ITER"][1]
    last = resume_code(decoded, Layout(decoded.at[second.argval] + LOOP_END, (), None, ("row",)))
    code = stretch(first, [last], leaving)
    with pytest.raises(Left) as left:
        types.FunctionType(code, {})([7, 8], 1)
    assert left.value.args == ((), {"row": 8})


def test_a_frame_that_handles_an_exception_is_not_left():
    decoded = decode(summed.__code__)
    assert stretch(summed.__code__, [resume_code(decoded, Layout(3, (HANDLED,), None, ("log",)))], leaving) is None


def test_code_of_another_function_is_no_place():
    def other(rows):
        for row in rows:
            print(end=str(row)[:0])
        return row

    assert stretch(summed.__code__, [behind_loop(other, "row")], leaving) is None


def test_tails_are_what_stretches_return_in_use():
    def f(rows):
        for row in rows:
            print(end=str(row)[:0])
        return row

    code = stretch(f.__code__, [behind_loop(f, "row")],
                   lambda resumed: lambda closure, args: Tail(types.FunctionType(resumed, {}), args))
    made = types.FunctionType(code, {})([1, 2])
    assert type(made) is Tail


def test_a_method_beside_its_object_is_handed_on_bound():
    def lengths(rows, found):
        for row in rows:
            found.append(len(row))
        return found

    decoded, pair = decode(lengths.__code__), (VALUE, NULL) if VERSION >= (3, 13) else (NULL, VALUE)
    calls = [i.index for i in decoded.instrs if i.name == ("PRECALL" if VERSION < (3, 12) else "CALL")]
    appending = resume_code(decoded, Layout(calls[1], (VALUE, *pair, VALUE), None, ("found", "row", "rows")))
    with pytest.raises(Left) as left:
        run(lengths, [appending], [[1, 2]], found := [])
    method = left.value.args[1][f"$s{1 + pair.index(VALUE)}"]
    method(7)
    assert found == [7] and left.value.args[1]["$s3"] == 2
