"""Which frames the hook looks at."""

import importlib
import sys
import types

import jax.numpy as jnp
import numpy as np

import dynacomp
from dynacomp import filters


def test_files_of_pure_libraries_are_theirs_wherever_they_lie(monkeypatch):
    package = types.ModuleType("optax")
    package.__path__ = ["/checkout/optax"]
    script = types.ModuleType("diffrax")  # of the program, which has no packages
    script.__file__ = "/home/me/diffrax.py"
    monkeypatch.setitem(filters.sys.modules, "optax", package)
    monkeypatch.setitem(filters.sys.modules, "diffrax", script)
    is_library = filters.is_library_file
    assert is_library("/checkout/optax/_src/base.py")
    assert not any(map(is_library, ("/checkout/train.py", "/checkout/optax.py", "/home/me/diffrax.py", "train.py")))


PACKAGE = '''
import functools
import jax.numpy as jnp

def layer(w, x):
    return jnp.tanh(x @ w) * 2 + 1

def block(w, x):
    y = layer(w, x)
    print("in the block")
    return layer(w, y) + y

def level(depth, w, x):
    y = jnp.sin(x) + 1
    z = block(w, y) if depth == 0 else level(depth - 1, w, y)
    return jnp.cos(z) * y
'''


def test_a_break_five_calls_deep_in_an_installed_package_loses_nothing(tmp_path, monkeypatch, capsys):
    """What stands above, below and beside the break is compiled, as in a program that is not installed."""
    w, x = jnp.ones((4, 4)) / 4, jnp.ones((2, 4))
    found = {}
    for folder in ("site-packages", "src"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "deep_package.py").write_text(PACKAGE)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(tmp_path / folder))
            p = importlib.import_module("deep_package")
            assert p.__file__ == str(tmp_path / folder / "deep_package.py")
            dynacomp.reset()
            step = dynacomp.jit(lambda w, x, p=p: p.level(4, w, x) * 3, backend="eager")
            for _ in range(6):
                np.testing.assert_allclose(step(w, x), p.level(4, w, x) * 3, rtol=1e-6)
            del sys.modules["deep_package"]
        stats = dynacomp.stats()
        found[folder] = stats["graphs"], stats["operations"], stats["frames_eager"]
    assert capsys.readouterr().out == 2 * 12 * "in the block\n"
    graphs, operations, eager = found["src"]
    assert found["site-packages"] == found["src"] and graphs >= 8 and operations >= 20 and eager == {}


def test_packages_without_jax_are_left_alone():
    import_path = "/usr/lib/python3.11/site-packages/"
    is_library = filters.is_library_file
    assert is_library(import_path + "_pytest/python.py") and is_library(import_path + "numpy/linalg/_linalg.py")
    assert is_library(import_path + "jax/_src/api.py") and is_library(import_path + "networkx/classes/graph.py")
    assert is_library(import_path + "optax/_src/base.py") and is_library(import_path + "flax/linen/module.py")
    assert is_library(import_path + "flax/nnx/module.py") and is_library(import_path + "keras/src/layers/layer.py")


def test_packages_may_be_installed_anywhere(tmp_path, monkeypatch):
    """A folder of the path with what installers leave is one of packages; a program's own is none."""
    for name in ("libs/plotting-1.0.dist-info", "libs/plotting", "program"):
        (tmp_path / name).mkdir(parents=True)
    for folder in ("libs", "program"):
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    filters.holds_packages.cache_clear()
    is_library = filters.is_library_file
    assert is_library(str(tmp_path / "libs/plotting/lines.py"))
    assert not is_library(str(tmp_path / "program/plotting.py")) and not is_library(str(tmp_path / "other/train.py"))
    assert filters.installed_module(str(tmp_path / "libs/plotting/lines.py")) == "plotting.lines"
