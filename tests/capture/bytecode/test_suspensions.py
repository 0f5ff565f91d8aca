"""Where code suspends, and what its frame holds there: always, on some paths, or never."""

import pytest

from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.bytecode.resume import Layout
from dynacomp.capture.bytecode.suspensions import DRIVE, HANDLING, WAIT, YIELD, states, suspensions


def points(fn):
    return suspensions(decode(fn.__code__))


def plain(a, b):
    yield a
    got = yield b
    return got


def branching(flag):
    if flag:
        held = 1
    yield flag
    return held


def deleted(a):
    b = a
    yield b
    del b
    yield a


def in_expression(a, b):
    return a + (yield b)


def looping(xs):
    for x in xs:
        yield x + 1


def delegating(xs):
    got = yield from xs
    return got


def celled(a):
    inner = lambda: a
    yield inner


def catching(x):
    try:
        yield x
    except ValueError:
        yield -x
    yield 0


async def awaiting(a):
    return await a


async def async_generating(xs):
    async for x in xs:
        yield x


def test_each_point_knows_the_locals_that_have_a_value():
    first, second = points(plain)
    assert first.locals == second.locals == ("a", "b") and not first.unsure
    assert (first.kind, second.kind) == (YIELD, YIELD) and not first.handled


def test_a_local_of_one_branch_is_unsure():
    (point,) = points(branching)
    assert point.locals == ("flag", "held") and point.unsure == {"held"}


def test_a_deleted_local_is_not_kept():
    first, second = points(deleted)
    assert first.locals == ("a", "b") and second.locals == ("a",)


@pytest.mark.parametrize(("fn", "below"), [(plain, 0), (in_expression, 1), (looping, 1)])
def test_the_stack_below_is_kept(fn, below):
    assert {len(p.stack) for p in points(fn)} == {below}


@pytest.mark.parametrize(("fn", "kind"), [(delegating, WAIT), (awaiting, WAIT)])
def test_waiting_is_one_point_whose_loop_the_driver_runs(fn, kind):
    (point,) = points(fn)
    assert point.kind == kind


def test_what_is_driven_as_it_is():
    assert {p.kind for p in points(async_generating)} == {DRIVE, YIELD}, "__anext__'s awaitable, and the value"


def test_variables_that_inner_functions_share_are_no_locals():
    (point,) = points(celled)
    assert "a" not in point.locals and "inner" in point.locals


def test_what_code_itself_may_catch():
    caught, *others = points(catching)
    (handling,) = [p for p in others if "handled" in p.stack]
    (last,) = [p for p in others if p is not handling]
    assert caught.handled and not last.handled and not caught.stack, "what is being handled is kept on the stack"


def test_waiting_in_a_handler_shows_the_exception():
    def waits(xs):
        try:
            raise ValueError
        except ValueError:
            yield from xs

    (point,) = points(waits)
    assert point.kind == WAIT | HANDLING


def test_code_that_is_never_reached_has_no_points():
    def never(x):
        yield x
        return
        yield -x

    assert len(points(never)) == 1


def test_states_of_a_frame_that_goes_on_know_just_what_it_was_given():
    def fn(a, b):
        c = a + 1
        d = c + b
        return d

    decoded = decode(fn.__code__)
    at = next(i.index for i in decoded.instrs if i.line == fn.__code__.co_firstlineno + 2)
    last = max(i.index for i in decoded.instrs)
    known = states(decoded, Layout(at, (), None, ("b", "c")))
    assert min(known) == at and known[last].bound == known[last].maybe == {"b", "c", "d"}
    assert states(decoded)[last].bound == {"a", "b", "c", "d"}
