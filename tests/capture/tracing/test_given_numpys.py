"""NumPy arrays that a library's call is given come back as what eager JAX gives: NumPy's arrays, or the very ones."""

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import serialization, traverse_util

import dynacomp

KEPT = {"a": np.arange(3.0), "b": np.arange(2) + 2**40}


def trees(k):
    return {"a": np.full(3, k + 1.0), "b": np.arange(2) + 2**40 + k}


def rows(k):
    return np.arange(2.0 + k) + 2**30


def described(tree):
    return jax.tree.map(lambda x: (type(x), getattr(x, "dtype", None), getattr(x, "weak_type", None),
                                   np.asarray(x).tolist()), tree)


def whose(tree, given):
    """Which of the given arrays each leaf is."""
    return [next((i for i, y in enumerate(jax.tree.leaves(given)) if x is y), None) for x in jax.tree.leaves(tree)]


def check(fn, make, calls=5, captures=3):
    compiled = dynacomp.jit(fn)
    before = dynacomp.stats()["frames_captured"]
    for k in range(calls):
        given = make(k)
        want, got = fn(given), compiled(given)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        assert whose(got, (given, KEPT)) == whose(want, (given, KEPT))
        assert described(got) == described(want)
    assert dynacomp.stats()["frames_captured"] - before <= captures


@pytest.mark.parametrize("fn", [
    lambda t: (traverse_util.flatten_dict({"q": t}), jnp.abs(t["a"])),
    lambda t: serialization.to_state_dict({"t": t, "s": jnp.abs(t["a"])}),
    lambda t: (eqx.partition(t, eqx.is_array), jnp.abs(t["a"])),
    lambda t: eqx.partition({**t, "c": jnp.abs(t["a"])}, {"a": True, "b": False, "c": True}),
    lambda t: eqx.combine({"a": None, "b": t["b"]}, {"a": jnp.abs(t["a"]), "b": None}),
    lambda t: eqx.tree_at(lambda s: s["a"], {**t, "c": jnp.abs(t["a"])}, t["b"]),
    lambda t: hk.data_structures.merge({"m": t}, {"n": {"c": jnp.abs(t["a"])}}),
    lambda t: (eqx.nn.Identity()(t["b"]), jnp.abs(t["a"])),
    lambda t: (traverse_util.flatten_dict({"q": KEPT}), jnp.abs(t["a"])),
])
def test_handed_back(fn, is_captured):
    check(fn, trees)


@pytest.mark.parametrize("fn", [
    lambda t: (optax.tree.scale(2, t), jnp.abs(t["a"])),
    lambda t: (optax.tree.add(t, KEPT), jnp.abs(t["a"])),
    lambda t: (optax.squared_error(t["a"], t["a"] * 2), jnp.abs(t["a"])),
    lambda t: eqx.apply_updates({**t, "c": jnp.abs(t["a"])}, {"a": t["a"], "b": None, "c": t["a"]}),
    lambda t: (optax.tree.scale(2, np.asarray(jnp.abs(t["a"]))), t),
    lambda t: jax.vmap(lambda v: v + optax.squared_error(KEPT["a"], KEPT["a"] + 1)[0])(t["a"]),
])
def test_computed_by_numpy(fn):
    check(fn, trees)


def test_sizes_change():
    check(lambda x: (optax.squared_error(x, x + 1), jnp.sum(x)), rows)
    check(lambda x: (eqx.partition([x, 1], eqx.is_array), jnp.sum(x)), rows)


def test_numbers_of_numpy():
    check(lambda n: (eqx.tree_at(lambda q: q[0], [jnp.ones(2), 3], n), jnp.abs(n)), lambda k: np.float64(k + 0.5),
          captures=4)


class Scaling:
    def __init__(self, scale):
        self.inverse = 1 / scale


def test_objects_that_keep_what_numpy_computes(monkeypatch, is_captured):
    monkeypatch.setattr(Scaling, "__module__", "scaling")
    dynacomp.register_library("scaling", pure=True)
    check(lambda t: (Scaling(t["a"]).inverse, jnp.abs(t["a"])), trees)


def test_functions_made_anew_end_in_few_attempts():
    def step(t):
        return optax.sgd(0.5).update(t, optax.sgd(0.5).init(t)), jnp.abs(t["a"])
    check(step, lambda k: {"a": np.full(3, k + 1.0)})


def test_one_node_where_the_result_is_the_same():
    layer = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    compiled = dynacomp.jit(lambda x: (layer(x), optax.huber_loss(x), optax.adam(0.1).init({"x": x})[0].mu))
    before = dynacomp.stats()
    compiled(np.arange(3.0))
    assert dynacomp.stats()["breaks"] == before["breaks"]
    assert dynacomp.stats()["operations"] - before["operations"] < 20


def test_what_the_graph_computed_is_another_array():
    def asked(x):
        y = jnp.abs(x)
        a = np.asarray(y)
        return y, jnp.asarray(a) is y, jnp.asarray(a) * a, optax.tree.scale(2, a), jnp.asarray(a)
    check(asked, lambda k: jnp.arange(2.0 + k), captures=4)
    assert dynacomp.jit(asked)(jnp.ones(3))[1] is False


def test_an_array_is_shown_but_not_lent():
    """Nobody writes into the program's arrays while capturing."""
    dynacomp.register_library("scribbler", pure=True)

    def scribble(x):
        x[0] = 9.0
        return x

    scribble.__module__ = "scribbler"
    scribble = type(scribble)(scribble.__code__, {"__name__": "scribbler"}, "scribble")
    x = np.zeros(3)
    compiled = dynacomp.jit(lambda x: (scribble(x), jnp.abs(x)))
    got = compiled(x)
    assert got[0] is x
    assert list(x) == [9, 0, 0]


def test_calls_that_fail_with_the_arrays_fail():
    """They hand a function of the program's what only JAX's arrays have; a graph of tracers was taken, which had it."""
    dynacomp.register_library("putting", pure=True)

    def put(fn, x):
        return fn(x.at[0].set(9.0))

    put.__module__ = "putting"
    put = type(put)(put.__code__, {"__name__": "putting"}, "put")
    compiled = dynacomp.jit(lambda x, y: put(lambda t: jnp.sin(t) * y, x))
    for k in range(3):
        with pytest.raises(AttributeError, match="no attribute 'at'"):
            compiled(np.ones(3), jnp.ones(3) * k)
    assert compiled(jnp.ones(3), jnp.ones(3))[0] == jnp.sin(9.0)


BACK = {
    "vmap": lambda x: jax.vmap(lambda t: t)(x),
    "vmap of two": lambda x: jax.vmap(lambda t, y: (t * 2, y), in_axes=(0, None), out_axes=(0, None))(x, x),
    "jvp": lambda x: jax.jvp(lambda t: (t, t * 2), (x,), (np.ones_like(x),)),
    "linearize": lambda x: jax.linearize(lambda t: t, x)[0],
    "vjp": lambda x: jax.vjp(lambda t: t, x)[0],
    "scan": lambda x: jax.lax.scan(lambda c, y: (c, y), x, x),
    "fori_loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, t: (t[0], t[1] + 1), (x, 0)),
    "aux": lambda x: jax.value_and_grad(lambda t, y: (t.sum(), y), has_aux=True)(jnp.ones(3), x),
    "differentiated": lambda x: jax.value_and_grad(lambda t: (t.sum(), t), has_aux=True)(x),
    "stop_gradient": jax.lax.stop_gradient,
    "checkpoint": lambda x: jax.checkpoint(lambda t: t * 2)(x),
    "asarray": lambda x: (jnp.asarray(x), jax.lax.stop_gradient(jnp.asarray(x))),
    "aux of a cell": lambda x: jax.value_and_grad(lambda t: (t.sum(), {"x": x, "t": t}), has_aux=True)(jnp.asarray(x)),
    "part of a cell": lambda x: jax.grad(lambda t: (t.sum(), (x[:2], x * 2, np.sort(x))), has_aux=True)(jnp.ones(3)),
    "number of a cell": lambda x: jax.grad(lambda t: ((t * x).sum(), (x.mean(), x.size)), has_aux=True)(jnp.asarray(x)),
    "vjp of a cell": lambda x: jax.vjp(lambda t: (t * 2, x), jnp.asarray(x), has_aux=True)[2],
    "primal of a cell": lambda x: jax.jvp(lambda t: (t, x), (jnp.asarray(x),), (jnp.asarray(x),)),
    "vmap of a cell": lambda x: jax.vmap(lambda t: (t * 2, x), out_axes=(0, None))(jnp.asarray(x)),
    "checkpoint of a cell": lambda x: jax.checkpoint(lambda t: (t * 2, x))(jnp.asarray(x)),
    "jit of a cell": lambda x: jax.jit(lambda t: (t, x))(x),
    "equinox's aux": lambda x: eqx.filter_value_and_grad(lambda t: (t.sum(), (x, x * 2)), has_aux=True)(jnp.asarray(x)),
    "equinox's vmap": lambda x: eqx.filter_vmap(lambda t: (t, x), out_axes=(0, None))(jnp.asarray(x)),
    "equinox's jit": lambda x: eqx.filter_jit(lambda t: (t * 2, t))(x),
    "equinox's checkpoint": lambda x: eqx.filter_checkpoint(lambda t: (t * 2, t))(x),
    "whole numbers": lambda x: jax.linearize(lambda t: t * 2.0, x.astype(int))[0],
}


@pytest.mark.parametrize("call", BACK.values(), ids=BACK)
def test_functions_of_jax_hand_numpy_arrays_back(call):
    """The very arrays, of 64 bits, as eager JAX does, or its own array of NumPy's; none is JAX's."""
    def asked(x):
        made = call(x)
        return made, [leaf is x for leaf in jax.tree.leaves(made)]
    dynacomp.reset()
    compiled = dynacomp.jit(asked, backend="eager")
    for n in (3, 4, 5, 3, 6, 7, 2, 3, 9, 4):
        x = np.linspace(0.0, 1.0, n)
        for ours, eager in zip(*map(jax.tree.leaves, (compiled(x), asked(x))), strict=True):
            assert type(ours) is type(eager) and repr(ours) == repr(eager)
    stats = dynacomp.stats()
    assert stats["breaks"] or stats["frames_captured"] <= 4  # the function that a transformation runs is one, too


def by_path(params, x):
    return traverse_util.path_aware_map(lambda path, v: v * 2 if path[0] == "a" else v, params), x * 2


def test_a_function_that_is_called_in_several_ways_gets_numpy_arrays():
    """What a library called it with was found in none of them: NumPy's arrays came out as JAX's of 32 bits."""
    params = {"a": {"w": np.ones((2, 3), np.float32), "b": np.zeros(3)}, "c": {"w": np.arange(4), "s": 2.5}}
    dynacomp.reset()
    compiled = dynacomp.jit(by_path, backend="eager")
    for n in range(10):
        params["a"]["b"] = np.zeros(3) + n
        assert repr(compiled(params, jnp.float32(n))) == repr(by_path(params, jnp.float32(n)))
    told = dynacomp.stats()
    assert told["frames_captured"] <= 2 and not told["breaks"] and not told["frames_eager"]


def beside(x, z):
    return hk.Linear(2, w_init=jnp.ones)(x), z, z * 2


TRANSFORMED = hk.without_apply_rng(hk.transform(beside))


@pytest.mark.parametrize("z, breaks", [(np.arange(3), 1), (np.ones(2), 1), (jnp.arange(3), 0)])
def test_a_function_that_haiku_has_transformed_deals_with_numpy_arrays(z, breaks):
    """It was traced with JAX's in their places, and these came out."""
    x = np.ones((2, 3), np.float32)
    params = TRANSFORMED.init(jax.random.key(0), x, z)
    dynacomp.reset()
    compiled = dynacomp.jit(lambda params, x, z: TRANSFORMED.apply(params, x, z), backend="eager")
    for n in range(5):
        assert described(compiled(params, x + n, z + n)) == described(TRANSFORMED.apply(params, x + n, z + n))
    told = dynacomp.stats()
    assert "internal" not in told["frames_eager"] and len(told["breaks"]) <= breaks and told["frames_captured"] <= 4


def test_an_array_beside_the_leaves_of_a_tree():
    """Two structures that keep arrays cannot be compared: that was an error of ours."""
    @jax.tree_util.register_pytree_node_class
    class Kept:
        def __init__(self, w, table):
            self.w, self.table = w, table

        def tree_flatten(self):
            return (self.w,), self.table

        @classmethod
        def tree_unflatten(cls, table, leaves):
            return cls(leaves[0], table)

    def program(kept, x):
        kept = jax.tree.map(lambda v: v * 2, kept)
        return kept.w + kept.table * x

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(5):
        kept = Kept(jnp.ones(3), np.full(3, i, np.float32))
        assert (compiled(kept, jnp.arange(3.0)) == program(kept, jnp.arange(3.0))).all()
    assert dynacomp.stats()["frames_eager"] == {} and dynacomp.stats()["frames_captured"] <= 5
