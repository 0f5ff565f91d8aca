"""Ways of calling a body: what tells them apart while capturing, and when the Graph runs."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax._src.traceback_util import api_boundary

import dynacomp
from dynacomp.capture.bodies.body_variants import Dispatch, differ_by_bodies, likeness, orders, way_of


def body():
    """What stands for a function of the program: another function at each trace."""
    def stand(x):
        return x

    stand._standin = None
    return stand


def test_bodies_among_the_arguments_are_other_functions_when_the_graph_runs():
    first, two, four = body(), jnp.ones(2), jnp.ones(4)
    pick = Dispatch((way_of((first, two), {}), way_of((first, four), {})))(lambda g, x: "two", lambda g, x: "four")
    assert pick(body(), four) == "four" and pick(body(), two) == "two"
    with pytest.raises(KeyError, match="had not seen"):
        pick(abs, two)
    assert pick._standin is None  # itself one of them


def test_ways_that_nothing_else_tells_apart():
    first, second, x = body(), body(), jnp.ones(2)
    assert differ_by_bodies((way_of((first, x), {}), way_of((second, x), {})))
    assert not differ_by_bodies((way_of((first, x), {}), way_of((second, jnp.ones(3)), {}), way_of((x,), {})))


def made(number, held=None, default=1):
    def inner(x, k=default):
        return x * number if held is None else held(x)
    return inner


def test_functions_made_alike_are_alike():
    assert likeness(made(1.5)) == likeness(made(1.5)) and hash(likeness(made(1.5))) == hash(likeness(made(1.5)))
    assert likeness(made(1, made(2))) == likeness(made(1, made(2)))
    assert likeness(functools.partial(made(1), 2, k=3)) == likeness(functools.partial(made(1), 2, k=3))
    others = [made(1.5), made(1), made(True), made(1, made(2)), made(1.5, default=2), made(1.5, object()), abs,
              functools.partial(made(1.5), 2), functools.partial(made(1.5), 3)]
    assert len({likeness(other) for other in others}) == len(others)


def test_a_function_that_a_library_makes_in_each_call_is_one_way():
    """When the Graph ran, the library had made another one: "a way that its capture had not seen"."""
    optax = pytest.importorskip("optax")

    def twice(fn):
        return optax.join_schedules([fn, fn], [4])

    counted = api_boundary(twice)  # a library's function around one of the program's

    def program(x):
        one, other = optax.polynomial_schedule(1.0, 0.5, 2, 10), optax.cosine_decay_schedule(1.0, 5)
        return counted(one)(x) + counted(other)(x)

    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for n in (3, 3, 4, 5, 6):
        x = jnp.arange(n)
        assert jnp.allclose(compiled(x), program(x), rtol=1e-5)
    assert dynacomp.stats()["graphs"] <= 2 and not dynacomp.stats()["frames_eager"]


def test_a_module_without_a_hash_that_calls_itself():
    """What tells the calls of a function apart was hashed, which flax refuses for a module around a dataclass that is
    not frozen: its own methods around `apply` broke the graph, and ran as plain Python in each call."""
    nn = pytest.importorskip("flax.linen")

    @dataclasses.dataclass
    class Config:
        width: int = 3

    class Net(nn.Module):
        config: Config

        def setup(self):
            self.layer = nn.Dense(self.config.width)

        def __call__(self, x):
            return self.layer(x)

        def generate(self, params, x, n):
            padded = jnp.concatenate([x, jnp.zeros((n, 3))])
            return jax.lax.scan(lambda c, _: (self.apply(params, c), None), padded, jnp.arange(n))[0]

    compiled = dynacomp.jit(lambda net, params, x, n: net.generate(params, x, n))
    dynacomp.reset()
    for i in range(6):
        net, x, n = Net(Config()), jnp.ones((2, 3)), 2 + i % 2
        params = net.init(jax.random.key(i), x)
        np.testing.assert_allclose(compiled(net, params, x, n), net.generate(params, x, n), rtol=1e-4)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 2 and not stats["breaks"] and not stats["frames_eager"]


def test_objects_without_a_hash_are_told_apart_by_what_they_are():
    first, same, other = (way_of((Unhashed(n),), {}) for n in (1, 1, 2))
    assert first == same != other and hash(first) == hash(same) == hash(other)
    assert way_of((Unhashed(jnp.ones(2)),), {}) != way_of((Unhashed(jnp.ones(2)),), {})
    assert Dispatch((first, other))(lambda x: "one", lambda x: "two")(Unhashed(2)) == "two"


class Unhashed:
    def __init__(self, part):
        self.part = part

    def __eq__(self, other):
        return self.part == other.part

    def __hash__(self):
        raise TypeError("unhashable")


def test_orders_of_dicts():
    assert orders(({"b": 1, "a": [{"d": 2, "c": 3}]}, {"x": 4, "y": 5})) == (
        ((0,), ("b", "a")), ((0, "a", 0), ("d", "c")))
    assert orders(([{"a": 1, "b": 2}], {1: {}, 2: 3})) == ()


def masked_by_place(p):
    """Optax gives the mask the dict that it was given, without JAX in between."""
    masked = optax.masked(optax.scale(2.0), lambda tree: {k: n < 2 for n, k in enumerate(tree)})
    return masked.update(p, masked.init(p))[0]


def differentiated(p):
    return jax.grad(lambda p: sum(map(jnp.sum, masked_by_place(p).values())))(p)


def in_two_orders(p):
    first, second = {k: p[k] for k in ("w", "a")}, {k: p[k] for k in ("a", "w")}
    masked = optax.masked(optax.scale(3.0), lambda tree: {k: n < 1 for n, k in enumerate(tree)})
    return [masked.update(x, masked.init(x))[0] for x in (first, second, first)]


@pytest.mark.parametrize("fn", [masked_by_place, differentiated, in_two_orders], ids=lambda fn: fn.__name__)
def test_a_function_that_a_library_calls_sees_the_order_of_a_dict(fn):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for order in ("wba", "abw", "bwa", "wba"):
        p = {key: jnp.arange(3.0) + n for n, key in enumerate(order)}
        want, got = fn(p), compiled(p)
        assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), want, got))
    assert not dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]
