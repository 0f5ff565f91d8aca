"""Functions that JAX runs once, whatever becomes of what they read: their first trace counts."""

import jax
import jax.numpy as jnp
import pytest

from dynacomp.capture.bodies.kept_traces import is_kept
from tests.capture.program_kit import check_one_graph

X = jnp.arange(1.0, 4.0)
CALLS = {
    "scan": lambda fns, x: jax.lax.scan(fns["two"], x, jnp.arange(3.0))[0],
    "fori_loop": lambda fns, x: jax.lax.fori_loop(0, 3, fns["counting"], x),
    "while_loop": lambda fns, x: jax.lax.while_loop(lambda s: s.sum() < 20, fns["adding"], x),
    "cond": lambda fns, x: jax.lax.cond(x.sum() > -1, fns["one"], fns["one"], x),
    "switch": lambda fns, x: jax.lax.switch(x.astype(int)[0], [fns["one"], fns["one"]], x),
    "checkpoint": lambda fns, x: jax.checkpoint(fns["one"])(x),
    "jit": lambda fns, x: jax.jit(fns["one"])(x),
    "jit below grad": lambda fns, x: jax.grad(lambda x: jax.jit(fns["one"])(x).sum())(x),
    "custom_root": lambda fns, x: jax.lax.custom_root(fns["one"], x, lambda f, y: y - f(y), lambda g, y: y),
    "vmap": lambda fns, x: jax.vmap(fns["one"])(x),
    "map": lambda fns, x: jax.lax.map(fns["one"], x),
    "jvp": lambda fns, x: jax.jvp(fns["one"], (x,), (x,))[1],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_first_trace_counts_where_jax_keeps_it(call):
    def program(x, first, second):
        factor = first
        log = []

        def two(s, t):
            log.append("two")
            return s + factor * t, s

        fns = {"two": two, "counting": lambda i, s: s + factor * i, "adding": lambda s: s + factor,
               "one": lambda s: s * factor}
        a = call(fns, x)
        factor = second
        return a, call(fns, x), call(fns, jnp.concatenate([x, x])), log

    check_one_graph(program, (X, jnp.float32(2.0), jnp.float32(5.0)), (X, jnp.float32(3.0), jnp.float32(4.0)))


def test_a_trace_within_a_trace_counts_outside():
    def program(x, factor):
        def inner(s, t):
            return s * factor + t, s

        def outer(s, t):
            return jax.lax.scan(inner, s, jnp.arange(2.0))[0], t

        a = jax.lax.scan(outer, x, jnp.arange(3.0))
        factor = factor + 2
        return a, jax.lax.scan(inner, x, jnp.arange(2.0)), jax.lax.scan(outer, x, jnp.arange(4.0))

    check_one_graph(program, (X, jnp.float32(0.5)), (X, jnp.float32(2.0)))


def test_other_settings_are_another_trace():
    def program(x, factor):
        def product(y):
            return y * factor @ y

        a = jax.checkpoint(product)(x)
        factor = factor + 1
        with jax.default_matmul_precision("highest"):
            b = jax.checkpoint(product)(x)
        return a, b, jax.checkpoint(product)(x), jax.jit(product)(x)

    check_one_graph(program, (X, jnp.float32(0.5)), (X, jnp.float32(2.0)))


@pytest.mark.parametrize("run, keeps", [
    (lambda f: jax.checkpoint(f)(X), True), (lambda f: jax.jit(f)(X), True), (lambda f: jax.vmap(f)(X), False),
    (lambda f: jax.jvp(f, (X,), (X,)), False), (lambda f: jax.lax.cond(X[0] > 0, f, f, X), True)])
def test_jax_keeps_what_it_refers_to_weakly(run, keeps):
    seen = []

    def fn(x):
        seen.append(is_kept(fn))
        return x

    run(fn)
    assert set(seen) == {keeps}
