"""`control_flow.growing_arrays`: long loops around arrays that grow run in Python, short ones are unrolled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

CALLS = ((3, 20), (4, 22), (7, 20), (5, 24))


def deep(x):
    for _ in range(20):
        x = jnp.sin(x) * 0.5
    return x


def generates(tokens, n):
    for _ in range(n):
        tokens = jnp.concatenate([tokens, deep(tokens).sum()[None]])
    return tokens


def fills_a_cache(x, n):
    cache, out = {"k": x, "v": (x * 2,)}, []
    for _ in range(n):
        y = deep(cache["k"]).mean()
        cache["k"], cache["v"] = jnp.append(cache["k"], y), (jnp.append(cache["v"][0], y),)
        out.append(int(cache["v"][0].argmax()))
    return cache, out


def until_long(x, n):
    while len(x) < n:
        x = jnp.append(x, deep(x).max())
    return x


@pytest.mark.medium
@pytest.mark.parametrize("f", [generates, fills_a_cache, until_long])
def test_their_body_is_compiled_once_for_all_sizes(f):
    dynacomp.reset()
    compiled = dynacomp.jit(f, backend="eager")
    for size, n in CALLS:
        expected, found = f(jnp.arange(float(size)), n), compiled(jnp.arange(float(size)), n)
        assert jax.tree.structure(expected) == jax.tree.structure(found)
        for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found)):
            np.testing.assert_array_equal(a, b)
    told = dynacomp.stats()
    assert told["frames_captured"] <= 7 and told["breaks"]["growing"] and not told["frames_eager"]


def dense_block(x, n):
    for _ in range(6):
        x = jnp.concatenate([x, deep(x)[:2]])
    return x * n


def narrows(x, n):
    for _ in range(40):
        x = deep(jnp.stack([x[::2], x[1::2]]).reshape(2, -1).T.reshape(-1))
    return x


@pytest.mark.parametrize("f", [dense_block, narrows, jax.grad(lambda x, n: generates(x, 12).sum())])
def test_others_stay_in_the_graph(f):
    dynacomp.reset()
    compiled = dynacomp.jit(f, backend="eager")
    np.testing.assert_allclose(compiled(jnp.arange(4.0), 2), f(jnp.arange(4.0), 2), rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]
