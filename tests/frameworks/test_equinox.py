"""Equinox models train under dynacomp.jit as they are: one graph a step, no breaks."""

import copy
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from equinox.internal import GetKey, closure_to_pytree

import dynacomp
from tests.capture.program_kit import check_one_graph
from tests.frameworks.kit import X, Y, trains

OPT = optax.sgd(1e-2, momentum=0.9)  # Adam makes large steps of gradients that are only rounding errors
ADAM = optax.adam(1e-2)
SCALE = [1.0]


class Net(eqx.Module):
    """Static fields, a Python loop, an activation by name."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear
    activation: str = eqx.field(static=True)

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.first, self.second = eqx.nn.Linear(4, 8, key=a), eqx.nn.Linear(8, 1, key=b)
        self.activation = "tanh"

    def __call__(self, x):
        h = self.first(x)
        for _ in range(2):
            h = getattr(jnp, self.activation)(h)
        return self.second(h) * SCALE[0]


class Convolution(eqx.Module):
    layers: list

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.layers = [eqx.nn.Conv1d(1, 2, 3, key=a, padding=1), jax.nn.relu, eqx.nn.MaxPool1d(2), jnp.ravel,
                       eqx.nn.Linear(6, 1, key=b)]

    def __call__(self, x):
        x = x[None]
        for layer in self.layers:
            x = layer(x)
        return x


class Attention(eqx.Module):
    heads: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm

    def __init__(self, key):
        self.heads, self.norm = eqx.nn.MultiheadAttention(2, 4, key=key), eqx.nn.LayerNorm(4)

    def __call__(self, x):
        h = jax.vmap(self.norm)(x[None] * jnp.arange(1.0, 4.0)[:, None])
        return self.heads(h, h, h, mask=jnp.tril(jnp.ones((3, 3), bool))).sum()[None]


class Dropout(eqx.Module):
    linear: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        self.linear, self.dropout = eqx.nn.Linear(4, 1, key=key), eqx.nn.Dropout(0.5)

    def __call__(self, x):
        return self.linear(self.dropout(x, key=jax.random.key(3)))


class Normed(eqx.Module):
    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    second: eqx.nn.Linear

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.first, self.second = eqx.nn.Linear(4, 8, key=a), eqx.nn.Linear(8, 1, key=b)
        self.norm = eqx.nn.BatchNorm(8, axis_name="batch", mode="batch")

    def __call__(self, x, state):
        h, state = self.norm(self.first(x), state)
        return self.second(jax.nn.relu(h)), state


def mean_square(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


def through_checkpoint(model, x, y):
    return jnp.mean((eqx.filter_vmap(eqx.filter_checkpoint(model))(x) - y) ** 2)


def training(make, loss=mean_square, opt=OPT) -> tuple[Any, Any]:
    @eqx.filter_value_and_grad
    def gradient(model, x, y):
        return loss(model, x, y)

    def step(state):
        model, memory = state
        value, grads = gradient(model, X, Y)
        updates, memory = opt.update(grads, memory, eqx.filter(model, eqx.is_inexact_array))
        return (eqx.apply_updates(model, updates), memory), value

    def start():
        model = make(jax.random.key(1))
        return model, opt.init(eqx.filter(model, eqx.is_inexact_array))

    return step, start


MODELS = {"mlp": lambda key: eqx.nn.MLP(4, 1, 8, 2, key=key), "net": Net, "convolution": Convolution,
          "attention": Attention, "dropout": Dropout}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MODELS)
def test_models_train(name):
    stats = trains(*training(MODELS[name]))
    assert stats["graphs"] == 1 and not stats["frames_eager"]


def test_native():
    trains(*training(Net, opt=ADAM), backend="auto")


def test_filtered_checkpoint_and_vmap():
    assert trains(*training(Net, through_checkpoint))["graphs"] == 1


def test_batch_norm_state():
    @functools.partial(eqx.filter_value_and_grad, has_aux=True)
    def gradient(model, memory, x, y):
        out, memory = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, memory)
        return jnp.mean((out - y) ** 2), memory

    def step(state):
        model, memory, slots = state
        (loss, memory), grads = gradient(model, memory, X, Y)
        updates, slots = OPT.update(grads, slots, eqx.filter(model, eqx.is_inexact_array))
        return (eqx.apply_updates(model, updates), memory, slots), loss

    def start():
        model, memory = eqx.nn.make_with_state(Normed)(key=jax.random.key(1))
        return model, memory, OPT.init(eqx.filter(model, eqx.is_inexact_array))

    assert trains(step, start)["graphs"] == 1


def test_what_a_model_reads_from_its_module_is_guarded():
    model = Net(jax.random.key(1))

    def infer(x):
        return jax.vmap(model)(x)

    compiled = dynacomp.jit(infer, backend="xla")
    before = compiled(X)
    SCALE[0] = 2.0
    try:
        assert jnp.allclose(compiled(X), before * 2, rtol=1e-5)
    finally:
        SCALE[0] = 1.0


def test_surgery_and_partition():
    def step(model):
        arrays, rest = eqx.partition(model, eqx.is_array)
        grads = jax.grad(lambda a: mean_square(eqx.combine(a, rest), X, Y))(arrays)
        other = eqx.tree_at(lambda m: m.first.bias, model, model.first.bias + 1)
        return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads)), other.first.bias

    trains(step, lambda: Net(jax.random.key(1)))


def test_leaves_of_a_compiled_model_and_counts_of_traces():
    def program(model, x):
        wrapped = eqx.filter_jit(Doubled(model))
        counted = eqx.debug.assert_max_traces(model, max_traces=2)
        return (len(jax.tree.leaves(wrapped)), wrapped(x), [counted(x) for _ in range(2)],
                eqx.debug.get_num_traces(counted))

    model = eqx.nn.Linear(3, 4, key=jax.random.key(0))
    for _ in range(2):
        want, got = program(model, jnp.ones(3)), dynacomp.jit(program, backend="eager")(model, jnp.ones(3))
        assert (want[0], want[-1]) == (got[0], got[-1])
        jax.tree.map(np.testing.assert_array_equal, want[1:3], got[1:3])


class Doubled(eqx.Module):
    model: eqx.nn.Linear

    def __call__(self, x):
        return 2 * self.model(x)


def test_a_module_made_bare_is_as_its_new_leaves_it():
    class Pair(eqx.Module):
        sizes: tuple = eqx.field(static=True)
        w: jax.Array

    def program(x):
        """What a metaclass of a library on top of Equinox does (Quax's)."""
        made = Pair.__new__(Pair)
        object.__setattr__(made, "sizes", x.shape)
        dynacomp.graph_break()
        object.__setattr__(made, "w", x + 1)
        return made, copy.copy(made)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in (2, 3, 2):
        x = jnp.arange(float(n))
        for want, got in zip(program(x), compiled(x)):
            assert list(vars(got)) == list(vars(want)) and eqx.tree_equal(got, want)
    assert set(dynacomp.stats()["breaks"]) == {"user"} and not dynacomp.stats()["frames_eager"]


def test_functions_that_equinox_takes_apart_are_the_programs():
    """It was given a function that stood for the program's, and made another of what that closes over."""
    def program(x, by):
        def scaled(y):
            return 2 * y

        def shifted(y):
            return scaled(y)

        return eqx.filter_jit(lambda f, y: f(y))(closure_to_pytree(shifted), x) + by

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(10):
        assert repr(compiled(X + n, jnp.float32(n))) == repr(program(X + n, jnp.float32(n)))
    assert "internal" not in dynacomp.stats()["frames_eager"]


class Result(eqx.Enumeration):
    ok = "fine"
    bad = "not fine"


class Longer(Result):
    worse = "worse"


def chosen(pred, item, x):
    found = Result.where(pred.any(), item, Result.ok)
    return found, isinstance(Longer.promote(found), Longer), jnp.where(found == Result.bad, x, -x)


def test_items_of_an_enumeration_are_compared_by_identity_as_plain_python_does():
    """`where` of one item twice is that item, its NumPy leaf with it, as `isinstance` asks the item's own class."""
    again = jax.tree_util.tree_map(lambda leaf: leaf, Result.bad)
    check_one_graph(chosen, *[(jnp.arange(n) > 1, item, jnp.ones(n)) for n in (2, 3)
                              for item in (Result.ok, Result.bad, again)], captures=4)
    compiled = dynacomp.jit(chosen, backend="eager")
    for item in (jax.tree_util.tree_map(lambda leaf: leaf, Result.ok), Result.ok, Result.bad):
        want, got = (call(jnp.array(True), item, jnp.ones(3))[0] for call in (chosen, compiled))
        assert type(got._value) is type(want._value)


class Counted(eqx.Module):
    count: eqx.nn.StateIndex

    def __init__(self):
        self.count = eqx.nn.StateIndex(jnp.array(0))

    def __call__(self, x, state):
        n = state.get(self.count)
        return x + n, state.set(self.count, n + 1)


def with_old_state(x, state, model):
    y, new = model(x, state)
    try:
        state.get(model.count)
    except ValueError as error:
        return y, new.get(model.count), str(error)


def test_what_a_librarys_objects_store_into_themselves_is_stored():
    """`GetKey.__call__` counts its calls, and `State.set` makes the old state unusable: both were calls of a pure
    library, and changed nothing."""
    compiled, ours, theirs = dynacomp.jit(lambda key: jax.random.split(key())[0] + key.seed), GetKey(5), GetKey(5)
    dynacomp.reset()
    for _ in range(5):
        assert np.array_equal(compiled(ours), jax.random.split(theirs())[0] + 5)
    assert ours.call == 5 and dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]

    model = eqx.nn.make_with_state(Counted)()[0]
    compiled = dynacomp.jit(with_old_state, fullgraph=True)
    for n in range(4):
        want, got = (call(X + n, eqx.nn.make_with_state(Counted)()[1], model) for call in (with_old_state, compiled))
        assert "old state" in want[2] and repr(got) == repr(want)
