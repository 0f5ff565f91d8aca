"""Arrays that come out of a call as they went in are the same objects, as in eager JAX; see `handed_on.py`."""

import doctest

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jax import lax

import dynacomp
from dynacomp.capture.tracing import handed_on as module
from tests.capture.program_kit import check_one_graph


@jax.custom_jvp
def doubled(x):
    return x


doubled.defjvp(lambda p, t: (doubled(*p), 2 * t[0]))


@jax.custom_vjp
def tripled(x):
    return x, x + 1


tripled.defvjp(lambda x: (tripled(x), None), lambda _, c: (3 * c[0],))

CALLS = {
    "custom_jvp": doubled,
    "custom_vjp": lambda x: tripled(x)[0],
    "made anew": lambda x: tripled(x)[1],
    "nested": lambda x: doubled(tripled(x)[0]),
    "vmap": jax.vmap(doubled),
    "checkpoint": jax.checkpoint(lambda x: x),
    "checkpoint of a sum": jax.checkpoint(lambda x: x + 1),
    "cond": lambda x: lax.cond(x.shape[0] > 2, lambda x: x, lambda x: x, x),
    "cond of two": lambda x: lax.cond(x[0, 0] > 2, lambda x: x, lambda x: -x, x),
    "scan": lambda x: lax.scan(lambda c, y: (c, y), x, jnp.ones(2))[0],
    "stop_gradient": lax.stop_gradient,
    "transpose": lambda x: jnp.transpose(x, (0, 1)),
    "transposed": lambda x: jnp.transpose(x, (1, 0)),
    "concatenate": lambda x: jnp.concatenate([x]),
    "device_put": jax.device_put,
    "named_call": jax.named_call(lambda x: x),
    "vmap of the same": jax.vmap(lambda x: x),
    "both": lambda x: (jnp.real(x), lax.squeeze(x, ()))[1],
    "squeeze": lambda x: lax.squeeze(x, ()),
    "squeeze of jnp": lambda x: jnp.squeeze(x, ()),
    "expand_dims": lambda x: lax.expand_dims(x, ()),
    "broadcast_in_dim": lambda x: lax.broadcast_in_dim(x, x.shape, (0, 1)),
    "astype": lambda x: x.astype(x.dtype),
    "moveaxis": lambda x: jnp.moveaxis(x, 0, 0),
    "swapaxes": lambda x: jnp.swapaxes(x, 0, 0),
    "positive": lambda x: +x,
    "real": jnp.real,
    "all of it": lambda x: x[...],
    "a slice of all": lambda x: x[0:x.shape[0]],
    "copied": lambda x: jnp.array(x),
    "reshape": lambda x: jnp.reshape(x, x.shape),
    "of two": lambda x: jnp.broadcast_arrays(x, x + 1)[0],
}


def test_documentation():
    assert not doctest.testmod(module).failed


@pytest.mark.parametrize("name", CALLS)
def test_identity(name):
    call = CALLS[name]

    def asked(x):
        y = call(x)
        return y is x, x + 1, y

    compiled, before = dynacomp.jit(asked, backend="eager"), dynacomp.stats()["breaks"]
    for n in (3, 4):
        x = jnp.ones((n, n))
        same, _, y = compiled(x)
        assert same == asked(x)[0] == (y is x)
        assert jnp.array_equal(y, call(x))
    assert dynacomp.stats()["breaks"] == before


@pytest.mark.parametrize("first", ["values", "gradients"])
def test_derivatives_stay(first):
    def f(x):
        return (doubled(x) * lax.stop_gradient(x) + tripled(x)[0]).sum()

    def inside(x):
        return jax.grad(f)(x), doubled(x) is x

    compiled, within, x = dynacomp.jit(f), dynacomp.jit(inside), jnp.arange(3.0)
    if first == "values":
        assert compiled(x) == f(x)
    for _ in range(2):
        assert jnp.array_equal(jax.grad(compiled)(x), jax.grad(f)(x))
        assert jnp.array_equal(within(x)[0], jax.grad(f)(x)) and within(x)[1]
        assert compiled(x) == f(x)


STAGED = {
    "scan": lambda c: jax.lax.scan(lambda c, y: (c * (2.0 if +c is c else 3.0), jnp.squeeze(y, ()) is y), c, c),
    "fori_loop": lambda c: jax.lax.fori_loop(0, 2, lambda i, c: c * (2.0 if c.astype(c.dtype) is c else 3.0), c),
    "while_loop": lambda c: jax.lax.while_loop(lambda c: c[0] < 9, lambda c: c * (2.0 if +c is c else 3.0) + 1, c),
    "cond": lambda c: jax.lax.cond(c[0] < 9, lambda c: c * (2.0 if jnp.real(c) is c else 3.0), lambda c: c, c),
    "checkpoint": jax.checkpoint(lambda c: c * (2.0 if +c is c else 3.0)),
    "jit": jax.jit(lambda c: c * (2.0 if +c is c else 3.0)),
    "jit of vmap": jax.jit(lambda c: jax.vmap(lambda c: c * (2.0 if +c is c else 3.0))(c)),
    "vmap of jit": lambda c: jax.vmap(jax.jit(lambda c: c * (2.0 if +c is c else 3.0)))(c),
    "grad": lambda c: jax.grad(lambda c: (c * (2.0 if +c is c else 3.0)).sum())(c),
    "vmap": lambda c: jax.vmap(lambda c: c * (2.0 if +c is c else 3.0))(c),
    "inlined": lambda c: jax.lax.map(lambda c: c * (2.0 if jax.jit(lambda x: x, inline=True)(c) is c else 3.0), c),
}


@pytest.mark.parametrize("name", STAGED)
def test_where_jax_only_traces_operations_give_back_more(name):
    """A program that JAX is to compile has no array yet: what has nothing to do gives the very tracer."""
    program = STAGED[name]
    compiled, before = dynacomp.jit(lambda c: (program(c), c + 1), backend="eager"), dynacomp.stats()["breaks"]
    for n in (3, 4, 5):
        c = jnp.ones(n)
        assert repr(compiled(c)[0]) == repr(program(c))
    assert dynacomp.stats()["breaks"] == before


def test_a_device_that_an_array_lives_on_already():
    device, before = jax.devices()[0], dynacomp.stats()["breaks"]
    place = jax.sharding.SingleDeviceSharding(device)

    def asked(x):
        y = x + 1
        return (jnp.asarray(x, device=device) is x, jnp.asarray(x, device=place), jnp.array(x, device=device) is x,
                jnp.array(y, copy=False, device=device) is y, jnp.asarray(y, device=device).sharding)

    compiled = dynacomp.jit(asked, backend="eager")
    for n in (3, 4, 5):
        x = jnp.ones(n)
        got, want = compiled(x), asked(x)
        assert repr(got) == repr(want) and got[1] is want[1] is x
    assert dynacomp.stats()["breaks"] == before


def squashed(x):
    return jnp.tanh(x)


class Model(eqx.Module):
    w: jax.Array
    act: object

    def __call__(self, x):
        return self.act(self.w * x)


def shifted(by):
    return lambda x: squashed(x + by)


def scanned(model, x):
    arrays, rest = eqx.partition(model, eqx.is_array)
    return lax.scan(lambda c, p: (eqx.combine(p, rest)(c), None), x, arrays)[0], rest.act is model.act


def differentiated(model, x):
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    value, grads = jax.value_and_grad(lambda p: eqx.combine(p, rest)(x).sum())(arrays)
    return value, grads.w, rest.act is model.act


def taken_apart_inside(model, x):
    def loss(model):
        arrays, rest = eqx.partition(model, lambda leaf: eqx.is_array(leaf))
        return eqx.combine(rest, arrays)(x).sum() + arrays.w.sum()

    value, grads = eqx.filter_value_and_grad(loss)(model)
    return value, grads.w, grads.act


def in_a_list(model, x):
    arrays, kept = eqx.partition([model, squashed, {"f": model.act, "x": x}], eqx.is_array)
    return kept[0].act(x), kept[1] is squashed, kept[2]["f"] is model.act, kept[2]["x"], arrays[2]["x"], arrays[1]


def counted(model, x):
    calls = []

    def noted(v):
        calls.append(len(calls))
        return model.act(v)

    rest = eqx.filter(Model(model.w, noted), eqx.is_array, inverse=True)
    return rest.act(x), rest.act(x + 1), calls, rest.act is noted


@pytest.mark.parametrize("program", [scanned, differentiated, taken_apart_inside, in_a_list, counted])
@pytest.mark.parametrize("act", [squashed, shifted(2), shifted(jnp.ones(3))], ids=["function", "number", "array"])
def test_functions_among_the_leaves_of_a_tree_are_handed_on(program, act):
    check_one_graph(program, (Model(jnp.ones((2, 3)), act), jnp.arange(3.0)))
