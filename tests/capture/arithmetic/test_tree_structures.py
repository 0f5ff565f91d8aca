"""`arithmetic.tree_structures`: structures that keep functions are compared by which functions these are."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest

import dynacomp

X = jnp.arange(3.0)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["fn"])
@dataclasses.dataclass
class State:
    w: jax.Array
    fn: object


def alike(a, b, x):
    same = jax.tree.structure(a) == jax.tree.structure(b)
    return same, jax.tree.structure(a) != jax.tree.structure(b), x * 2


def one_of_them_called(a, b, x):
    y = b.fn(x)
    return jax.tree.structure([a, b]) == jax.tree.structure([b, a]), y


def of_a_transformation(a, b, x):
    mapped = jax.vmap(lambda s: dataclasses.replace(s, w=s.w * 2))(a)
    return jax.tree.structure(mapped) == jax.tree.structure(b), mapped.fn is b.fn, x * 2


def behind_a_break(a, b, x):
    structure = jax.tree.structure(a)
    dynacomp.graph_break()
    made = jax.tree.unflatten(structure, [x])
    return made.fn(x), jax.tree.structure(made) == jax.tree.structure(b)


@pytest.mark.parametrize("program", [alike, one_of_them_called, of_a_transformation, behind_a_break])
def test_structures_that_keep_functions_made_anew(program):
    """Behind the second call `alike` had False for one and the same function."""
    compiled = dynacomp.jit(program)
    for n in range(8):
        def one(x, k=n):
            return x * k

        def other(x, k=n):
            return x * k

        a, b = State(X + n, one), State(X, one if n % 2 or n < 4 else other)
        got, want = compiled(a, b, X + n), program(a, b, X + n)
        assert [bool(jnp.all(x == y)) for x, y in zip(got, want, strict=True)] == [True] * len(want)


@pytest.mark.parametrize("program", [alike, of_a_transformation])
def test_they_are_not_captured_in_each_call(program):
    compiled = dynacomp.jit(program)
    for n in range(8):
        def one(x, k=n):
            return x * k

        compiled(State(X + n, one), State(X, one), X + n)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"]
