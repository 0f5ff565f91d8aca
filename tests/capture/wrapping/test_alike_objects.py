"""What JAX makes anew with each trace is known by what it says."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.wrapping.alike_objects import alike, in_short, is_known_by_content

X = jnp.arange(1.0, 4.0)


@jax.custom_vjp
def with_rule(x):
    return x * 2


with_rule.defvjp(lambda x: (with_rule(x), x), lambda kept, ct: (ct * kept,))


def scaled(c):
    return lambda x: jnp.sin(x) * c


def squared(x):
    return jnp.sin(x) * x


def named_otherwise(x):
    return jnp.sin(x) * x


def looped(x):
    return jax.lax.scan(lambda c, row: (c * row, c), x.sum(), x)[0]


def branched(x):
    return jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)


FUNCTIONS = {
    "sin": jnp.sin, "relu": jax.nn.relu, "softmax": lambda x: jax.nn.softmax(x) @ jnp.eye(3), "rule": with_rule,
    "scan": looped, "cond": branched, "remat": jax.checkpoint(lambda x: jnp.sin(jnp.cos(x))), "sort": jnp.sort,
    "jit": jax.jit(lambda x: x * 3), "random": lambda x: x * jax.random.normal(jax.random.key(0), (3,))}


@pytest.mark.parametrize("fn", FUNCTIONS.values(), ids=FUNCTIONS)
def test_two_traces_of_a_function_say_the_same(fn):
    one, other = (jax.vjp(fn, X)[1] for _ in range(2))
    assert alike(one.fun, other.fun) and one.jaxpr is not other.jaxpr
    one, other = (jax.linearize(fn, X)[1] for _ in range(2))
    assert alike(one.func, other.func)
    assert alike(jax.make_jaxpr(fn)(X), jax.make_jaxpr(fn)(X))


OTHERS = {
    "literal": (scaled(2.0), scaled(3.0)), "zero": (scaled(0.0), scaled(-0.0)),
    "wiring": (lambda x: x - x * 2, lambda x: x * 2 - x), "primitive": (jnp.sin, jnp.cos),
    "parameter": (lambda x: x.reshape(1, 3), lambda x: x.reshape(3, 1)),
    "inside": (jax.jit(lambda x: x * 3), jax.jit(lambda x: x * 4)),
    "result": (lambda x: (x * 2, x), lambda x: (x, x * 2)), "name": (squared, named_otherwise),
    "constant": (lambda x: x * np.ones(3, np.float32), lambda x: x * np.ones(3, np.float32))}


@pytest.mark.parametrize("pair", OTHERS.values(), ids=OTHERS)
def test_traces_of_others_do_not(pair):
    one, other = (jax.make_jaxpr(fn)(X) for fn in pair)
    assert not alike(one, other) and not alike(other, one)
    assert not alike(one, jax.make_jaxpr(pair[0])(X.astype(jnp.bfloat16)))


def test_types_and_places_of_arrays_are_what_they_say():
    struct = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    assert alike(struct((3,)), struct((3,))) and not alike(struct((3,)), struct((4,)))
    assert is_known_by_content(struct((3,))) and not is_known_by_content(jnp.sin)
    assert not alike(X, X + 0) and not alike(np.ones(3), np.ones(3))
    assert alike(np.dtype("float32"), np.dtype("float32")) and not alike(1.0, 1)


def settles(program, make, most=2, breaks=()):
    """Ten calls with arguments made anew: the answers of eager JAX, few captures, and no other breaks than these."""
    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for i in range(10):
        args = make(i)
        for got, want in zip(jax.tree.leaves(compiled(*args)), jax.tree.leaves(program(*args)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= most and sorted(stats["breaks"]) == sorted(breaks) and not stats["frames_eager"]


def test_a_pullback_made_anew_in_each_call():
    settles(lambda pull, x: pull(x)[0] * 2, lambda i: (jax.vjp(squared, X * i)[1], X + i), most=1)
    settles(lambda push, x: push(x) * 2, lambda i: (jax.linearize(squared, X * i)[1], X + i), most=1)


def test_pullbacks_of_several_functions():
    fns = [squared, jnp.tanh, scaled(2.0), scaled(3.0)]
    settles(lambda pull, x: pull(x)[0] * 2, lambda i: (jax.vjp(fns[i % 4], X * i)[1], X + i), most=4)


def test_a_pullback_of_other_sizes():
    settles(lambda pull, x: pull(x)[0] * 2,
            lambda i: (jax.vjp(squared, jnp.ones(3 + i % 2) * i)[1], jnp.ones(3 + i % 2)), most=2)


@pytest.mark.parametrize("derive", [jax.vjp, jax.linearize])
def test_a_pullback_alive_where_the_graph_breaks(derive):
    def program(x):
        y, pull = derive(squared, x)
        print(end="")
        return jnp.stack(jax.tree.leaves(pull(y))) * 2

    settles(program, lambda i: (X + i,), most=3, breaks=["effect"])


def test_an_operator_made_anew_in_each_call():
    lx = pytest.importorskip("lineax")

    def operator(a):
        of = jax.ShapeDtypeStruct(a.shape[:1], a.dtype)
        return lx.FunctionLinearOperator(lambda v: a @ v, of, lx.positive_semidefinite_tag)

    if jax.__version_info__ >= (0, 12):  # since then its jaxpr holds the constants, too, which are others each time
        return settles(lambda op, v: op.mv(v) + 1, lambda i: (operator(jnp.eye(3) * (2 + i)), X), 3, ["argument"])
    settles(lambda op, v: op.mv(v) + 1, lambda i: (operator(jnp.eye(3) * (2 + i)), X), most=1)
    settles(lambda op, v: lx.linear_solve(op, v, lx.CG(1e-5, 1e-5)).value,
            lambda i: (operator(jnp.eye(3) * (2 + i)), X), most=1)


def test_a_jaxpr_with_constants_of_its_own_is_itself():
    one, other = (jax.make_jaxpr(lambda x, c=X + i: x * c)(X) for i in range(2))
    assert one.consts and not is_known_by_content(one) and not alike(one, other)


def test_a_changing_number_in_a_jaxpr_is_right_however_many_come():
    dynacomp.reset()
    compiled = dynacomp.jit(lambda pull, x: pull(x)[0] * 2)
    for i in range(30):
        pull = jax.vjp(scaled(float(i)), X)[1]
        np.testing.assert_allclose(compiled(pull, X), pull(X)[0] * 2, rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] < 20


@jax.tree_util.register_pytree_node_class
class Told:
    """Its structure holds an object of the program's, which can be asked nothing unnoticed."""

    def __init__(self, x, asked):
        self.x, self.asked = x, asked

    def tree_flatten(self):
        return (self.x,), self.asked

    @classmethod
    def tree_unflatten(cls, asked, leaves):
        return cls(*leaves, asked)


class Asked:
    def __repr__(self):
        raise AssertionError("asked for its text")


def test_what_is_the_programs_in_a_jaxpr_is_asked_nothing():
    asked = Asked()
    kept = jax.custom_vjp(lambda x: Told(x * 2, asked))
    kept.defvjp(lambda x: (kept(x), x), lambda held, ct: (ct.x * held,))
    settles(lambda pull, x: pull(x)[0] * 2, lambda i: (jax.vjp(lambda x: kept(x).x, X + i)[1], X), 9, ["argument"])


def test_two_that_are_alike_say_the_same_in_short():
    one, other = (jax.linearize(jnp.tanh, X)[1].func for _ in range(2))
    assert alike(one, other) and in_short(one) == in_short(other)
    assert in_short(jax.make_jaxpr(scaled(2.0))(X).jaxpr) != in_short(jax.make_jaxpr(scaled(3.0))(X).jaxpr)
