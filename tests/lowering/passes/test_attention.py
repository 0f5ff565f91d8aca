"""lowering.passes.attention: what is found to be an attention, what is not, and that it computes the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp import passes
from dynacomp.capture.graph.verifier import verify
from dynacomp.lowering.passes.attention import fuse_attention
from dynacomp.lowering.passes.pipeline import PASSES
from dynacomp.lowering.primitives import specialise
from dynacomp.lowering.primitives.ops import infer
from dynacomp.lowering.primitives.translate import lower_function

RANDOM = np.random.default_rng(0)


def array(*shape, dtype=np.float32):
    return jnp.asarray(RANDOM.standard_normal(shape).astype(dtype))


Q, K, V = array(2, 72, 4, 8), array(2, 64, 4, 8), array(2, 64, 4, 16)
MASK = jnp.asarray(RANDOM.random((2, 1, 72, 64)) > 0.3).at[:, :, 3].set(False)


def scores(q, k):
    return jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])


def out(weights, v):
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def by_hand(x):
    powers = jnp.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def causal_by_hand(q, k, v):
    s = scores(q, k)
    return out(jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)), v)


dpa = jax.nn.dot_product_attention
FOUND = {
    "dpa": (dpa, (Q, K, K), False),
    "dpa causal": (lambda q, k, v: dpa(q, k, v, is_causal=True), (Q, K, K), True),
    "dpa mask": (lambda q, k, v, m: dpa(q, k, v, mask=m), (Q, K, K, MASK), False),
    "dpa mask, bias, scale": (lambda q, k, v, b, m: dpa(q, k, v, bias=b, mask=m, scale=0.3),
                              (Q, K, K, array(1, 4, 72, 64), MASK), False),
    "dpa in bf16": (dpa, tuple(x.astype(jnp.bfloat16) for x in (Q, K, K)), False),
    "causal by hand": (causal_by_hand, (Q, K, V), True),
    "masked by hand": (lambda q, k, v, m: out(jax.nn.softmax(jnp.where(m, scores(q, k), -jnp.inf)), v),
                       (Q, K, V, MASK.at[:, :, 3].set(True)), False),
    "hidden where": (lambda q, k, v, m: out(jax.nn.softmax(jnp.where(m, -jnp.inf, scores(q, k))), v),
                     (Q, K, V, ~MASK.at[:, :, 3].set(True)), False),
    "two dimensions": (lambda q, k, v: jax.nn.softmax(q @ k.T / 8 ** 0.5) @ v,
                       (array(128, 8), array(150, 8), array(150, 12)), False),
    "softmax by hand": (lambda q, k, v: by_hand(jnp.einsum("bsd,btd->bst", q, k) * 0.2) @ v,
                        (array(3, 80, 8), array(3, 80, 8), array(3, 80, 12)), False),
    "a bias of fewer dimensions": (lambda q, k, v, b: jax.nn.softmax(q @ k.swapaxes(-1, -2) * 0.2 + b) @ v,
                                   (array(3, 2, 72, 8), array(3, 2, 50, 8), array(3, 2, 50, 12), array(2, 1, 50)),
                                   False),
    "more keys than columns are allowed": (lambda q, k, v: jax.nn.softmax(q @ k.swapaxes(-1, -2)) @ v,
                                           (array(1, 32, 8), array(1, 600, 8), array(1, 600, 8)), False),
    "keys seen through a map": (lambda q, k, v: jax.vmap(lambda q, k, v: jax.nn.softmax(q @ k.T) @ v)(q, k, v),
                                (array(2, 72, 8), array(2, 700, 8), array(2, 700, 8)), False),
    "a causal mask for each of a batch": (
        lambda q, k, v: out(jax.nn.softmax(jnp.where(
            jnp.broadcast_to(jnp.arange(72), (2, 72))[:, None, :, None]
            >= jnp.broadcast_to(jnp.arange(64), (2, 64))[:, None, None], scores(q, k), -jnp.inf)), v), (Q, K, V), True),
    "heads that share keys": (
        lambda q, k, v: jnp.einsum("bhgqk,bkhd->bqhgd", jax.nn.softmax(jnp.einsum(
            "bqhgd,bkhd->bhgqk", q.reshape(2, 72, 2, 2, 8), k[:, :, ::2]) / 3), v[:, :, ::2]), (Q, K, V), False),
    "heads that share keys, causal": (
        lambda q, k, v: jnp.einsum("bhgqk,bkhd->bqhgd", jax.nn.softmax(jnp.where(jnp.tri(72, 64) > 0, jnp.einsum(
            "bqhgd,bkhd->bhgqk", q.reshape(2, 72, 2, 2, 8), k[:, :, ::2]), -1e9)), v[:, :, ::2]), (Q, K, V), True),
    "queries of several, keys of one": (
        lambda q, k, v: jax.vmap(lambda q: jax.nn.softmax(q @ k.T) @ v)(q),
        (array(3, 72, 8), array(64, 8), array(64, 12)), False),
    "a mask that hides little": (lambda q, k, v, m: out(jax.nn.softmax(jnp.where(m, scores(q, k), -9.0)), v),
                                 (Q, K, V, MASK), False),
    "a causal mask that hides little": (
        lambda q, k, v: out(jax.nn.softmax(jnp.where(jnp.tri(72, 64, dtype=bool), scores(q, k), -2.0)), v), (Q, K, V),
        False),
    "a batch of one": (lambda q, k, v: jax.nn.softmax(q @ k.swapaxes(-1, -2)) @ v,
                       (array(1, 4, 72, 8), array(1, 4, 72, 8), array(1, 4, 72, 8)), False),
}


def prepared(fn, *args):
    """The Graph as the pass gets it."""
    graph = lower_function(fn, *args)
    for one in PASSES:
        if one.__name__ == "fuse_attention":
            return graph
        graph = one(graph)


def attentions(graph):
    return [n for n in graph.calls if getattr(n.target, "name", "") == "attention"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FOUND)
def test_it_is_found_and_computes_the_same(name):
    fn, args, causal = FOUND[name]
    made = fuse_attention(prepared(fn, *args))
    verify(made, infer)
    (node,) = attentions(made)
    assert node.kwargs["causal"] == causal
    assert len(node.args) == (4 if len(args) > 3 or name == "a causal mask that hides little" else 3)
    left = [n.target.name for n in made.calls if n.target.__name__ in ("dot_general", "exp")]
    assert not left
    (got,), want = specialise.run(made, *args), fn(*args)
    rtol = 2e-2 if want.dtype == jnp.bfloat16 else 2e-5
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=rtol, atol=rtol)


weights_too = lambda q, k, v: (out(w := jax.nn.softmax(scores(q, k)), v), w)
NOT = {
    "the weights are read": (weights_too, (Q, K, V)),
    "softmax along the queries": (lambda q, k, v: out(jax.nn.softmax(scores(q, k), -2), v), (Q, K, V)),
    "a bias and a mask that hides little": (
        lambda q, k, v, m: out(jax.nn.softmax(jnp.where(m, scores(q, k) + m * 2, -9.0)), v), (Q, K, V, MASK)),
    "two heads beside those that share keys": (
        lambda q, k, v: jax.nn.softmax(jnp.einsum("abqd,kd->abqk", q, k)) @ v,
        (array(3, 2, 72, 8), array(64, 8), array(64, 12))),
    "no maximum": (lambda q, k, v: out((e := jnp.exp(scores(q, k))) / e.sum(-1, keepdims=True), v), (Q, K, V)),
    "capped scores": (lambda q, k, v: out(jax.nn.softmax(jnp.tanh(scores(q, k))), v), (Q, K, V)),
    "one query": (lambda q, k, v: jax.nn.softmax(q @ k.T) @ v, (array(1, 8), array(32000, 8), array(32000, 8))),
    "few scores": (lambda q, k, v: jax.nn.softmax(q @ k.T) @ v, (array(8, 8), array(8, 8), array(8, 8))),
    "a sum of something else": (lambda q, k, v: out((e := jnp.exp((s := scores(q, k)) - s.max(-1, keepdims=True)))
                                                    / (e + 1).sum(-1, keepdims=True), v), (Q, K, V)),
    "gradients": (jax.grad(lambda q, k, v: out(jax.nn.softmax(scores(q, k)), v).sum()), (Q, K, V)),
}


@pytest.mark.parametrize("name", NOT)
def test_what_is_something_else_stays(name):
    fn, args = NOT[name]
    assert not attentions(fuse_attention(prepared(fn, *args)))


@pytest.mark.medium
@pytest.mark.parametrize("name", ["dpa causal", "dpa mask, bias, scale", "causal by hand", "dpa in bf16"])
def test_compiled_it_is_one_kernel(name):
    fn, args, _ = FOUND[name]
    dynacomp.reset()
    compiled = dynacomp.jit(fn, fullgraph=True)
    for _ in range(2):
        got, want = compiled(*args), fn(*args)
        tolerance = 2e-2 if want.dtype == jnp.bfloat16 else 2e-6
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=tolerance, atol=tolerance)
    assert dynacomp.stats()["externs"] == {}
    (region,) = dynacomp.explain(fn)(*args).regions
    assert "attention" in region.kernels and "matmul" not in region.kernels


def test_a_causal_mask_of_sizes_that_change_is_never_in_memory():
    def two_layers(x, mask):
        for _ in range(2):
            s = jnp.einsum("hqd,hkd->hqk", x, x)
            x = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(s.shape[1:], bool)), s, -jnp.inf)) @ x
        for _ in range(2):
            x = jax.nn.softmax(jnp.where(mask, jnp.einsum("hqd,hkd->hqk", x, x), -jnp.inf)) @ x
        return x

    seen = []
    look = passes.default().insert(lambda g: seen.append(attentions(g)) or g, name="look", after="fuse_attention")
    dynacomp.reset()
    compiled = dynacomp.jit(two_layers, fullgraph=True, options={"passes": look})
    for n in (64, 70, 81, 2, 90):
        x, mask = array(2, n, 8), jnp.asarray(RANDOM.random((n, n)) > 0.3).at[:, 0].set(True)
        np.testing.assert_allclose(compiled(x, mask), two_layers(x, mask), rtol=1e-4, atol=1e-5)
    assert dynacomp.stats()["frames_captured"] == 2
    causal = [[node.kwargs["causal"] for node in nodes] for nodes in seen]
    assert causal[1] == [True, True, False, False], causal
    _, _, one, other = seen[1]
    assert one.args[3] is other.args[3]  # the same bias for all layers of one mask


def test_not_where_numerics_are_exact():
    fn, args, _ = FOUND["two dimensions"]
    seen = []
    look = passes.default().insert(lambda g: seen.append(attentions(g)) or g, name="look", after="fuse_attention")
    for mode in ("default", "exact"):
        dynacomp.jit(lambda *a: fn(*a), mode=mode, options={"passes": look}, backend="xla")(*args)
    assert [len(s) for s in seen] == [1, 0]
