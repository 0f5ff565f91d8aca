"""`control_flow.iterations`: what one iteration may change, and between which numbers a range counts."""

import collections

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.control_flow.iterations import is_float, may_grow, range_of
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.values.computed import ScalarV, SizeV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV, TupleV
from dynacomp.capture.values.iterators import CountIterV
from dynacomp.capture.values.sources import Local


@pytest.mark.parametrize(("first", "stop", "step", "low", "high"), [
    (0, 5, 1, 0, 5), (0, 5, 2, 0, 6), (5, 0, -1, 0, 5), (5, 0, -2, -1, 5), (3, 3, 1, 3, 3)])
def test_a_range_counts_between_its_ends(first, stop, step, low, high):
    assert range_of(CountIterV(Const(first), Const(stop), Const(step))) == (low, high)


def test_a_range_to_a_size_counts_as_far_as_the_size_may_reach():
    low, high = range_of(CountIterV(Const(0), SizeV(Scope().symbol("n"), 4), Const(1)))
    assert low == 0 and high > 1 << 31
    assert range_of(CountIterV(Const(0), Const(None), Const(1))) is None  # itertools.count
    assert range_of(CountIterV(ScalarV(1), Const(5), Const(1))) is None
    assert range_of(CountIterV(Const(0), Const(9), SizeV(Scope().symbol("n"), 4))) is None


def test_a_range_whose_step_changes_in_a_loop_that_an_array_ends():
    def fn(x, n, step):
        for low in range(0, n, step):
            x = x + x[low]
            if x[0] > 30:
                break
        return x, low

    compiled = dynacomp.jit(fn, backend="eager")
    for n, step in ((7, 3), (8, 2), (9, 4), (10, 3), (11, 5), (6, 1)):
        x = jnp.arange(1.0, 1.0 + n)
        assert repr(compiled(x, n, step)) == repr(fn(x, n, step))
    assert not dynacomp.stats()["frames_eager"]


def test_only_new_lists_may_grow():
    assert may_grow(ListV([])) and may_grow(ListV([Const(1)]))
    for other in (ListV([], real=[]), ListV([], collections.deque), TupleV([]), Const([])):
        assert not may_grow(other)


def test_floats_that_python_knows_in_each_round():
    assert is_float(Const(1.5)) and is_float(ScalarV(1.5, source=Local(0, "x")))
    assert not is_float(Const(1)) and not is_float(ScalarV(1)) and not is_float(Const(True)) and not is_float(ListV([]))


def found_at(part, text, n):
    for i in range(n):
        if text.startswith(part, i):
            return i
    return -1


def test_a_loop_that_fails_inside_another_leaves_its_iterator():
    """The loop turned to begin at its test has tried the `for` in itself: it took the round of that for its own."""
    calls = [("a", "bca"), ("b", "cccb"), ("cd", "abcdef"), ("x", "xyz"), ("q", "abcdefghiq"),
             ("aaa", "b" * 20 + "aaa"), ("", "abc"), ("z", "a")]
    dynacomp.reset()
    compiled = dynacomp.jit(found_at, backend="eager")
    for part, text in (*calls, calls[0]):
        assert compiled(part, text, len(text)) == found_at(part, text, len(text))
    told = dynacomp.stats()
    assert told["frames_captured"] <= 14 and told["breaks"]["rounds"] and not told["frames_eager"], told


def _count(x, rounds, counts, store, read):
    for _ in range(rounds):
        counts[store] = counts[read] + 1
        x = x + counts[store]
    return x, counts


def _filled_while(x, rounds, rows, store, read):
    k = 0
    while k < rounds:
        rows[store] = rows[read] + x * k
        k += 1
    return rows


def _rows():
    return [jnp.zeros(3), jnp.ones(3), jnp.full((3,), 2.0)]


@pytest.mark.parametrize(("fn", "held", "keys"), [
    (_count, lambda: {"a": 0, "b": 5}, "ab"), (_count, lambda: [0, 1, 2], (0, 1, 2, -1)),
    (_filled_while, lambda: dict(zip("abc", _rows())), "abc"), (_filled_while, _rows, (0, 1, 2, -1))])
def test_a_loop_reads_under_a_changing_key_what_its_last_round_has_stored(fn, held, keys):
    """The key is looked up by guards where the dict or list is as the call was given it; in a round it no longer is."""
    compiled = dynacomp.jit(fn, backend="eager", options={"capture_idle": True})
    calls = [(3, 0, 0), (3, 0, 0), (5, 0, 0), (4, 1, 1), (5, 1, 1), (6, 0, 1), (4, 1, 1), (2, 0, 1)]
    for rounds, store, read in calls:
        given, expected = held(), held()
        asked = jnp.arange(3.0), rounds
        got, want = (f(*asked, x, keys[store], keys[read]) for f, x in ((compiled, given), (fn, expected)))
        assert str(got) == str(want) and str(given) == str(expected)
    assert dynacomp.stats()["frames_eager"] == {}
    before = dynacomp.stats()["frames_captured"]
    for rounds, store, read in calls:
        compiled(jnp.arange(3.0), rounds, held(), keys[store], keys[read])
    assert dynacomp.stats()["frames_captured"] == before


def test_a_loop_that_looks_into_a_given_list_before_it_stores():
    def fn(x, rounds, rows):
        for k in range(rounds):
            rows[0] = rows[2] + rows[0] * k
        return x + rows[0]

    compiled = dynacomp.jit(fn, backend="eager", options={"capture_idle": True})
    for rounds in (3, 3, 5, 4, 6, 2):
        assert compiled(jnp.ones(3), rounds, _rows()).tolist() == fn(jnp.ones(3), rounds, _rows()).tolist()
    assert dynacomp.stats()["frames_captured"] == 2
