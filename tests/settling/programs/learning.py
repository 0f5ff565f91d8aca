"""Training loops that make their optimiser, loss and step in the call: Optax on plain pytrees."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tests.settling.kit import CLASSES, program


def weights(seed: int, *sizes: int) -> list[dict[str, Any]]:
    keys = jax.random.split(jax.random.key(seed), len(sizes))
    return [{"w": jax.random.normal(k, (m, n)) / m ** 0.5, "b": jnp.zeros(n)}
            for k, m, n in zip(keys, sizes, sizes[1:])]


def mlp(params, x):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def trajectory(i: int) -> tuple[Any, ...]:
    k = jax.random.split(jax.random.key(i), 3)
    return (weights(0, 4, 8, 2), weights(1, 4, 8, 1), jax.random.normal(k[0], (6, 4)),
            jax.random.randint(k[1], (6,), 0, 2), jax.random.normal(k[2], (6,)))


def advantages(values, rewards, gamma=0.99, lam=0.95):
    out, last = [], jnp.zeros(())
    for t in reversed(range(len(rewards))):
        following = values[t + 1] if t + 1 < len(rewards) else 0.0
        last = rewards[t] + gamma * following - values[t] + gamma * lam * last
        out.append(last)
    return jnp.stack(out[::-1])


@program(args=trajectory)
def ppo(policy, critic, states, actions, rewards):
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4))
    params = {"policy": policy, "critic": critic}
    opt = tx.init(params)
    old = jax.nn.log_softmax(mlp(policy, states))[jnp.arange(6), actions]
    values = mlp(critic, states)[:, 0]
    adv = advantages(values, rewards)
    target = adv + values

    def loss(p, rows):
        logp = jax.nn.log_softmax(mlp(p["policy"], states[rows]))[jnp.arange(len(rows)), actions[rows]]
        ratio = jnp.exp(logp - old[rows])
        surrogate = jnp.minimum(ratio * adv[rows], jnp.clip(ratio, 0.8, 1.2) * adv[rows])
        value = jnp.mean((mlp(p["critic"], states[rows])[:, 0] - target[rows]) ** 2)
        return -jnp.mean(surrogate) + 0.5 * value, {"value": value}

    for _ in range(2):
        for rows in (jnp.arange(3), jnp.arange(3, 6)):
            (total, aux), grads = jax.value_and_grad(loss, has_aux=True)(params, rows)
            updates, opt = tx.update(grads, opt, params)
            params = optax.apply_updates(params, updates)
            print(end="")
    return params, total, aux


@program(args=trajectory)
def reinforce(policy, critic, states, actions, rewards):
    tx = optax.sgd(optax.exponential_decay(0.1, 10, 0.9))
    opt = tx.init(policy)
    returns = jnp.cumsum(rewards[::-1])[::-1]

    def loss(p):
        return -jnp.mean(jax.nn.log_softmax(mlp(p, states))[jnp.arange(6), actions] * returns)

    for _ in range(2):
        value, grads = jax.value_and_grad(loss)(policy)
        print(end="")
        updates, opt = tx.update(grads, opt)
        policy = optax.apply_updates(policy, updates)
    return policy, value


@program(args=trajectory)
def dqn(online, target, states, actions, rewards):
    target = jax.tree.map(lambda a: a * 0.9, online)
    tx = optax.rmsprop(1e-3, momentum=0.9)
    opt = tx.init(online)
    for step in range(3):
        def td(p):
            q = mlp(p, states)[jnp.arange(6), actions]
            best = jnp.max(mlp(target, states), axis=1)
            return jnp.mean(optax.huber_loss(q, jax.lax.stop_gradient(rewards + 0.9 * best)))

        grads = jax.grad(td)(online)
        updates, opt = tx.update(grads, opt, online)
        online = optax.apply_updates(online, updates)
        if step % 2:
            print("target")
            target = optax.incremental_update(online, target, 0.5)
    return online, target


@program(args=lambda i: (weights(0, 3, 8, 2), weights(1, 2, 8, 1), jax.random.key(i)))
def gan(gen, disc, key):
    g_tx, d_tx = optax.adam(1e-3, b1=0.5), optax.adam(1e-3, b1=0.5)
    g_opt, d_opt = g_tx.init(gen), d_tx.init(disc)
    for _ in range(2):
        key, a, b = jax.random.split(key, 3)
        noise, real = jax.random.normal(a, (4, 3)), jax.random.normal(b, (4, 2)) + 2

        def d_loss(d):
            fake = mlp(d, mlp(gen, noise))
            return jnp.mean(jax.nn.softplus(-mlp(d, real))) + jnp.mean(jax.nn.softplus(fake))

        def g_loss(g):
            return jnp.mean(jax.nn.softplus(-mlp(disc, mlp(g, noise))))

        d_value, grads = jax.value_and_grad(d_loss)(disc)
        updates, d_opt = d_tx.update(grads, d_opt)
        disc = optax.apply_updates(disc, updates)
        g_value, grads = jax.value_and_grad(g_loss)(gen)
        updates, g_opt = g_tx.update(grads, g_opt)
        gen = optax.apply_updates(gen, updates)
        print(end="")
    return gen, disc, d_value, g_value


def gram(x):
    flat = x.reshape(-1, x.shape[-1])
    return flat.T @ flat / flat.shape[0]


@program(args=lambda i: (jax.random.normal(jax.random.key(i), (1, 8, 8, 3)),
                         jax.random.normal(jax.random.key(7), (1, 8, 8, 3))))
def style_transfer(content, style):
    filters = [jax.random.normal(jax.random.key(n), (3, 3, m, 4)) / 5 for n, m in enumerate((3, 4))]

    def features(x):
        out = []
        for f in filters:
            x = jax.nn.relu(jax.lax.conv_general_dilated(x, f, (1, 1), "SAME",
                                                         dimension_numbers=("NHWC", "HWIO", "NHWC")))
            out.append(x)
        return out

    wanted, kept = [gram(f) for f in features(style)], features(content)[-1]
    tx = optax.adam(optax.cosine_decay_schedule(0.1, 10))
    image = content
    opt = tx.init(image)

    def loss(x):
        found = features(x)
        return sum(jnp.mean((gram(f) - w) ** 2) for f, w in zip(found, wanted)) + jnp.mean((found[-1] - kept) ** 2)

    for step in range(2):
        value, grads = jax.value_and_grad(loss)(image)
        updates, opt = tx.update(grads, opt)
        image = optax.apply_updates(image, updates)
        print(step)
    return image, value


class TrainState(NamedTuple):
    params: Any
    opt: Any
    step: int


@program(args=lambda i: (weights(0, 4, 8, 2), jax.random.normal(jax.random.key(i), (5, 4)), 0.01 * (i + 1)),
         open=CLASSES)
def trainer_object(params, x, rate):
    class Trainer:
        def __init__(self, tx):
            self.tx, self.hooks, self.losses = tx, [], []
            self.state = TrainState(params, tx.init(params), 0)

        @functools.partial(jax.jit, static_argnums=0)
        def update(self, state, x):
            value, grads = jax.value_and_grad(lambda p: jnp.mean(mlp(p, x) ** 2))(state.params)
            updates, opt = self.tx.update(grads, state.opt, state.params)
            return TrainState(optax.apply_updates(state.params, updates), opt, state.step + 1), value

        def fit(self, x, steps):
            for _ in range(steps):
                self.state, value = self.update(self.state, x)
                self.losses.append(value)
                for hook in self.hooks:
                    hook(self)
            return self.state

    trainer = Trainer(optax.adamw(rate))
    trainer.hooks.append(lambda t: print(len(t.losses)))
    return trainer.fit(x, 2)


def trained(tx, params, batches):
    """Steps with an optimiser, and a print after each."""
    opt = tx.init(params)
    for rows in batches:
        grads = jax.grad(lambda p: jnp.sum(mlp(p, rows) ** 2))(params)
        updates, opt = tx.update(grads, opt, params)
        params = optax.apply_updates(params, updates)
        print(end="")
    return params


@program(args=lambda i: (optax.adam(optax.linear_schedule(0.1, 0.01 * (i + 1), 10)), weights(0, 4, 3),
                         jnp.ones((2, 4)) * i))
def optimiser_given(tx, params, x):
    return trained(tx, params, (x, x))


@program(args=lambda i: (weights(0, 4, 3), jnp.ones((2, 4)) * i))
def many_transforms(params, x):
    tx = optax.multi_transform({"w": optax.adamw(1e-2), "b": optax.sgd(optax.warmup_cosine_decay_schedule(
        0.0, 0.1, 2, 10))}, [{"w": "w", "b": "b"} for _ in params])
    return trained(tx, params, (x, x))


@program(args=lambda i: (weights(0, 4, 3), jnp.ones((4, 4)) * i))
def accumulated(params, x):
    tx = optax.MultiSteps(optax.inject_hyperparams(optax.adam)(learning_rate=0.1), every_k_schedule=2)
    opt = tx.init(params)
    for rows in (x[:2], x[2:]):
        grads = jax.grad(lambda p: jnp.sum(mlp(p, rows) ** 2))(params)
        updates, opt = tx.update(grads, opt, params)
        params = optax.apply_updates(params, updates)
        print(end="")
    return params


@program(args=lambda i: (jax.random.normal(jax.random.key(i), (3, 5, 4)),))
def maml(tasks):
    params, outer = weights(0, 4, 8, 1), optax.adam(1e-2)
    opt = outer.init(params)

    def adapted(p, x):
        inner = optax.sgd(0.1)
        state = inner.init(p)
        for _ in range(2):
            grads = jax.grad(lambda q: jnp.mean((mlp(q, x) - 1) ** 2))(p)
            updates, state = inner.update(grads, state, p)
            p = optax.apply_updates(p, updates)
        return p

    def meta(p):
        return sum(jnp.mean((mlp(adapted(p, x), x) - 1) ** 2) for x in tasks) / len(tasks)

    for _ in range(2):
        value, grads = jax.value_and_grad(meta)(params)
        updates, opt = outer.update(grads, opt)
        params = optax.apply_updates(params, updates)
        print(end="")
    return params, value
