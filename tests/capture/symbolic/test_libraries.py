"""What is known of a library, and what users add: one made up, called whole, entered, or stopped at."""

import functools
import importlib
import math
import os
import sys
import textwrap
import types
import warnings

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp import filters
from dynacomp.capture.symbolic import libraries
from dynacomp.capture.symbolic.libraries import has_effect, is_host, is_library, is_pure_module, is_steady_module
from tests.capture.program_kit import check_one_graph

SOURCES = {
    "__init__": "",
    "layers": """
SCALE = 2.0
SEEN = []
def scaled(x):
    return x * SCALE + len(SEEN)
""",
    "looks": """
import jax.numpy as jnp
class Scope:
    def __init__(self, name):
        self.name = name
    def __enter__(self):
        return self.name
    def __exit__(self, *error):
        pass
def positive(x):
    y = jnp.tanh(x) * 2
    if float(y.sum()) > 0:  # looks at the content
        y = y + 1
    return jnp.sin(y) * y
""",
    "io": """
SAVED = []
def save(x):
    SAVED.append(float(x.sum()))
""",
    "hooks": """
CALLS = []
def run(f, x):
    CALLS.append(1)
    return f(x)
""",
}


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A package of its own for each test; nothing stays registered."""
    name = f"made_up_{tmp_path.name}"
    (tmp_path / name).mkdir()
    for part, source in SOURCES.items():
        (tmp_path / name / f"{part}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(name), *(importlib.import_module(f"{name}.{m}") for m in ("layers", "io", "hooks"))
    libraries.REGISTERED.pop(name, None)
    libraries.REGISTERED.pop(f"{name}.layers", None)
    libraries.rows_of.cache_clear(), libraries._is_pure.cache_clear(), libraries.is_steady_module.cache_clear()
    for module in [m for m in sys.modules if m.startswith(name)]:
        monkeypatch.delitem(sys.modules, module)


def counted(compiled, *calls):
    """The counters of these calls."""
    dynacomp.reset()
    for x in calls:
        compiled(x)
    return dynacomp.stats()


def test_a_pure_library_is_one_node_whatever_its_globals_hold(made_up):
    package, layers, _, _ = made_up

    def program(x):
        return layers.scaled(x) + 1

    compiled = dynacomp.jit(program)
    entered = counted(compiled, *(jnp.arange(n + 2.0) for n in range(4)))
    layers.SCALE = 3.0  # guarded
    assert (compiled(jnp.ones(3)) == 4).all()
    assert entered["breaks"] == {} and dynacomp.stats()["frames_captured"] > entered["frames_captured"]

    dynacomp.register_library(package.__name__, pure=True)
    compiled = dynacomp.jit(program)
    stats = counted(compiled, *(jnp.arange(n + 2.0) for n in range(4)))
    assert stats["breaks"] == {} and stats["externs"] == {} and stats["graphs"] >= 1
    layers.SCALE = 5.0  # promised not to change: what is compiled stays
    assert (compiled(jnp.ones(3)) == 4).all() and dynacomp.stats()["frames_captured"] == stats["frames_captured"]
    assert "scaled" in str(dynacomp.explain(program)(jnp.ones(3)).regions[0])


def test_what_has_effects_ends_the_graph_and_runs(made_up):
    package, _, io, _ = made_up
    dynacomp.register_library(package.__name__, pure=True, effects={io.__name__: ["save"]})

    def program(x):
        y = x * 2
        io.save(y)
        return y + 1

    compiled = dynacomp.jit(program)
    for n in range(1, 6):
        assert (compiled(jnp.ones(n)) == 3).all()
    assert io.SAVED == [2.0, 4.0, 6.0, 8.0, 10.0] and sum(dynacomp.stats()["breaks"].values()) >= 1


def test_what_cannot_be_a_node_is_entered(made_up):
    package = made_up[0]
    looks = importlib.import_module(f"{package.__name__}.looks")
    dynacomp.register_library(package.__name__, pure=True)

    def scoped(x):
        with looks.Scope("layer") as name:
            return (jnp.tanh(x) * 2).sum() + len(name)

    compiled = dynacomp.jit(scoped, backend="eager", fullgraph=True)
    assert all(abs(compiled(jnp.ones(n)) - scoped(jnp.ones(n))) < 1e-4 for n in range(2, 12))

    def program(x):
        return looks.positive(x * 3) - 1

    compiled = dynacomp.jit(program, backend="eager")
    dynacomp.reset()
    for n in range(10):
        x = (jnp.arange(3.0) + n) * (-1) ** n
        assert jnp.allclose(compiled(x), program(x), rtol=1e-4, atol=1e-5)
    assert dynacomp.stats()["frames_captured"] == 1 and dynacomp.stats()["breaks"] == {}


def test_a_module_of_it_that_keeps_state_is_entered(made_up):
    package, _, _, hooks = made_up
    dynacomp.register_library(package.__name__, pure=True, enter=[hooks.__name__])
    compiled = dynacomp.jit(lambda x: hooks.run(lambda y: y * 2, x) + 1)
    for n in range(1, 8):
        assert (compiled(jnp.ones(n)) == 3).all()
    assert len(hooks.CALLS) == 7


def test_a_steady_library_is_entered_and_its_globals_are_not_guarded(made_up):
    package, layers, _, _ = made_up
    dynacomp.register_library(package.__name__, steady=True)
    assert is_steady_module(layers.__name__) and not is_pure_module(layers.__name__)
    assert not is_library(layers.scaled) and not is_steady_module("elsewhere." + layers.__name__)


def test_rows_speak_of_a_module_and_of_what_lies_below_it(made_up):
    package, layers, io, _ = made_up
    name = package.__name__
    assert not is_library(layers.scaled) and not filters.is_library_file(layers.__file__)
    dynacomp.register_library(layers.__name__, pure=True, hosts=True)
    assert is_library(layers.scaled) and is_host(layers.scaled) and not is_library(io.save)
    assert filters.is_library_file(layers.__file__) and not filters.is_library_file(io.__file__)
    assert not is_pure_module(layers.__name__ + "2")
    dynacomp.register_library(name, pure=True, effects={io.__name__: ["save"]})
    assert is_library(io.save) and has_effect(io.save) and not has_effect(layers.scaled)
    dynacomp.register_library(name, pure=True)  # instead of that
    assert is_library(io.save) and not has_effect(io.save) and is_host(layers.scaled)


@pytest.mark.parametrize("args, flags, error", [
    ((len,), {}, TypeError), (("x",), {"hosts": True}, ValueError), (("x",), {"enter": ["x.y"]}, ValueError),
    (("x",), {"steady": True, "effects": {"x": ["f"]}}, ValueError)])
def test_what_makes_no_sense_is_refused(args, flags, error):
    with pytest.raises(error):
        dynacomp.register_library(*args, **flags)
    assert "x" not in libraries.REGISTERED


def test_what_ships_with_dynacomp():
    assert is_pure_module("jax.numpy") and is_pure_module("haiku._src.basic") and not is_pure_module("haikus")
    assert not is_pure_module("flax.nnx.nn") and is_pure_module("flax.linen.linear") and libraries.is_left_alone("flax")
    assert is_steady_module("numpy.linalg") and is_steady_module("json.decoder") and not is_steady_module("__main__")
    assert len({row.name for row in libraries.LIBRARIES}) == len(libraries.LIBRARIES)


def test_a_decorator_of_chex_that_counts_its_calls():
    """Every test under `chex.variants` broke there: the library gives back a function of the program's, jitted."""
    variants = pytest.importorskip("chex._src.variants")

    class Tests:
        variant, calls = variants.count_num_calls(variants._with_jit)

    def program(x):
        return Tests.variant(lambda y: jnp.tanh(y) * 2)(x) + Tests.variant(jnp.sin)(x)

    dynacomp.reset()
    compiled, x = dynacomp.jit(program, backend="eager"), jnp.arange(4.0)
    for _ in range(3):
        assert jnp.allclose(compiled(x), program(x), rtol=1e-6)
    stats = dynacomp.stats()
    assert Tests.calls() == 12 and not stats["breaks"] and stats["frames_captured"] == 1


@pytest.mark.parametrize("decorate", [
    jax.named_scope("layer"),
    functools.partial(jax.named_call, name="layer"),
    jax.profiler.annotate_function,
    jax.default_matmul_precision("float32"),
])
def test_what_a_decorator_only_puts_a_context_around_is_called_as_python_does(decorate):
    """Flax's NNX and Bonsai's models have `@jax.named_scope` on methods that change the cache they are given."""
    class Layer:
        @decorate
        def __call__(self, cache, x, *, scale):
            self.calls, cache["x"] = self.calls + 1, cache["x"] + x
            return x @ cache["x"] * scale

    def program(x, n):
        layer, cache = Layer(), {"x": x}
        layer.calls = n
        return [layer(cache, x, scale=n) for _ in range(2)], layer.calls, cache

    check_one_graph(program, (jnp.eye(3), 2))


def test_tests_in_the_folders_of_a_library_are_a_program_that_calls_it(made_up):
    package, layers, io, _ = made_up
    assert not is_pure_module("chex._src.dataclass_test") and not is_pure_module("optax.tests.test_alias")
    assert is_pure_module("jax._src.test_util") and is_pure_module("optax._src.testing")
    dynacomp.register_library(package.__name__, pure=True)
    folder = package.__path__[0]
    assert filters.is_library_file(f"{folder}/layers.py") and filters.is_library_file(f"{folder}/test_util.py")
    assert not filters.is_library_file(f"{folder}/layers_test.py")
    assert not filters.is_library_file(f"{folder}/tests/helpers.py")


def test_what_a_program_puts_into_a_librarys_module_is_not_there_for_good(monkeypatch):
    """`warnings.catch_warnings(record=True)` leaves a list's `append` there, each time another one."""
    table = vars(warnings)
    settled = (warnings.warn, warnings.catch_warnings, sys, os.path, textwrap.wrap, len, dict, math.sqrt)
    for obj in settled:
        assert libraries.is_settled(table, obj)
    for obj in ([].append, lambda: 0, types.ModuleType("warnings"), type("Made", (), {}), 3, (1, 2), [], Row,
                sys.modules[__name__]):
        assert not libraries.is_settled(table, obj)
    assert not libraries.is_settled(globals(), warnings.warn)
    monkeypatch.delitem(sys.modules, "warnings")
    assert not libraries.is_settled(table, table["warn"])


class Row:
    pass
