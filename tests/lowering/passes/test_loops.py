"""lowering.passes.loops: what stays of a loop, and that it computes what it did."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.capture.graph.verifier import verify
from dynacomp.driver.pass_list import INEXACT
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import all_steps
from dynacomp.lowering.passes.pipeline import PASSES, optimise
from dynacomp.lowering.primitives.control import bodies, is_control
from dynacomp.lowering.primitives.ops import OPS, infer
from dynacomp.lowering.primitives.specialise import run
from dynacomp.lowering.primitives.translate import lower_function

X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)


def unread(x):
    """One carry that only another's unread result needs, one stacked result that nobody reads."""
    step = lambda c, a: ((c[0] + a, c[1] * c[0], c[2] + c[1]), (a * 2, c[0]))
    return lax.scan(step, (x[0], x[0], x[0]), x)[1][1]


def unchanged(x):
    """A carry that stays, and a number that stays."""
    step = lambda c, a: ((c[0] * c[1] + a * c[2], c[1], c[2]), None)
    state, _ = lax.scan(step, (x[0], x[1], jnp.float32(2)), x)
    return state


def invariant(x):
    """Work on what does not change, in a condition too."""
    more = lambda s: s[0].sum() < jnp.exp(x).sum()
    return lax.while_loop(more, lambda s: (s[0] + jnp.tanh(x.T @ x).sum(0), s[1] + 1), (x[0] * 0 + 1, 0))


def spread(x):
    """An outer product is made in every step: it is bigger than what it is made of."""
    return lax.scan(lambda c, a: (c + (jnp.outer(x.ravel(), x.ravel()) * a).sum(), None), jnp.float32(0), x[:, 0])[0]


def inside(x):
    """The same in a loop in a branch in a loop."""
    inner = lambda y: lax.fori_loop(0, y.sum().astype(int), lambda i, s: (s[0] + jnp.sin(x[0]), s[1]), (y, y))[0]
    return lax.scan(lambda c, a: (lax.cond(a[0] > 0, inner, lambda y: y, c), None), x[0], x)[0]


KEPT = {"unread": (0, 1, 1), "unchanged": (1, 1, 0), "invariant": (2, 2, 0), "spread": (1, 1, 0), "inside": (1, 1, 0)}
"""How many constants, carries, and stacked results stay of the outer loop."""


def calls(graph):
    yield from graph.calls
    for node in graph.calls:
        for body in bodies(node.kwargs):
            yield from calls(body)


@pytest.mark.parametrize("name", KEPT)
def test_what_stays(name):
    fn = globals()[name]
    graph = lower_function(fn, X)
    for one in PASSES:
        graph = one(graph)
        verify(graph, infer)
    for found, want in zip(run(graph, X), jax.tree.leaves(fn(jnp.asarray(X))), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-5)
    (loop,) = (n for n in graph.calls if is_control(n))
    carries = loop.kwargs.get("carries", len(loop.aval))
    assert (loop.kwargs["consts"], carries, len(loop.aval) - carries) == KEPT[name]


def test_invariants_are_computed_outside_of_all_loops_and_passes_reach_all_bodies():
    graph = optimise(lower_function(invariant, X))
    inner = {n.target for body in bodies(next(filter(is_control, graph.calls)).kwargs) for n in body.calls}
    assert not {OPS["exp"], OPS["tanh"], OPS["dot_general"]} & inner
    graph = optimise(lower_function(lambda x: lax.map(lambda r: (r.T.T * 1.0 + 0 * r) + jnp.sin(r) + jnp.sin(r), x), X))
    assert [n.target for n in calls(graph)].count(OPS["sin"]) == 1


def test_a_graph_without_loops_is_the_same_object():
    graph = lower_function(lambda x: x + 1, X)
    assert all(one(graph) is graph for one in PASSES if "loop" in one.__name__ or "invariant" in one.__name__)


def sliced(x):
    """The gradient of a slice in each step."""
    step = lambda c, i: (jnp.sin(c + lax.dynamic_index_in_dim(x, i, keepdims=False)), None)
    return lax.scan(step, x[0], jnp.arange(100) % 4)[0].sum()


def embedded(x):
    """Rows that may be the same row, looked up in each step."""
    step = lambda c, i: (jnp.sin(c + x[i]).sum(0), None)
    return lax.scan(step, x[0], jnp.arange(200).reshape(100, 2) ** 2 % 3)[0].sum()


def nested(x):
    """Slices in a loop in a loop."""
    inner = lambda c, i: lax.fori_loop(0, 3, lambda j, s: jnp.sin(s + x[i + j]), c)
    return lax.scan(lambda c, i: (inner(c, i % 9), None), x[0], jnp.arange(100))[0].sum()


@pytest.mark.parametrize("fn", [sliced, embedded, nested])
def test_what_a_step_adds_to_a_part_of_a_carry_is_stored_there(fn):
    graph = optimise(lower_function(jax.grad(fn), X))
    verify(graph, infer)
    whole = [n for n in calls(graph) if n.target is OPS["add"] and n.aval.shape == X.shape]
    assert [n for n in whole if n not in graph.calls] == []
    assert any(inner.in_place for step in all_steps(schedule(graph)) for inner in step.inner)
    for found, want in zip(run(graph, X), [jax.grad(fn)(jnp.asarray(X))], strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-5)


def test_the_sign_of_a_carried_zero_is_that_of_eager_jax():
    zeros = lambda c: jnp.zeros_like(c)
    step = lambda c, i: (c + lax.dynamic_update_slice(zeros(c), jnp.float32(-0.0)[None], (i % 4,)), None)
    fn = lambda x: lax.scan(step, -jnp.abs(x * 0), jnp.arange(100))[0]
    graph = optimise(lower_function(fn, X[0]))
    np.testing.assert_array_equal(np.signbit(run(graph, X[0])[0]), np.signbit(fn(jnp.asarray(X[0]))))


def test_sums_keep_their_order_where_numerics_are_exact():
    assert "add_to_many" in INEXACT and "add_to_parts" not in INEXACT
