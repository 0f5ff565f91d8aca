"""`dynacomp.driver.attempts`: attempts go on for as long as they learn something."""

import itertools
import warnings

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.frame import capture
from dynacomp.capture.symbolic.lessons import Lesson, Lessons
from dynacomp.capture.values import sources as S
from dynacomp.codegen import compiler
from dynacomp.driver import attempts, warm


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


def test_what_jax_notes_while_a_graph_is_compiled_is_known_to_the_next_attempt():
    """It holds a weak reference to the function that it differentiates, which had none when the attempt began."""
    def minimised(x):
        f = lambda z: (1 - z[0]) ** 2 + 10 * (z[1] - z[0] ** 2) ** 2  # noqa: E731
        both, moved, turned = jax.value_and_grad(f), [], []
        v, g = both(x)
        for _ in range(8):
            q, taken = g, []
            for s, y in zip(reversed(moved), reversed(turned)):
                taken.append((s @ q) / (y @ s))
                q = q - taken[-1] * y
            for (s, y), a in zip(zip(moved, turned), reversed(taken)):
                q = q + s * (a - (y @ q) / (y @ s))
            t = 1.0
            while t > 1e-3 and f(x - t * q) > v - 1e-4 * t * (g @ q):
                t *= 0.5
            new = x - t * q
            v, after = both(new)
            moved.append(new - x)
            turned.append(after - g)
            x, g = new, after
            if float(jnp.linalg.norm(g)) < 1e-3:
                break
        return x, v

    dynacomp.reset()
    compiled = dynacomp.jit(minimised, backend="eager", options={"capture_idle": False})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*yet guard")
        for i in range(4):
            x = jnp.array([-1.2, 1.0]) * (1 + 0.1 * i)
            for a, b in zip(compiled(x), minimised(x)):
                np.testing.assert_allclose(a, b, rtol=1e-4)


def test_what_other_processes_get_is_made_while_the_compiler_runs(monkeypatch, tmp_path):
    """Of a Graph for which compiling asks for more sizes afterwards, again; a failed compiler costs nothing more."""
    told, asked = [], itertools.count()
    real_run, real_content = compiler.run_together, warm.Content

    def run_together(commands, *rest):
        told.append("begin")
        try:
            return real_run(commands, *rest)
        finally:
            told.append("end")

    class Content(real_content):
        def __init__(self, *args):
            told.append("content")
            super().__init__(*args)

    monkeypatch.setattr(compiler, "run_together", run_together)
    monkeypatch.setattr(warm, "Content", Content)
    dynacomp.reset()
    x = jnp.arange(5.0)
    fn = dynacomp.jit(lambda x: (x + 2) * x * 1.625, options={"cache_dir": str(tmp_path)})
    assert (fn(x) == (x + 2) * x * 1.625).all()
    assert told[:1] == ["begin"] and told.count("content") == 1 and told.index("content") < told.index("end")
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["frames_unkept"]
    monkeypatch.setattr(attempts.Early, "_asked", lambda self: next(asked))
    assert (dynacomp.jit(lambda x: (x + 2) * x * 1.375, options={"cache_dir": str(tmp_path)})(x)
            == (x + 2) * x * 1.375).all()
    assert told.count("content") == 3


def test_what_was_found_of_library_functions_is_known_behind_a_break(monkeypatch):
    """Each resume function found it out again, an attempt for each function: 28 attempts in one call, 13 since."""
    def program(x, y):
        chex.assert_trees_all_equal(x, x)
        chex.assert_trees_all_close(y, y)
        print(end="")
        chex.assert_trees_all_equal(x, x)
        chex.assert_trees_all_close(y, y)
        return x * 2

    tried = []
    monkeypatch.setattr(attempts, "capture", lambda root, lessons, key: tried.append(len(lessons.unpacked)) or
                        capture(root, lessons, key))
    dynacomp.reset()
    x = jnp.arange(3.0)
    assert dynacomp.jit(program)(x, x + 1).tolist() == [0.0, 2.0, 4.0]
    assert tried == sorted(tried) and tried[0] == 0 and tried[-1] >= 4, tried
