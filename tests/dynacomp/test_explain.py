"""dynacomp.explain: graphs, guards, breaks, kernels, source and times of one call."""

import importlib.util

import jax.numpy as jnp
import pytest

import dynacomp

X = jnp.arange(4.0)


def shows(a, n):
    b = jnp.abs(a) * n
    print("half-way")
    return b + 1


def test_explains_everything(capsys):
    found = dynacomp.explain(shows, backend="cpp")(X, 2)
    assert capsys.readouterr().out == "half-way\n" and found.result[3] == 7
    assert [r.backend for r in found.regions] == ["cpp", "cpp"] and len(found.breaks) == 1
    first = found.regions[0]
    assert "abs" in str(first.graph) and "L['n'] == 2" in first.guards and first.kernels
    assert any("dynacomp_run" in text for text in first.source.values())
    broke = found.breaks[0]
    assert broke.where.endswith(f"test_explain.py:{shows.__code__.co_firstlineno + 2}")
    assert "print" in broke.reason and broke.hint
    text = str(found)
    for part in ("2 regions, 1 graph breaks", "-- guards", "-- graph", "-- kernels", "dynacomp_run", "hint:",
                 "compile time:", "lower"):
        assert part in text


def test_explains_models_methods_and_compiled_functions():
    class Model:
        def __call__(self, a):
            return a * 2

        def method(self, a):
            return a * 3

    model = Model()
    for fn in (model, model.method, dynacomp.jit(shows.__get__(X))):
        found = dynacomp.explain(fn, backend="eager")
        assert found(X if fn in (model, model.method) or fn == model.method else 2).regions


def test_a_call_that_raises_raises():
    with pytest.raises(TypeError):
        dynacomp.explain(lambda a: a + "s")(X)


def test_an_unknown_topic_is_refused(monkeypatch):
    monkeypatch.setenv("DYNACOMP_LOG", "guard")
    again = importlib.util.module_from_spec(dynacomp.notices.__spec__)  # as where dynacomp is imported
    with pytest.raises(ValueError, match="did you mean 'guards'"):
        again.__spec__.loader.exec_module(again)
