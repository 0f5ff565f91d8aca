"""Captures become rare in a program that does not settle, and in no other."""

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp import misses
from dynacomp.driver import rounds
from dynacomp.driver.rounds import FREE, QUIET, Budget, Parts, Rounds

X = jnp.arange(3.0)


def test_after_a_quiet_while_all_begins_again():
    rounds = Rounds()
    seen = [rounds.may_capture(call) for call in range(1, FREE + 5)]
    assert seen == [True] * (FREE + 1) + [False, True, False]
    assert rounds.may_capture(QUIET + FREE + 5) and rounds.may_capture(QUIET + FREE + 6)


@pytest.fixture(autouse=True)
def every_code_alone_is_patient(monkeypatch):
    monkeypatch.setattr(misses, "is_churning", lambda *_: False)


def step(x, kind):
    return kind(x)


def test_a_function_that_is_given_another_program_in_each_call(capfd):
    """As an interpreter is: it is captured in some calls only, says so once, and gives what plain Python does."""
    dynacomp.reset()
    compiled, counts = dynacomp.jit(step, backend="eager", options={"recompile_limit": 64}), []
    for n in range(40):
        scope = {}
        exec(f"def kind(x): return x * {n} + {n + 1}", scope)  # code of its own, not the same made anew
        before = dynacomp.stats()["frames_captured"]
        assert (compiled(X, scope["kind"]) == X * n + n + 1).all()
        counts.append(dynacomp.stats()["frames_captured"] - before)
    assert counts[:FREE] == [1] * FREE and sum(counts[FREE + 1:]) <= 4
    assert dynacomp.stats()["frames_eager"]["restless"] > 20
    assert capfd.readouterr().err.count("in call after call") <= 1


@pytest.mark.parametrize("options", [{"fullgraph": True}, {}])
def test_a_function_that_was_compiled_whole_goes_on(options):
    """Where all must be compiled it is, in each call; what settles is not touched by others."""
    dynacomp.reset()
    compiled = dynacomp.jit(step, backend="eager", options={"recompile_limit": 64}, **options)
    settled = dynacomp.jit(lambda x: x + 1, backend="eager")
    for n in range(20):
        scope = {}
        exec(f"def kind(x): return x * {n}", scope)
        assert (settled(compiled(X, scope["kind"])) == X * n + 1).all()
    assert dynacomp.stats()["frames_eager"].get("restless", 0) == (0 if options else 4)
    assert dynacomp.stats()["cache_hits"] >= 19


def test_all_parts_of_a_function_are_counted_together(monkeypatch):
    """Its resume functions, each of which has a limit of its own."""
    codes = [compile(f"{k}", "f", "eval") for k in range(3)]
    served = dict.fromkeys(map(id, codes), 0)
    monkeypatch.setattr("dynacomp.capture._native.hits", lambda code: served[id(code)])
    parts = Parts()
    for code in (*codes, *codes * 4):
        parts.note(code)
    assert parts.again == 12 and not parts.is_useless()
    for code in codes:
        parts.note(code)
    assert parts.is_useless()
    served[id(codes[0])] = 2 * parts.again
    assert not parts.is_useless()
    alone = Parts()
    for _ in range(50):
        alone.note(codes[1])
    assert not alone.is_useless()


STEPS = [eval(f"lambda x: x * {k} + {k}") for k in range(60)]


def walk(x, ways):
    for way in ways:
        dynacomp.graph_break()
        x = way(x)
    return x


def test_a_function_that_goes_another_way_in_each_round_is_left_to_python():
    dynacomp.reset()
    compiled, seen = dynacomp.jit(walk, backend="eager", options={"recompile_limit": 64}), []
    for n in range(12):
        ways = STEPS[n * 5:][:5]
        assert (compiled(X, ways) == walk(X, ways)).all()
        seen.append(dynacomp.stats()["frames_captured"])
    assert seen[3] == seen[-1] <= 20 and dynacomp.stats()["frames_eager"]["churn"]


def test_seconds_that_captures_may_take(monkeypatch):
    """Some, and from then on a share of the time that the program has run besides."""
    clock, cpus = [0.0], [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(rounds, "cpu_seconds", lambda: cpus[0])
    budget = Budget()
    for counts in (True, False):
        with pytest.raises(ValueError), budget.spending(counts):
            clock[0], cpus[0] = clock[0] + 12, cpus[0] + 6  # a busy machine
            raise ValueError
    assert budget.spent == 6 and not budget.is_over(6)
    budget.spent = 20
    assert budget.is_over(10) and not budget.is_over(20)
    clock[0] = 41
    assert not budget.is_over(10)


def test_a_function_whose_captures_take_too_long(monkeypatch, caplog):
    """It is captured once, and runs in Python where no entry serves it; later it is captured again."""
    dynacomp.reset()
    monkeypatch.setattr(rounds, "GRACE", 0.0)
    monkeypatch.setattr(rounds, "SHARE", 0.0)

    def program(x, log):
        for k in range(3):
            dynacomp.graph_break()
            log.append(k)
            x = x * log[-1] + len(log)
        return x

    compiled, logs = dynacomp.jit(program, backend="eager", options={"capture_idle": False}), ([], [])
    for n in range(12):
        if n == 6:
            monkeypatch.setattr(rounds, "SHARE", 1e6)
        assert (compiled(X + n, logs[0]) == program(X + n, logs[1])).all() and logs[0] == logs[1]
        if n == 5:
            assert dynacomp.stats()["frames_captured"] == 2 and dynacomp.stats()["frames_eager"]["dear"] >= 1
    assert dynacomp.stats()["frames_captured"] > 2
    assert caplog.text.count("captures have taken longer") == 1


def test_a_function_that_must_be_compiled_whole_has_no_budget(monkeypatch):
    dynacomp.reset()
    monkeypatch.setattr(rounds, "GRACE", 0.0)
    monkeypatch.setattr(rounds, "SHARE", 0.0)
    compiled = dynacomp.jit(lambda x, k: x + len(k), backend="eager", fullgraph=True)
    for n in range(4):
        assert (compiled(X, "a" * n if n % 2 else [1] * n) == X + n).all()
    assert dynacomp.stats()["frames_captured"] >= 2 and "dear" not in dynacomp.stats()["frames_eager"]
