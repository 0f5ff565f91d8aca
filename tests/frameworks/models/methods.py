"""Graph networks, flows, adversaries, solvers, typed and asserted code, optimisers of many kinds."""

import functools
import math
from typing import NamedTuple

import beartype
import chex
import diffrax
import distrax
import equinox as eqx
import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax
from jax import lax, random
from jaxtyping import Array, Float, Int, jaxtyped

from tests.frameworks.registry import caught, model

KEY = random.key(0)
X, Y = random.normal(KEY, (8, 4)), random.normal(random.key(1), (8, 1))


def init_mlp(key, sizes):
    keys = random.split(key, len(sizes) - 1)
    return [(random.normal(k, (n, m)) / jnp.sqrt(n), jnp.zeros(m)) for k, n, m in zip(keys, sizes[:-1], sizes[1:])]


def mlp(params, x, activation=jnp.tanh):
    *hidden, (w, b) = params
    for a, c in hidden:
        x = activation(x @ a + c)
    return x @ w + b


# --- graphs


class Graph(NamedTuple):
    nodes: jax.Array
    edges: jax.Array
    senders: jax.Array
    receivers: jax.Array
    labels: jax.Array


def random_graph(seed, n, m):
    rng = np.random.default_rng(seed)
    return Graph(jnp.asarray(rng.normal(size=(n, 4)), jnp.float32), jnp.asarray(rng.normal(size=(m, 2)), jnp.float32),
                 jnp.asarray(rng.integers(0, n, m)), jnp.asarray(rng.integers(0, n, m)),
                 jnp.asarray(rng.integers(0, 3, n)))


@model
def message_passing(jit):
    graphs = [random_graph(i, n, m) for i, (n, m) in enumerate([(6, 10), (5, 8), (7, 12)])]
    k = random.split(KEY, 5)
    params = {"layers": [{"message": init_mlp(a, (10, 8, 4)), "update": init_mlp(b, (8, 8, 4))}
                         for a, b in zip(k[:2], k[2:4])], "head": init_mlp(k[4], (4, 3))}

    def layer(p, g):
        messages = mlp(p["message"], jnp.concatenate([g.nodes[g.senders], g.nodes[g.receivers], g.edges], -1))
        count = g.nodes.shape[0]
        total = jax.ops.segment_sum(messages, g.receivers, count)
        degree = jax.ops.segment_sum(jnp.ones(len(g.receivers)), g.receivers, count)
        mean = total / jnp.maximum(degree, 1)[:, None]
        return g._replace(nodes=g.nodes + mlp(p["update"], jnp.concatenate([g.nodes, mean], -1)))

    def attention(g, logits):
        top = jax.ops.segment_max(logits, g.receivers, g.nodes.shape[0])
        weights = jnp.exp(logits - top[g.receivers])
        return weights / jax.ops.segment_sum(weights, g.receivers, g.nodes.shape[0])[g.receivers]

    @jit
    def step(params, g):
        def loss_fn(p):
            h = g
            for q in p["layers"]:
                h = layer(q, h)
            weighted = attention(h, h.edges[:, 0])[:, None] * h.nodes[h.senders]
            pooled = jax.ops.segment_sum(weighted, h.receivers, len(h.nodes))
            return optax.softmax_cross_entropy_with_integer_labels(mlp(p["head"], h.nodes + pooled), g.labels).mean()

        loss, grads = jax.value_and_grad(loss_fn)(params)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), loss

    losses = []
    for g in graphs:
        params, loss = step(params, g)
        losses.append(loss)
    return losses, params


@model
def jraph_graph_network(jit):
    g = random_graph(0, 6, 10)
    graph = jraph.GraphsTuple(g.nodes, g.edges, g.receivers, g.senders, jnp.zeros((1, 2)), jnp.array([6]),
                              jnp.array([10]))
    k = random.split(KEY, 2)
    params = {"edge": init_mlp(k[0], (12, 8, 2)), "node": init_mlp(k[1], (10, 8, 4))}

    @jit
    def step(params, graph):
        def loss_fn(params):
            @jraph.concatenated_args
            def update_edge(features):
                return mlp(params["edge"], features)

            @jraph.concatenated_args
            def update_node(features):
                return mlp(params["node"], features)

            net = jraph.GraphNetwork(update_edge, update_node)
            return (net(graph).nodes ** 2).mean()

        loss, grads = jax.value_and_grad(loss_fn)(params)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), loss

    losses = []
    for _ in range(3):
        params, loss = step(params, graph)
        losses.append(loss)
    return losses, params


# --- generative models


@model
def real_nvp(jit):
    x = random.normal(KEY, (16, 2)) @ jnp.array([[1.0, 0.5], [0.0, 0.3]])
    layers = [{"net": init_mlp(k, (1, 8, 2)), "flip": bool(i % 2)} for i, k in enumerate(random.split(KEY, 4))]
    params, flips = [p["net"] for p in layers], [p["flip"] for p in layers]

    def forward(params, x):
        log_det = jnp.zeros(x.shape[0])
        for p, flip in zip(params, flips, strict=True):
            a, b = (x[:, 1:], x[:, :1]) if flip else (x[:, :1], x[:, 1:])
            scale, shift = jnp.split(mlp(p, a), 2, -1)
            scale = jnp.tanh(scale)
            b = b * jnp.exp(scale) + shift
            log_det += scale.sum(-1)
            x = jnp.concatenate((b, a) if flip else (a, b), -1)
        return x, log_det

    def inverse(params, z):
        for p, flip in reversed(list(zip(params, flips))):
            a, b = (z[:, 1:], z[:, :1]) if flip else (z[:, :1], z[:, 1:])
            scale, shift = jnp.split(mlp(p, a), 2, -1)
            b = (b - shift) * jnp.exp(-jnp.tanh(scale))
            z = jnp.concatenate((b, a) if flip else (a, b), -1)
        return z

    @jit
    def step(params, x):
        def nll(params):
            z, log_det = forward(params, x)
            return -(-0.5 * (z ** 2).sum(-1) - math.log(2 * math.pi) + log_det).mean()

        loss, grads = jax.value_and_grad(nll)(params)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), loss

    losses = []
    for _ in range(4):
        params, loss = step(params, x)
        losses.append(loss)
    return losses, jit(inverse)(params, x[:3]), jit(forward)(params, x[:5])


class Generator(eqx.Module):
    layers: list
    noise: int = eqx.field(static=True)

    def __init__(self, noise, size, *, key):
        a, b = random.split(key)
        self.layers = [eqx.nn.Linear(noise, 8, key=a), jax.nn.leaky_relu, eqx.nn.Linear(8, size, key=b), jnp.tanh]
        self.noise = noise

    def __call__(self, z):
        for layer in self.layers:
            z = layer(z)
        return z


@model
def adversaries_with_two_optimisers(jit):
    k = random.split(KEY, 2)
    generator, critic = Generator(3, 4, key=k[0]), eqx.nn.MLP(4, 1, 8, 2, key=k[1])
    tx_g, tx_c = optax.adam(1e-2, b1=0.5), optax.rmsprop(5e-3)
    slots_g, slots_c = (tx.init(eqx.filter(m, eqx.is_array)) for tx, m in ((tx_g, generator), (tx_c, critic)))

    @jit
    def train_critic(generator, critic, slots, real, key):
        @eqx.filter_value_and_grad
        def loss_fn(critic):
            fake = lax.stop_gradient(jax.vmap(generator)(random.normal(key, (len(real), generator.noise))))
            mix = 0.5 * real + 0.5 * fake
            slopes = jax.vmap(jax.grad(lambda x: critic(x)[0]))(mix)
            penalty = ((jnp.linalg.norm(slopes, axis=-1) - 1) ** 2).mean()
            return jax.vmap(critic)(fake).mean() - jax.vmap(critic)(real).mean() + 10 * penalty

        loss, grads = loss_fn(critic)
        updates, slots = tx_c.update(grads, slots, eqx.filter(critic, eqx.is_array))
        return eqx.apply_updates(critic, updates), slots, loss

    @jit
    def train_generator(generator, critic, slots, key, count):
        @eqx.filter_value_and_grad
        def loss_fn(generator):
            return -jax.vmap(critic)(jax.vmap(generator)(random.normal(key, (count, generator.noise)))).mean()

        loss, grads = loss_fn(generator)
        updates, slots = tx_g.update(grads, slots)
        return eqx.apply_updates(generator, updates), slots, loss

    losses = []
    for n in range(6):
        critic, slots_c, loss = train_critic(generator, critic, slots_c, X, random.key(n))
        losses.append(loss)
        if n % 2:
            generator, slots_g, loss = train_generator(generator, critic, slots_g, random.key(n), 8)
            losses.append(loss)
    return losses, eqx.filter((generator, critic), eqx.is_array)


# --- solvers


class Field(eqx.Module):
    net: eqx.nn.MLP

    def __call__(self, t, y, args):
        return self.net(y) - 0.1 * t * y


@model
def neural_ode_by_diffrax(jit):
    times = jnp.linspace(0.0, 1.0, 4)
    field = Field(eqx.nn.MLP(2, 2, 8, 1, jnp.tanh, key=KEY))
    goal = jnp.stack([jnp.cos(times), jnp.sin(times)], -1)

    def solve(field, y0, ts):
        solution = diffrax.diffeqsolve(diffrax.ODETerm(field), diffrax.Tsit5(), ts[0], ts[-1], 0.1, y0,
                                       saveat=diffrax.SaveAt(ts=ts),
                                       stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6))
        return solution.ys

    @jit
    def step(field, y0, ts, goal):
        loss, grads = eqx.filter_value_and_grad(lambda f: ((solve(f, y0, ts) - goal) ** 2).mean())(field)
        return eqx.apply_updates(field, jax.tree.map(lambda g: -0.1 * g, grads)), loss

    losses = []
    for _ in range(3):
        field, loss = step(field, goal[0], times, goal)
        losses.append(loss)
    return losses, eqx.filter(field, eqx.is_array)


# The adaptive one halves its step, or goes on, as an array says.
@model(breaks={"branch": 3, "scalar_branch": 3})
def neural_ode_by_hand(jit):
    params, goal = init_mlp(KEY, (2, 8, 2)), jnp.array([[0.5, 0.1], [0.2, 0.4]])

    def rk4(f, y, t, h):
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h / 2 * k1)
        k3 = f(t + h / 2, y + h / 2 * k2)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(t + h, y + h * k3))

    def odeint(f, y, ts):
        ys = [y]
        for a, b in zip(ts, ts[1:]):
            y = rk4(f, y, a, b - a)
            ys.append(y)
        return jnp.stack(ys)

    @jit
    def step(params, y, goal, ts):
        def loss_fn(p):
            return ((odeint(lambda t, y: mlp(p, y) * math.cos(t), y, ts)[-1] - goal) ** 2).mean()

        loss, grads = jax.value_and_grad(loss_fn)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    losses = []
    for _ in range(3):
        params, loss = step(params, X[:2, :2], goal, np.linspace(0, 1, 5).tolist())
        losses.append(loss)

    @jit
    def adaptive(params, y, end=1.0, tolerance=1e-3):
        t, h, taken = 0.0, 0.25, 0
        f = lambda t, y: mlp(params, y)
        while t < end:
            h = min(h, end - t)
            once, twice = rk4(f, y, t, h), rk4(f, rk4(f, y, t, h / 2), t + h / 2, h / 2)
            error = jnp.abs(once - twice).max()
            if error < tolerance:
                t, y, taken = t + h, twice, taken + 1
            else:
                h = h / 2
        return y, taken

    return losses, params, adaptive(params, X[:2, :2])


# --- typed and asserted code


def typed(fn):
    return jaxtyped(typechecker=beartype.beartype)(fn)


@model(breaks={"effect": 2}, eager=("raises",))  # what is refused is told by code that asks for a terminal
def typed_by_jaxtyping_and_beartype(jit):
    Queries, Keys, Rows = (Float[Array, dims] for dims in ("heads n d", "heads m d", "h n d"))
    Labels, Square, Scalar = Int[Array, " n"], Float[Array, "d d"], Float[Array, ""]

    @typed
    def attend(q: Queries, k: Keys, v: Keys) -> Queries:
        return jax.nn.softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])) @ v

    @typed
    def loss_fn(w: Square, x: Rows, labels: Labels) -> Scalar:
        y = attend(x @ w, x, x).sum(0)
        return optax.softmax_cross_entropy_with_integer_labels(y, labels).mean()

    @jit
    @typed
    def step(params: dict, x: Rows, labels: Labels):
        loss, grads = jax.value_and_grad(lambda p: loss_fn(p["w"], x, labels))(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    params, losses, x, labels = {"w": random.normal(KEY, (4, 4))}, [], X.reshape(2, 4, 4), jnp.array([0, 1, 2, 3])
    for _ in range(4):
        params, loss = step(params, x, labels)
        losses.append(loss)
    return losses, params, caught(jit(attend), X, X, X), caught(jit(attend), x, x, x[:, :2])


@model
def chex_and_distrax(jit):
    @chex.dataclass
    class Parameters:
        mean: chex.Array
        scale: chex.Array

    @jit
    def step(params, key, x):
        chex.assert_rank([params.mean, x], [1, 2])
        chex.assert_equal_shape([params.mean, params.scale])
        chex.assert_tree_all_finite({"a": 1.0})

        def loss_fn(params):
            normal = distrax.MultivariateNormalDiag(params.mean, jax.nn.softplus(params.scale))
            prior = distrax.MultivariateNormalDiag(jnp.zeros_like(params.mean), jnp.ones_like(params.scale))
            sample, log_prob = normal.sample_and_log_prob(seed=key, sample_shape=(3,))
            noise = (log_prob + sample.sum(-1)).mean()
            return -normal.log_prob(x).mean() + 0.1 * normal.kl_divergence(prior) + 0.01 * noise

        loss, grads = jax.value_and_grad(loss_fn)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    params, losses = Parameters(mean=jnp.zeros(4), scale=jnp.ones(4)), []
    for n in range(4):
        params, loss = step(params, random.key(n), X)
        losses.append(loss)

    @jit
    def policy(logits, key):
        chosen = distrax.Categorical(logits)
        return chosen.sample(seed=key), chosen.entropy(), chosen.mode()

    return losses, params.mean, params.scale, policy(X, KEY)


# --- optimisers


@model
def chains_masks_schedules_and_accumulation(jit):
    params = {"body": init_mlp(KEY, (4, 8, 1)), "norm": {"scale": jnp.ones(4), "bias": jnp.zeros(4)}}

    def decayed(params):
        return jax.tree_util.tree_map_with_path(lambda path, p: p.ndim > 1 and "norm" not in str(path), params)

    schedule = optax.join_schedules([optax.linear_schedule(0.0, 0.1, 2), optax.cosine_decay_schedule(0.1, 4)], [2])
    descent = optax.scale_by_schedule(lambda n: -schedule(n))
    body = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(), optax.add_decayed_weights(1e-2), descent)
    momentum = optax.masked(optax.trace(0.9), lambda tree: jax.tree.map(lambda p: True, tree))
    decay = optax.chain(optax.add_decayed_weights(1e-3, mask=decayed))
    tx = optax.multi_transform(
        {"body": optax.MultiSteps(body, 2), "norm": optax.chain(momentum, optax.scale(-0.1))},
        lambda params: {k: jax.tree.map(lambda _: k, v) for k, v in params.items()})

    def loss_fn(p, x, y):
        return ((mlp(p["body"], x * p["norm"]["scale"] + p["norm"]["bias"]) - y) ** 2).mean()

    @jit
    def step(params, slots, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        grads, _ = decay.update(grads, decay.init(params), params)
        updates, slots = tx.update(grads, slots, params)
        return optax.apply_updates(params, updates), slots, loss, optax.global_norm(grads)

    slots, losses = tx.init(params), []
    for _ in range(6):
        params, slots, *seen = step(params, slots, X, Y)
        losses.append(seen)
    return losses, params


@model
def checkpointed_layers_and_exponential_averages(jit):
    params = [init_mlp(k, (4, 8, 4)) for k in random.split(KEY, 3)]
    ema = optax.ema(0.9)

    @functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
    def block(p, x):
        return x + mlp(p, x)

    def forward(params, x, remat=True):
        run = block if remat else (lambda p, x: x + mlp(p, x))
        for p in params:
            x = run(p, x)
        return x

    @jit
    def step(params, average, x, remat):
        loss, grads = jax.value_and_grad(lambda p: (forward(p, x, remat) ** 2).mean())(params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        _, average = ema.update(params, average)
        return params, average, loss

    average, losses = ema.init(params), []
    for n in range(4):
        params, average, loss = step(params, average, X, n < 2)
        losses.append(loss)
    return losses, average
