"""dynacomp.register_backend and backend=fn: what a backend of the program's gets, gives, and may do wrong."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp import passes

X = jnp.linspace(-2.0, 2.0, 12).reshape(3, 4)


def program(x):
    return jnp.sin(x) @ x.T, "text", x.sum() * 2


def interpreted(form):
    return lambda *arrays: passes.interpret(form, *arrays)


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def check(compiled, x):
    got, want = compiled(x), program(x)
    assert got[1] == "text" and isinstance(got[0], jax.Array)
    for k in (0, 2):
        np.testing.assert_allclose(got[k], want[k], rtol=1e-5, atol=1e-5)
        assert got[k].dtype == want[k].dtype and got[k].weak_type == want[k].weak_type


@pytest.mark.parametrize("form", ["captured", "primitive", "kernels"])
def test_a_registered_backend_gets_its_form_once(form):
    seen = []
    dynacomp.register_backend("seeing", lambda graph: seen.append(graph) or interpreted(graph), form=form)
    compiled = dynacomp.jit(program, backend="seeing", fullgraph=True)
    for factor in (1, 2, 3):
        check(compiled, X * factor)
    (one,) = seen
    passes.verify(one)
    assert isinstance(one, passes.Schedule) == (form == "kernels")
    assert dynacomp.stats()["regions"] == {"seeing": 1} and dynacomp.list_backends()["seeing"] is None


def test_a_function_is_a_backend():
    compiled = dynacomp.jit(program, backend=interpreted, fullgraph=True)
    for n in (3, 5, 6, 7):
        check(compiled, jnp.ones((n, 4)))
    assert dynacomp.stats()["graphs"] == 2  # unknown sizes from the second on
    assert dynacomp.explain(program, backend=interpreted)(X).regions[0].backend == "interpreted"


def test_numpy_arrays_become_jax_arrays_of_the_graphs_weak_type():
    double = lambda x: 2.0 * jnp.abs(x)
    compiled = dynacomp.jit(double, backend=lambda graph: lambda x: [2 * np.abs(np.asarray(x))])
    for x in (X, jnp.asarray(2.0), 3.0 * jnp.ones(2)):
        assert type(compiled(x)) is type(X) and compiled(x).weak_type == double(x).weak_type
        np.testing.assert_array_equal(compiled(x), double(x))


def test_it_takes_every_region_around_a_break(capsys):
    def broken(x):
        y = x + 1
        print("between")
        return y * 2

    compiled = dynacomp.jit(broken, backend=interpreted)
    for _ in range(2):
        np.testing.assert_allclose(compiled(X), (X + 1) * 2)
    assert dynacomp.stats()["regions"] == {"interpreted": 2} and capsys.readouterr().out == "between\n" * 2


def test_gradients_run_in_it():
    grad = dynacomp.jit(lambda x: jax.grad(lambda x: jnp.sin(x).sum())(x), backend=interpreted, fullgraph=True)
    np.testing.assert_allclose(grad(X), jnp.cos(X), rtol=1e-6)


def raises(graph):
    raise KeyError("no such op")


def returns_nothing(graph):
    return None


@pytest.mark.parametrize("transform", [jax.grad, lambda f: jax.vmap(lambda y: f(y) * 2)], ids=["grad", "vmap"])
def test_derivatives_of_unknown_sizes_run_in_it(transform):
    def f(y):
        return jnp.sum(y * y.shape[-1])

    dynacomp.register_backend("mine", interpreted, form="captured")
    compiled = dynacomp.jit(f, backend="mine")
    for n in (3, 4):
        y = jnp.arange(1.0, n + 1) if transform is jax.grad else jnp.ones((n, n + 1)) * n
        np.testing.assert_allclose(transform(compiled)(y), transform(f)(y), rtol=1e-5)
    assert dynacomp.stats()["frames_eager"] == {}


@pytest.mark.parametrize("form", ["captured", "primitive"])
@pytest.mark.parametrize("bad, text", [(raises, "KeyError: 'no such op'"), (returns_nothing, "cannot be called")])
def test_one_that_fails_leaves_the_region_to_xla(bad, text, form, caplog):
    dynacomp.register_backend("bad", bad, form=form)
    compiled = dynacomp.jit(lambda x: program(x), backend="bad")
    with caplog.at_level(logging.WARNING, "dynacomp"):
        check(compiled, X)
        check(compiled, X)
    (said,) = [r.getMessage() for r in caplog.records]
    assert "fallback: backend bad: " in said and text in said and dynacomp.stats()["regions"] == {"xla": 1}
    with pytest.raises(dynacomp.CompileError, match="backend bad"):
        dynacomp.jit(lambda x: program(x), backend="bad", fullgraph=True)(X)


@pytest.mark.parametrize("give, text", [
    (lambda x: [x], "1 values, where the graph has 2 outputs"), (lambda x: x, "no tuple"),
    (lambda x: [x, x], "as output 0"), (lambda x: [np.zeros((3, 3), np.int32), np.float32(1)], "as output 0"),
])
def test_a_program_that_returns_something_else_is_refused(give, text):
    with pytest.raises(TypeError, match=text):
        dynacomp.jit(lambda x: program(x), backend=lambda graph: give)(X)


def test_an_error_of_the_program_is_the_programs():
    def late(graph):
        def run(*arrays):
            raise ZeroDivisionError("at run time")
        return run

    with pytest.raises(ZeroDivisionError, match="at run time"):
        dynacomp.jit(program, backend=late)(X)


@pytest.mark.parametrize("name", ["cpp", "auto", "eager", "gpu", "", 3])
def test_names_of_dynacomps_own_are_refused(name):
    with pytest.raises(ValueError, match="backend's name"):
        dynacomp.register_backend(name, interpreted)


def test_what_is_no_backend_is_refused():
    with pytest.raises(TypeError, match="function of a Graph"):
        dynacomp.register_backend("three", 3)
    with pytest.raises(ValueError, match="captured, primitive, kernels"):
        dynacomp.register_backend("three", interpreted, form="machine")
    with pytest.raises(ValueError, match="no backend 'unheard'"):
        dynacomp.jit(program, backend="unheard")
    with pytest.raises(ValueError, match="a function of a Graph"):
        dynacomp.jit(program, backend=3)
