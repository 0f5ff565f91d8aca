"""Calls of functions that `jax.jit` has made: entered, with what shows of the jit kept."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph

X = jnp.arange(3.0)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Pair:
    a: jax.Array
    b: jax.Array


@jax.jit
def swap(pair):
    pair.a, pair.b = pair.b, pair.a
    return pair


@jax.jit
def step(params, x):
    params["w"] = params["w"] - x
    params["inner"].append(x)
    return params


@jax.jit
def numbers(x):
    return x, 3, 2.5, True


@jax.jit
def handed_back(tree):
    return tree


def object_of_the_call(x):
    pair = Pair(x, x + 1)
    return swap(pair), pair


def object_given(pair):
    return swap(pair).a, pair.a


def dict_of_the_call(x):
    params = {"w": x, "inner": [x]}
    made = step(step(params, x), x)
    return made, params


def dict_given(params):
    return step(params, params["w"] * 2), params


def trees_are_new(x):
    tree = [x, {"k": x + 1}]
    made = handed_back(tree)
    return made, made is tree, made[1] is tree[1]


def through_a_loop(x):
    params, seen = {"w": x, "inner": []}, []
    for _ in range(3):
        seen.append(step(params, x)["w"])
    return seen, params


def results_are_arrays(x):
    return numbers(x * 2)


@pytest.mark.parametrize("program", [object_of_the_call, dict_of_the_call, trees_are_new, through_a_loop,
                                     results_are_arrays])
def test_it_has_trees_of_its_own(program):
    check_one_graph(program, (X,), (X + 1,))


def test_what_the_caller_passes_stays_as_it_is():
    check_one_graph(object_given, (Pair(X, X * 2),), (Pair(X + 1, X),))
    check_one_graph(dict_given, ({"w": X, "inner": [X]},), ({"w": X * 3, "inner": [X]},))


def counting():
    """A program whose jitted function counts how often it is traced."""
    traced = []

    @jax.jit
    def double(x):
        traced.append(x.shape)
        return x * 2

    return lambda x: (double(x) + double(x + 1), list(traced))


def test_what_happens_when_jax_traces_happens_once():
    plain, compiled = counting(), dynacomp.jit(counting())
    for x in (X, X, jnp.ones(4), X):
        assert repr(compiled(x)) == repr(plain(x))
    assert set(dynacomp.stats()["breaks"]) == {"effect"}


STACK: list[int] = []


@jax.jit
def within_a_context(x):
    STACK.append(1)
    y = x * len(STACK)
    STACK.pop()
    return y


def test_what_is_put_back_is_no_change():
    check_one_graph(lambda x: within_a_context(x) + 1, (X,), (X + 1,))


def test_a_jitted_function_compiled_is_itself():
    compiled = dynacomp.jit(numbers)
    for _ in range(3):
        assert repr(compiled(X)) == repr(numbers(X))
    told = []
    saying = jax.jit(lambda x: (told.append(type(x).__name__), x + 1)[1])
    for _ in range(3):
        dynacomp.jit(saying)(X)
    assert len(told) == 1 and "Tracer" in told[0]
