"""`tracing.plain_numbers`: what `jax.custom_jvp` has made, called with numbers, computes as Python does."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import outcome


@jax.custom_jvp
def double(x):
    return x * 2


double.defjvp(lambda primals, tangents: (double(*primals), tangents[0]))


@jax.custom_vjp
def halves(pair):
    return {"a": pair[0] / 2, "kinds": (pair[0] * 0, isinstance(pair[1], int), pair[1].dtype == jnp.int32)}


halves.defvjp(lambda p: (halves(p), None), lambda _, g: ((g["a"], None),))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 2))
def applied(f, x, n):
    return f(x) ** n, n


applied.defjvp(lambda f, n, primals, tangents: (applied(f, *primals, n), (tangents[0], 0)))


@jax.custom_gradient
def shifted(x):
    return x + 1, lambda g: (g,)


@eqx.filter_custom_jvp
def filtered(x, f=None):
    return x * 2 if f is None else f(x) + 1


filtered.def_jvp(lambda primals, tangents: (filtered(*primals), tangents[0]))


def made_here(x):
    f = jax.custom_jvp(lambda t: t * 3)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    return f(x), f(2), f(jnp.ones(2) * x)


CALLS = {
    "a number": lambda x: (double(x), double(3), double(True), jnp.ones(2) * double(x)),
    "an array": lambda x: (double(jnp.float32(x)), double(jnp.arange(3)) * x),
    "a container": lambda x: (halves((x, 3)), jnp.float32(x)),
    "what has no derivative": lambda x: (applied(lambda t: t + 1, x, 2), jnp.float32(x)),
    "custom_gradient": lambda x: (shifted(x), shifted(4), jnp.float32(x)),
    "a library's": lambda x: (filtered(x), filtered(2), jnp.float32(x)),
    "made in the call": made_here,
    "in a body": lambda x: jax.value_and_grad(lambda t: t * double(x) * double(2.0))(x),
    "in a jitted function": lambda x: (jax.jit(lambda t: (double(2.0), double(t)))(x), jax.jit(double)(x)),
    "under vmap": lambda x: jax.vmap(lambda t: (t * double(x), double(t)))(jnp.ones(2)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_numbers_are_computed_with_by_python(call):
    dynacomp.reset()
    compiled = dynacomp.jit(call, backend="eager")
    for x in (2.5, 2.5, 3.5, -1.25, 7.0, 0.5, 9.0, 4.0):
        assert _shown(compiled(x)) == _shown(call(x))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"], stats


def _shown(tree):
    return jax.tree.map(lambda v: (type(v), repr(v)), tree)


def test_a_function_without_a_rule_raises_as_in_jax():
    bare = jax.custom_jvp(lambda x: x * 2)
    with pytest.raises(AttributeError, match="No JVP defined"):
        dynacomp.jit(lambda x: bare(x) + jnp.ones(2), backend="eager")(2.0)


def test_a_function_in_a_librarys_tree():
    call = lambda x: (filtered(x, abs), filtered(2, lambda t: t * 5), jnp.float32(x))
    compiled = dynacomp.jit(call, backend="eager")
    for x in (2.5, 2.5, -3.5):
        assert _shown(compiled(x)) == _shown(call(x))


def test_the_whole_is_traced_where_jax_traces_the_caller():
    compiled = dynacomp.jit(lambda x: double(2.5) * x, backend="eager")
    assert jax.grad(compiled)(3.0) == 5.0 and jax.jit(compiled)(3.0) == 15.0


@jax.custom_vjp
def of_two_signs(x, c):
    if x.sum() > c:
        return x * 2
    return x * 3


of_two_signs.defvjp(lambda x, c: (of_two_signs(x, c), x), lambda kept, g: (g * kept, None))


@jax.custom_jvp
def refusing(x):
    if x.sum() == 0:
        raise ValueError("zero")
    return jnp.sin(x)


refusing.defjvp(lambda primals, tangents: (refusing(*primals), tangents[0]))


def with_a_rule_made(x):
    @jax.custom_vjp
    def made(x):
        return x * 2 if x[0] > 1 else x

    made.defvjp(lambda x: (made(x), x), lambda kept, g: (g,))
    return made(x) + 1


LOOKING = {"branch": lambda x: of_two_signs(x * 1, 2.0) * 2, "refuses": lambda x: refusing(x * 1) * 2,
           "made": with_a_rule_made}


@pytest.mark.parametrize("name", LOOKING)
def test_a_function_with_a_rule_may_look_at_arrays_that_nobody_traces(name):
    program, xs = LOOKING[name], [(jnp.arange(3.0) + i,) for i in (1, 0, -1, 2, -3)]
    compiled = dynacomp.jit(program, backend="eager")
    for x in xs:
        assert repr(outcome(compiled, x)) == repr(outcome(program, x))
    assert not dynacomp.stats()["breaks"]
    if name != "refuses":
        gradient = jax.grad(lambda x: compiled(x).sum())(*xs[0])
        assert jnp.array_equal(gradient, jax.grad(lambda x: program(x).sum())(*xs[0]))
