"""Jitted functions that donate, called by compiled code: what is deleted, when, and that using it raises."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

double = jax.jit(lambda a: a * 2 + 1, donate_argnums=0)
step = jax.jit(lambda params, rate: jax.tree.map(lambda v: v * rate, params), donate_argnames="params")
zeros = jax.jit(jnp.zeros_like, donate_argnums=0)
second = jax.jit(lambda a, b: b + 1, donate_argnums=0)
both = jax.jit(lambda a, b: (a + b, a - b), donate_argnums=(0, 1))
ours = dynacomp.jit(lambda a: a * 2 + 1, donate_argnums=0, backend="eager")
within = jax.jit(lambda a: double(a) + 1)


@jax.custom_jvp
def custom(x):
    return double(x) + 1


custom.defjvp(lambda primals, tangents: (custom(*primals), tangents[0]))


def one(x, y):
    return double(x)


def tree(x, y):
    return step({"a": x, "b": [y + 1]}, 0.5)


def used_later(x, y):
    return double(x) + x


def used_before(x, y):
    before = x + 1
    return double(x) + before


def given_back(x, y):
    return double(x), x


def made_here(x, y):
    made = x + 1
    return double(made), [made]


def in_a_loop(x, y):
    for _ in range(4):
        x = double(x)
    return x


def in_a_long_loop(x, y):
    kept = y + 1
    for _ in range(30):
        x, kept = double(x) * 0.4, kept + x.shape[0]
    return x, kept


def swapped_in_a_long_loop(x, y):
    for _ in range(50):
        x, y = y, double(x) * 0.4
    return x, y


def of_an_object(x, y):
    held = [x]
    held[0] = double(held[0])
    return held


def of_two(x, y):
    return both(x, y)


def below_another_jit(x, y):
    return within(x) + x


def in_a_scan(x, y):
    return jax.lax.scan(lambda c, _: (double(c), None), x, None, length=2)[0] + x


def of_no_use(x, y):
    return zeros(x) + second(x, y) + x


def in_vmap(x, y):
    return jax.vmap(double)(x)


def in_a_gradient(x, y):
    return jax.grad(lambda a: double(a).sum())(x)


def under_checkpoint(x, y):
    return jax.checkpoint(double)(x)


def in_a_custom_jvp(x, y):
    return custom(x)


def by_ours(x, y):
    for _ in range(2):
        x = ours(x)
    return jax.grad(lambda a: ours(a).sum())(y), x, y


PROGRAMS = {one: 0, by_ours: 0, tree: 0, used_before: 0, given_back: 0, made_here: 0, in_a_loop: 0, in_a_long_loop: 0,
            swapped_in_a_long_loop: 2, of_an_object: 0, of_two: 0, below_another_jit: 0, in_a_scan: 0, used_later: 1,
            of_no_use: 2, in_vmap: 1, in_a_gradient: 2, under_checkpoint: 1, in_a_custom_jvp: 1}


def shown(x):
    return "deleted" if x.is_deleted() else np.asarray(x).tolist()


def outcome(program, k, twice):
    """What a call gives, and what is left of its arguments."""
    x = jnp.arange(3.0) + k
    y = x if twice else jnp.arange(3.0)
    try:
        result = jax.tree.map(shown, program(x, y), is_leaf=lambda v: isinstance(v, jax.Array))
    except (RuntimeError, ValueError) as error:  # which of them it is, and what it says, JAX's caches decide
        result = "deleted or donated" if "delete" in str(error) or "donate" in str(error) else error
    return result, shown(x), shown(y)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        yield


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_arrays_are_deleted_as_by_jax(program):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for k in range(3):
        assert outcome(compiled, k, False) == outcome(program, k, False)
    assert sum(dynacomp.stats()["breaks"].values()) == PROGRAMS[program]
    assert outcome(compiled, 0, True) == outcome(program, 0, True)
    assert outcome(compiled, 1, False) == outcome(program, 1, False)


def test_a_deleted_array_raises_in_the_next_call():
    compiled = dynacomp.jit(one)
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(compiled(x, x), [1, 3, 5])
    for _ in range(2):
        with pytest.raises((RuntimeError, ValueError), match="delete"):
            compiled(x, x)
    np.testing.assert_array_equal(compiled(jnp.ones(3), x), [3, 3, 3])
