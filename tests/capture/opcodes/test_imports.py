"""Imports in functions: absolute and relative, of modules that are loaded and of others."""

import importlib
import sys

import jax.numpy as jnp
import pytest

import dynacomp


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    root = tmp_path / "relative_imports"
    (root / "inner").mkdir(parents=True)
    (root / "__init__.py").write_text("SCALE = 2.0\n")
    (root / "other.py").write_text("def shifted(x):\n    return x + 1\n")
    (root / "inner" / "__init__.py").write_text("")
    (root / "inner" / "late.py").write_text("FACTOR = 3.0\n")
    (root / "inner" / "model.py").write_text(
        "def apply(x):\n"
        "    from .. import SCALE, other\n"
        "    from ..other import shifted\n"
        "    assert other.shifted is shifted\n"
        "    return shifted(x) * SCALE\n"
        "def apply_late(x):\n"
        "    from .late import FACTOR\n"
        "    return x * FACTOR\n"
        "def apply_beyond(x):\n"
        "    from ....nowhere import name\n"
        "    return x\n")
    dynacomp.reset()
    importlib.import_module("relative_imports.other")
    yield importlib.import_module("relative_imports.inner.model")
    for name in [m for m in sys.modules if m.startswith("relative_imports")]:
        del sys.modules[name]


def test_relative_imports_are_in_the_graph(package):
    compiled = dynacomp.jit(package.apply, backend="eager")
    for i in range(5):
        assert compiled(jnp.ones(2) * i).tolist() == [2.0 * (i + 1)] * 2
    assert dynacomp.stats()["frames_captured"] == 1 and dynacomp.stats()["breaks"] == {}


def test_a_module_that_is_not_loaded_is_loaded_by_python_once(package):
    compiled = dynacomp.jit(package.apply_late, backend="eager")
    assert [compiled(jnp.ones(1) * i).item() for i in range(5)] == [0, 3, 6, 9, 12]
    assert dynacomp.stats()["breaks"] == {"import": 1}


def test_an_import_beyond_the_package_raises(package):
    compiled = dynacomp.jit(package.apply_beyond, backend="eager")
    for _ in range(2):
        with pytest.raises(ImportError, match="beyond top-level package"):
            compiled(jnp.ones(1))
