"""Captures become rare in a program that does not settle, and in no other."""

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp import misses
from dynacomp.driver.rounds import FREE, QUIET, Parts, Rounds

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
