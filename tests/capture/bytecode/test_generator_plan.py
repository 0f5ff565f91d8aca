"""Plans: segments that drivers share, trials, and drivers that are begun in the middle and moved about."""

import gc
import types
import weakref

import pytest

from dynacomp.capture.bytecode import generator_plan
from dynacomp.capture.bytecode.generator_plan import (
    TRIAL,
    Plan,
    begin,
    is_running,
    is_waiting,
    keep,
    make_ends,
    move,
    plan_at,
    plan_of,
    ready,
    waits_for,
)
from dynacomp.capture.bytecode.segments import FINISHED, UNBOUND


def fresh():
    """The function anew: plans are kept by code."""
    def counts(n, by=1):
        while n:
            got = yield n
            n = n - by if got is None else got
        return "end"

    made = counts
    return types.FunctionType(made.__code__.replace(), globals(), "counts", (1,))


def run_by(plan, fn):
    return types.FunctionType(plan.driver(), fn.__globals__, fn.__name__, fn.__defaults__)


def test_segments_are_wrapped_and_made_once():
    wrapped = []

    def wrap(segment):
        wrapped.append(segment.__code__)
        return segment

    fn = fresh()
    plan = Plan(fn.__code__, wrap)
    for _ in range(3):
        gen = run_by(plan, fn)(3)
        assert list(gen) == [3, 2, 1]
    assert len(set(wrapped)) == 2, "the beginning, and behind the yield"
    assert plan_at(run_by(plan, fn)(3)) == (plan, True)


def test_a_plan_that_does_not_pay_is_told_once():
    idle = []
    fn = fresh()
    plan = Plan(fn.__code__, lambda segment: segment, lambda: idle.append(1))
    assert sum(1 for _ in range(3 * TRIAL) if plan.on_trial()) == TRIAL - 1
    assert idle == [1] and plan.idle, "none of its segments was compiled"


def test_what_is_suspended_at_the_interpreters_end_needs_none_of_ours_any_more(monkeypatch):
    told = []

    def plain(n, told):
        try:
            yield n
        except ValueError:
            yield -1
        finally:
            told.append(n)

    gen = run_by(Plan(plain.__code__, lambda segment: segment), plain)(3, told)
    assert next(gen) == 3
    make_ends()
    for name in ("run_eager", "mark_skip", "FunctionType", "threading"):
        monkeypatch.setattr(generator_plan, name, None)  # as it finds them then
    del gen
    assert told == [3]


def test_a_driver_is_moved_to_where_its_state_says():
    fn = fresh()
    plan = Plan(fn.__code__, lambda segment: segment)
    ((key, point),) = plan.flat.points.items()
    state = tuple({"n": 9, "by": 4, "got": UNBOUND}[name] for name in point.locals)
    for steps in range(3):  # before it has begun, and in the middle
        gen = run_by(plan, fn)(3)
        for _ in range(steps):
            next(gen)
        move(gen, key, state)
        assert [next(gen), gen.send(2)] == [5, 2]


def test_a_driver_begins_in_the_middle(monkeypatch):
    monkeypatch.setattr(generator_plan, "wrapping", [lambda options: lambda segment: segment])
    fn = fresh()
    gen = begin(fn, "options", ())
    plan, created = plan_at(gen)
    ((key, point),) = plan.flat.points.items()
    assert created and gen.__name__ == "counts"
    ready(gen, key, tuple({"n": 6, "by": 2, "got": UNBOUND}[name] for name in point.locals), "first")
    assert list(gen) == ["first", 4, 2]


def test_a_driver_that_stands_still_is_moved_to_its_end():
    fn = fresh()
    plan = Plan(fn.__code__, lambda segment: segment)
    gen = run_by(plan, fn)(3)
    next(gen)
    found, created = plan_at(gen)
    assert found is plan and not created
    move(gen, FINISHED, ())
    assert list(gen) == [] and gen.gi_frame is None


def test_other_generators_have_no_plan():
    assert plan_at(x for x in "ab") == (None, True)
    assert plan_at(iter([])) == (None, False)
    with pytest.raises(ValueError, match="already executing"):
        move((x for x in "ab"), FINISHED, ())


def test_a_plan_lives_as_long_as_its_code(monkeypatch):
    monkeypatch.setattr(generator_plan, "wrapping", [lambda options: lambda segment: segment])
    fn = fresh()
    plan = plan_of(fn.__code__, "options")
    assert plan_of(fn.__code__, "options") is plan and plan_of(fn.__code__, "others") is not plan
    own = Plan(fn.__code__, lambda segment: segment)
    keep(fn.__code__, "options", own)
    assert plan_of(fn.__code__, "options") is own
    gone = weakref.ref(own)
    del own, plan, fn
    gc.collect()
    assert gone() is None


def test_what_a_generator_waits_for():
    inner = iter([1, 2])

    def outer():
        yield from inner

    gen = outer()
    assert not is_waiting(gen) and not is_running(gen)
    next(gen)
    assert waits_for(gen) is inner and is_waiting(gen)


def test_a_running_generator_says_so():
    def asks():
        yield is_running(gen)

    gen = asks()
    assert next(gen) is True and not is_running(gen)
