"""Dicts and lists that each round of a loop makes anew: two captures for all numbers of rounds, and nobody can tell
that the loop is a node."""

import jax
import jax.numpy as jnp
import optax
import pytest

import dynacomp
from tests.changing.kit import outcome, unlike

ROUNDS = (3, 5, 4, 6, 3)


def captures(fn, backend="eager", rounds=ROUNDS):
    """How often `fn` was captured for these numbers of rounds, all ending as in plain Python, the dict given, too."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend=backend)
    for n in rounds:
        plain, ours = {"a": jnp.arange(3.0) + n}, {"a": jnp.arange(3.0) + n}
        wrong = unlike(outcome(fn, (plain, n)), outcome(compiled, (ours, n)))
        wrong = wrong or unlike(outcome(dict, (plain,)), outcome(dict, (ours,)))
        assert not wrong, f"{n} rounds: {wrong}"
    return dynacomp.stats()["frames_captured"]


def by_display(p, n):
    for t in range(n):
        p = {"a": jnp.sin(p["a"]) + t}
    return p


def by_comprehension(p, n):
    first, p = p, {**p, "inner": [p["a"], (p["a"] * 2,)], "done": 0}
    for _ in range(n):
        p = {**{k: v for k, v in p.items() if k != "a"}, "a": p["a"] * 0.5, "done": p["done"] + 1}
        p = {k: p[k] for k in ("a", "inner", "done")}
    p["a"] = p["a"] + 1
    return p, first, p is first


def by_adam(p, n):
    tx = optax.adam(0.1)
    state, losses = tx.init(p), []
    for _ in range(n):
        loss, grads = jax.value_and_grad(lambda p: (p["a"] ** 2).sum())(p)
        updates, state = tx.update(grads, state, p)
        p = optax.apply_updates(p, updates)
        losses.append(loss)
    return p, state, losses


class Holder:
    pass


def in_an_attribute(p, n):
    holder = Holder()
    holder.lists = [p["a"], [p["a"] * 2]]
    for _ in range(n):
        holder.lists = [holder.lists[1][0], [holder.lists[0] + 1]]
    return holder.lists


@pytest.mark.parametrize("fn", [by_display, by_comprehension, by_adam, in_an_attribute])
def test_one_node_for_all_rounds(fn):
    assert captures(fn) <= 3
    assert not dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]


def test_natively():
    assert captures(by_display, "cpp") == 2


def aliased(p, n):
    best = p
    for t in range(n):
        p = {"a": p["a"] * 2}
        if t % 2:
            best = p
    return best, p, best is p


def changed(p, n):
    for _ in range(n):
        p["a"] = p["a"] + 1
        p = {"a": p["a"] * 2}
    return p


def kept(p, n):
    seen, first = [], p
    for _ in range(n):
        seen.append(p)
        p = {"a": p["a"] * 2}
    return seen, seen[0] is first, seen[-1] is p


def kept_anew(p, n):
    seen = []
    for _ in range(n):
        p = {"a": p["a"] * 2}
        seen.append(p)
    return seen, seen[-1] is p


def asked(p, n):
    first, k = p, 0.0
    for _ in range(n):
        k += p is first
        p = {"a": p["a"] + k}
    return p


def two_names(p, n):
    q = {"a": p["a"]}
    for _ in range(n):
        p = q = {"a": p["a"] * 2 + q["a"]}
    p["a"] = p["a"] + 1
    return p, q, p is q


def shared(p, n):
    inner = [p["a"]]
    both = {"x": inner, "y": inner}
    for _ in range(n):
        inner = [inner[0] * 2]
        both = {"x": inner, "y": inner}
    return both, both["x"] is both["y"]


def other_keys(p, n):
    p = {**p, "b": p["a"]}
    for _ in range(n):
        p = {"b": p["a"], "a": p["b"]}
    return list(p), p


@pytest.mark.parametrize("fn", [aliased, changed, kept, kept_anew, asked, two_names, shared, other_keys])
def test_who_could_tell_gets_no_node(fn):
    assert captures(fn, rounds=(3, 4, 5)) <= 9
