"""`dynacomp.driver.attempts`: attempts go on for as long as they learn something."""

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.symbolic.lessons import Lesson, Lessons
from dynacomp.capture.values import sources as S
from dynacomp.driver import attempts


@pytest.fixture
def never_done(monkeypatch):
    """Attempts at one function that all end without an answer; `learn` is what each does to the lessons."""
    def run(learn):
        tried = []

        def capture(root, lessons, key=None):
            tried.append(len(tried))
            learn(lessons, len(tried))

        monkeypatch.setattr(attempts, "capture", capture)
        dynacomp.reset()
        x = jnp.ones(3)
        assert (dynacomp.jit(lambda x: x + 1)(x) == x + 1).all()
        return len(tried), list(dynacomp.stats()["frames_eager"])

    return run


def test_an_attempt_that_learns_nothing_is_the_last(never_done):
    """Sixty did the same, at seconds each."""
    assert never_done(lambda lessons, n: None) == (1, ["attempts"])
    at = S.Local(0, "x")
    assert never_done(lambda lessons, n: lessons.fixed.add(at)) == (2, ["attempts"])
    assert never_done(lambda lessons, n: lessons.shut.add(min(n, 4))) == (5, ["attempts"])
    again = Lesson(3, "call", "", ())
    assert never_done(lambda lessons, n: lessons.breaks.setdefault(3, again)) == (2, ["attempts"])


def test_all_that_is_learned_counts(never_done):
    assert never_done(lambda lessons, n: lessons.rolled.add(n)) == (attempts.MAX_ATTEMPTS, ["attempts"])
    assert never_done(lambda lessons, n: lessons.counts.update(n=n % 2 == 0)) == (attempts.MAX_ATTEMPTS, ["attempts"])


def test_a_state_is_a_copy_of_all():
    lessons = Lessons()
    before = lessons.state()
    assert before == Lessons().state() == lessons.state() and before.keys() == vars(lessons).keys()
    lessons.fixed.add(S.Local(0, "x"))
    assert before != lessons.state()
    lessons.fixed.discard(S.Local(0, "x"))
    assert before == lessons.state()
    lessons.shut.add(1)
    assert before != lessons.state() and lessons.kept().keys() == before.keys() - {"shut"}
