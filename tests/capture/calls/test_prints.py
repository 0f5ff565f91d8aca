"""`print` in functions that JAX transforms: the same lines in the same order as plain Python's, in so many captures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

LOG = []
traced_once = jax.jit(lambda p: print("traced") or jnp.sin(p))


def plain(p):
    print("at", len(p), p.shape, sep="|", end=";\n", flush=True)
    return (p ** 3).sum()


def sided(p):
    if p[0] > 0.4:
        print("high")
        if p[1] > 1.0:
            print("higher")
        else:
            print("not higher")
    elif not p.sum() > 0.5:
        print("low")
    print("end")
    return (p * p).sum()


def looped(p):
    for k, v in enumerate(p):
        if v > 0.3:
            print("above", k)
    return jnp.tanh(p).sum()


def clipped(p):
    found = jax.grad(plain)(p)
    if (found * found).sum() > 9:
        print("clipped")
        found = found / jnp.sqrt((found * found).sum())
    return (found * p).sum()


def noted(p):
    LOG.append(len(LOG))
    return (p * p).sum()


def pulled(fn, between=lambda: None):
    def run(p):
        value, back = jax.vjp(fn, p)
        between()
        return value, back(value)[0], back(value * 2)[0], len(LOG)

    return run


def same(fn, captured, capsys, calls=6):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for k in range(calls):
        x, seen = jnp.linspace(-0.3, 0.6, 3) + k / 4, []
        for each in (fn, compiled):
            LOG.clear()
            seen.append((jax.tree.leaves(each(x)), capsys.readouterr().out))
        (want, said), (got, heard) = seen
        assert heard == said
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert dynacomp.stats()["frames_captured"] <= captured
    return dynacomp.stats()["breaks"]


@pytest.mark.parametrize("fn", [
    jax.grad(plain), lambda x: jax.vmap(plain)(jnp.stack([x, x * 2])), jax.grad(sided), jax.grad(looped),
    jax.grad(clipped),
], ids=["gradient", "batch", "sides", "loop", "gradient of a gradient"])
def test_prints_in_the_bodies_of_transformations(fn, capsys):
    assert same(fn, 1, capsys) == {}


@pytest.mark.parametrize("fn", [plain, noted], ids=["print", "change"])
def test_what_a_pullback_is_made_of_runs_once(fn, capsys):
    assert same(pulled(fn), 2, capsys, calls=3) == {}
    assert "live" in same(pulled(fn, dynacomp.graph_break), 8, capsys, calls=2)


def test_a_gradient_of_a_pullback(capsys):
    assert same(jax.grad(lambda p: (jax.vjp(plain, p)[1](p[0])[0] * p).sum()), 1, capsys, calls=2) == {}


def test_what_jit_traces_prints_once(capsys):
    fn = jax.grad(lambda p: traced_once(p).sum())
    assert fn(jnp.ones(3)) is not None and capsys.readouterr().out == "traced\n"
    same(fn, 4, capsys, calls=3)


def test_a_callback_that_prints_keeps_its_place(capsys):
    def between(p):
        print("before")
        seen = jax.pure_callback(lambda v: print("called") or v, jax.ShapeDtypeStruct((), p.dtype), jnp.ones(()))
        print("after")
        return (p * seen).sum()

    same(jax.grad(between), 8, capsys, calls=3)
