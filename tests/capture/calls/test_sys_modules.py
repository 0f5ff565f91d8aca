"""`sys.modules` is looked up by name: an import elsewhere recompiles nothing."""

import sys
import types

import jax.numpy as jnp
import pytest

import dynacomp


def looked_up(x, name):
    if sys.version_info >= (3, 8) and name in sys.modules:
        x = x * 2
    return x, sys.modules["sys"] is sys, sys.modules.get(name)


def test_modules_by_name(monkeypatch):
    dynacomp.reset()
    compiled = dynacomp.jit(looked_up, backend="eager")
    assert compiled(jnp.ones(2), "numba_of_nobody")[2] is None
    monkeypatch.setitem(sys.modules, "module_of_others", types.ModuleType("module_of_others"))
    assert compiled(jnp.ones(2), "numba_of_nobody")[0].tolist() == [1, 1]
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["recompiles"] == 0
    monkeypatch.setitem(sys.modules, "numba_of_nobody", types.ModuleType("numba_of_nobody"))
    assert compiled(jnp.ones(2), "numba_of_nobody")[0].tolist() == [2, 2]


def test_a_module_that_is_not_there():
    with pytest.raises(KeyError, match="nobody"):
        dynacomp.jit(lambda x: sys.modules["nobody"], backend="eager")(jnp.ones(2))
