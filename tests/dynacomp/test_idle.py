"""`dynacomp.idle`: what computes nothing with arrays is left to Python, and found again once it computes."""

import collections
import random
import time
from types import SimpleNamespace

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


def padded(rows, emb):
    longest = 0
    for row in rows:
        if len(row) > longest:
            longest = len(row)
    batch = np.zeros((len(rows), longest), np.int32)
    for n, row in enumerate(rows):
        batch[n, :len(row)] = row
    return emb[batch].sum(1)


def known_words(words, emb):
    found, ids = {}, []
    for word in words:
        if word not in found:
            found[word] = len(found)
        ids.append(found[word])
    return emb[jnp.asarray(ids)].mean(0)


def collected(n, w):
    rng, total, steps = random.Random(n), 0.0, []
    while total < 3 + n % 3:
        total += rng.random()
        steps.append(total)
    return jnp.sum(jnp.asarray(steps) * w)


def rows_of(i):
    rng = random.Random(i)
    return [[rng.randint(0, 9) for _ in range(rng.randint(1, 3))] for _ in range(2 + i % 3)], EMBEDDING


def words_of(i):
    rng = random.Random(i)
    return [rng.choice("abc") * rng.randint(1, 4) for _ in range(4 + i % 3)], EMBEDDING


EMBEDDING = jnp.arange(80.0).reshape(20, 4)
LOOPS = {"padded": (padded, rows_of), "known words": (known_words, words_of),
         "collected": (collected, lambda i: (i, 1.5 + i))}


@pytest.mark.parametrize("fn, args", LOOPS.values(), ids=LOOPS.keys())
def test_loops_over_python_objects_run_in_python_and_what_follows_is_compiled(fn, args):
    made = compiled(fn)
    for i in range(24):
        np.testing.assert_allclose(made(*args(i)), fn(*args(i)), rtol=1e-5)
    before = dynacomp.stats()
    for i in range(24, 30):
        np.testing.assert_allclose(made(*args(i)), fn(*args(i)), rtol=1e-5)
    after = dynacomp.stats()
    assert (after["frames_captured"], after["frames_eager"]) == (before["frames_captured"], {})
    assert after["cache_hits"] >= before["cache_hits"] + 12  # the loop's way and what follows it


def test_a_loop_that_may_compute_is_captured_round_by_round():
    """Every third round computes: no round may be left to Python because the first two did not."""
    def batched(rows, w):
        held, total = [], 0.0
        for row in rows:
            held.append(row)
            if len(held) == 3:
                total = total + jnp.sum(jnp.asarray(held) * w)
                held = []
        return total

    made = compiled(batched)
    for i in range(8):
        rows = [float(k + i) for k in range(3 + i % 4)]
        np.testing.assert_allclose(made(rows, X[0] + i), batched(rows, X[0] + i), rtol=1e-5)
    assert dynacomp.stats()["frames_eager"] == {}


def test_what_was_seen_of_the_last_round_only_is_looked_at_again():
    def timed(w, rounds):
        first = True
        for _ in range(rounds):
            if time.perf_counter() < 0 or time.perf_counter() < 0:
                break
            if not first:
                w = w * 2
            first = False
        return w

    made = compiled(timed)
    for k in range(12):
        assert np.array_equal(made(X, min(1 + 4 * k, 5)), timed(X, min(1 + 4 * k, 5)))
    assert dynacomp.stats()["graphs"] and dynacomp.stats()["cache_hits"] > 10


def test_the_last_round_of_a_loop_leaves_the_others_compiled():
    """Behind the last break nothing computes where the loop ends, and all does where it goes on: looked at in its last
    round, the resume function was left to Python for all of them."""
    def episodes(x):
        got = []
        for k in range(3):
            time.time()
            y = jnp.tanh(x * k)
            time.time()
            got.append(y)
        return got

    made, seen = compiled(episodes), []
    for i in range(6):
        for got, want in zip(made(X + i), episodes(X + i), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)
        seen.append((dynacomp.stats()["frames_captured"], dynacomp.stats()["cache_hits"]))
    assert [(b[0] - a[0], b[1] - a[1]) for a, b in zip(seen, seen[1:])] == [(0, 7)] * 5, seen


def test_who_insists_gets_guards_instead():
    made = dynacomp.jit(known_words, backend="eager", options={"capture_idle": True})
    for i in range(6):
        np.testing.assert_allclose(made(*words_of(i)), known_words(*words_of(i)), rtol=1e-5)
    assert dynacomp.stats()["frames_captured"] > 6


def counted(text, x):
    def letters(text):
        seen = {}
        for _ in range(12):
            for a, b in zip(text, text[1:]):
                seen[a, b] = seen.get((a, b), 0) + 1
        return seen

    most = max(letters(text).values())
    return jnp.tanh(x * most).sum(), most


def test_long_work_on_texts_that_change_runs_in_python():
    """The second text shows it; what follows is compiled once."""
    dynacomp.reset()
    compiled, seen = dynacomp.jit(counted, backend="eager", options=PLAIN), []
    for k in range(12):
        text, x = "some text and other " * (12 + k), jnp.arange(4.0) * k
        want, got = counted(text, x), compiled(text, x)
        assert float(got[0]) == float(want[0]) and got[1] == want[1]
        seen.append(dynacomp.stats()["frames_captured"])
    stats = dynacomp.stats()
    assert seen[4] == seen[-1] <= 4 and not stats["frames_eager"], (seen, stats)
    assert stats["breaks"] == {"idle": 1} and stats["cache_hits"] >= 7


def test_the_same_long_work_on_one_text_is_captured_once():
    dynacomp.reset()
    compiled = dynacomp.jit(counted, backend="eager", options=PLAIN)
    for k in range(5):
        assert compiled("some text and other " * 12, jnp.arange(4.0) * k)[1] == 144
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


def test_a_long_look_in_vain_is_not_soon_taken_again():
    dynacomp.reset()

    @dynacomp.jit(options=PLAIN)
    def total(text):
        found = 0
        for _ in range(8):
            for letter in text:
                found += ord(letter) % 7
        return found

    for k in range(30):
        assert total("letters " * (50 + k)) > 0
    assert dynacomp.stats()["frames_idle"] == 1 and dynacomp.stats()["frames_captured"] == 0


def beam_search(w, width, limit):
    beams, done = [{"tokens": [1], "score": 0.0, "x": w}], []
    for _ in range(limit):
        found = []
        for b in beams:
            x = jnp.tanh(w * b["x"])
            for tok in jnp.argsort(-x)[:width].tolist():
                found.append({"tokens": b["tokens"] + [tok], "score": b["score"] + float(x[tok]), "x": x})
        found.sort(key=lambda b: -b["score"] / len(b["tokens"]))
        beams = []
        for b in found:
            (done if b["tokens"][-1] == 0 else beams).append(b)
            if len(beams) == width:
                break
        if not beams or len(done) >= width:
            break
    return [b["tokens"] for b in done or beams]


def test_a_search_that_keeps_books_in_python_settles():
    """Parts of it that compute nothing were guarded by what its lists and dicts held, in ever more entries."""
    dynacomp.reset()
    compiled, seen = dynacomp.jit(beam_search, backend="eager", options=PLAIN), []
    for i in range(8):
        w = jnp.sin(jnp.arange(5.0) * (i + 1))
        assert compiled(w, 2 + i % 2, 3 + i % 3) == beam_search(w, 2 + i % 2, 3 + i % 3)
        seen.append(dynacomp.stats()["frames_captured"])
    assert seen[5] == seen[-1] <= 30 and not dynacomp.stats()["frames_eager"], seen


def weighted(values, by):
    total = 0.0
    for v in values:
        total = total + v * by
    return total


@pytest.mark.parametrize("fn, number, array", [
    (lambda v, k: v * k + 1, (3, 2), (jnp.ones(3), 2)),
    (lambda *v, k=2: v[0] * k, (3,), (jnp.ones(3),)),
    (weighted, ([1, 2.5], 2.0), ([jnp.ones(3), jnp.zeros(3)], 2.0)),
    (lambda o: o.x - 1, (SimpleNamespace(x=2),), (SimpleNamespace(x=jnp.ones(3)),))])
def test_an_array_that_comes_where_none_was_is_compiled_at_once(fn, number, array):
    """They were computed one by one until the code was looked at again, up to 4,096 calls later."""
    jitted = compiled(fn)
    for _ in range(40):
        assert jitted(*number) == fn(*number)
    assert dynacomp.stats()["frames_captured"] == 0
    for _ in range(3):
        np.testing.assert_array_equal(jitted(*array), fn(*array))
    assert (dynacomp.stats()["frames_captured"], dynacomp.stats()["graphs"]) == (1, 1)


def test_helpers_that_rest_are_woken_too():
    def helper(v, k):
        return v * k

    def outer(x, n):
        print(end="")
        return helper(n, 3), helper(x, 3)

    jitted = compiled(outer)
    for i in range(20):
        jitted(i, i)
    before = dynacomp.stats()["graphs"]
    for i in range(3):
        np.testing.assert_array_equal(jitted(jnp.ones(2) * i, i)[1], jnp.ones(2) * 3 * i)
    assert dynacomp.stats()["graphs"] > before


def test_arrays_that_are_never_computed_with_wake_nobody_for_long():
    def rank(x):
        return len(x.shape) if hasattr(x, "shape") else 0

    jitted = compiled(rank)
    for i in range(200):
        assert jitted(jnp.ones(2) if i % 2 else i) == i % 2
    assert dynacomp.stats()["frames_captured"] == 0 and dynacomp.stats()["frames_idle"] <= 8


def test_an_array_that_comes_to_the_object_of_a_method_wakes_it():
    class Scale:
        def __init__(self, by):
            self.by = by

        def scaled(self, v):
            return v * self.by

    Scale.scaled, plain = compiled(Scale.scaled), Scale.scaled
    for _ in range(40):
        assert Scale(3).scaled(2) == 6
    for _ in range(3):
        np.testing.assert_array_equal(Scale(jnp.ones(2)).scaled(2), plain(Scale(jnp.ones(2)), 2))
    assert dynacomp.stats()["frames_captured"] == 1


KEPT = collections.OrderedDict()


def test_what_rests_behind_breaks_though_it_has_arrays_is_not_woken_by_them():
    def program(key, x):
        if key in KEPT:
            KEPT.move_to_end(key)
            return KEPT[key]
        value = x * 2
        KEPT[key] = value
        if len(KEPT) > 4:
            KEPT.popitem(last=False)
        return value

    jitted = compiled(program)
    KEPT.clear()
    captured = []
    for i in range(40):
        before = dynacomp.stats()["frames_captured"]
        np.testing.assert_array_equal(jitted(f"k{i % 7}", jnp.ones(3) * i), np.ones(3) * 2 * i)
        captured.append(dynacomp.stats()["frames_captured"] - before)
    assert sum(captured[20:]) <= 4 and not dynacomp.stats()["frames_eager"]
