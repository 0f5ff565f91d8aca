"""`dynacomp.idle`: what computes nothing with arrays is left to Python, and found again once it computes."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

PLAIN = {"capture_idle": False}
X = jnp.arange(4.0)


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()
    yield
    dynacomp.reset()


def compiled(fn):
    return dynacomp.jit(fn, backend="eager", options=PLAIN)


def test_what_computes_nothing_is_captured_ever_more_rarely():
    made = compiled(lambda a, b: (b, a))
    for _ in range(1000):
        assert made("a", None) == (None, "a")
    stats = dynacomp.stats()
    assert (stats["frames_captured"], stats["frames_idle"], stats["frames_eager"]) == (0, 5, {})


def test_what_computes_later_is_compiled_then():
    seen = []

    def warm(x):
        if len(seen) < 5:
            seen.append(1)
            return x
        return x * 2

    made = compiled(warm)
    results = [made(X) for _ in range(30)]
    assert all(r is X for r in results[:5]) and all(np.array_equal(r, X * 2) for r in results[5:])
    assert dynacomp.stats()["graphs"] == 1 and dynacomp.stats()["cache_hits"] > 10


def test_a_frame_is_idle_once_all_behind_its_breaks_is(capsys):
    def report(rows):
        lines = []
        for row in rows:
            print("row", row)
            lines.append(f"{row:.2f}")
        return lines

    made = compiled(report)
    for i in range(20):
        assert made([1.0, float(i)]) == ["1.00", f"{i:.2f}"]
    assert capsys.readouterr().out.count("row") == 40
    captured = dynacomp.stats()["frames_captured"]
    for i in range(100):
        made([2.0, float(i)])
    assert dynacomp.stats()["frames_captured"] <= captured + 6
    assert dynacomp.stats()["cache_hits"] < 60


def test_what_computes_behind_a_break_stays_compiled(capsys):
    def step(x, counts):
        counts["n"] += 1
        print("step")
        return x * 2 + 1

    made, counts = compiled(step), {"n": 0}
    for _ in range(20):
        np.testing.assert_array_equal(made(X, counts), X * 2 + 1)
    assert counts == {"n": 20}
    assert dynacomp.stats()["graphs"] == 1 and dynacomp.stats()["cache_hits"] >= 30


def test_callees_of_an_idle_frame_are_captured():
    def inner(x):
        return x * 3 + 1

    def outer(fn, x):
        print(end="")
        return [fn(x)]

    made = compiled(lambda x: outer(dynacomp.disable(lambda y: inner(y)), x))
    for _ in range(20):
        np.testing.assert_array_equal(made(X)[0], X * 3 + 1)


def test_it_is_said_of_a_function_that_the_user_compiled(caplog):
    def words(n):
        return ["w"] * n

    made = compiled(words)
    for _ in range(10):
        made(3)
    assert [r.getMessage() for r in caplog.records if "nothing compiled: " in r.getMessage()]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("how", [{"fullgraph": True, "options": PLAIN}, {"options": {"capture_idle": True}}])
def test_who_insists_gets_it_captured(how):
    made = dynacomp.jit(lambda n: n + 1, backend="eager", **how)
    assert [made(1) for _ in range(5)] == [2] * 5
    assert dynacomp.stats()["frames_captured"] == 1 and dynacomp.stats()["frames_idle"] == 0


def test_who_insists_is_heard_where_others_left_the_code_to_python():
    def pair(a, b):
        return b, a

    made = compiled(pair)
    for _ in range(10):
        made(1, 2)
    insists = dynacomp.jit(pair, backend="eager", fullgraph=True)
    assert insists(1, 2) == (2, 1) and dynacomp.stats()["frames_captured"] == 1


def test_explain_says_where_an_idle_function_breaks():
    def report(rows):
        print(end="")
        return [f"{r:.2f}" for r in rows]

    found = dynacomp.explain(report, options=PLAIN)([1.0])
    assert [b.kind for b in found.breaks] == ["effect"] and found.result == ["1.00"]
