"""Stances: what compiled functions do when they are called, process-wide."""

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp import stance
from dynacomp.stance import current_stance, set_stance


@pytest.fixture(autouse=True)
def restored():
    dynacomp.reset()
    yield
    set_stance("default")


def compiled_here(x):
    return x + 1, dynacomp.is_compiling()


X, OTHER, THIRD = jnp.ones(2), jnp.ones(2, int), jnp.ones((2, 1, 1))


def made():
    compiled = dynacomp.jit(compiled_here, backend="eager")
    assert [compiled(X)[1] for _ in range(2)] == [True, True]
    return compiled


def test_the_stance_before_comes_back_also_behind_an_error():
    with set_stance("eager"):
        with pytest.raises(KeyError), set_stance("fail_on_recompile"):
            assert current_stance() == "fail_on_recompile"
            raise KeyError
        assert current_stance() == "eager"
    assert current_stance() == "default"


def test_a_stance_that_is_set_stays():
    set_stance("eager_on_recompile")
    assert current_stance() == "eager_on_recompile"
    with pytest.raises(ValueError, match="unknown stance 'lazy': expected one of default, eager"):
        set_stance("lazy")
    assert current_stance() == "eager_on_recompile"


def test_eager_runs_no_entry():
    compiled = made()
    with set_stance("eager"):
        assert [compiled(x)[1] for x in (X, OTHER)] == [False, False]
    assert compiled(X)[1] and dynacomp.stats()["frames_captured"] == 1


@pytest.mark.parametrize("name", [name for name, row in stance.STANCES.items() if row.runs and not row.recompiles])
def test_entries_serve_what_they_serve_and_no_other_is_made(name):
    compiled = made()
    with set_stance(name):
        assert compiled(X)[1]
        if name == "fail_on_recompile":
            with pytest.raises(dynacomp.RecompileError):
                compiled(OTHER)
        else:
            assert [compiled(x)[1] for x in (OTHER, THIRD)] == [False, False]
        assert compiled(X)[1]
    assert dynacomp.stats()["frames_captured"] == 1
    assert compiled(OTHER)[1] and dynacomp.stats()["frames_captured"] == 2
