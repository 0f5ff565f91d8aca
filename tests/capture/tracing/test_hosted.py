"""Functions that the call has made, for a library that runs them in a context of its own (Haiku): compiled whole where
what they hold is constant, plain Python where it is not, and right in both cases."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest

import dynacomp

hk = pytest.importorskip("haiku")
X, KEY = jnp.ones((2, 3)), jax.random.key(0)


@dataclasses.dataclass(frozen=True)
class Config:
    width: int


def same(fn, calls, **how):
    """The counters after `fn` was called with each of `calls`, its results those of plain Python."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager", **how)
    for args in calls:
        want, got = fn(*args), compiled(*args)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        assert jax.tree.all(jax.tree.map(lambda a, b: a.shape == b.shape and bool(jnp.allclose(a, b, atol=1e-5)),
                                         want, got))
    return dynacomp.stats()


def loss_of_local_net(x, key, width=4):
    def net(x):
        return hk.Linear(1, name="out")(jax.nn.relu(hk.Linear(width)(x)))

    f = hk.without_apply_rng(hk.transform(net))
    params = f.init(key, x)
    return jax.value_and_grad(lambda p: jnp.mean(f.apply(p, x) ** 2))(params)


def partial_net(x, key):
    f = hk.transform(functools.partial(lambda x, sizes: hk.nets.MLP(sizes)(x), sizes=(4, 2)))
    return f.apply(f.init(key, x), key, x)


def stateful_net(x, key):
    depth = 2

    def block(x, n):
        return x if n == 0 else block(hk.Linear(3)(x), n - 1)

    f = hk.transform_with_state(lambda x, training=True: hk.BatchNorm(True, True, 0.9)(block(x, depth), training))
    params, state = f.init(key, x)
    return f.apply(params, state, key, x)


@pytest.mark.parametrize("fn", [loss_of_local_net, partial_net, stateful_net])
def test_nets_made_in_the_call_are_one_graph(fn):
    stats = same(fn, [(X * i, jax.random.key(i)) for i in range(4)], fullgraph=True)
    assert stats["frames_captured"] == 1


def test_what_a_net_holds_is_guarded():
    def net_of(config, x, key):
        f = hk.transform(lambda x: hk.Linear(config.width)(x))
        return f.init(key, x)

    same(net_of, [(Config(n), X, KEY) for n in (2, 3, 2, 4)])
    assert same(loss_of_local_net, [(X, KEY, n) for n in (2, 3, 2, 3)])["frames_captured"] <= 3


def test_variables_that_change_after_a_library_has_seen_them():
    def rebound(x, key):
        width = 2
        f = hk.transform(lambda x: hk.Linear(width)(x))
        a = f.init(key, x)
        width = 5
        return a, f.init(key, x)

    def in_a_loop(x, key):
        made = []
        for width in (2, 3):
            f = hk.transform(lambda x: hk.Linear(width)(x))  # noqa: B023
            made.append((f, f.init(key, x)))
        return [p for _, p in made], [f.init(key, x) for f, _ in made]

    def config_changed(x, key):
        f = hk.transform(lambda x: hk.Linear(config.width)(x))
        config = Config(2)
        a = f.init(key, x)
        object.__setattr__(config, "width", 3)
        return a, f.init(key, x)

    for fn, reasons in ((rebound, {"body"}), (in_a_loop, {"body"}), (config_changed, {"call", "with", "effect"})):
        assert same(fn, [(X, KEY)] * 3)["breaks"].keys() == reasons


def test_arrays_and_effects_in_a_net_are_pythons():
    def around_an_array(x, key, scale):
        shift = x.sum()
        f = hk.transform(lambda x: hk.Linear(2)(x) * scale + shift)
        return f.apply(f.init(key, x), key, x)

    def counting(x, key):
        calls = []
        f = hk.transform(lambda x: calls.append(1) or hk.Linear(2)(x))
        f.init(key, x)
        return jnp.array(len(calls))

    stats = same(around_an_array, [(X, KEY, i * 0.5) for i in range(3)])
    assert (stats["breaks"], stats["graphs"]) == ({"call": 1}, 4)
    assert same(counting, [(X, KEY)] * 3)["breaks"] == {"call": 1, "effect": 1}
