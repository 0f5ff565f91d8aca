"""dynacomp.misses: what is captured again, what becomes symbolic, and what is said and counted."""

import functools
import gc
import json
import logging
import signal
import threading
import types
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp import misses, notices
from dynacomp.driver import history
from dynacomp.lowering.sizes.dims import SymbolicShapeError

jit = functools.partial(dynacomp.jit, backend="eager")


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def ones(*shape):
    return jnp.ones(shape)


def captures():
    return dynacomp.stats()["frames_captured"]


def test_a_second_size_is_the_last_capture():
    f = jit(lambda a: (a * 2).sum())
    for n in (3, 4, 5, 6, 7):
        assert f(ones(n)) == 2 * n
    assert captures() == 2 and dynacomp.stats()["recompiles"] == 1


@pytest.mark.parametrize("dynamic, expected", [(True, 1), (False, 4)])
def test_dynamic_says_when_sizes_are_symbolic(dynamic, expected):
    f = jit(lambda a: a + 1, dynamic=dynamic)
    for n in (3, 4, 5, 6):
        f(ones(n))
    assert captures() == expected


def test_marks():
    f = jit(lambda a: a + 1)
    x = ones(3, 4)
    dynacomp.mark_dynamic(x, 0)
    f(x)
    f(ones(7, 4))
    assert captures() == 1
    g = jit(lambda a: a * 2)
    for n in (3, 4, 5):
        y = ones(n)
        dynacomp.mark_static(y, 0)
        g(y)
    assert captures() == 4
    with pytest.raises(IndexError, match="dimension 2 of an array with 2"):
        dynacomp.mark_dynamic(x, 2)


def test_marked_bounds_are_guarded_and_decide_comparisons():
    f = jit(lambda a: (a + 1 if a.shape[0] > 3 else a * 0) + (a.shape[0] < 101))
    x = ones(10)
    dynacomp.mark_dynamic(x, 0, min=4, max=100)
    assert f(x)[0] == 3 and captures() == 1
    (entry,) = dynacomp.capture._native.entries(f.__wrapped__.__code__)
    assert entry.info.guards.count("s0") == 3, entry.info.guards  # what it is, and the bounds
    assert [f(ones(n))[0] for n in (4, 100, 50)] == [3, 3, 3] and captures() == 1
    assert f(ones(3))[0] == 1 and captures() == 2
    assert f(ones(101))[0] == 2 and captures() >= 2
    assert f(ones(20))[0] == 3


def test_bounds_that_cannot_be():
    with pytest.raises(ValueError, match="dimension 0 has size 3, which is not within min=4"):
        dynacomp.mark_dynamic(ones(3), 0, min=4)
    with pytest.raises(ValueError, match="max=2"):
        dynacomp.mark_dynamic(ones(4, 3), (0, 1), max=2)


def test_the_limit_is_told_once_and_the_function_runs_on(caplog):
    f = jit(lambda a, s: a + len(s), options={"recompile_limit": 2}, dynamic=False)
    with caplog.at_level(logging.WARNING, "dynacomp"):
        for n in range(6):
            assert f(ones(2), [0] * n)[0] == 1 + n
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 1 and "recompile limit" in said[0] and "where this fails: " in said[0]
    assert captures() == 2 and dynacomp.stats()["frames_eager"] == {"limit": 4}


def test_calls_of_full_code_ask_nobody_after_a_few():
    f = jit(lambda a, s: a + len(s), options={"recompile_limit": 2}, dynamic=False)
    plain, asked = misses.left_at_limit, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(misses, "left_at_limit", lambda *args: asked.append(1) or plain(*args))
        for n in range(3 * misses.UNASKED):
            assert f(ones(2), [0] * n)[0] == 1 + n
    assert misses.REFUSED <= len(asked) < misses.REFUSED + 4 and captures() == 2
    assert f(ones(2), [0])[0] == 2 and dynacomp.stats()["cache_hits"] >= 1  # its entries serve on
    with dynacomp.set_stance("fail_on_recompile"), pytest.raises(dynacomp.RecompileError):
        f(ones(2), [0] * 9)


def test_functions_that_share_code_do_not_share_the_limit():
    def step(scale):
        return jit(lambda a, s: a + len(s) * scale, options={"recompile_limit": 2}, dynamic=False)

    steps = [step(n) for n in range(4)]
    for n, f in enumerate(steps):
        for size in (1, 2):
            assert f(ones(2), [0] * size)[0] == 1 + size * n
    assert dynacomp.stats()["frames_eager"] == {} and captures() == 8
    assert steps[0](ones(2), [0] * 3)[0] == 1 and dynacomp.stats()["frames_eager"] == {"limit": 1}


def test_entries_that_died_do_not_count_for_the_limit():
    f = jit(lambda g, a: g(a), options={"recompile_limit": 2})
    for n in range(6):
        scope = {}
        exec(f"def g(a): return a + {n}", scope)
        assert f(scope.pop("g"), ones(1))[0] == 1 + n
        scope.clear()
        gc.collect()
    assert dynacomp.stats()["frames_eager"] == {}


def test_histories_die_with_their_code():
    scope = {}
    exec("def g(a): return a + 1", scope)
    code = weakref.ref(scope["g"].__code__)
    jit(scope["g"])(ones(2))
    before = len(history._HISTORY)
    scope.clear()
    gc.collect()
    assert code() is None and len(history._HISTORY) == before - 1


def test_stats_are_json():
    jit(lambda a: a + 1)(ones(2))
    assert json.loads(json.dumps(dynacomp.stats())) == dynacomp.stats()


@pytest.mark.parametrize("name, error", [("eager", None), ("eager_on_recompile", None),
                                         ("fail_on_recompile", dynacomp.RecompileError)])
def test_stances(name, error):
    f = jit(lambda a: a + 1)
    f(ones(2))
    with dynacomp.set_stance(name):
        assert f(ones(2))[0] == 2
        if error is None:
            assert f(ones(3)).shape == (3,)
        else:
            with pytest.raises(error, match=r"failed guard: .*float32\[2\]"):
                f(ones(3))
    assert captures() == 1
    f(ones(3))
    assert captures() == 2


def test_a_stance_is_checked_and_stays_without_a_with():
    with pytest.raises(ValueError, match="unknown stance 'fast'"):
        dynacomp.set_stance("fast")
    before = dynacomp.set_stance("eager")
    try:
        jit(lambda a: a + 1)(ones(2))
        assert captures() == 0
    finally:
        before.__exit__(None, None, None)


def test_every_frame_that_runs_eagerly_is_counted_and_told_once(caplog):
    def fails(a):
        return a + jnp.ones(3)

    f = jit(fails)
    with caplog.at_level(logging.WARNING, "dynacomp"):
        for _ in range(2):
            with pytest.raises(TypeError):
                f(ones(2))
    assert dynacomp.stats()["frames_eager"] == {"raises": 2}
    assert [r.getMessage().count("the program raises: TypeError") for r in caplog.records] == [1]
    assert f(ones(3))[0] == 2


def test_breaks_are_told_once_per_site(caplog, capsys):
    def shows(a):
        print("one")
        b = a + 1
        print("two")
        return b

    with caplog.at_level(logging.WARNING, "dynacomp"):
        for n in (2, 3, 4):
            jit(shows)(ones(n))
    assert len(caplog.records) == 2 == len(notices.told())
    assert capsys.readouterr().out == "one\ntwo\n" * 3


def test_one_thread_captures_and_the_others_wait():
    f, gate = jit(lambda a: a * 2), threading.Barrier(8)
    results = []

    def work():
        gate.wait()
        results.append(float(f(ones(2))[0]))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert results == [2.0] * 8 and captures() == 1


def test_what_cannot_be_compiled_for_unknown_sizes_is_compiled_for_each(monkeypatch):
    real = misses.compile_graph

    def only_known_sizes(graph, options, places):
        if not all(isinstance(d, int) for n in graph.placeholders for d in n.aval.shape):
            raise SymbolicShapeError("sizes")
        return real(graph, options, places)

    monkeypatch.setattr(misses, "compile_graph", only_known_sizes)
    f = jit(lambda a: a + 1)
    for n in (2, 3, 4):
        assert f(ones(n)).shape == (n,)
    assert captures() == 3 and dynacomp.stats()["frames_eager"] == {}


def test_captures_that_keep_failing_are_tried_ever_more_rarely():
    def sometimes(x, good):
        if not good:
            raise TypeError("bad")
        return x * 2

    compiled = dynacomp.jit(sometimes, backend="xla")
    x = jnp.ones(3)
    for _ in range(5):
        with pytest.raises(TypeError, match="bad"):
            compiled(x, False)
    for _ in range(20):
        assert compiled(x, True)[0] == 2
    assert dynacomp.stats()["frames_captured"] == 1


def test_a_changing_number_that_jax_wants_as_a_constant_is_fixed():
    def convolve(x, w, stride):
        return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME")

    def pull(x, w, stride, y):
        return jax.vjp(lambda x: convolve(x, w, stride), x)[1](y)[0]

    x, w = jnp.ones((1, 2, 8, 8)), jnp.ones((2, 2, 3, 3))
    forward, backward = jit(convolve), jit(pull)
    for stride in (1, 2, 3, 2):
        y = convolve(x, w, stride)
        np.testing.assert_allclose(forward(x, w, stride), y)
        np.testing.assert_allclose(backward(x, w, stride, y), pull(x, w, stride, y))
    assert not dynacomp.stats()["breaks"]


class Dying:
    """An entry that dies while its guards are asked, as garbage collection may have it."""

    def __init__(self):
        self.info, self.guards = types.SimpleNamespace(origin=["x is y"]), self

    def check(self, fn, args):
        self.info = None
        return 0


def test_an_entry_may_die_while_its_guards_are_asked(monkeypatch):
    monkeypatch.setattr(misses._native, "entries", lambda code: [Dying()])
    assert misses.failed_guard(None, None, ()) == "x is y"


def test_calls_beyond_the_limit_cost_little_and_heed_the_stance(monkeypatch):
    f = jit(lambda a, s: a + len(s), options={"recompile_limit": 2}, dynamic=False)
    for n in range(3):
        f(ones(2), [0] * n)
    monkeypatch.setattr(misses, "failed_guard", None)  # nobody looks for words for what was told
    assert f(ones(2), [0] * 7)[0] == 8 and f(ones(2), [0])[0] == 2
    monkeypatch.undo()
    with dynacomp.set_stance("fail_on_recompile"), pytest.raises(misses.RecompileError):
        f(ones(2), [0] * 8)
    assert f(ones(2), [0] * 9)[0] == 10


def test_what_never_settles_is_left_to_python(caplog):
    """A class with a metaclass that each call makes anew, alive at a break: each capture serves one call."""
    def scaled(x):
        class Meta(type):
            pass

        class Scale(metaclass=Meta):
            by = 2.0

        made = Scale()
        print(end="")
        return x * made.by + 1

    x = jnp.arange(4.0)
    dynacomp.reset()
    compiled = dynacomp.jit(scaled, backend="eager")
    for _ in range(200):
        np.testing.assert_array_equal(compiled(x), scaled(x))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 40 and stats["frames_eager"].get("churn"), stats
    assert [r for r in caplog.records if "captures whose results serve hardly a call" in r.getMessage()]
    rounds = stats["frames_captured"]
    for _ in range(50):
        compiled(x)
    assert dynacomp.stats()["frames_captured"] - rounds <= 14


def test_the_rank_of_matrices_whose_size_changes():
    """JAX's code asks `np.max(shape).astype(dtype)`."""
    dynacomp.reset()
    compiled = dynacomp.jit(jnp.linalg.matrix_rank)
    for n in (3, 4, 5, 6, 7):
        x = jnp.eye(n).at[0].set(0)
        assert compiled(x) == n - 1
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"], stats


@pytest.mark.parametrize("kind", ["signal", "collection"])
def test_what_python_calls_between_instructions_is_left_to_it(kind, caplog):
    seen = []

    def note(what, more):
        seen.append(more.f_code.co_name if kind == "signal" else what)

    def interrupted(x):
        y = x * 2
        if kind == "signal":
            signal.raise_signal(signal.SIGUSR1)
        else:
            gc.collect()
        return y + 1

    x, compiled = ones(3), jit(interrupted)
    before = signal.signal(signal.SIGUSR1, note)
    gc.callbacks.append(note) if kind == "collection" else None
    try:
        for _ in range(4):
            compiled(x)
    finally:
        signal.signal(signal.SIGUSR1, before)
        gc.callbacks.remove(note) if kind == "collection" else None
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and sum(stats["breaks"].values()) == 1, stats  # the function, what follows
    assert len(seen) >= 4 and stats["frames_eager"]["interrupt"] >= 4, (seen, stats)
    assert "note" not in caplog.text


def test_a_handler_that_is_compiled_by_name_is_told(caplog):
    def handler(number, frame):
        return ones(3) * 2

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for _ in range(3):
            np.testing.assert_array_equal(jit(handler)(0, None), [2, 2, 2])
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert caplog.text.count("a signal handler") == 1 and "test_misses.py" in caplog.text
    assert dynacomp.stats()["frames_eager"] == {"interrupt": 3}


def test_an_object_that_dies_as_its_entry_is_made_is_told(monkeypatch, caplog):
    """That entry serves nobody: the call runs as plain Python, counted and told; the next one is captured."""
    def held():
        return type("Held", (), {"scale": 2.0})

    def dies(*args):
        found = made(*args)
        if not died:
            died.append(space.pop("held"))
            space["held"] = held()
            died[0] = None
            gc.collect()
        return found

    made, died, space = misses.entry_for, [], {"held": held()}
    monkeypatch.setattr(misses, "entry_for", dies)
    exec("def program(x): return x * held.scale, held", space)
    compiled = jit(space["program"])
    for _ in range(10):
        y, seen = compiled(ones(3))
        assert y.tolist() == [2.0, 2.0, 2.0] and seen is space["held"]
    assert captures() == 1 and dict(dynacomp.stats()["frames_eager"]) == {"died": 1}
    assert "died while it was compiled" in caplog.text


@pytest.mark.parametrize("made", [lambda n: type("Made", (), {"n": n}), lambda n: {object(): n}], ids=["class", "key"])
def test_entries_that_serve_no_call_are_given_up_by_the_tenth(made):
    """What is alive behind the break is known by identity, and new in each call."""
    def f(x, n):
        held = made(n)
        print(end="")
        return x * (held.n if type(held) is type else sum(held.values()))

    dynacomp.reset()
    compiled, counts = dynacomp.jit(f, backend="eager"), []
    for n in range(12):
        before = dynacomp.stats()["frames_captured"]
        assert (compiled(jnp.ones(2), n) == n).all()
        counts.append(dynacomp.stats()["frames_captured"] - before)
    assert sum(counts[9:]) == 0


def test_the_guard_of_the_nearest_entry_is_named(capfd):
    """Not that of the one which served last, of another kind."""
    def f(x, kind):
        return x * 2 if kind == "double" else x + len(kind)

    compiled = dynacomp.jit(f, backend="eager", dynamic=False)
    for x, kind in ((jnp.ones(3), "double"), (np.ones(3), "double"), (jnp.ones(4), "double")):
        compiled(x, kind)
    with dynacomp.set_stance("fail_on_recompile"), pytest.raises(dynacomp.RecompileError, match="kind"):
        compiled(jnp.ones(3), "other")


def _three_segments(x):
    held = [x]
    print(end="")
    print(end="")
    return held[0].sum()


@pytest.mark.filterwarnings("error")
def test_entries_of_eager_code_serve_no_transformation():
    """The unguarded entry that runs the frame up to its second break was taken for one that serves `grad`, too: it
    was asked inside JAX's `eval_context`, where code is eager."""
    compiled = dynacomp.jit(_three_segments)
    for n in (3, 3, 4, 5):
        compiled(jnp.ones(n))
    for n in (3, 4, 5, 6):
        assert jnp.array_equal(jax.grad(compiled)(jnp.ones(n)), jnp.ones(n))
    before = captures()
    for n in (7, 8):
        jax.grad(compiled)(jnp.ones(n))
    assert captures() == before


class Node:
    def __init__(self, *parents):
        self.parents = parents


def test_what_changes_is_learnt_from_the_entry_that_comes_nearest(caplog):
    """Not from the one that served last: of objects that have three shapes in turn, that was of another shape."""
    def chain(n):
        return Node(chain(n - 1)) if n else Node()

    def count(node):
        return 1 + sum([count(p) for p in node.parents])

    def program(x, node, state):
        many = count(node)
        state["log"].append(many)
        return x * many, list(state["log"])

    compiled, states = jit(program), ({"log": []}, {"log": []})
    for n in range(16):
        found, wanted = (f(ones(3), chain(n % 3 + 1), s) for f, s in zip((compiled, program), states))
        assert (found[0] == wanted[0]).all() and found[1] == wanted[1] and states[0] == states[1]
        assert captures() == min(n + 1, 6)
    assert "recompile limit" not in caplog.text
