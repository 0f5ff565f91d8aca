"""`lowering.primitives.translate`: the lowered Graph computes what eager JAX computes, before and after the passes."""

from __future__ import annotations

import importlib.util
import operator
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynacomp
from dynacomp.capture.graph import parser, verifier
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import Builder, Closure, Node
from dynacomp.capture.graph.printer import references
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.lowering.passes.pipeline import PASSES, optimise
from dynacomp.lowering.primitives.ops import OPS, has_effects, infer
from dynacomp.lowering.primitives.specialise import run
from dynacomp.lowering.primitives.translate import Fixed, lower, lower_function, unwrap
from dynacomp.lowering.sizes.dims import SymbolicShapeError

_spec = importlib.util.spec_from_file_location("programs", pathlib.Path(__file__).parents[1] / "programs.py")
programs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(programs)
PROGRAMS = programs.PROGRAMS
F32 = np.dtype("float32")


def agree(want, got):
    """Shapes and dtypes equal; values equal, or, for floats, within a few roundings (XLA fuses what
    eager calls compute one by one)."""
    want = list(map(unwrap, jax.tree.leaves(want)))
    assert len(want) == len(got)
    for a, b in zip(want, got):
        a, b = jnp.asarray(a), jnp.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if jnp.issubdtype(a.dtype, jnp.inexact):
            np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=2e-5, atol=2e-6)
        else:
            np.testing.assert_array_equal(np.asarray(b), np.asarray(a))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", PROGRAMS)
def test_lowered_is_eager(name):
    fn, args = PROGRAMS[name]
    flat = list(map(unwrap, jax.tree.leaves(args)))
    want, graph = fn(*args), lower_function(fn, *args)
    verifier.verify(graph, infer)
    agree(want, run(graph, *flat))
    for one in PASSES:
        graph = one(graph)
        verifier.verify(graph, infer)
    agree(want, run(graph, *flat))
    text = str(graph)
    again = parser.parse(text, references(graph), graph.consts, OPS)
    assert str(again) == text and parser.same(graph, again)


NO_EXTERN = ("softmax", "layer_norm_grad", "gelu_exact_grad", "cross_entropy_grad", "embedding_grad",
             "attention_grad", "conv_net_grad", "adam", "rope", "lstm", "lstm_grad", "normal", "dropout",
             "categorical", "keys", "sort", "scatter_modes", "gather_modes", "einsum", "fixed_cond", "fori",
             "remat_grad", "custom_vjp", "hessian", "indexing", "layouts", "reductions", "searchsorted",
             "interp")


@pytest.mark.parametrize("name", NO_EXTERN)
def test_nothing_is_left_to_xla(name):
    fn, args = PROGRAMS[name]
    assert OPS["extern"] not in {n.target for n in optimise(lower_function(fn, *args)).calls}


def test_random_bits_are_those_of_jax():
    for seed in range(3):
        key = jax.random.key(seed)
        graph = optimise(lower_function(lambda k: jax.random.bits(k, (7, 3)), key))
        assert (run(graph, unwrap(key))[0] == jax.random.bits(key, (7, 3))).all()


def test_the_other_threefry_too():
    with jax.threefry_partitionable(False):
        key = jax.random.key(3)
        graph = lower_function(lambda k: jax.random.bits(k, (7,)), key)
        assert (run(graph, unwrap(key))[0] == jax.random.bits(key, (7,))).all()


def test_other_generators_are_not_mistaken_for_threefry():
    key = jax.random.key(3, impl="rbg")
    graph = lower_function(lambda k: jax.random.bits(k, (7,)), key)
    assert graph.placeholders[0].aval.shape == (4,)
    assert (run(graph, unwrap(key))[0] == jax.random.bits(key, (7,))).all()


def captured(fn, *avals, output=lambda y: y):
    """A captured Graph of one call."""
    b = Builder("captured")
    places = [b.placeholder(f"arg{i}", a) for i, a in enumerate(avals)]
    shape = jax.eval_shape(fn, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
    aval = jax.tree.map(lambda s: Aval(s.shape, s.dtype), shape)
    return b.finish(output(b.call(fn, tuple(places), {}, aval, where=(("model.py", 12, "forward"),))))


def test_lower_keeps_the_output_tree():
    graph = captured(lambda x: {"a": x + 1, "b": (x * 2, x)}, Aval((2,), F32),
                     output=lambda y: {"out": y, "fixed": 5, "name": "n"})
    low = lower(graph)
    x = jnp.asarray([1.0, 2.0])
    back = low.rebuild(run(low.graph, x))
    assert back["fixed"] == 5 and back["name"] == "n" and Fixed(5) in low.slots
    np.testing.assert_array_equal(back["out"]["b"][0], x * 2)
    assert [n.name for n in low.graph.placeholders] == ["arg0"]


def test_lower_wraps_keys():
    key = jax.random.key(0)
    low = lower(captured(lambda k: jax.random.split(k, 3), Aval((), key.dtype)))
    assert low.graph.placeholders[0].aval == Aval((2,), np.dtype("uint32"))
    assert (low.rebuild(run(low.graph, unwrap(key))) == jax.random.split(key, 3)).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "bool"])
def test_total_order(dtype):
    values = np.array([-np.nan, -np.inf, -1.5, -0.0, 0.0, 1e-40, 2.5, np.inf, np.nan])
    if dtype in ("int32", "bool"):
        values = np.array([0, 0, 1, 1] if dtype == "bool" else [-5, -1, 0, 7, 2**31 - 1])
    a = jnp.asarray(values.astype(jnp.dtype(dtype)))
    graph = optimise(lower_function(jnp.searchsorted, a, a))
    agree(jnp.searchsorted(a, a[::-1]), run(graph, a, a[::-1]))


def test_nodes_know_the_users_line():
    low = lower(captured(jax.nn.softmax, Aval((2, 3), F32)))
    assert {n.where for n in low.graph.calls} == {(("model.py", 12, "forward"),)}
    assert {n.where for n in optimise(low.graph).calls} == {(("model.py", 12, "forward"),)}


def test_functions_in_scatters_go_to_xla():
    x, i = jnp.arange(4.0), jnp.asarray([1, 2])
    graph = optimise(lower_function(lambda x: x.at[i].apply(jnp.cos), x))
    assert OPS["extern"] in {n.target for n in graph.calls}
    agree(x.at[i].apply(jnp.cos), run(graph, x))


def test_transforms_of_captured_bodies():
    inner = Builder("loss")
    w, x = inner.placeholder("w", Aval((3,), F32)), inner.placeholder("x", Aval((3,), F32))
    product = inner.call(jnp.multiply, (w, x), {}, Aval((3,), F32))
    body = inner.finish(inner.call(jnp.sum, (product,), {}, Aval((), F32), where=(("m.py", 3, "loss"),)))
    b = Builder()
    w, x = b.placeholder("w", Aval((3,), F32)), b.placeholder("x", Aval((3,), F32))

    def grad_at(fn, at):
        return jax.grad(fn)(at)

    line = (("m.py", 9, "step"),)
    graph = b.finish(b.call(grad_at, (Closure(body, (w,)), x), {}, Aval((3,), F32), where=line))
    low = lower(graph)
    np.testing.assert_array_equal(run(low.graph, jnp.arange(3.0), jnp.ones(3))[0], jnp.arange(3.0))
    assert {n.where for n in low.graph.calls} == {line}


def test_weak_types_are_the_outputs():
    graph = lower_function(lambda x: (x, x * 2, x.astype(jnp.float32)), Aval((), F32, weak_type=True))
    want = (True, True, False)
    assert tuple(a.weak_type for a in graph.nodes[-1].aval) == want
    assert tuple(a.weak_type for a in optimise(graph).nodes[-1].aval) == want


def test_constants_are_typed_scalars():
    graph = lower_function(lambda x: x * 2 + 1, Aval((3,), np.dtype(jnp.bfloat16)))
    scalars = [a for n in graph.calls for a in n.args if not isinstance(a, Node)]
    assert scalars and all(isinstance(s, np.generic) and s.dtype == jnp.bfloat16 for s in scalars)


def test_big_constants_are_attributes():
    table = jnp.arange(50.0)
    graph = lower_function(lambda i: table[i], Aval((3,), np.dtype("int32")))
    assert any(np.array_equal(c, table) for c in graph.consts.values())


def test_effects_stay_and_stay_in_order():
    seen = []

    def fn(x):
        jax.debug.callback(lambda v: seen.append(("a", float(v))), x.sum())
        jax.debug.callback(lambda v: seen.append(("b", float(v))), x.sum(), ordered=True)
        return x + 1

    graph = optimise(lower_function(fn, Aval((2,), F32)))
    assert [has_effects(n) for n in graph.calls if n.target is OPS["extern"]] == [True, True]
    run(graph, jnp.ones(2))
    jax.effects_barrier()
    assert sorted(seen) == [("a", 2.0), ("b", 2.0)]


def test_io_callbacks_are_not_merged():
    calls = []

    def tick(x):
        calls.append(1)
        return np.float32(x)

    shape = jax.ShapeDtypeStruct((), jnp.float32)
    fn = lambda x: [jax.experimental.io_callback(tick, shape, x, ordered=True) for _ in range(2)]
    run(optimise(lower_function(fn, Aval((), F32))), jnp.float32(1))
    assert len(calls) == 2


def symbolic():
    scope = Scope()
    return scope.symbol("n", 6), scope.symbol("m", 4)


SYMBOLIC = {
    "softmax": (jax.nn.softmax, 1),
    "mean": (lambda x: x.mean(0) + x.shape[0], 1),
    "flat": (lambda x: (x.reshape(-1)[1:], x.T @ x, jnp.concatenate([x, x], 1)), 1),
    "iota": (lambda x: jnp.arange(x.shape[0] * 2) + x[0, 0], 1),
    "rows": (lambda x: jnp.tril(x), 1),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x), 1),
    "sort": (lambda x: jnp.sort(x, 0), 1),
    "noise": (lambda x: x + jax.random.normal(jax.random.key(0), x.shape), 1),
    "pad": (lambda x: jnp.pad(x, ((1, 0), (0, 2))), 1),
    "grad": (jax.grad(lambda x: (x / x.sum(1, keepdims=True))[0].sum()), 1),
    "cumsum": (lambda x: jnp.cumsum(x, 0), 1),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SYMBOLIC)
def test_one_graph_serves_every_size(name):
    fn = SYMBOLIC[name][0]
    graph = lower_function(fn, Aval(symbolic(), F32))
    verifier.verify(graph, infer)
    graph = optimise(graph)
    verifier.verify(graph, infer)
    again = parser.parse(str(graph), references(graph), graph.consts, OPS)
    assert parser.same(graph, again)
    for shape in ((2, 3), (5, 4)):
        x = jnp.asarray(np.random.default_rng(1).standard_normal(shape), F32)
        agree(fn(x), run(graph, x))


def test_unknown_sizes_that_matter_are_an_error_of_their_own():
    with pytest.raises(SymbolicShapeError, match="unknown sizes"):
        lower_function(lambda x: x + 1 if x.shape[0] > 3 else x, Aval((Scope().symbol("n"),), F32))


def test_impossible_shapes_stay_the_users_error():
    with pytest.raises(TypeError, match="incompatible|broadcast|add"):
        lower_function(lambda x, y: x + y, Aval((2,), F32), Aval((3,), F32))


def test_ops_with_several_results_are_taken_apart():
    graph = lower_function(lambda x: lax.top_k(x, 2), Aval((5,), F32))
    op, first, second = graph.calls
    assert isinstance(op.aval, tuple) and first.target is second.target is operator.getitem


def test_pointwise_operands_have_the_results_shape():
    graph = lower_function(lambda x, y: x * y, Aval((4, 1), F32), Aval((1, 5), F32))
    mul = graph.calls[-1]
    assert mul.target is OPS["mul"] and {a.aval.shape for a in mul.args} == {(4, 5)}


@pytest.mark.parametrize("fn", [
    lambda x: jax.lax.cond(x.sum() > 4, lambda v: (jax.debug.print("{}", v), v)[1], lambda v: v * 2, x),
    lambda x: jax.lax.scan(lambda c, v: ((jax.debug.print("{}", c), c + v)[1], c), 0.0, x),
], ids=["cond", "scan"])
def test_branches_and_loops_with_effects_are_xlas(fn):
    """Their Ops hold no effects: a `cond` that prints lost its results."""
    graph = lower_function(fn, jnp.arange(70.0))
    assert any(node.target is OPS["extern"] and has_effects(node) for node in graph.calls)
    assert not {"cond", "scan"} & {node.target.name for node in graph.calls if node.target in OPS.values()}


X, MASK = jnp.array([-jnp.inf, jnp.inf, 3.0, jnp.nan, -2.0]), jnp.array([True, False, False, False, False])
BOTH = jnp.stack([MASK, ~MASK])
MASKED = {
    "an operator": lambda x, m: m * x,
    "a comparison": lambda x, m: (x > 0) * jnp.log(x),
    "a function": lambda x, m: jnp.multiply(x, m),
    "half precision": lambda x, m: m * x.astype(jnp.float16),
    "bfloat16": lambda x, m: m * x.astype(jnp.bfloat16),
    "complex": lambda x, m: m * x.astype(jnp.complex64),
    "converted by another call": lambda x, m: m.astype(jnp.float32) * x,
    "converted by a function": lambda x, m: jnp.float32(m) * x,
    "by lax": lambda x, m: lax.mul(lax.convert_element_type(m, jnp.float32), x),
    "integers between": lambda x, m: m.astype(jnp.int32) * x,
    "a number": lambda x, m: m * jnp.inf,
    "broadcast": lambda x, m: m[:, None] * x,
    "of another rank": lambda x, m: m * jnp.stack([x, x]),
    "one truth": lambda x, m: m[1] * x,
    "in jax.jit": lambda x, m: jax.jit(lambda x, m: m.astype(jnp.float32) * x)(x, m),
    "in a loop": lambda x, m: lax.scan(lambda c, a: (c, m.astype(jnp.float32) * x), 0.0, x)[1],
    "in a branch": lambda x, m: lax.cond(m[0], lambda: m.astype(jnp.float32) * x, lambda: x),
    "in a checkpoint": lambda x, m: jax.checkpoint(lambda y: m * y)(x),
    "in vmap": lambda x, m: jax.vmap(lambda a: m * a)(jnp.stack([x, x])),
    "in vmap, converted": lambda x, m: jax.vmap(lambda a: (a > 0).astype(jnp.float32) * a)(jnp.stack([x, x])),
    "a derivative": lambda x, m: jax.value_and_grad(lambda y: (m * y).sum())(x),
    "a derivative, converted": lambda x, m: jax.value_and_grad(lambda y: (m.astype(jnp.float32) * y).sum())(x),
    "a derivative of a mask": lambda x, m: jax.value_and_grad(lambda y: ((y > 0) * jnp.log(y)).sum())(x),
    "jvp": lambda x, m: jax.jvp(lambda y: m * y, (x,), (x,)),
    "a function of several operations": lambda x, m: jnp.average(x, weights=m),
    "a scalar product": lambda x, m: m @ x,
    "a product of a batch": lambda x, m: jnp.einsum("bi,bi->b", BOTH, jnp.stack([x, x])),
    "all dimensions": lambda x, m: jnp.tensordot(BOTH, jnp.stack([x, x]), 2),
    "no sum": lambda x, m: jnp.einsum("i,i->i", m, x),
}


@pytest.mark.parametrize("name", MASKED)
def test_a_product_with_a_mask_is_zero_where_eager_jax_has_a_choice(name):
    """Where one call is given booleans, XLA sees both the conversion and the product, and makes a choice of them: NaN
    times False is 0. NaN before, where eager JAX has none."""
    want, got = (jax.tree.leaves(f(X, MASK)) for f in (MASKED[name], dynacomp.jit(MASKED[name])))
    for a, b in zip(want, got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3 if a.dtype.itemsize == 2 else 1e-6)
        assert np.array_equal(np.signbit(np.real(a)[a == 0]), np.signbit(np.real(b)[a == 0]))


OUTSIDE = {
    "grad": lambda f: jax.value_and_grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: jax.vjp(f, x)[0],
    "linearize": lambda f: lambda x: jax.linearize(f, x)[0],
    "hessian": lambda f: jax.hessian(lambda x: f(x).sum()),
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x])),
}


@pytest.mark.parametrize("how", OUTSIDE)
@pytest.mark.parametrize("fn", [lambda x: MASK * x, lambda x: MASK.astype(jnp.float32) * x,
                                lambda x: (x > 0) * jnp.log(x), lambda x: (x > 0).astype(x.dtype) * x],
                         ids=["mask", "converted mask", "condition", "converted condition"])
def test_a_product_with_a_mask_where_jax_transforms_the_caller(how, fn):
    want, got = (jax.tree.leaves(OUTSIDE[how](f)(X)) for f in (fn, dynacomp.jit(fn)))
    for a, b in zip(want, got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
