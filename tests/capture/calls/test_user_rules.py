"""Rules of the user's for callees: allow_in_graph, assume_constant_result, substitute, is_compiling."""

import gc
import math
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.calls.calls import USER_RULES

X = jnp.arange(4.0)


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def once_and_again(fn, *args):
    """The results of a miss and a hit, which must be equal."""
    compiled = dynacomp.jit(fn, backend="eager")
    first, second = compiled(*args), compiled(*args)
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all() if hasattr(a, "all") else a == b, first, second))
    return first


def graphs(fn, *args):
    return [str(r.graph) for r in dynacomp.explain(fn, backend="eager")(*args).regions]


# --- allow_in_graph


def test_an_allowed_function_is_one_node():
    @dynacomp.allow_in_graph
    def layer(x, scale, *, shift=0):
        exec("")  # capture cannot look into this
        return {"y": jnp.sin(x) * scale + shift}

    def step(x):
        return layer(x * 2, 3.0, shift=1)["y"] + 1

    assert np.allclose(once_and_again(step, X), jnp.sin(X * 2) * 3 + 2)
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["graphs"] == 1
    (graph,) = graphs(step, X)
    assert "layer" in graph and "sin" not in graph


def test_an_allowed_function_is_transformed_and_compiled():
    @dynacomp.allow_in_graph
    def cube(x):
        return x ** 3

    assert np.allclose(once_and_again(lambda x: jax.grad(lambda v: cube(v).sum())(x), X), 3 * X ** 2)
    assert np.allclose(once_and_again(lambda x: jax.vmap(cube)(x), X), X ** 3)
    assert np.allclose(dynacomp.jit(cube)(X), X ** 3)
    assert np.allclose(dynacomp.jit(lambda x: cube(x) + 1)(X), X ** 3 + 1)


def test_an_allowed_function_that_jax_cannot_trace_is_run_by_python():
    @dynacomp.allow_in_graph
    def peek(x):
        return x * float(x[1])

    assert once_and_again(lambda x: peek(x) + 1, X).tolist() == (X + 1).tolist()
    assert dynacomp.stats()["breaks"] == {"concrete": 1}


def test_an_allowed_method():
    class Scaler:
        @dynacomp.allow_in_graph
        def apply(x):
            return x * 2

    assert once_and_again(lambda x: Scaler.apply(x), X).tolist() == (X * 2).tolist()


@pytest.mark.parametrize("what", [int, "text", [].append, X])
def test_what_cannot_be_told(what):
    for tell in (dynacomp.allow_in_graph, dynacomp.assume_constant_result):
        if isinstance(what, type(len)):
            continue
        with pytest.raises(TypeError, match="expected a function"):
            tell(what)


# --- assume_constant_result


def test_a_constant_result_is_found_once_a_capture():
    calls = []

    @dynacomp.assume_constant_result
    def table(n, name="a"):
        calls.append((n, name))
        return {"size": n * 2, "weights": jnp.full(n, 0.5), "name": name}

    def step(x):
        found = table(4)
        print("size", found["size"])
        return x * found["weights"] + table(4)["size"]

    assert once_and_again(step, X).tolist() == (X * 0.5 + 8).tolist()
    assert len(calls) <= 2  # for the code before and after the print

    def fixed(x):
        return x + table(3, name="b")["size"]

    assert once_and_again(fixed, X).tolist() == (X + 6).tolist()
    assert calls.count((3, "b")) == 1


def test_a_constant_result_on_an_array_is_run_by_python():
    @dynacomp.assume_constant_result
    def total(x):
        return float(x.sum())

    assert once_and_again(lambda x: x + total(x), X).tolist() == (X + 6).tolist()
    assert dynacomp.stats()["breaks"] == {"call": 1}


def test_a_constant_result_may_be_an_exception():
    @dynacomp.assume_constant_result
    def missing():
        raise LookupError("nowhere")

    def step(x):
        try:
            return x + missing()
        except LookupError as error:
            return x, str(error)

    assert once_and_again(step, X)[1] == "nowhere"


# --- substitute


def test_a_substitute_is_entered():
    @dynacomp.substitute(np.hypot, skip_signature_check=True)
    def hypot(a, b):
        return jnp.sqrt(a * a + b * b)

    assert np.allclose(once_and_again(lambda x: np.hypot(x, 2.0) * 2, X), np.hypot(X, 2.0) * 2)
    assert dynacomp.stats()["breaks"] == {}
    assert np.hypot(3, 4) == 5 and hypot(3.0, 4.0) == 5


def test_a_substitute_has_the_same_parameters():
    def original(a, b=1, *, c=2):
        return a

    with pytest.raises(TypeError, match="skip_signature_check"):
        dynacomp.substitute(original)(lambda a, b: a)
    dynacomp.substitute(original)(lambda a, b=3, *, c=4: a + b + c)
    assert once_and_again(lambda x: original(x), X).tolist() == (X + 7).tolist()
    with pytest.raises(ValueError, match="has a rule already"):
        dynacomp.substitute(original)(lambda a, b=3, *, c=4: a)
    with pytest.raises(TypeError, match="Python function"):
        dynacomp.substitute(math.erf)(math.erf)


# --- is_compiling


def test_is_compiling():
    def step(x):
        return x * 2 if dynacomp.is_compiling() else x * 3

    assert not dynacomp.is_compiling() and step(X).tolist() == (X * 3).tolist()
    assert once_and_again(step, X).tolist() == (X * 2).tolist()
    with dynacomp.set_stance("eager"):
        assert dynacomp.jit(step)(X).tolist() == (X * 3).tolist()


def test_rules_keep_no_function_alive():
    def local(x):
        return x

    dynacomp.allow_in_graph(local)
    assert local in USER_RULES
    gone = weakref.ref(local)
    del local
    gc.collect()
    assert gone() is None
