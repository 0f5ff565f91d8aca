"""Haiku: transformed functions and modules, with state and without."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax

from tests.frameworks.registry import model

KEY = jax.random.key(0)
X, Y = jax.random.normal(KEY, (8, 6)), jax.random.normal(jax.random.key(1), (8, 1))
IMAGES, LABELS = jax.random.normal(KEY, (4, 8, 8, 1)), jnp.array([0, 1, 2, 1])
TOKENS = jax.random.randint(KEY, (2, 7), 0, 11)


def entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def fit(jit, net, loss_fn, batch, steps=5):
    tx = optax.sgd(0.1, momentum=0.9)
    params = net.init(jax.random.PRNGKey(1), batch[0])
    slots, losses = tx.init(params), []

    @jit
    def update(params, slots, key, batch):
        x, y = batch
        loss, grads = jax.value_and_grad(lambda p: loss_fn(net.apply(p, key, x), y))(params)
        updates, slots = tx.update(grads, slots, params)
        return optax.apply_updates(params, updates), slots, loss

    for n in range(steps):
        params, slots, loss = update(params, slots, jax.random.PRNGKey(n), batch)
        losses.append(loss)
    return params, losses


@model(slow=True)
def mlp_with_dropout(jit):
    def forward(x, training=True):
        x = jax.nn.relu(hk.Linear(16)(x))
        if training:
            x = hk.dropout(hk.next_rng_key(), 0.2, x)
        return hk.nets.MLP([8, 1])(hk.LayerNorm(-1, True, True)(x))

    net = hk.transform(forward)
    params, losses = fit(jit, net, lambda out, y: jnp.mean((out - y) ** 2), (X, Y))
    predict = jit(lambda params, x: net.apply(params, None, x, training=False))
    return losses, params, [predict(params, X[:n]) for n in (8, 2, 5)]


class CNN(hk.Module):
    def __init__(self, classes, name=None):
        super().__init__(name=name)
        self.convs = [hk.Conv2D(4, 3), hk.Conv2D(8, 3, stride=2)]
        self.head = hk.Linear(classes)

    def __call__(self, x, training):
        for conv in self.convs:
            x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(conv(x), training))
        return self.head(hk.Flatten()(hk.max_pool(x, (2, 2, 1), (2, 2, 1), "SAME")))


@model(slow=True)
def cnn_batch_statistics(jit):
    net = hk.transform_with_state(lambda x, training: CNN(3)(x, training))
    params, state = net.init(jax.random.PRNGKey(1), IMAGES, True)

    @jit
    def update(params, state, x, y):
        def loss_fn(params):
            logits, after = net.apply(params, state, None, x, True)
            return entropy(logits, y), after

        (loss, state_after), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), state_after, loss

    predict = jit(lambda params, state, x: net.apply(params, state, None, x, False)[0])
    losses = []
    for _ in range(5):
        params, state, loss = update(params, state, IMAGES, LABELS)
        losses.append(loss)
    return losses, state, [predict(params, state, IMAGES[:n]) for n in (4, 1, 3)]


class Transformer(hk.Module):
    def __call__(self, tokens):
        x = hk.Embed(11, 8)(tokens)
        mask = jnp.tril(jnp.ones((1, 1, x.shape[1], x.shape[1])))
        for _ in range(2):
            h = hk.LayerNorm(-1, True, True)(x)
            x = x + hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling(), model_size=8)(
                h, h, h, mask=mask)
            x = x + hk.nets.MLP([16, 8], activation=jax.nn.gelu)(hk.LayerNorm(-1, True, True)(x))
        return hk.Linear(11)(x)


@model(slow=True)
def transformer(jit):
    net = hk.without_apply_rng(hk.transform(lambda tokens: Transformer()(tokens)))
    wrapped = hk.Transformed(net.init, lambda params, key, x: net.apply(params, x))
    params, losses = fit(jit, wrapped, entropy, (TOKENS[:, :-1], TOKENS[:, 1:]))
    infer = jit(lambda params, tokens: net.apply(params, tokens).argmax(-1))
    return losses, [infer(params, TOKENS[:, :n]) for n in (2, 4, 6)]


@model(slow=True)
def recurrent(jit):
    def forward(x):
        core = hk.LSTM(5)
        outputs, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
        return hk.Linear(1)(outputs[-1])

    net = hk.transform(forward)
    x = jax.random.normal(KEY, (5, 8, 3))
    params, losses = fit(jit, net, lambda out, y: jnp.mean((out - y) ** 2), (x, Y))
    return losses, params
