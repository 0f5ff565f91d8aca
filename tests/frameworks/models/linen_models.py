"""Flax linen: compact and setup modules, collections, lifted transformations, train states."""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct
from flax.training import train_state

from tests.frameworks.registry import model

KEY = jax.random.key(0)
X, Y = jax.random.normal(KEY, (8, 6)), jax.random.normal(jax.random.key(1), (8, 1))
IMAGES, LABELS = jax.random.normal(KEY, (4, 8, 8, 1)), jnp.array([0, 1, 2, 1])
TOKENS = jax.random.randint(KEY, (2, 7), 0, 11)


class MLP(nn.Module):
    features: Sequence[int]

    @nn.compact
    def __call__(self, x):
        for i, width in enumerate(self.features[:-1]):
            x = nn.relu(nn.Dense(width, name=f"layers_{i}")(x))
        return nn.Dense(self.features[-1])(x)


def fit(jit, net, loss_fn, batch, *, tx=None, steps=5):
    params = net.init(jax.random.key(1), batch[0])["params"]
    state = train_state.TrainState.create(apply_fn=net.apply, params=params, tx=tx or optax.adam(1e-2))

    @jit
    def train_step(state, x, y):
        loss, grads = jax.value_and_grad(lambda p: loss_fn(state.apply_fn({"params": p}, x), y))(state.params)
        return state.apply_gradients(grads=grads), loss

    losses = []
    for _ in range(steps):
        state, loss = train_step(state, *batch)
        losses.append(loss)
    return state, losses


def squares(out, y):
    return jnp.mean((out - y) ** 2)


def entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


@model
def mlp(jit):
    net = MLP([16, 8, 1])
    state, losses = fit(jit, net, squares, (X, Y))
    predict = jit(lambda state, x: state.apply_fn({"params": state.params}, x))
    return losses, state.params, [predict(state, X[:n]) for n in (8, 2, 5)]


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.avg_pool(nn.relu(nn.Conv(4, (3, 3))(x)), (2, 2), strides=(2, 2))
        x = nn.avg_pool(nn.relu(nn.Conv(8, (3, 3))(x)), (2, 2), strides=(2, 2))
        return nn.Dense(3)(nn.relu(nn.Dense(8)(x.reshape((x.shape[0], -1)))))


@model(slow=True)
def cnn(jit):
    state, losses = fit(jit, CNN(), entropy, (IMAGES, LABELS), tx=optax.sgd(0.1, momentum=0.9))
    return losses, state.params


class Residual(nn.Module):
    width: int
    norm: Any

    @nn.compact
    def __call__(self, x):
        y = nn.relu(self.norm()(nn.Conv(self.width, (3, 3), use_bias=False)(x)))
        y = self.norm(scale_init=nn.initializers.zeros)(nn.Conv(self.width, (3, 3), use_bias=False)(y))
        return nn.relu(nn.Conv(self.width, (1, 1), name="projection")(x) + y)


class ResNet(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool = True):
        norm = nn.BatchNorm

        def make(**kwargs):
            return norm(use_running_average=not train, momentum=0.9, **kwargs)

        for width in (4, 8):
            x = Residual(width, make)(x)
        x = nn.Dropout(0.1, deterministic=not train)(x.mean((1, 2)))
        return nn.Dense(3)(x)


class NormedState(train_state.TrainState):
    batch_stats: Any
    key: jax.Array


@model(slow=True)
def resnet_batch_statistics(jit):
    net = ResNet()
    variables = net.init(jax.random.key(1), IMAGES, train=False)
    state = NormedState.create(apply_fn=net.apply, params=variables["params"], tx=optax.sgd(0.1),
                               batch_stats=variables["batch_stats"], key=jax.random.key(4))

    @jit
    def train_step(state, x, y):
        noise = jax.random.fold_in(state.key, state.step)

        def loss_fn(params):
            logits, updates = state.apply_fn({"params": params, "batch_stats": state.batch_stats}, x, train=True,
                                             mutable=["batch_stats"], rngs={"dropout": noise})
            return entropy(logits, y), updates

        (loss, updates), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
        state = state.apply_gradients(grads=grads)
        return state.replace(batch_stats=updates["batch_stats"]), loss

    @jit
    def predict(state, x):
        return state.apply_fn({"params": state.params, "batch_stats": state.batch_stats}, x, train=False)

    losses = []
    for _ in range(5):
        state, loss = train_step(state, IMAGES, LABELS)
        losses.append(loss)
    return losses, state.batch_stats, [predict(state, IMAGES[:n]) for n in (4, 1, 3)]


class Block(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x, mask):
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(self.heads)(h, h, mask=mask)
        h = nn.LayerNorm()(x)
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(2 * x.shape[-1])(h)))


class Transformer(nn.Module):
    vocabulary: int = 11
    width: int = 8
    depth: int = 2

    def setup(self):
        self.embed = nn.Embed(self.vocabulary, self.width)
        self.blocks = [Block(2) for _ in range(self.depth)]
        self.norm = nn.LayerNorm()

    def __call__(self, tokens):
        mask, x = nn.make_causal_mask(tokens), self.embed(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.embed.attend(self.norm(x))


@model(slow=True)
def transformer(jit):
    batch = TOKENS[:, :-1], TOKENS[:, 1:]
    state, losses = fit(jit, Transformer(), entropy, batch, tx=optax.adamw(1e-2))
    infer = jit(lambda state, tokens: state.apply_fn({"params": state.params}, tokens))
    return losses, [infer(state, TOKENS[:, :n]) for n in (2, 4, 6)]


class Tagger(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.RNN(nn.LSTMCell(5))(x)
        return nn.Dense(1)(nn.RNN(nn.GRUCell(4), reverse=True)(x))[:, -1]


@model(slow=True)
def recurrent(jit):
    x = jax.random.normal(KEY, (8, 5, 3))
    state, losses = fit(jit, Tagger(), squares, (x, Y))
    return losses, state.params


class ScannedLayers(nn.Module):
    @nn.compact
    def __call__(self, x):
        def body(layer, carry, _):
            return nn.tanh(layer(carry)), None

        layers = nn.scan(body, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        x, _ = layers(nn.Dense(6), x, None)
        return nn.remat(nn.Dense)(1)(x)


@model(slow=True)
def lifted_scan_and_remat(jit):
    state, losses = fit(jit, ScannedLayers(), squares, (X, Y))
    return losses, state.params


@struct.dataclass
class Averages:
    slow: Any
    decay: float = struct.field(pytree_node=False, default=0.9)

    def update(self, fast):
        return self.replace(slow=jax.tree.map(lambda s, f: s * self.decay + f * (1 - self.decay), self.slow, fast))


@model
def moving_averages_in_a_struct(jit):
    net = MLP([8, 1])
    params = net.init(jax.random.key(1), X)["params"]
    averages = Averages(params)

    @jit
    def step(params, averages):
        grads = jax.grad(lambda p: squares(net.apply({"params": p}, X), Y))(params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        return params, averages.update(params)

    for _ in range(5):
        params, averages = step(params, averages)
    return params, averages.slow


@model
def initialisation(jit):
    net = MLP([8, 1])
    init = jit(lambda key, x: net.init(key, x))
    return [init(jax.random.key(n), X) for n in range(3)]


class Sown(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.Dense(4)(x)
        self.sow("intermediates", "hidden", h)
        count = self.variable("state", "count", lambda: jnp.zeros((), jnp.int32))
        count.value += 1
        return nn.Dense(1)(h)


@model
def sown_intermediates(jit):
    net = Sown()
    variables = net.init(jax.random.key(1), X)

    @jit
    def run(variables, x):
        return net.apply(variables, x, mutable=["intermediates", "state"])

    seen = []
    for _ in range(3):
        out, changed = run({"params": variables["params"], "state": variables["state"]}, X)
        variables = {**variables, "state": changed["state"]}
        seen.append((out, changed["intermediates"]["hidden"][0], changed["state"]))
    return seen
