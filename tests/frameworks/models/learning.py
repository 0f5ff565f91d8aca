"""Reinforcement learning, samplers, searches and training loops, with the Python that people write around them."""

import collections
import math
import random as pyrandom

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax, random

from tests.frameworks.registry import model

KEY = random.key(0)


def init_mlp(key, sizes):
    keys = random.split(key, len(sizes) - 1)
    return [(random.normal(k, (n, m)) / jnp.sqrt(n), jnp.zeros(m)) for k, n, m in zip(keys, sizes[:-1], sizes[1:])]


def mlp(params, x, activation=jnp.tanh):
    for w, b in params[:-1]:
        x = activation(x @ w + b)
    w, b = params[-1]
    return x @ w + b


# --- reinforcement learning


Transition = collections.namedtuple("Transition", "state action reward after done")


class ReplayBuffer:
    def __init__(self, capacity):
        self.memory = collections.deque(maxlen=capacity)
        self.random = pyrandom.Random(0)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, size):
        batch = self.random.sample(list(self.memory), size)
        return Transition(*(np.stack(column) for column in zip(*batch)))

    def __len__(self):
        return len(self.memory)


# The batch is NumPy's, and indexed before it is JAX's: `update` breaks, and `td_loss` twice, which JAX traces.
@model(breaks={"leaves": 3}, slow=True)
def dqn_with_replay(jit):
    rng, buffer = np.random.default_rng(0), ReplayBuffer(32)
    params = target = init_mlp(KEY, (3, 8, 2))
    tx = optax.adam(1e-2)
    slots = tx.init(params)

    @jit
    def act(params, state, epsilon, key):
        explore, choice = random.split(key)
        greedy = mlp(params, state).argmax(-1)
        return jnp.where(random.uniform(explore) < epsilon, random.randint(choice, (), 0, 2), greedy)

    @jit
    def update(params, target, slots, batch):
        def td_loss(params):
            q = jnp.take_along_axis(mlp(params, batch.state), batch.action[:, None], 1)[:, 0]
            best = mlp(target, batch.after).max(-1)
            goal = lax.stop_gradient(batch.reward + 0.9 * best * (1 - batch.done))
            return optax.huber_loss(q, goal).mean()

        loss, grads = jax.value_and_grad(td_loss)(params)
        updates, slots = tx.update(grads, slots)
        return optax.apply_updates(params, updates), slots, loss

    state, losses, actions, key = np.zeros(3, np.float32), [], [], KEY
    for step in range(24):
        key, this = random.split(key)
        action = int(act(params, state, max(0.1, 1 - step / 10), this))
        after = (0.5 * state + rng.normal(size=3)).astype(np.float32)
        buffer.push(state, np.int32(action), np.float32(action - after.sum()), after, np.float32(step % 7 == 6))
        state = after
        actions.append(action)
        if len(buffer) >= 8:
            params, slots, loss = update(params, target, slots, buffer.sample(8))
            losses.append(loss)
        if step % 10 == 9:
            target = params
    return losses, actions, params


# The loop over epochs stops on an array, after it has changed a list.
@model(breaks={"branch": 2, "iterator": 1}, slow=True)
def ppo_update(jit):
    k = random.split(KEY, 4)
    params = {"policy": init_mlp(k[0], (4, 8, 3)), "value": init_mlp(k[1], (4, 8, 1))}
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-3))
    slots = tx.init(params)
    observations, rewards = random.normal(k[2], (6, 2, 4)), random.normal(k[3], (6, 2))
    dones = jnp.zeros((6, 2)).at[3, 0].set(1)

    def advantages(values, rewards, dones, last, gamma=0.99, lam=0.95):
        result, following = [], jnp.zeros_like(last)
        for t in reversed(range(rewards.shape[0])):
            after = last if t == rewards.shape[0] - 1 else values[t + 1]
            delta = rewards[t] + gamma * after * (1 - dones[t]) - values[t]
            following = delta + gamma * lam * (1 - dones[t]) * following
            result.insert(0, following)
        return jnp.stack(result)

    @jit
    def collect(params, key):
        logits = mlp(params["policy"], observations)
        actions = random.categorical(key, logits)
        log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[..., None], -1)[..., 0]
        values = mlp(params["value"], observations)[..., 0]
        gains = advantages(values, rewards, dones, values[-1])
        return actions, log_probs, gains, gains + values

    def loss_fn(params, batch, clip=0.2):
        observation, action, old, gain, ret = batch
        logits = jax.nn.log_softmax(mlp(params["policy"], observation))
        log_prob = jnp.take_along_axis(logits, action[:, None], -1)[:, 0]
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        ratio = jnp.exp(log_prob - old)
        policy = -jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - clip, 1 + clip) * gain).mean()
        value = 0.5 * ((mlp(params["value"], observation)[:, 0] - ret) ** 2).mean()
        entropy = -(jnp.exp(logits) * logits).sum(-1).mean()
        return policy + 0.5 * value - 0.01 * entropy, {"policy": policy, "entropy": entropy,
                                                       "kl": (old - log_prob).mean()}

    @jit
    def train(params, slots, key, batch, epochs=2, minibatches=2, target_kl=0.5):
        flat = [x.reshape(-1, *x.shape[2:]) for x in batch]
        history = []
        for _ in range(epochs):
            key, this = random.split(key)
            order = random.permutation(this, flat[0].shape[0])
            for rows in jnp.split(order, minibatches):
                (loss, info), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, [x[rows] for x in flat])
                updates, slots = tx.update(grads, slots, params)
                params = optax.apply_updates(params, updates)
                history.append({"loss": loss, **info})
            if history[-1]["kl"] > target_kl:
                break
        return params, slots, jax.tree.map(lambda *x: jnp.stack(x).mean(), *history)

    seen = []
    for n in range(3):
        batch = collect(params, random.key(n))
        params, slots, info = train(params, slots, random.key(n), (observations, *batch))
        seen.append(info)
    return seen, params


@model(slow=True)
def reinforce_with_returns_in_numpy(jit):
    params, rng = init_mlp(KEY, (3, 8, 2)), np.random.default_rng(1)

    def discounted(rewards, gamma=0.9):
        out, running = np.zeros(len(rewards), np.float32), 0.0
        for t in reversed(range(len(rewards))):
            running = rewards[t] + gamma * running
            out[t] = running
        return (out - out.mean()) / (out.std() + 1e-6)

    @jit
    def update(params, states, actions, returns):
        def loss_fn(p):
            logp = jax.nn.log_softmax(mlp(p, states))
            return -(logp[jnp.arange(len(actions)), actions] * returns).mean()

        loss, grads = jax.value_and_grad(loss_fn)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    losses = []
    for _ in range(6):
        length = int(rng.integers(4, 9))
        states = rng.normal(size=(length, 3)).astype(np.float32)
        actions = rng.integers(0, 2, length)
        params, loss = update(params, states, actions, discounted(states.sum(1) * actions))
        losses.append(loss)
    return losses, params


# --- samplers


def log_posterior(q):
    return -0.5 * (q[0] ** 2 + (q[1] - q[0] ** 2) ** 2)


@model
def hamiltonian_monte_carlo(jit):
    def leapfrog(q, p, step, count):
        p = p + 0.5 * step * jax.grad(log_posterior)(q)
        for i in range(count):
            q = q + step * p
            if i != count - 1:
                p = p + step * jax.grad(log_posterior)(q)
        return q, p + 0.5 * step * jax.grad(log_posterior)(q)

    @jit
    def transition(key, q, step, count=4):
        k1, k2 = random.split(key)
        p = random.normal(k1, q.shape)
        new_q, new_p = leapfrog(q, p, step, count)
        energy = lambda q, p: -log_posterior(q) + 0.5 * (p ** 2).sum()
        log_ratio = energy(q, p) - energy(new_q, new_p)
        accepted = jnp.log(random.uniform(k2)) < log_ratio
        return jnp.where(accepted, new_q, q), accepted

    q, step, draws, count = jnp.array([0.1, 0.2]), 0.3, [], 0
    for n in range(8):
        q, accepted = transition(random.key(n), q, step)
        count += bool(accepted)
        step *= 1.1 if accepted else 0.8
        draws.append(q)
    return draws, count, step


@model(slow=True)
def metropolis_branching_on_arrays(jit):
    @jit
    def chain(key, x, steps=12):
        accepted, draws = 0, []
        for _ in range(steps):
            key, a, b = random.split(key, 3)
            proposal = x + 0.5 * random.normal(a, x.shape)
            if random.uniform(b) < jnp.exp(log_posterior(proposal) - log_posterior(x)):
                x = proposal
                accepted = accepted + 1
            draws.append(x)
        return jnp.stack(draws), accepted

    draws, accepted = chain(KEY, jnp.array([0.1, 0.2]))
    return draws, int(accepted)


@model
def nuts_tree_by_recursion(jit):
    @jit
    def one_step(q, p, direction, step):
        p = p + 0.5 * direction * step * jax.grad(log_posterior)(q)
        q = q + direction * step * p
        p = p + 0.5 * direction * step * jax.grad(log_posterior)(q)
        return q, p, log_posterior(q) - 0.5 * p @ p

    def build(q, p, log_u, direction, depth, step, rng):
        if depth == 0:
            q, p, joint = one_step(q, p, float(direction), step)
            return q, p, q, p, q, int(log_u <= joint), bool(log_u < joint + 1000)
        qm, pm, qp, pp, chosen, n, ok = build(q, p, log_u, direction, depth - 1, step, rng)
        if ok:
            if direction == -1:
                qm, pm, _, _, other, m, ok = build(qm, pm, log_u, direction, depth - 1, step, rng)
            else:
                _, _, qp, pp, other, m, ok = build(qp, pp, log_u, direction, depth - 1, step, rng)
            if rng.random() < m / max(n + m, 1):
                chosen = other
            n += m
            ok = ok and bool(turning(qm, qp, pm, pp))
        return qm, pm, qp, pp, chosen, n, ok

    turning = jit(lambda qm, qp, pm, pp: ((qp - qm) @ pm >= 0) & ((qp - qm) @ pp >= 0))
    rng, q, draws = np.random.default_rng(0), jnp.array([0.1, 0.2]), []
    for _ in range(3):
        p = jnp.asarray(rng.normal(size=2), jnp.float32)
        log_u = float(log_posterior(q) - 0.5 * p @ p) + math.log(rng.random())
        qm = qp = q
        pm = pp = p
        n, ok = 1, True
        for depth in range(3):
            direction = int(rng.integers(2)) * 2 - 1
            if direction == -1:
                qm, pm, _, _, other, m, ok = build(qm, pm, log_u, direction, depth, 0.2, rng)
            else:
                _, _, qp, pp, other, m, ok = build(qp, pp, log_u, direction, depth, 0.2, rng)
            if ok and rng.random() < m / n:
                q = other
            n += m
            if not ok or not turning(qm, qp, pm, pp):
                break
        draws.append(q)
    return draws


# --- searches


def language_model(params, tokens):
    x = params["embed"][tokens].cumsum(-2) / jnp.arange(1, tokens.shape[-1] + 1)[:, None]
    return mlp(params["head"], x)


def language_params():
    return {"embed": random.normal(KEY, (9, 6)), "head": init_mlp(random.key(1), (6, 8, 9))}


@model(graphs=9, slow=True)
def beam_search_in_python(jit):
    params, width = language_params(), 3
    next_log_probs = jit(lambda params, tokens: jax.nn.log_softmax(language_model(params, tokens)[:, -1]))

    def search(prompt, steps, stop=0):
        beams = [(0.0, list(prompt), False)]
        for _ in range(steps):
            alive = [b for b in beams if not b[2]]
            if not alive:
                break
            logs = next_log_probs(params, jnp.array([tokens for _, tokens, _ in alive]))
            candidates = [b for b in beams if b[2]]
            for (score, tokens, _), row in zip(alive, np.asarray(logs)):
                for token in np.argsort(-row)[:width]:
                    candidates.append((score + float(row[token]), [*tokens, int(token)], int(token) == stop))
            beams = sorted(candidates, key=lambda b: -b[0] / len(b[1]))[:width]
        return [(tokens, done) for _, tokens, done in beams], beams[0][0]

    return search([3, 1], 4), search([5, 2], 4)


# Each threshold decides branches, and changes.
@model(breaks={"scalar_branch": 4, "iterator": 3}, graphs=10, slow=True)
def nucleus_sampling(jit):
    params = language_params()

    @jit
    def sample(params, key, tokens, temperature=1.0, top_k=None, top_p=None, steps=3):
        for _ in range(steps):
            logits = language_model(params, tokens)[:, -1] / temperature
            if top_k is not None:
                least = lax.top_k(logits, min(top_k, logits.shape[-1]))[0][:, -1:]
                logits = jnp.where(logits < least, -jnp.inf, logits)
            if top_p is not None and top_p < 1.0:
                order = jnp.argsort(-logits)
                probs = jax.nn.softmax(jnp.take_along_axis(logits, order, -1))
                keep = jnp.cumsum(probs, -1) - probs < top_p
                keep = jnp.zeros_like(keep).at[jnp.arange(len(keep))[:, None], order].set(keep)
                logits = jnp.where(keep, logits, -jnp.inf)
            key, this = random.split(key)
            tokens = jnp.concatenate([tokens, random.categorical(this, logits)[:, None]], -1)
        return tokens

    tokens = jnp.array([[1, 2], [3, 4]])
    return [sample(params, KEY, tokens), sample(params, KEY, tokens, top_k=3),
            sample(params, KEY, tokens, 0.7, top_p=0.9), sample(params, KEY, tokens, 0.7, 4, 0.8)]


@model(graphs=8, slow=True)
def decoding_with_a_growing_cache(jit):
    width, heads, layers = 8, 2, 2
    k = iter(random.split(KEY, 20))
    params = {"embed": random.normal(next(k), (9, width)), "layers": [
        {name: random.normal(next(k), (width, width)) / 3 for name in ("q", "k", "v", "o")} for _ in range(layers)]}

    def attend(p, x, cache):
        def split(z):
            return z.reshape(*z.shape[:2], heads, -1).transpose(0, 2, 1, 3)

        q, k, v = (split(x @ p[name]) for name in "qkv")
        if cache is not None:
            k, v = jnp.concatenate([cache[0], k], 2), jnp.concatenate([cache[1], v], 2)
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        mask = jnp.tril(jnp.ones((q.shape[2], k.shape[2]), bool), k.shape[2] - q.shape[2])
        y = jax.nn.softmax(jnp.where(mask, scores, -1e9)) @ v
        return y.transpose(0, 2, 1, 3).reshape(x.shape) @ p["o"], (k, v)

    @jit
    def step(params, tokens, caches=None):
        x, kept = params["embed"][tokens], []
        for i, p in enumerate(params["layers"]):
            y, cache = attend(p, x, caches[i] if caches else None)
            x = x + y
            kept.append(cache)
        return (x @ params["embed"].T)[:, -1], kept

    tokens = jnp.array([[1, 2, 3], [4, 5, 6]])
    logits, caches = step(params, tokens)
    out = [logits]
    for _ in range(8):
        logits, caches = step(params, logits.argmax(-1)[:, None], caches)
        out.append(logits)
    return out, caches


# --- clustering, Gaussian processes


@model
def k_means_until_it_stands_still(jit):
    points = jnp.concatenate([random.normal(KEY, (10, 2)), 4 + random.normal(random.key(1), (10, 2))])

    @jit
    def fit(points, k=2, most=30, tolerance=1e-4):
        centres = points[:k]
        for i in range(most):  # noqa: B007
            nearest = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
            masks = [(nearest == j)[:, None] for j in range(k)]
            moved = jnp.stack([jnp.where(m, points, 0).sum(0) / jnp.maximum(m.sum(), 1) for m in masks])
            shift = jnp.abs(moved - centres).max()
            centres = moved
            if shift < tolerance:
                break
        return centres, nearest, i

    return fit(points)


@model(slow=True)
def gaussian_process(jit):
    x = jnp.linspace(-2, 2, 12)[:, None]
    y = jnp.sin(2 * x[:, 0])

    def kernel(p, a, b):
        d2 = ((a[:, None] - b[None]) ** 2 / jnp.exp(p["log_length"]) ** 2).sum(-1)
        return jnp.exp(p["log_scale"]) * jnp.exp(-0.5 * d2)

    def nll(p, x, y):
        k = kernel(p, x, x) + (jnp.exp(p["log_noise"]) + 1e-6) * jnp.eye(len(x))
        factor = jax.scipy.linalg.cho_factor(k, lower=True)
        alpha = jax.scipy.linalg.cho_solve(factor, y)
        return 0.5 * y @ alpha + jnp.log(jnp.diag(factor[0])).sum() + 0.5 * len(x) * math.log(2 * math.pi)

    @jit
    def step(p, x, y):
        loss, grads = jax.value_and_grad(nll)(p, x, y)
        return {k: v - 0.01 * grads[k] for k, v in p.items()}, loss

    @jit
    def predict(p, x, y, new):
        k = kernel(p, x, x) + (jnp.exp(p["log_noise"]) + 1e-6) * jnp.eye(len(x))
        factor, cross = jax.scipy.linalg.cho_factor(k, lower=True), kernel(p, new, x)
        mean = cross @ jax.scipy.linalg.cho_solve(factor, y)
        v = jax.scipy.linalg.solve_triangular(factor[0], cross.T, lower=True)
        return mean, jnp.diag(kernel(p, new, new)) - (v ** 2).sum(0)

    p, losses = {"log_length": jnp.array(0.0), "log_scale": jnp.array(0.0), "log_noise": jnp.array(-2.0)}, []
    for _ in range(4):
        p, loss = step(p, x, y)
        losses.append(loss)
    return losses, p, predict(p, x, y, jnp.array([[0.1], [0.5], [3.0]]))


# --- what stands around training


@model(tolerance=1e-2)  # bfloat16 inside
def dynamic_loss_scaling_in_python(jit):
    params, x = init_mlp(KEY, (4, 8, 1)), random.normal(KEY, (8, 4))

    class Scaler:
        def __init__(self):
            self.scale, self.good = 2.0 ** 10, 0

        def update(self, finite):
            if finite:
                self.good += 1
                if self.good == 3:
                    self.scale, self.good = self.scale * 2, 0
            else:
                self.scale, self.good = max(self.scale / 2, 1.0), 0

    @jit
    def gradients(params, x, scale):
        half = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)
        loss = lambda p: (mlp(p, x.astype(jnp.bfloat16)).astype(jnp.float32) ** 2).mean() * scale
        grads = jax.tree.map(lambda g: g.astype(jnp.float32) / scale, jax.grad(loss)(half))
        return grads, jnp.all(jnp.array([jnp.isfinite(g).all() for g in jax.tree.leaves(grads)]))

    scaler, scales = Scaler(), []
    for n in range(6):
        grads, finite = gradients(params, x * (1e30 if n == 1 else 1), scaler.scale)
        if finite:
            params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        scaler.update(finite)
        scales.append(scaler.scale)
    return scales, params


# A loss that Python compares with its history.
@model(breaks={"branch": 5}, slow=True)
def whole_training_loop_with_early_stopping(jit):
    x, y = random.normal(KEY, (16, 4)), random.normal(random.key(1), (16, 1))

    class EarlyStopping:
        def __init__(self, patience=2, least=1e-3):
            self.patience, self.least, self.best, self.waited = patience, least, float("inf"), 0

        def __call__(self, loss):
            if loss < self.best - self.least:
                self.best, self.waited = loss, 0
            else:
                self.waited += 1
            return self.waited >= self.patience

    def loss_fn(p, x, y):
        return ((mlp(p, x) - y) ** 2).mean()

    @jit
    def fit(params, x, y, epochs=8):
        stop, history, best, average = EarlyStopping(), [], params, params
        for epoch in range(epochs):
            grads = jax.grad(loss_fn)(params, x[:12], y[:12])
            params = jax.tree.map(lambda p, g: p - 0.3 * g, params, grads)
            average = jax.tree.map(lambda a, p: (a * epoch + p) / (epoch + 1), average, params)
            loss = loss_fn(params, x[12:], y[12:]).item()
            history.append(loss)
            if loss <= min(history):
                best = params
            if stop(loss):
                break
        return history, best, average, stop.best

    return fit(init_mlp(KEY, (4, 8, 1)), x, y)


# The draws of a NumPy generator decide, in Python.
@model(breaks={"attribute": 6, "call": 8, "scalar_branch": 2, "leaves": 1}, graphs=8)
def augmentation_by_numpy_and_python(jit):
    images = random.normal(KEY, (4, 6, 6, 1))

    @jit
    def augment(images, rng):
        if rng.random() < 0.5:
            images = images[:, :, ::-1]
        if rng.uniform() < 0.5:
            top, left = rng.integers(0, 3, 2)
            padded = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
            images = lax.dynamic_slice(padded, (0, top, left, 0), images.shape)
        return images * np.float32(rng.normal(1, 0.1))

    rng = np.random.default_rng(0)
    return [augment(images, rng) for _ in range(5)], rng.random()


# So do those of Python's own generator, inside the function that is differentiated.
@model(breaks={"call": 5}, slow=True)
def teacher_forcing_by_chance(jit):
    k = random.split(KEY, 4)
    params = {"embed": random.normal(k[0], (7, 5)), "enc": random.normal(k[1], (10, 5)) / 3,
              "dec": random.normal(k[2], (15, 5)) / 3, "out": random.normal(k[3], (5, 7)) / 2}
    source, target = random.randint(k[0], (2, 4), 0, 7), random.randint(k[1], (2, 3), 0, 7)

    def seq2seq(p, source, target, forcing):
        h, states = jnp.zeros((source.shape[0], 5)), []
        for t in range(source.shape[1]):
            h = jnp.tanh(jnp.concatenate([p["embed"][source[:, t]], h], -1) @ p["enc"])
            states.append(h)
        states = jnp.stack(states, 1)
        token, loss = jnp.zeros(source.shape[0], jnp.int32), 0.0
        for t in range(target.shape[1]):
            weights = jax.nn.softmax(jnp.einsum("bh,bth->bt", h, states))
            context = jnp.einsum("bt,bth->bh", weights, states)
            h = jnp.tanh(jnp.concatenate([p["embed"][token], context, h], -1) @ p["dec"])
            logits = h @ p["out"]
            loss += optax.softmax_cross_entropy_with_integer_labels(logits, target[:, t]).mean()
            token = target[:, t] if pyrandom.random() < forcing else logits.argmax(-1)
        return loss / target.shape[1]

    @jit
    def step(params, source, target, forcing):
        loss, grads = jax.value_and_grad(seq2seq)(params, source, target, forcing)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    pyrandom.seed(3)
    losses = []
    for _ in range(4):
        params, loss = step(params, source, target, 0.5)
        losses.append(loss)
    return losses, params, pyrandom.random()
