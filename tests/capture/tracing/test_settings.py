"""Settings of JAX that hold inside `with` statements of the captured code."""

import contextlib

import jax
import jax.numpy as jnp
import pytest
from equinox.internal import ω as omega

import dynacomp
from dynacomp.capture.graph.interpreter import run
from tests.capture.program_kit import captured, check_one_graph

X = jnp.arange(4.0)
INPUTS = [(jnp.arange(4.0) / n,) for n in range(1, 6)]


def bits(fn, *args):
    """What a function computes, as the text of its jaxpr: precisions and dtypes stand there."""
    return str(jax.make_jaxpr(fn)(*args))


def product(x):
    with jax.default_matmul_precision("float32"):
        y = jnp.outer(x, x) @ x
    return y + x @ x


def test_a_setting_is_part_of_the_graph():
    check_one_graph(product, *INPUTS)


def test_just_what_stands_inside_is_under_it():
    def precisions(fn):
        return [line for line in bits(fn, X).splitlines() if "dot_general" in line or "precision" in line]

    graph = captured(product, X).graph
    assert precisions(lambda x: run(graph, x)) == precisions(product)


def test_under_gradients_loops_and_branches():
    def loss(w):
        with jax.default_matmul_precision("bfloat16"):
            for _ in range(3):
                w = jnp.tanh(jnp.outer(w, w) @ w)
            if w.sum() > 0:
                w = w * 2
        return w.sum()

    check_one_graph(lambda x: (jax.grad(loss)(x), loss(x)), *INPUTS)


def test_settings_inside_each_other_and_by_other_functions():
    def strict(x):
        with jax.numpy_dtype_promotion("strict"):
            try:
                return x + jnp.arange(4)
            except jax.errors.JaxRuntimeError:
                return x
            except Exception as error:
                return x, type(error).__name__

    def program(x):
        with jax.default_matmul_precision("float32"), jax.numpy_rank_promotion("raise"):
            found = jax.config.jax_default_matmul_precision, jax.config.jax_numpy_rank_promotion
            inside = strict(x)
            try:
                x = x[None] + x
            except ValueError:
                x = x - 1
        return x[None] + x, inside, found, jax.config.jax_default_matmul_precision

    check_one_graph(program, *INPUTS)


def test_leaving_early():
    def early(x, n):
        with jax.default_matmul_precision("float32"):
            for k in range(5):
                if k == n:
                    return x @ x + k
                if k + 1 == n:
                    raise ValueError("here")
        return x

    def program(x, n):
        try:
            return early(x, n), jax.config.jax_default_matmul_precision
        except ValueError:
            return x @ x, jax.config.jax_default_matmul_precision

    check_one_graph(lambda x: [program(x, n) for n in (0, 3, 9)], *INPUTS)


def test_python_enters_it_where_the_graph_breaks_inside():
    seen = []

    def program(x):
        with jax.default_matmul_precision("float32"):
            y = x @ x
            dynacomp.graph_break()
            seen.append(jax.config.jax_default_matmul_precision)
            y = y + x @ x
        seen.append(jax.config.jax_default_matmul_precision)
        return y * 2

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for (x,) in INPUTS:
        seen.clear()
        assert jnp.array_equal(compiled(x), program(x)) and seen == ["float32", None] * 2
    assert dynacomp.stats()["frames_captured"] == 3
    assert jax.config.jax_default_matmul_precision is None


def test_exceptions_of_what_python_runs_inside_leave_it():
    def program(x):
        with jax.default_matmul_precision("float32"):
            dynacomp.graph_break()
            x = x + 1
            raise KeyError("out")

    compiled = dynacomp.jit(program, backend="eager")
    for (x,) in INPUTS:
        with pytest.raises(KeyError):
            compiled(x)
        assert jax.config.jax_default_matmul_precision is None


def test_in_a_generator_it_holds_while_others_run():
    def rows(x):
        with jax.numpy_rank_promotion("raise"):
            yield x
        yield x * 2

    def program(x):
        found = []
        for row in rows(x):
            try:
                found.append(row[None] + row)
            except ValueError:
                found.append(row)
        return found

    compiled = dynacomp.jit(program, backend="eager")
    for (x,) in INPUTS:
        assert repr(compiled(x)) == repr(program(x))


def test_what_holds_anyway_is_nothing_to_enter():
    def program(x, n):
        with jax.enable_x64(False), jax.debug_nans(False), jax.default_device(jax.devices()[0]):
            with jax.threefry_partitionable(jax.config.jax_threefry_partitionable):
                y = jnp.log(x - 5) + jnp.ones(4) * n
        return y, y.committed

    check_one_graph(program, *[(x, n) for n, (x,) in enumerate(INPUTS)], captures=2)


@pytest.mark.parametrize("level", ["disallow", "log", "disallow_explicit"])
def test_operations_under_transfer_guards_move_what_eager_ones_move(level):
    compiled = dynacomp.jit(lambda x: jnp.sin(x) * x)
    literal = dynacomp.jit(lambda x: x * 2)
    assert compiled(X).shape == literal(X).shape
    before = dynacomp.stats()["frames_eager"].get("config", 0)
    for _ in range(2):
        with jax.transfer_guard(level):
            compiled(X)
            with pytest.raises(Exception, match="Disallowed") if level != "log" else contextlib.nullcontext():
                literal(X)
    assert dynacomp.stats()["frames_eager"]["config"] == before + 4


@pytest.mark.parametrize("made", [lambda: jax.enable_x64(True), lambda: jax.debug_nans(True), jax.checking_leaks])
def test_others_break_the_graph(made):
    def program(x):
        with made():
            y = jnp.arange(3.0) * 2
        return x + 1, y.dtype.name

    compiled = dynacomp.jit(program, backend="eager")
    for (x,) in INPUTS:
        assert repr(compiled(x)) == repr(program(x))
    assert dynacomp.stats()["breaks"]


def test_a_setting_that_changes_is_one_entry_each():
    def program(x, precision):
        with jax.default_matmul_precision(precision):
            return x @ x, jax.config.jax_default_matmul_precision

    check_one_graph(program, *[(x, p) for (x,) in INPUTS[:2] for p in ("float32", "bfloat16", "highest")], captures=3)


def test_names_of_scopes_that_change_are_no_constants():
    def program(x, n):
        with jax.named_scope(f"layer{n}"):
            return jnp.sin(x) * 2

    check_one_graph(program, *[(x, n) for n, (x,) in enumerate(INPUTS)], captures=2)


def test_what_a_trace_becomes_later_is_no_setting_of_the_graph():
    def program(x):
        with jax.threefry_partitionable(False):
            y = jax.random.normal(jax.random.key(0), (4,))
        return x + y

    compiled = dynacomp.jit(program)
    for (x,) in INPUTS:
        assert jnp.allclose(compiled(x), program(x), atol=1e-6)


def test_what_a_library_makes_under_a_setting_is_made_under_it_later():
    """`eps * ω(x)` stood in the Graph without the setting: TypePromotionError where the program had none."""
    def program(x, pause):
        eps = jnp.max(jnp.abs(x)).astype(jnp.float16)
        with jax.numpy_dtype_promotion("standard"):
            scaled = eps * omega(x)
            if pause:
                print(end="")
            inside = scaled.ω
        return inside, scaled.ω

    with jax.numpy_dtype_promotion("strict"):
        check_one_graph(lambda x: program(x, False), *INPUTS)
        compiled = dynacomp.jit(program, backend="eager")
        for x, in INPUTS:
            assert repr(compiled(x, True)) == repr(program(x, True))
