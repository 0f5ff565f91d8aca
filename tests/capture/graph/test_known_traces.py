"""What JAX has made of a call stands for it under a trace, and nowhere else."""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.graph import interpreter
from dynacomp.capture.graph.avals import Aval, aval_of
from dynacomp.capture.graph.graph import Builder, Graph, closures_in
from dynacomp.capture.graph.known_traces import UNKNOWN, KnownTrace, has_rules, known_trace, without_dead
from dynacomp.lowering.primitives.translate import lower

X = jnp.arange(3.0)
AVAL = aval_of(X)


def known(fn: Any, *avals: Any) -> KnownTrace | None:
    closed, struct = jax.make_jaxpr(fn, return_shape=True)(*(avals or (X,)))
    return known_trace(closed, jax.tree.map(lambda s: Aval(s.shape, s.dtype, s.weak_type), struct))


def counted(calls: list[Any]) -> Any:
    def fn(x: Any) -> Any:
        calls.append(x)
        return jnp.sin(x) * 2

    return fn


def graph_of(fn: Any) -> Graph:
    builder = Builder()
    x = builder.placeholder("x", AVAL)
    return builder.finish(builder.call(fn, (x,), {}, AVAL, known=known(fn)))


def test_a_trace_is_run_once() -> None:
    calls: list[Any] = []
    graph = graph_of(counted(calls))
    del calls[:]
    ops = [n.target.name for n in lower(graph).graph.calls]
    jax.grad(lambda x: interpreter.run(graph, x).sum())(X)
    assert ops == ["sin", "mul"] and not calls
    np.testing.assert_array_equal(interpreter.run(graph, X), jnp.sin(X) * 2)
    assert len(calls) == 1  # arrays that are there are computed with


@pytest.mark.parametrize("other", [jnp.arange(4.0), jnp.arange(3), X.astype("bfloat16")])
def test_other_arrays_are_the_functions(other: Any) -> None:
    calls: list[Any] = []
    graph = graph_of(counted(calls))
    del calls[:]
    made = jax.eval_shape(lambda x: interpreter.run(graph, x), other)
    assert made.shape == other.shape and len(calls) == 1


def test_a_node_that_a_pass_has_changed_is_the_functions() -> None:
    graph = graph_of(jnp.sin)
    x, call, out = graph.nodes
    for other in (replace(call, target=jnp.cos), replace(call, target=jnp.cos, kwargs={}), call):
        changed = replace(graph, nodes=(x, other, replace(out, args=(other,))))
        wanted = jnp.sin(X) if other is call else jnp.cos(X)
        np.testing.assert_allclose(jax.jit(functools.partial(interpreter.run, changed))(X), wanted, rtol=1e-6)
        assert [n.target.name for n in lower(changed).graph.calls] == ["sin" if other is call else "cos"]


def test_weak_types_count() -> None:
    trace = known(lambda x: x * 2, jax.ShapeDtypeStruct((), "float32"))
    assert trace is not None
    made = jax.make_jaxpr(lambda x: () if trace.again([x]) is UNKNOWN else (x,))(1.0)
    assert not made.out_avals


def test_the_scope_names_its_equations() -> None:
    trace = known(jnp.sin)
    assert trace is not None
    closed = jax.make_jaxpr(lambda x: trace.of(jnp.sin, (), {}, "here").again([x]))(X)
    assert str(closed.eqns[0].source_info.name_stack) == "here"


def test_containers_and_their_order_come_back() -> None:
    closed = jax.make_jaxpr(lambda x: (x + 1, x * 2))(X)
    result = {"b": aval_of(X), "a": ("text", None, [aval_of(X)])}  # JAX flattens "a" first
    trace = known_trace(closed, result)
    seen: list[Any] = []
    assert trace is not None
    jax.make_jaxpr(lambda x: seen.append(trace.again([x])) or x)(X)
    assert list(seen[0]) == ["b", "a"] and seen[0]["a"][:2] == ("text", None)
    made = jax.jit(lambda x: (lambda r: (r["a"][2][0], r["b"]))(trace.again([x])))(X)
    np.testing.assert_array_equal(made, [X + 1, X * 2])


def printing(x: Any) -> Any:
    jax.debug.print("x")
    return x + 1


@pytest.mark.parametrize("fn", [printing, lambda x: 2.0, lambda x: (x, np.float32(3) + 0)])
def test_more_than_equations_is_the_functions(fn: Any) -> None:
    closed = jax.make_jaxpr(fn)(X)
    assert known_trace(closed, [*map(aval_of, jax.tree.leaves(jax.eval_shape(fn, X)))]) is None


def test_unknown_trees_and_sizes_are_the_functions() -> None:
    closed = jax.make_jaxpr(jnp.sin)(X)
    assert known_trace(closed, jax.tree_util.Partial(print, aval_of(X))) is None
    (n,) = jax.export.symbolic_shape("n")
    sized = jax.make_jaxpr(jnp.sin)(jax.ShapeDtypeStruct((n,), "float32"))
    assert known_trace(sized, aval_of(jax.ShapeDtypeStruct((n,), "float32"))) is None


def test_what_capture_keeps() -> None:
    """JAX's functions are known, a call that is given one of the program's is not; the derivative of the outer is
    right though its function's calls are."""

    @dynacomp.jit(backend="eager")
    def step(w: Any, x: Any) -> Any:
        return jax.grad(lambda w: jnp.square(jnp.tanh(w * x)).sum())(w)

    wanted = jax.grad(lambda w: jnp.square(jnp.tanh(w * (X + 1))).sum())(X)
    np.testing.assert_allclose(step(X, X + 1), wanted, rtol=1e-6)
    (region,) = dynacomp.explain(step)(X, X + 1).regions
    (body,) = (c.graph for n in region.graph.calls for c in closures_in((n.args, n.kwargs)))
    assert len(body.calls) == 4 and all(n.known is not None for n in body.calls)
    assert all(n.known is None for n in region.graph.calls if any(closures_in((n.args, n.kwargs))))


def own_rule(x: Any) -> Any:
    @jax.custom_jvp
    def f(x: Any) -> Any:
        return x * 2

    f.defjvp(lambda xs, ts: (f(xs[0]), 3 * ts[0]))
    return f(x)


@pytest.mark.parametrize("fn, found", [
    (jnp.sin, False), (jax.nn.relu, True), (jax.jit(own_rule), True), (jax.grad(lambda x: jax.nn.relu(x).sum()), False),
    (lambda x: jax.pure_callback(np.sin, x, x), True), (jax.jit(lambda x: jnp.cumsum(x) @ x), False)])
def test_rules_of_pythons(fn: Any, found: bool) -> None:
    assert has_rules(without_dead(jax.make_jaxpr(fn)(X)).jaxpr) is found


def double(w: Any, x: Any) -> Any:
    return jnp.square(jnp.tanh(w * x)).sum()


def bound_rule(x: Any, low: Any) -> Any:
    """Its rule holds on to the tracer of its first run."""
    f = jax.custom_vjp(lambda x: jnp.maximum(x, low))
    f.defvjp(lambda x: (f(x), None), lambda _, t: (t * low,))
    return f(x)


def test_rules_are_run_again_unless_they_are_jaxs() -> None:
    given = jax.custom_gradient(lambda x: (x, lambda t: t))
    for fn in (own_rule, lambda x: bound_rule(x, x.sum()), jax.jit(own_rule), given):
        assert known(fn) is None
    for folder, counts in (("jax", True), ("jaxopt", False)):  # whose name begins as JAX's
        names: dict[str, Any] = {}
        file = os.path.join(os.path.dirname(os.path.dirname(jax.__file__)), folder, "rule.py")
        exec(compile("def f(x): return x * 2\ndef df(xs, ts): return f(xs[0]), ts[0]", file, "exec"), names)
        f = jax.custom_jvp(names["f"])
        f.defjvp(names["df"])
        assert (known(f) is not None) is counts
    assert all(known(fn) is not None for fn in (jax.nn.relu, jax.nn.softplus, lambda x: jax.scipy.special.xlogy(x, x)))


@pytest.mark.parametrize("loss, kept", [
    (double, True), (lambda w, x: double(w, x) + OFFSET, False), (lambda w, x: own_rule(w * x).sum(), True)])
def test_derivatives_of_what_has_no_array_of_its_own(loss: Any, kept: bool) -> None:
    step = dynacomp.jit(lambda w, x: jax.grad(loss)(w, x))
    for k in range(3):
        np.testing.assert_allclose(step(X + k, X + 1), jax.grad(loss)(X + k, X + 1), rtol=1e-5, atol=1e-5)
    (region,) = dynacomp.explain(step)(X, X + 1).regions
    assert [n.known is not None for n in region.graph.calls] == [False, kept]  # `jax.grad(...)`, and its call


OFFSET = jnp.float32(3)
