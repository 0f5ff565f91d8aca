"""Searches, buffers and bookkeeping: much Python around some arrays."""

from __future__ import annotations

import collections
import heapq
import itertools
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.settling.kit import program

ITERATOR = "an iterator of C that Python goes on with after a break"
TABLE = jnp.log(jax.nn.softmax(jax.random.normal(jax.random.key(0), (5, 5))))


def number(i: int) -> tuple[Any, ...]:
    return TABLE + 0.1 * i, 3


@program(args=number)
def beam_search(table, width):
    beams = {(0,): 0.0}
    for _ in range(3):
        found = {}
        for tokens, score in beams.items():
            logits = np.asarray(jax.nn.log_softmax(table[tokens[-1]]))
            for token, s in enumerate(logits):
                found[(*tokens, token)] = score + float(s)
        beams = dict(sorted(found.items(), key=lambda kv: -kv[1])[:width])
    return list(beams), jnp.array(list(beams.values()))


@program(args=number)
def greedy_decoding(table, width):
    tokens = [0]
    while len(tokens) < 6:
        token = int(jnp.argmax(jax.nn.log_softmax(table[tokens[-1]] - 0.1 * len(tokens))))
        tokens.append(token)
        if token == 4:
            break
    return tokens


@program(args=number)
def best_first(table, width):
    frontier, seen = [(0.0, (0,))], set()
    while frontier and len(seen) < 5:
        cost, path = heapq.heappop(frontier)
        if path[-1] in seen:
            continue
        seen.add(path[-1])
        costs = -table[path[-1]]
        for token in np.argsort(np.asarray(costs))[:width]:
            heapq.heappush(frontier, (cost + float(costs[token]), (*path, int(token))))
    return sorted(seen)


class Replay:
    def __init__(self, size):
        self.items = collections.deque(maxlen=size)

    def add(self, *item):
        self.items.append(item)

    def sample(self, rng, n):
        chosen = rng.sample(list(self.items), n)
        return tuple(jnp.stack(column) for column in zip(*chosen))


@program(args=lambda i: (jnp.arange(4.0) + i, 16))
def replay_buffer(x, size):
    buffer, rng = Replay(size), random.Random(0)
    for n in range(20):
        buffer.add(x * n, jnp.float32(n))
    states, rewards = buffer.sample(rng, 5)
    return jnp.mean(states, 0) * jnp.sum(rewards)


@program(args=lambda i: (np.random.default_rng(i).normal(size=(8, 4)).astype(np.float32), np.arange(8) % 3))
def batches(data, labels):
    rng, totals = np.random.default_rng(0), []
    for start in range(0, 8, 4):
        order = rng.permutation(8)[start:start + 4]
        x, y = jnp.asarray(data[order]), jnp.asarray(labels[order])
        totals.append(jnp.mean(jnp.sum(x, 1) * y))
    return jnp.stack(totals)


@program(args=lambda i: (jnp.asarray(np.random.default_rng(i).normal(size=(20,)).astype(np.float32)),), open=ITERATOR)
def early_stopping(x):
    best, patience, history = float("inf"), 0, []
    w = jnp.zeros(())
    for epoch in itertools.count():
        w = w - 0.1 * jax.grad(lambda w: jnp.mean((w - x) ** 2))(w)
        loss = float(jnp.mean((w - x) ** 2))
        history.append(loss)
        best, patience = (loss, 0) if loss < best - 1e-2 else (best, patience + 1)
        if patience >= 3 or epoch >= 6:
            break
    return w, len(history) > 3


@program(args=lambda i: (jnp.arange(8) % 3, (jnp.arange(8) * (i + 1)) % 3))
def scores(labels, found):
    report = {}
    for c in range(3):
        tp = int(jnp.sum((labels == c) & (found == c)))
        fp = int(jnp.sum((labels != c) & (found == c)))
        fn = int(jnp.sum((labels == c) & (found != c)))
        p, r = tp / max(tp + fp, 1), tp / max(tp + fn, 1)
        report[f"class {c}"] = {"precision": p, "recall": r, "f1": 2 * p * r / max(p + r, 1e-9)}
    return report


@program(args=lambda i: (jax.random.normal(jax.random.key(i), (3, 8, 8)), i))
def augmentation(images, seed):
    rng, made = random.Random(seed), []
    for image in images:
        if rng.random() < 0.5:
            image = image[:, ::-1]
        if rng.random() < 0.3:
            image = image * rng.uniform(0.8, 1.2)
        made.append(image)
    return jnp.stack(made)


@program(args=lambda i: ({"a": jnp.ones(3) * i, "b": {"c": jnp.zeros(2) + i}},))
def metrics_logged(tree):
    log = collections.defaultdict(list)
    for step in range(3):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            log[jax.tree_util.keystr(path)].append(jnp.mean(leaf) + step)
    return {k: jnp.stack(v) for k, v in log.items()}


class Node:
    def __init__(self, state, parent=None):
        self.state, self.parent, self.children, self.visits, self.value = state, parent, [], 0, 0.0


@program(args=lambda i: (jnp.arange(4.0) + i, 6))
def tree_search(x, rounds):
    root = Node(x)
    for n in range(rounds):
        node = root
        while node.children:
            node = max(node.children, key=lambda c: c.value / (c.visits + 1) + 1 / (c.visits + 1))
        node.children = [Node(jnp.sin(node.state + a), node) for a in range(2)]
        value = float(jnp.mean(node.children[n % 2].state))
        while node:
            node.visits, node.value, node = node.visits + 1, node.value + value, node.parent
    return root.visits, root.value


@program(args=lambda i: (jnp.arange(6.0).reshape(2, 3) + i,))
def retries(x):
    for attempt in range(5):
        try:
            if attempt < 2:
                raise ValueError(f"attempt {attempt}")
            return jnp.linalg.norm(x) / attempt
        except ValueError as error:
            print(error)
    return None
