"""Which frames the hook looks at."""

import subprocess
import sys
import types

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
PROGRAM = """
import jax.numpy as jnp, numpy as np, dynacomp, deep_package as p
assert "site-packages" in p.__file__
step = dynacomp.jit(lambda w, x: p.level(4, w, x) * 3, backend="eager")
w, x = jnp.ones((4, 4)) / 4, jnp.ones((2, 4))
for _ in range(6):
    np.testing.assert_allclose(step(w, x), p.level(4, w, x) * 3, rtol=1e-6)
stats = dynacomp.stats()
print(stats["graphs"], stats["operations"], stats["frames_eager"])
"""


def test_a_break_five_calls_deep_in_an_installed_package_loses_nothing(tmp_path):
    """What stands above, below and beside the break is compiled, as in a program that is not installed."""
    for folder in ("site-packages", "src"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "deep_package.py").write_text(PACKAGE)
    found = []
    for folder in ("site-packages", "src"):
        program = PROGRAM.replace('assert "site-packages" in p.__file__\n', "") if folder == "src" else PROGRAM
        done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path / folder)!r})"
                               + program], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.splitlines()[-1])
    graphs, operations, eager = found[0].split(maxsplit=2)
    assert found[0] == found[1] and int(graphs) >= 8 and int(operations) >= 20 and eager == "{}"


def test_packages_without_jax_are_left_alone():
    import_path = "/usr/lib/python3.11/site-packages/"
    is_library = filters.is_library_file
    assert is_library(import_path + "_pytest/python.py") and is_library(import_path + "numpy/linalg/_linalg.py")
    assert is_library(import_path + "jax/_src/api.py") and is_library(import_path + "networkx/classes/graph.py")
    assert is_library(import_path + "optax/_src/base.py") and is_library(import_path + "flax/linen/module.py")
    assert is_library(import_path + "flax/nnx/module.py") and is_library(import_path + "keras/src/layers/layer.py")
