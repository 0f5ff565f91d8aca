"""`bodies.placement`: which calls decide where arrays live, and what an array says of that."""

import contextlib

import jax
import jax.numpy as jnp
import pytest
from jax._src.interpreters.ad import LinearizeTracer
from jax._src.interpreters.batching import BatchTracer
from jax._src.interpreters.partial_eval import DynamicJaxprTracer

import dynacomp
from dynacomp.capture.bodies.placement import is_specified, jit_places, puts_elsewhere
from tests.capture.program_kit import check_one_graph

DEVICE = jax.devices()[0]


@pytest.mark.parametrize(("fn", "puts"), [
    (lambda x: x + 1, False), (lambda x: jax.device_put(x, DEVICE), True), (lambda x: jax.device_put(x), False),
    (lambda x: jax.jit(lambda y: jax.device_put(y, DEVICE))(x), True)])
def test_primitives_that_place(fn, puts):
    assert puts_elsewhere(jax.make_jaxpr(fn)(1.0).jaxpr) is puts


def test_what_a_jitted_function_is_told():
    there = jax.sharding.SingleDeviceSharding(DEVICE)
    assert not jit_places(jax.jit(jnp.sin)) and not jit_places(jnp.sin)
    assert jit_places(jax.jit(jnp.sin, in_shardings=there)) and jit_places(jax.jit(jnp.sin, out_shardings=there))
    assert is_specified(there) and not is_specified(None)


def where(x):
    y = x * 2
    return y, y.sharding == x.sharding, y.committed


def test_an_array_of_the_graph_lives_where_all_do():
    check_one_graph(where, (jnp.arange(3.0),))


def spread(x):
    y = x * 2
    return y, x.aval, y.aval, y.aval.sharding.spec


@pytest.mark.parametrize("within", [True, False])
def test_the_type_of_an_array_on_a_mesh_says_how_it_is_divided(within):
    """It said that of arrays on one device: the mesh was lost."""
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Explicit,))
    there = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    compiled = dynacomp.jit(spread)
    with jax.set_mesh(mesh) if within else contextlib.nullcontext():
        for n in (4, 4, 6):
            x = jax.device_put(jnp.arange(float(n)), there)
            want, got = spread(x), compiled(x)
            assert got[1:] == want[1:] and "@rows" in str(got[2])
            assert got[0].sharding == want[0].sharding and (got[0] == want[0]).all()
    assert not dynacomp.stats()["breaks"]


def test_the_type_of_an_array_elsewhere():
    check_one_graph(lambda x: (x * 2, (x * 2).aval, x.aval), (jnp.arange(3.0),))


def or_negative(of):
    def caught(x):
        try:
            return of(x)
        except Exception as error:
            return -x, type(error)
    return caught


@pytest.mark.parametrize("of", [
    lambda x: x[:5], lambda x: x @ x, lambda x: jnp.outer(x, x), lambda x: jnp.concatenate([x, x * 2]),
    lambda x: jax.shard_map(lambda y: y * y, in_specs=jax.P("rows"), out_specs=jax.P("rows"))(x)])
def test_what_explicit_axes_forbid(of):
    """Calls were traced as if arrays lay on one device: they raised outside of a `try`, and others seemed to raise."""
    caught, compiled = or_negative(of), dynacomp.jit(or_negative(of))
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        for n in (10, 10, 6):
            x = jax.device_put(jnp.arange(float(n)), jax.NamedSharding(mesh, jax.P("rows")))
            want, got = jax.tree.flatten(caught(x)), jax.tree.flatten(compiled(x))
            assert got[1] == want[1] and got[0][1:] == want[0][1:]
            assert (got[0][0] == want[0][0]).all() and got[0][0].sharding == want[0][0].sharding
    assert dynacomp.stats()["frames_captured"]


def traced(*values):
    return [isinstance(v, jax.core.Tracer) for v in values]


def particles_in_a_gradient(w, keys, x):
    got = []

    def loss(w):
        a = jnp.sin(w)

        def particle(key, w2):
            z = jax.random.normal(key, w.shape)
            given, made, outer = x > 0, jnp.ones(3), a * 2
            got.append(traced(given, made, outer, w > 0, w2 + 1, w2 > 0, x + z, jax.lax.stop_gradient(a) * 3,
                              jnp.cos(x), z, w, a, x, jnp.where(given, outer, 1.0), (w > 0) & given))
            return jnp.sum(a * z * x) + w2.sum()

        return jax.vmap(particle, in_axes=(0, None))(keys, w).mean()

    return jax.value_and_grad(loss)(w), got


def gradients_of_particles(w, keys, x):
    got = []

    def particle(key):
        z, b = jax.random.normal(key, w.shape), x * 2

        def loss(w):
            got.append(traced(jnp.ones(3), z > 0, b + 1, w * 2, w > 0, z * 3, z, b, w, w * b, (w > 0) & (z > 0)))
            return jnp.sum(w * 2 * z * b)

        return jax.grad(loss)(w)

    return jax.vmap(particle)(keys), got


def a_gradient_in_a_gradient(w, keys, x):
    got = []

    def outer(w):
        a = w * 2

        def inner(v):
            got.append(traced(jnp.ones(3), a + 1, a > 0, x * 3, v * a, v, a, x, v > 0, (a > 0) & (x > 0)))
            return jnp.sum(v * a * x)

        return jnp.sum(jax.grad(inner)(x) * w)

    return jax.grad(outer)(w), got


@pytest.mark.parametrize("fn", [particles_in_a_gradient, gradients_of_particles, a_gradient_in_a_gradient])
def test_what_is_traced_in_a_function_transformed_twice(fn):
    """It broke the graph: all SVI of several particles ran in Python."""
    check_one_graph(fn, (jnp.ones(3), jax.random.split(jax.random.key(0), 4), jnp.arange(3.0)))


def tripled(cls):
    return lambda x: x * 2 if isinstance(x, cls) else x * 3


WHERE = {
    "bare": lambda f: f, "jit": lambda f: jax.jit(f), "vmap": lambda f: jax.vmap(f),
    "grad": lambda f: jax.grad(lambda x: f(x).sum()), "jit of vmap": lambda f: jax.jit(jax.vmap(f)),
    "vmap of jit": lambda f: jax.vmap(jax.jit(f)), "scan": lambda f: lambda x: jax.lax.scan(
        lambda c, y: (c, f(y)), 0.0, x), "cond": lambda f: lambda x: jax.lax.cond(x[0] > 0, f, lambda x: x, x),
    "jit of grad": lambda f: jax.jit(jax.grad(lambda x: f(x).sum()))}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("cls", [jax.core.Tracer, DynamicJaxprTracer, BatchTracer, LinearizeTracer])
def test_classes_of_tracers(where, cls):
    """Of `DynamicJaxprTracer` and its like nothing was an instance."""
    def program(x):
        return WHERE[where](tripled(cls))(x)

    check_one_graph(program, (jnp.arange(1.0, 4.0),), (jnp.arange(2.0, 5.0),))
