"""The parts of a capture: each begins empty, and two captures have none of them in common."""

import weakref

import pytest

from dynacomp.capture.symbolic.state import Dropping, Growing, Known, LibraryCalls, Numbers, Progress, Sizes

PARTS = (Growing, Known, Sizes, Numbers, LibraryCalls, Dropping, Progress)


@pytest.mark.parametrize("part", PARTS, ids=lambda cls: cls.__name__)
def test_no_two_captures_share_what_they_note(part):
    one, other = vars(part()), vars(part())
    held = {name for name, value in one.items() if type(value).__hash__ is None or isinstance(value, weakref.WeakSet)}
    assert held and one.keys() == other.keys()
    assert all(one[name] is not other[name] and not one[name] for name in held)


def test_a_capture_has_read_nothing_when_it_begins():
    progress = Progress()
    assert progress.top_step == -1 and progress.steps == progress.captured_ops == progress.depth == 0
    assert not Sizes().scope.relations and not Growing().builder.nodes
