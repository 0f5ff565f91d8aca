"""When a check is trusted, and what it does when it does not hold."""

import numpy as np
import pytest

from dynacomp.capture._native import RunPlainly
from dynacomp.capture.reconstruct.checks import PATIENCE, WORTH, Check, Checks

HERE = compile("", "here.py", "exec")


def test_a_check_that_fails_often_is_trusted_no_more():
    check = Check(HERE, 0, 1)
    asked = Checks((check,))
    for _ in range(PATIENCE):
        assert check.trusted
        with pytest.raises(RunPlainly):
            asked(np.array(False))
    assert not check.trusted


def test_a_check_that_mostly_holds_is_trusted():
    check = Check(HERE, 0, 1)
    asked = Checks((check,))
    for _ in range(2 * PATIENCE):
        for _ in range(WORTH):
            asked(np.array(True))
        with pytest.raises(RunPlainly):
            asked(np.array(False))
    assert check.trusted


def test_the_first_that_fails_is_blamed():
    checks = tuple(Check(HERE, n, 1) for n in range(3))
    with pytest.raises(RunPlainly):
        Checks(checks)(np.array([True, False, False]))
    assert [c.failures for c in checks] == [0, 1, 0]
