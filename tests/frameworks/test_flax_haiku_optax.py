"""Flax linen, Haiku, Optax, chex and diffrax code runs compiled as it is."""

import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax.core import FrozenDict, Scope, freeze

import dynacomp
from dynacomp.capture.wrapping.pytree_shells import is_taken_by_name
from tests.frameworks.kit import X, Y, trains

OPT = optax.sgd(1e-2, momentum=0.9)


def fitting(opt):
    def step(state):
        params, memory = state
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((X @ p["a"] + p["b"] - Y) ** 2))(params)
        updates, memory = opt.update(grads, memory, params)
        return (optax.apply_updates(params, updates), memory), loss

    def start():
        params = {"a": jnp.ones((4, 1)) * 0.1, "b": jnp.zeros(1)}
        return params, opt.init(params)

    return step, start


OPTIMISERS = {
    "adamw": optax.adamw(1e-2, weight_decay=0.1),
    "schedule": optax.adam(optax.warmup_cosine_decay_schedule(0.0, 1.0, 2, 10)),
    "own_schedule": optax.sgd(lambda count: 0.1 / (count + 1)),
    "clip": optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2)),
    "multi_transform": optax.multi_transform({"x": optax.adam(1e-2), "y": optax.sgd(0.1)},
                                             lambda params: {"a": "x", "b": "y"}),
    "multi_steps": optax.MultiSteps(optax.adam(1e-2), 2),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers(name):
    assert trains(*fitting(OPTIMISERS[name]))["graphs"] == 1


def linen():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train=True):
            x = nn.gelu(nn.Conv(2, (3,))(x[..., None])).reshape(x.shape[0], -1)
            x = nn.BatchNorm(use_running_average=not train)(nn.Dense(8)(x))
            x = nn.Dropout(0.3, deterministic=not train)(nn.relu(x))
            return nn.Dense(1)(x)

    return Net()


def linen_training():
    model = linen()

    def step(state):
        variables, memory, key = state
        key, noise = jax.random.split(key)

        def loss(params):
            out, changed = model.apply({"params": params, "batch_stats": variables["batch_stats"]}, X, train=True,
                                       mutable=["batch_stats"], rngs={"dropout": noise})
            return jnp.mean((out - Y) ** 2), changed

        (value, changed), grads = jax.value_and_grad(loss, has_aux=True)(variables["params"])
        updates, memory = OPT.update(grads, memory, variables["params"])
        params = optax.apply_updates(variables["params"], updates)
        return ({"params": params, **changed}, memory, key), value

    def start():
        variables = model.init(jax.random.key(1), X, train=False)
        return variables, OPT.init(variables["params"]), jax.random.key(5)

    return step, start


@pytest.mark.parametrize("backend", [pytest.param("xla", marks=pytest.mark.slow), "auto"])
def test_linen_trains(backend):
    trains(*linen_training(), steps=3, backend=backend)


def test_linen_train_state():
    training = pytest.importorskip("flax.training.train_state")
    nn = pytest.importorskip("flax.linen")
    model, tx = nn.Sequential([nn.Dense(8), nn.tanh, nn.Dense(1)]), optax.adam(1e-2)
    apply = model.apply

    def step(state):
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((state.apply_fn(p, X) - Y) ** 2))(state.params)
        return state.apply_gradients(grads=grads), loss

    trains(step, lambda: training.TrainState.create(apply_fn=apply, params=model.init(jax.random.key(1), X), tx=tx))


def test_nnx_trains_whole():
    """Its split and merge, the gradient and the optimiser are one graph, though the first step leaves the attributes of
    the model in another order."""
    nnx = pytest.importorskip("flax.nnx")

    def run(wrap):
        model = nnx.Linear(4, 1, rngs=nnx.Rngs(0))
        memory = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

        def step(model, memory):
            loss, grads = nnx.value_and_grad(lambda m: jnp.mean((m(X) - Y) ** 2))(model)
            memory.update(model, grads)
            return loss

        step = wrap(step)
        return [float(step(model, memory)) for _ in range(10)], list(vars(model))

    dynacomp.reset()
    (ours, names), (plain, expected) = run(dynacomp.jit), run(lambda f: f)
    assert ours == pytest.approx(plain, rel=1e-5) and names == expected
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 1 and not stats["breaks"]


def test_an_nnx_module_that_says_how_it_is_taken_apart():
    """Then the order of its attributes may matter."""
    nnx = pytest.importorskip("flax.nnx")

    class Own(nnx.Module):
        def _pytree__flatten(self):
            names = tuple(vars(self))
            return [vars(self)[n] for n in names if n in "ab"], (names, (), ())

    class Inherited(nnx.Module):
        pass

    def first(module):
        return jax.tree.leaves(module)[0]

    assert is_taken_by_name(Inherited) and not is_taken_by_name(Own) and not is_taken_by_name(dict)
    dynacomp.reset()
    compiled = dynacomp.jit(first, backend="eager")
    for cls in (Own, Inherited):
        for names in ("ab", "ba", "ab"):
            module = cls()
            module.a, module.b = jnp.float32(ord("a")), jnp.float32(ord("b"))
            for name in names:
                vars(module)[name] = vars(module).pop(name)
            assert compiled(module) == first(module) == ord(names[0] if cls is Own else "a")
    assert dynacomp.stats()["frames_captured"] == 3


@pytest.mark.parametrize("backend", [pytest.param("xla", marks=pytest.mark.slow), "auto"])
def test_haiku_trains(backend):
    hk = pytest.importorskip("haiku")
    model = hk.transform_with_state(lambda x: hk.Linear(1)(hk.dropout(hk.next_rng_key(), 0.2, hk.BatchNorm(
        True, True, 0.9)(jnp.tanh(hk.Linear(8)(x)), True))))

    def step(state):
        params, moving, memory, key = state
        key, noise = jax.random.split(key)

        def loss(params):
            out, after = model.apply(params, moving, noise, X)
            return jnp.mean((out - Y) ** 2), after

        (value, moving), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, memory = OPT.update(grads, memory, params)
        return (optax.apply_updates(params, updates), moving, memory, key), value

    def start():
        params, moving = model.init(jax.random.key(1), X)
        return params, moving, OPT.init(params), jax.random.key(5)

    trains(step, start, steps=3, backend=backend)


def test_chex_dataclasses_and_asserts():
    chex = pytest.importorskip("chex")

    @chex.dataclass
    class Params:
        a: jax.Array
        b: jax.Array

    def step(params):
        chex.assert_shape(params.a, (4, 1))
        chex.assert_rank(params.b, 1)
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((X @ p.a + p.b - Y) ** 2))(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    assert trains(step, lambda: Params(a=jnp.ones((4, 1)), b=jnp.zeros(1)))["graphs"] == 1


@pytest.mark.slow
def test_diffrax_solves_and_differentiates():
    dfx = pytest.importorskip("diffrax")

    def step(y):
        def end(rate):
            term = dfx.ODETerm(lambda t, y, args: -y * args)
            return dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 1.0, 0.1, y, args=rate).ys.sum()
        return y, jax.grad(end)(jnp.array(1.5))

    trains(step, lambda: jnp.ones(3), steps=2)


def scaled(x):
    return sys.modules["haiku"].Linear(2, w_init=jnp.ones)(x) * SCALE


SCALE = 2.0


def test_a_function_that_haiku_transforms_in_compiled_code_runs_in_its_context(monkeypatch):
    hk = pytest.importorskip("haiku")

    def program(x):
        net = hk.transform(scaled)
        params = net.init(jax.random.PRNGKey(0), x)
        again = hk.transform(scaled).init(jax.random.PRNGKey(0), x)
        return list(params), list(again), net.apply(params, None, x)

    x, fn = jnp.ones((1, 2)), dynacomp.jit(program, backend="eager")
    for scale in (2.0, 3.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        assert repr(fn(x)) == repr(program(x))


def test_an_iterator_of_a_library_stays_in_the_graph():
    hk = pytest.importorskip("haiku")

    def program(x, seed, given):
        keys = hk.PRNGSequence(seed)
        x = x + jax.random.uniform(next(keys), x.shape)
        keys.reserve(2)
        a, b = keys.take(2)
        return x, b, keys.internal_state, next(keys), jax.random.key_data(next(given)), len(given._subkeys)

    dynacomp.reset()
    compiled, ours, theirs = dynacomp.jit(program, backend="eager"), hk.PRNGSequence(0), hk.PRNGSequence(0)
    for seed in (1, 2, 5, 7):
        want, got = program(jnp.ones(3), seed, theirs), compiled(jnp.ones(3), seed, ours)
        jax.tree.map(np.testing.assert_allclose, got, want)
    assert dynacomp.stats()["frames_captured"] <= 3 and not dynacomp.stats()["breaks"]
    assert not dynacomp.stats()["frames_eager"]


class ScaledBy(nn.Module):
    def setup(self):
        self.by = self.param("by", nn.initializers.ones, (1,))

    def __call__(self, x):
        return x * self.by


def test_modules_fill_the_scope_that_they_are_given():
    def program(x, key):
        scope = Scope({}, {"params": key}, mutable=["params"])
        return ScaledBy(parent=scope)(x), scope.variables()

    dynacomp.reset()
    compiled, key = dynacomp.jit(program, backend="eager"), jax.random.key(0)
    for i in range(3):
        assert repr(compiled(X * i, key)) == repr(program(X * i, key))
    assert set(dynacomp.stats()["breaks"]) == {"effect"}


def filtered(hk, params, scale):
    """A step for some of the parameters: what is left alone is what it was."""
    trained, rest = hk.data_structures.partition(lambda module, name, value: module == "a", params)

    def loss(trained):
        merged = hk.data_structures.merge(trained, rest)
        return sum((value ** 2).sum() for _, _, value in hk.data_structures.traverse(merged)) * scale

    grads = jax.grad(loss)(trained)
    stepped = hk.data_structures.map(lambda module, name, value: value - grads[module][name] * 0.1, trained)
    return hk.data_structures.merge(stepped, hk.data_structures.filter(lambda m, n, v: n == "w", rest)), rest


@pytest.mark.parametrize("made", [jnp.asarray, np.asarray])
def test_what_haiku_filters_is_what_it_was(made):
    """NumPy arrays became JAX's, and there were breaks."""
    hk = pytest.importorskip("haiku")
    params = {"a": {"w": made(np.ones((2, 3))), "b": made(np.zeros(3))}, "c": {"w": made(np.arange(4.0))}}
    dynacomp.reset()
    compiled = dynacomp.jit(lambda params, scale: filtered(hk, params, scale), backend="eager")
    for i in range(10):
        want, got = filtered(hk, params, jnp.float32(i)), compiled(params, jnp.float32(i))
        assert repr(got) == repr(want)
    told = dynacomp.stats()
    assert told["frames_captured"] == 1 and not told["breaks"] and not told["frames_eager"]


class Normalised(nn.Module):
    @nn.compact
    def __call__(self, x, train=True):
        return nn.BatchNorm(use_running_average=not train)(nn.Dense(3)(x))


def trained(variables, x):
    y, changed = Normalised().apply(variables, x, mutable=["batch_stats"])
    return y, variables.copy(changed)


def evaluated(variables, x):
    rest, params = variables.pop("params")
    return Normalised().apply({"params": params, **rest}, x, train=False), rest, len(variables)


def gone_through(variables, x):
    sums = {k: jax.tree.map(jnp.sum, v) for k, v in variables.items()}
    made = FrozenDict(a=x, b=FrozenDict(sums))
    inner = variables["params"]
    return made, [*made["b"]] == ["params", "batch_stats"], "params" in variables, {**inner}, len(made["b"])


@pytest.mark.parametrize("step", [trained, evaluated, gone_through])
def test_frozen_dicts_are_the_dicts_in_them(step):
    """Their methods were a library's calls: what goes through one, or unpacks one, broke the graph."""
    variables = freeze(Normalised().init(jax.random.key(0), jnp.ones((2, 3))))
    dynacomp.reset()
    compiled = dynacomp.jit(step)
    for n in (2, 3, 5, 4):
        given, x = jax.tree.map(lambda a, n=n: a + n, variables), jnp.arange(3.0 * n).reshape(n, 3)
        (want, kind), (got, same) = map(jax.tree.flatten, (step(given, x), compiled(given, x)))
        assert same == kind
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] <= 3
