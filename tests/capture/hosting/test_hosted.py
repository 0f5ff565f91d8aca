"""Functions that the call has made, for a library that runs them in a context of its own (Haiku): compiled whole where
what they hold is constant, plain Python where it is not, and right in both cases."""

import dataclasses
import functools
import typing

import jax
import jax.numpy as jnp
import numpy as np
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
        assert jax.tree.all(jax.tree.map(lambda a, b: type(a) is type(b) and jnp.shape(a) == jnp.shape(b) and bool(
            jnp.allclose(a, b, atol=1e-5)), want, got))
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

    for fn, reasons in ((rebound, {"body"}), (in_a_loop, {"body"}), (config_changed, {"call", "with"})):
        assert same(fn, [(X, KEY)] * 3)["breaks"].keys() == reasons


def around_an_array(x, key, scale):
    shift = x.sum()
    f = hk.transform(lambda x: hk.Linear(2)(x) * scale + shift)
    return f.apply(f.init(key, x), key, x)


def around_containers(x, key, scale):
    batch, more = {"x": x * scale, "more": [x, 2.0]}, functools.partial(jnp.multiply, x)
    inner = lambda y: more(y) + batch["more"][0]
    f = hk.transform(lambda: inner(hk.Linear(3)(batch["x"])) * batch["more"][1])
    return f.apply(f.init(key), key)


def around_a_tree(x, key, scale):
    state, pair = State(x * scale, 2), Pair(x, scale * x)
    f = hk.transform(lambda y: hk.Linear(3)(y) * state.mean + state.count - pair.second)
    return jax.grad(lambda p: f.apply(p, key, x).sum())(f.init(key, x))


def in_a_loop_body(x, key, scale):
    def step(carry, _):
        f = hk.transform(lambda y: hk.Linear(3)(y) + carry)
        return f.apply(f.init(key, x), key, x * scale), carry.sum()
    return jax.lax.scan(step, x, None, length=3)


class Pair(typing.NamedTuple):
    first: jax.Array
    second: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    mean: jax.Array
    count: int = dataclasses.field(metadata={"static": True})

    def scaled(self, layer, x):
        return layer(x) * self.mean


@pytest.mark.parametrize("fn", [around_an_array, around_containers, around_a_tree, in_a_loop_body])
def test_nets_around_arrays_are_one_graph(fn):
    stats = same(fn, [(X * (i + 1), jax.random.key(i), jnp.float32(i)) for i in range(5)], fullgraph=True)
    assert stats["frames_captured"] == 1


def test_a_given_tree_that_a_net_is_around_is_another_in_each_call():
    """Its arrays are inputs: they were those of the first call."""
    def scaled(x, key, state):
        f = hk.transform(lambda y: hk.Linear(3)(y) * state.mean)
        return f.apply(f.init(key, x), key, x)

    stats = same(scaled, [(X, KEY, State(jnp.float32(i), 2)) for i in range(5)], fullgraph=True)
    assert stats["frames_captured"] == 1


def test_methods_of_given_objects_are_those_of_another_in_each_call():
    """What a tree holds is an input, what another object holds is guarded: it was that of the first call."""
    def method(x, key, obj):
        run = obj.scaled
        f = hk.transform(lambda y: run(hk.Linear(3), y))
        return f.apply(f.init(key, x), key, x)

    calls = [(X, KEY, State(jnp.float32(i), 2)) for i in range(4)]
    assert same(method, calls, fullgraph=True)["frames_captured"] == 1
    same(method, [(X, KEY, Scale(jnp.float32(i))) for i in range(4)])


def test_given_functions_made_anew_around_arrays_settle():
    linen = pytest.importorskip("flax.linen")
    module = linen.Dense(3)
    variables = module.init(KEY, X)

    def applied(x, fn):
        return linen.apply(fn, module)(variables, x)

    def around(i):
        state, table = State(jnp.float32(i), 2), {"shift": X.sum() * i}
        return lambda model, x: model(x) * state.mean + table["shift"] + i * X[0]

    def within(x, fn):
        f = hk.transform(lambda y: fn(hk.Linear(3), y))
        return f.apply(f.init(KEY, x), KEY, x)

    for program in (applied, within):
        stats = same(program, [(X, around(jnp.float32(i))) for i in range(6)])
        assert stats["frames_captured"] == 2 and not stats["breaks"]


class Scale:
    def __init__(self, mean):
        self.mean = mean

    def scaled(self, layer, x):
        return layer(x) * self.mean


def effects_in_a_net():
    def counting(x, key):
        calls = []
        f = hk.transform(lambda x: calls.append(1) or hk.Linear(2)(x))
        f.init(key, x)
        return jnp.array(len(calls))

    def filling(x, key):
        batch = {"x": x}

        def net(y):
            batch["y"] = hk.Linear(2)(y)
            return batch["x"]
        f = hk.transform(net)
        f.init(key, x)
        return jnp.array(len(batch))

    def rebinding(x, key):
        total = x

        def net(y):
            nonlocal total
            total = total + y
            return hk.Linear(2)(total)
        f = hk.transform(net)
        return f.init(key, x), total

    def around_itself(x, key):
        def net(y, depth=2):
            return y * x if depth == 0 else net(hk.Linear(3)(y), depth - 1)
        f = hk.transform(net)
        return f.apply(f.init(key, x), key, x)

    def with_an_array_as_default(x, key):
        def net(y, shift=x.sum()):  # noqa: B008
            return hk.Linear(2)(y) + shift
        f = hk.transform(net)
        return f.apply(f.init(key, x), key, x)

    def around_numpy(x, key):
        weights = np.arange(3.0, dtype=np.float32)
        f = hk.transform(lambda y: hk.Linear(3)(y) * weights)
        return f.apply(f.init(key, x), key, x)

    def shown_numpy(x, key):
        rows = np.asarray(X) * 2.5
        f = hk.transform(lambda y: hk.Linear(3)(y) * (rows.base is None))
        return f.apply(f.init(key, x), key, x)

    return [counting, filling, rebinding, around_itself, with_an_array_as_default, around_numpy, shown_numpy]


@pytest.mark.parametrize("fn", effects_in_a_net(), ids=lambda fn: fn.__name__)
def test_what_a_net_does_besides_is_pythons(fn):
    assert same(fn, [(X * i, KEY) for i in range(4)])["breaks"]


def test_what_a_library_gives_back_of_what_a_net_holds_is_that():
    def function_back(x, key):
        inner = lambda y: y * x
        f = hk.transform(lambda: (hk.Linear(2)(x), inner))
        return jnp.array(f.apply(f.init(key), key)[1] is inner)

    def dict_back(x, key):
        batch = {"x": x}
        f = hk.transform(lambda y: (hk.Linear(2)(y), batch))
        back = f.apply(f.init(key, x), key, x)[1]
        back["y"] = y = x * 2
        return jnp.array(back is batch), jnp.array(len(batch)), y

    for fn in (function_back, dict_back):
        assert "body" in same(fn, [(X * i, KEY) for i in range(3)])["breaks"]


def test_flax_runs_the_programs_functions_around_arrays():
    linen = pytest.importorskip("flax.linen")
    module = linen.Dense(3)

    def evaluate(variables, images, noise):
        def both(model):
            return jnp.concatenate([images, model(images)]), model(noise).sum()
        return linen.apply(both, module)(variables)

    variables = module.init(KEY, X)
    for xp in (jnp, np):
        calls = [(variables, xp.full((n, 3), n, np.float32), X * n) for n in (2, 3, 2, 5, 4)]
        assert same(evaluate, calls, fullgraph=True)["frames_captured"] == 2


def wide_net(x, key, width):
    def net(x):
        return hk.Linear(1)(jax.nn.relu(hk.Linear(width)(x)))

    f = hk.transform(net)
    return f.apply(f.init(key, x), key, x)


def test_a_number_that_a_model_holds_is_constant_in_as_many_entries_as_a_code_may_have():
    """Left to Python, as what changes often is elsewhere, the whole model would run eagerly, for the widths that came
    before, too."""
    widths = range(1, 8)
    stats = same(wide_net, [(X, KEY, width) for width in (*widths, *widths)], fullgraph=True)
    assert stats["frames_captured"] == len(widths)
    assert not stats["frames_eager"]


def test_a_float_that_a_function_is_made_around_is_an_array():
    """Of each rate a capture before, and the model in Python after eight."""
    def scaled(x, key, rate):
        f = hk.without_apply_rng(hk.transform(lambda x: hk.Linear(2)(x) * rate))
        return f.apply(f.init(key, x), x), rate

    stats = same(scaled, [(X, KEY, 0.1 * n) for n in range(1, 13)], fullgraph=True)
    assert stats["frames_captured"] == 2
    assert not stats["frames_eager"]


def test_a_literal_that_a_function_is_made_around_is_given_back():
    """Before, the library's call broke: the literal was taken for an object that only the function holds."""
    def scaled(x, key, rate):
        f = hk.without_apply_rng(hk.transform(lambda x: (hk.Linear(2)(x) * rate, rate)))
        return f.apply(f.init(key, x), x)

    stats = same(scaled, [(X, KEY, rate) for rate in (0.5, 0.5, 0.7, 0.9, 1.1)], fullgraph=True)
    assert stats["frames_captured"] == 2


def test_a_size_that_the_code_in_a_host_makes_an_int_of_is_a_constant():
    """As distributions do with the shape of a sample: a capture for each, where the whole ran in Python."""
    def draw(n, key):
        shape = tuple(map(int, (n,)))
        return hk.transform(lambda: jax.random.normal(hk.next_rng_key(), shape)).apply({}, key)

    f = hk.transform(lambda n: jax.random.normal(hk.next_rng_key(), tuple(map(int, (n, 2)))))
    for program in (draw, lambda n, key: f.apply({}, key, n)):
        stats = same(program, [(n, KEY) for n in (4, 4, 5, 6, 4, 5)])
        assert stats["frames_captured"] <= 4 and not stats["breaks"] and not stats["frames_eager"]
