"""What attempts at a frame tell the next one: counted, copied, put back."""

from dynacomp.capture.symbolic.lessons import Frozen, Lesson, Lessons, Policy
from dynacomp.capture.values.sources import Dim, Local

SIZE = Dim(Local(0, "x"), 0)


def test_what_keeps_a_graph_from_serving_all_calls_is_counted():
    lessons = Lessons()
    assert lessons.learnt() == 0
    lessons.breaks[3] = Lesson(3, "call", "print", ())
    lessons.frozen[SIZE] = Frozen("a reshape", (), 4)
    lessons.plain_ifs = True
    lessons.rolled.add("a loop")  # which becomes one node: it serves all calls
    assert lessons.learnt() == 3


def test_a_state_is_a_copy_and_can_be_put_back():
    lessons = Lessons()
    before = lessons.state()
    assert before == Lessons().state()
    kept = lessons.kept()
    lessons.unrolled.add("a loop")
    lessons.shut.add("a place")
    assert lessons.state() != before and not before["unrolled"]
    lessons.put_back(kept)
    assert not lessons.unrolled and lessons.shut == {"a place"}  # places that are shut stay so
    assert lessons.state().keys() - kept.keys() == {"shut"}


def test_a_policy_that_has_seen_no_call_leaves_all_constant():
    policy = Policy()
    assert policy.size(SIZE, 0, 4, None) is False and policy.scalar(SIZE, 1) is False
    assert policy.changes_often(SIZE) is False and policy.opens is None
