"""What is measured slower than plain Python goes back to it, for a while, and nothing else is run plainly to see."""

import threading

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp import notices
from dynacomp.capture import _native
from dynacomp.driver import timing

X = jnp.arange(3.0)
ASKED = {"options": {"capture_idle": False}}  # as users have it: tests insist


@pytest.fixture
def clock(monkeypatch):
    """Nanoseconds that the next timed calls take, one after the other; then the last again and again."""
    dynacomp.reset()
    taken = []
    monkeypatch.setattr(timing, "since", lambda _: taken.pop(0) if len(taken) > 1 else taken[0])
    yield taken
    dynacomp.reset()


def plainly(compiled, calls):
    """In which of so many calls Python ran the function itself; results are right in all of them."""
    found = []
    for i in range(calls):
        before = _native.counters()["plain"]
        assert (compiled(X + i) == X + i + 1).all()
        found += [i] * (_native.counters()["plain"] > before)
    return found


def test_what_is_slower_goes_back_to_python(clock):
    clock[:] = [90_000] * (timing.FIRST_LOOK - 1) + [90_000, 60_000] * timing.PAIRS + [1]
    compiled = dynacomp.jit(lambda x: x + 1, **ASKED)
    first, samples = timing.FIRST + timing.FIRST_LOOK - 2, 2 * timing.PAIRS
    calls = plainly(compiled, first + samples + timing.RESTING + 20)
    aside = [*range(first + 1, first + samples, 2), *range(first + samples, first + samples + timing.RESTING)]
    assert calls == aside  # then a compiled call was fast
    assert dynacomp.stats()["frames_captured"] == 1 and dynacomp.stats()["frames_eager"] == {"slower": 1}
    assert [n.reason for n in notices.told() if "took 1.5 times as long" in n.reason]


@pytest.mark.parametrize(("taken", "plain"), [
    ([90_000, 1_000], 0),  # one operation takes JAX longer
    ([60_000_000], 0),  # no matter of overhead
    ([90_000, 80_000, 90_000, 900_000], 1),  # no need to look twice
    ([90_000], timing.PAIRS),  # noise
])
def test_what_is_not_slower_stays_compiled(clock, taken, plain):
    clock[:] = taken
    assert len(plainly(dynacomp.jit(lambda x: x + 1, **ASKED), timing.FIRST + 2 * timing.PAIRS + 20)) == plain
    assert dynacomp.stats()["frames_eager"] == {}


@pytest.mark.parametrize(("took", "operations", "certain"), [
    (900_000, 32, False),  # JAX may take a quarter of it
    (300_000, 32, True), (900_000, 33, True), (2_000_000, 33, False), (60_000_000, 33, True)])
def test_how_long_operations_take_at_least(took, operations, certain):
    assert timing.is_faster_for_certain(took, operations) is certain


@pytest.mark.parametrize("how", [{"options": {"measure": False, **ASKED["options"]}}, {"mode": "exact", **ASKED},
                                 {"fullgraph": True, **ASKED}, {"backend": "eager", **ASKED}, {}])
def test_who_insists_is_not_measured(clock, how):
    clock[:] = [90_000] * (timing.FIRST_LOOK - 1) + [90_000, 60_000] * timing.PAIRS
    assert plainly(dynacomp.jit(lambda x: x + 1, **how), timing.FIRST + 20) == []


def test_a_timed_call_that_raises_or_captures_is_looked_at_later(clock):
    clock[:] = [90_000] * (timing.FIRST_LOOK - 1) + [90_000, 60_000] * timing.PAIRS

    @dynacomp.jit(**ASKED)
    def chosen(x, k):
        if k < 0:
            raise ValueError(k)
        return x + 1 if k == 0 else x * k

    for _ in range(timing.FIRST - 1):
        chosen(X, 0)
    with pytest.raises(ValueError, match="-1"):
        chosen(X, -1)
    for i in range(20):  # the sixteenth is timed, and the first with another k captured
        assert (chosen(X, int(i >= 15)) == (X if i >= 15 else X + 1)).all()
    assert dynacomp.stats()["frames_eager"].get("slower", 0) == 0


def test_a_result_that_is_deleted_is_not_waited_for():
    gone = X + 1
    gone.delete()
    timing.wait_for({"gone": [gone, (X, 3)]})


def test_a_verdict_of_another_thread_meanwhile():
    """It has begun anew, while this thread's plain call was under way."""
    compiled = dynacomp.jit(lambda x: x + 1, **ASKED)
    code = compiled.__wrapped__.__code__
    timing.timer(code, dynacomp.options.Options(capture_idle=False))
    known = timing._TIMINGS.get(code)
    timing.begin_anew(known)
    known.plain.append(90)
    timing.consider(code, known, 1)
    assert not known.compiled and not known.plain


def test_threads_that_time_the_same_function():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x, k: (x * 2, k), **ASKED)
    wrong = []

    def work(k):
        try:
            for _ in range(200):
                doubled, same = compiled(X, k)
                assert same is k and (doubled == X * 2).all()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(object(),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
