"""`tracing.failures`: what fails by a mistake of ours is told from what fails in the program."""

import pytest

from dynacomp.capture.bytecode.code import decode
from dynacomp.capture.tracing.failures import is_defect


def test_mistakes_in_any_room_are_ours():
    with pytest.raises(AttributeError) as ours:
        decode(None)
    with pytest.raises(AttributeError) as theirs:
        None.content  # noqa: B018
    assert is_defect(ours.value) and not is_defect(theirs.value)
