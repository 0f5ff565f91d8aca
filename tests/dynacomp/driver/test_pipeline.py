"""dynacomp.driver.pipeline: whatever fails behind capture ends in XLA with one notice, never in the user's face."""

import logging
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture import frame
from dynacomp.codegen.backends import BACKENDS
from dynacomp.codegen.compiler import CompilerError
from dynacomp.driver import pipeline
from dynacomp.driver.pass_list import Pass, Passes

X = jnp.arange(4.0)


@pytest.fixture(autouse=True)
def fresh(lenient):
    dynacomp.reset()


def raiser(error):
    def fail(*args, **kwargs):
        raise error
    return fail


def program():
    return lambda a: jnp.sin(a) * 2 + a.sum()


def check(caplog, text):
    f, g = program(), program()
    with caplog.at_level(logging.WARNING, "dynacomp"):
        compiled = dynacomp.jit(f)
        for _ in range(2):
            np.testing.assert_allclose(compiled(X), g(X), rtol=1e-6)
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 1 and "fallback" in said[0] and text in said[0], said
    assert f"{__file__}:" in said[0]
    assert dynacomp.stats()["regions"] == {"xla": 1} and dynacomp.stats()["frames_eager"] == {}


@pytest.mark.parametrize("error", [NotImplementedError("new"), AssertionError("bad"), KeyError("gone"),
                                   RecursionError("deep"), MemoryError("full")])
@pytest.mark.parametrize("stage", ["lower", "schedule"])
def test_a_defect_in_a_stage(monkeypatch, caplog, stage, error):
    monkeypatch.setattr(pipeline, stage, raiser(error))
    check(caplog, type(error).__name__)


def test_a_defect_in_a_pass(monkeypatch, caplog):
    broken = Passes((Pass("pass", raiser(ValueError("pass"))),))
    monkeypatch.setattr(pipeline, "DEFAULT", broken)
    monkeypatch.setattr(pipeline, "current", lambda: broken)
    check(caplog, "lowering: ValueError: pass")


@pytest.mark.parametrize("error, text", [
    (CompilerError("no compiler"), "no compiler; XLA"), (OSError(28, "No space left"), "No space left"),
    (TypeError("emit"), "a defect in dynacomp"),
])
def test_a_backend_that_fails(monkeypatch, caplog, error, text):
    row = BACKENDS["cpp"]
    monkeypatch.setitem(BACKENDS, "cpp", type(row)(row.name, raiser(error), row.platforms, True,
                                                   lambda *where: None))
    check(caplog, text)


def test_a_pass_that_breaks_the_graph_is_named_by_the_verifier(monkeypatch, caplog):
    def loses(graph):
        """Without the first call, which others use."""
        return replace(graph, nodes=tuple(n for n in graph.nodes if n is not graph.calls[0]))

    broken = Passes((Pass("loses", loses),))
    monkeypatch.setattr(pipeline, "DEFAULT", broken)
    monkeypatch.setattr(pipeline, "current", lambda: broken)
    fn = dynacomp.jit(lambda x: jnp.sin(x) * 2 + x, options={"verify": True})
    np.testing.assert_allclose(fn(X), np.sin(X) * 2 + X, rtol=1e-6)
    assert "GraphError" in caplog.text and "not defined before it" in caplog.text


def test_tests_see_defects(monkeypatch):
    monkeypatch.setattr(frame, "strict_errors", True)
    monkeypatch.setattr(pipeline, "lower", raiser(KeyError("gone")))
    with pytest.raises(KeyError):
        dynacomp.jit(program())(X)


def test_a_graph_that_nobody_compiles_runs_eagerly(monkeypatch, caplog):
    monkeypatch.setattr(pipeline, "lower", raiser(KeyError("gone")))
    monkeypatch.setattr(pipeline, "interpreted", lambda graph: raiser(KeyError("gone")))
    with caplog.at_level(logging.WARNING, "dynacomp"):
        np.testing.assert_allclose(dynacomp.jit(program())(X), program()(X), rtol=1e-6)
    assert dynacomp.stats()["frames_eager"] == {"internal": 1} and len(caplog.records) == 1


def test_a_compiler_that_was_asked_for_is_the_one_that_is_judged(caplog):
    with caplog.at_level(logging.WARNING, "dynacomp"):
        f = dynacomp.jit(program(), options={"cxx": "/nowhere/c++"})
        np.testing.assert_allclose(f(X), program()(X), rtol=1e-6)
    assert "/nowhere/c++ cannot run" in caplog.records[0].getMessage()


def test_a_cache_folder_that_cannot_be_used_is_told_once(tmp_path, caplog):
    folder = tmp_path / "file"
    folder.write_text("not a folder")
    with caplog.at_level(logging.WARNING, "dynacomp"):
        for _ in range(2):
            f = program()
            np.testing.assert_allclose(dynacomp.jit(f, options={"cache_dir": folder})(X), f(X), rtol=1e-6)
    (notice,) = dynacomp.notices.told()
    assert "cannot be used" in notice.reason and [r.getMessage() for r in caplog.records] == [str(notice)]


@pytest.mark.parametrize("axes", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit])
def test_arrays_under_a_mesh_lie_where_jax_makes_them(axes):
    """They lay on one device, and what was computed with them and with others of the mesh raised."""
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(axes,))
    compiled = dynacomp.jit(lambda x: (x * 2 + 1, jnp.zeros(3)))
    x = jnp.arange(4.0)
    for _ in range(3):
        with jax.set_mesh(mesh):
            for y, like in zip(compiled(x), (x * 2 + 1, jnp.zeros(3))):
                assert y.sharding == like.sharding and (y == like).all()
        assert compiled(x)[0].sharding == x.sharding
    assert dynacomp.stats()["frames_captured"] == 2


def test_arrays_that_jax_makes_elsewhere_are_left_to_it(monkeypatch, caplog):
    """Where the default device is another one, so are the results of a program without inputs."""
    assert pipeline.elsewhere([]) == []
    monkeypatch.setattr(pipeline, "default_device", lambda: "cpu:1")
    check(caplog, "arrays are made on cpu:1, the default device; XLA compiles the region")
