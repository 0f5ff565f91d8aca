"""lowering.passes.triangles: what masks made of positions are on each side of a line, whatever their sizes are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp import passes
from dynacomp.lowering.passes.triangles import Line, forms, is_lower

LOWER = {
    "tril": lambda n, m: jnp.tril(jnp.ones((n, m), bool)),
    "tril of floats": lambda n, m: jnp.tril(jnp.ones((n, m))) == 1,
    "tril and != 0": lambda n, m: jnp.tril(jnp.ones((n, m)))[None, None] != 0,
    "tri": lambda n, m: jnp.tri(n, m, dtype=bool),
    "positions": lambda n, m: jnp.arange(n)[:, None] >= jnp.arange(m)[None],
    "positions from the other side": lambda n, m: jnp.arange(m)[None] <= jnp.arange(n)[:, None],
    "not after": lambda n, m: ~(jnp.arange(m)[None] > jnp.arange(n)[:, None]),
    "no upper triangle": lambda n, m: jnp.logical_not(jnp.triu(jnp.ones((n, m), bool), 1)),
    "upper triangle == 0": lambda n, m: jnp.triu(jnp.ones((n, m)), k=1) == 0,
    "iota": lambda n, m: jax.lax.broadcasted_iota(jnp.int32, (n, m), 0) >= jax.lax.broadcasted_iota(
        jnp.int32, (n, m), 1),
    "floats > 0": lambda n, m: (jnp.arange(n)[:, None] >= jnp.arange(m)).astype(jnp.bfloat16)[None] > 0,
    "differences": lambda n, m: jnp.arange(n)[:, None] - jnp.arange(m)[None] > -1,
    "offsets on both sides": lambda n, m: jnp.arange(3, n + 3)[:, None] >= jnp.arange(m) + 3,
    "and, where": lambda n, m: jnp.where(jnp.logical_and(jnp.ones((n, m), bool), jnp.tri(n, m) > 0), 1.0, 0.0) > 0.5,
    "transposed": lambda n, m: (jnp.arange(m)[:, None] <= jnp.arange(n)[None]).T,
    "and itself": lambda n, m: jnp.tri(n, m, dtype=bool) & ~(jnp.arange(m)[None] > jnp.arange(n)[:, None]),
}
OTHERS = {
    "without the diagonal": lambda n, m: jnp.tril(jnp.ones((n, m), bool), -1),
    "one more": lambda n, m: jnp.tril(jnp.ones((n, m), bool), 1),
    "above": lambda n, m: jnp.triu(jnp.ones((n, m), bool)),
    "a band": lambda n, m: jnp.tri(n, m, dtype=bool) & ~jnp.tri(n, m, -4, dtype=bool),
    "one of both": lambda n, m: jnp.tri(n, m, dtype=bool) | jnp.tri(n, m, 2, dtype=bool),
    "everything": lambda n, m: jnp.tri(n, m) >= 0,
    "every other": lambda n, m: jnp.arange(n)[:, None] * 2 >= jnp.arange(m)[None],
    "numbers that wrap": lambda n, m: jnp.arange(n)[:, None] + (2**31 - 2) >= jnp.arange(m)[None] + (2**31 - 2),
    "small integers": lambda n, m: jnp.arange(n).astype(jnp.int8)[:, None] >= jnp.arange(m).astype(jnp.int8)[None],
    "sums": lambda n, m: jnp.arange(n)[:, None] + jnp.arange(m)[None] >= 5,
}


def form_of(fn):
    """The form of the one result, and its shape: of a Graph in which both sizes are unknown."""
    seen = []

    def look(graph):
        (result,) = graph.nodes[-1].args[0]
        seen.append((forms(graph).get(result), result.aval.shape))
        return graph

    dynacomp.reset()
    options = {"passes": passes.default().insert(look, name="look", after="merge_common")}
    jitted = dynacomp.jit(lambda x: fn(x.shape[0], x.shape[1]), dynamic=True, fullgraph=True, options=options)
    jitted(jnp.ones((5, 7)))
    assert dynacomp.stats()["frames_captured"] == 1
    return seen[0]


@pytest.mark.parametrize("name", LOWER)
def test_lower(name):
    form, shape = form_of(LOWER[name])
    assert not any(isinstance(n, int) for n in shape[-2:])
    rank = len(shape)
    assert is_lower(form, rank - 2, rank - 1, True)
    assert not is_lower(form, rank - 2, rank - 1, False)
    assert not is_lower(form, rank - 1, rank - 2, True)


@pytest.mark.parametrize("name", OTHERS)
def test_others(name):
    form, shape = form_of(OTHERS[name])
    assert len(shape) == 2
    assert form is None or not is_lower(form, 0, 1, True)


def test_hidden_where_true():
    form, _ = form_of(lambda n, m: jnp.arange(m)[None] > jnp.arange(n)[:, None])
    assert is_lower(form, 0, 1, False) and not is_lower(form, 0, 1, True)


@pytest.mark.parametrize("steps, offset", [((1, -1), 0), ((0, 2), -3), ((-1, 0), 5)])
def test_otherwise(steps, offset):
    line = Line(steps, offset)
    at = np.indices((6, 6))
    value = lambda x: sum(n * d for n, d in zip(x.steps, at)) + x.offset
    assert ((value(line) >= 0) ^ (value(line.otherwise) >= 0)).all()
