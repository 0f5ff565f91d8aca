"""Sizes that objects of JAX tell: pulls, pushes and jaxprs made anew for each size, alive at a break or passed in."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynacomp
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.numbers.told_sizes import AtSizes, told
from dynacomp.capture.wrapping.alike_objects import AlikeAt, alike

W = jnp.arange(12.0).reshape(3, 4) / 10


def traced(n, fn=lambda x: jnp.broadcast_to(x / x.shape[0], (2, *x.shape))):
    return jax.make_jaxpr(fn)(jnp.ones(n))


def test_what_a_jaxpr_tells():
    assert told(traced(3)) == (3, 3, 2, 3, 2, 3)
    assert told(jax.ShapeDtypeStruct((4, 5), "float32")) == (4, 5)


@pytest.mark.parametrize("fn", [
    lambda x: jnp.broadcast_to(x / x.shape[0], (2, *x.shape)), lambda x: x.reshape(-1, 1) * jnp.arange(x.shape[0]),
    lambda x: lax.scan(lambda c, row: (c + row, c * row), 0.0, x), lambda x: jnp.sort(x)[::-1],
    lambda x: jax.nn.gelu(x.mean()), lambda x: jax.jit(lambda y: y.sum() / y.size)(x)])
def test_a_jaxpr_at_another_size_is_the_one_of_that_size(fn):
    at = AtSizes(traced(5, fn), (5,))
    assert alike(at(5), at.obj) and at(7) is at(7)
    assert alike(at(7), traced(7, fn)) and AlikeAt(at)(at.obj, traced(7, fn))
    assert not AlikeAt(at)(at.obj, traced(7, jnp.cos))


def test_two_sizes_in_the_place_of_one():
    fn = lambda x, y: (x * 2, y * 3)
    at = AtSizes(jax.make_jaxpr(fn)(jnp.ones(4), jnp.ones(4)), (4,))
    assert AlikeAt(at)(at.obj, jax.make_jaxpr(fn)(jnp.ones(6), jnp.ones(6)))
    assert not AlikeAt(at)(at.obj, jax.make_jaxpr(fn)(jnp.ones(6), jnp.ones(7)))


def test_at_a_size_that_is_not_known():
    n = Scope().symbol("n", 4)
    text = str(AtSizes(traced(3), (3,))(n))
    assert "f32[2,n]" in text and "dim_as_value[dim=n]" in text


FUNCTIONS = {
    "mean": lambda x: jnp.tanh(x @ W).mean(0), "relu": lambda x: jax.nn.relu(x @ W - 0.5),
    "softmax": lambda x: jax.nn.softmax(x @ W, axis=0), "concatenate": lambda x: jnp.concatenate([x, x * 2]).sum(1),
    "scan": lambda x: lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), jnp.zeros(3), x), "outer": lambda x: x @ x.T,
}


def pulling(fn):
    def program(x):
        y, back = jax.vjp(fn, x)
        print(end="")
        return back(jax.tree.map(lambda v: v * x.shape[0], y))
    return program


def pushing(fn):
    def program(x):
        y, push = jax.linearize(fn, x)
        print(end="")
        return y, push(x * 2)
    return program


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("way", [pulling, pushing])
def test_a_pull_alive_at_a_break_is_of_any_size(way, name):
    """It was a constant: two captures, then Python ran what follows the break for good."""
    dynacomp.reset()
    program, captures = way(FUNCTIONS[name]), []
    compiled = dynacomp.jit(program)
    for n in (4, 6, 5, 9, 7, 12):
        x = jnp.sin(jnp.arange(3.0 * n)).reshape(n, 3)
        for want, got in zip(*map(jax.tree.leaves, (program(x), compiled(x)))):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        captures.append(dynacomp.stats()["frames_captured"] + dynacomp.stats()["frames_recalled"])
    stats = dynacomp.stats()
    assert captures[2] == captures[-1] <= 8 and not stats["frames_eager"]
    assert set(stats["breaks"]) == {"effect"}


def test_pulls_that_a_call_is_given():
    def program(x, back, like):
        return back(x * x.shape[0]), jnp.ones(like.shape, like.dtype) + like.shape[0], (back, like)

    compiled = dynacomp.jit(program)
    dynacomp.reset()
    for n in (4, 6, 5, 9, 7):
        x = jnp.arange(1.0, n + 1)
        back, like = jax.vjp(lambda v: v / v.sum(), x)[1], jax.ShapeDtypeStruct(x.shape, x.dtype)
        got = compiled(x, back, like)
        for want, part in zip(*map(jax.tree.leaves, (program(x, back, like)[:2], got[:2]))):
            np.testing.assert_allclose(part, want, rtol=1e-5, atol=1e-6)
        assert got[2][0] is back and got[2][1] is like
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


def test_the_equations_of_a_jaxpr_are_those_of_the_size_at_hand():
    """What was traced with a size that is not known has others (wrong: an IndexError of ours)."""
    def given(x, jaxpr):
        return x + 1, [e.primitive.name for e in jaxpr.eqns], str(jaxpr)

    def made(x):
        jaxpr = jax.make_jaxpr(lambda v: v + v[0])(x)
        return x + 1, [e.primitive.name for e in jaxpr.eqns]

    first, second = dynacomp.jit(given), dynacomp.jit(made)
    for n in (4, 6, 5, 7):
        x = jnp.ones(n)
        assert first(x, traced(n))[1:] == given(x, traced(n))[1:]
        assert second(x)[1] == made(x)[1]


def test_many_threads_ask_for_many_sizes():
    at, wrong = AtSizes(traced(5), (5,)), []

    def ask():
        for n in (*range(2, 40), *range(2, 40)):
            if not alike(at(n), traced(n)) and n != 2:  # where the 2 is another size, too
                wrong.append(n)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
