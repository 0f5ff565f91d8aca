"""`capture.wrapping.changing_contents`: containers with another content in each call are read by Python."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

X = jnp.arange(3.0)


def known(x, table, n):
    if n not in table:
        table[n] = n * 0.5
    return x * table[n]


def logged(x, log, n):
    y = jnp.tanh(x) * n
    log.append(n)
    return y + len(log)


def members(x, seen, n):
    fresh = n not in seen
    seen.add(n)
    return x * 2 if fresh else x


PROGRAMS = {"dict": (known, dict), "list": (logged, list), "deque": (logged, lambda: collections.deque(maxlen=50)),
            "set": (members, set)}


@pytest.mark.parametrize("fn, container", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_container_that_grows_in_each_call_settles(fn, container):
    dynacomp.reset()
    made, plain, held = dynacomp.jit(fn, backend="eager"), container(), container()
    captured = []
    for n in range(24):
        np.testing.assert_allclose(made(X, held, n), fn(X, plain, n), rtol=1e-6)
        assert held == plain
        captured.append(dynacomp.stats()["frames_captured"])
    assert captured[12] == captured[-1] and not dynacomp.stats()["frames_eager"]


def test_contents_that_return_keep_their_entries():
    """Four lists, again and again: from the second on one graph for all, and no break."""
    dynacomp.reset()
    made = dynacomp.jit(lambda x, rates: x * rates[-1] + len(rates), backend="eager")
    for n in (1, 2, 3, 4) * 4:
        np.testing.assert_allclose(made(X, [0.5] * n), X * 0.5 + n)
    stats = dynacomp.stats()
    assert (stats["frames_captured"], stats["breaks"]) == (2, {})


class Held:
    """What grows from call to call."""

    def __init__(self):
        self.items, self.table, self.lists = [], {}, collections.defaultdict(list)

    def grow(self, n):
        self.items.append(float(n))
        self.table[f"k{n}"] = n
        self.lists[f"s{n}"].append(n)
        if n % 5 == 4:
            self.table.pop(f"k{n - 1}", None)


def last_items(h, x):
    if not h.items or len(h.items) < 4:
        return x * 2
    return x + h.items[-1] + h.items[-2]


def appended(h, x):
    alias = h.items
    alias.append(1.0)
    found = len(h.items), alias[-1] + alias[-2], h.items.pop()
    return x * found[0], found


def sized(h, x):
    return jnp.zeros(len(h.items)) + x.sum(), f"{len(h.items)} items"


def entries(h, x):
    h.lists["loss"].append(x.sum())
    h.lists["n"].append(len(h.lists["loss"]))
    return h.lists["loss"][-1], len(h.lists), 3 in h.lists, True in h.lists


def taken_out(h, x):
    n = h.table.pop("k1", 0)
    h.table["k1"] = n
    h.table["new"] = h.table.pop("new", 0) + 1
    return x + n, len(h.table)


def updated(h, x):
    n = len(h.table)
    h.table.update(u=1, k0=2)
    h.table.setdefault("v", n)
    return x + n, len(h.table), h.table.get("k0"), "k3" in h.table.keys()


def missed(h, x):
    try:
        return x * h.table["missing"]
    except KeyError as error:
        return x, str(error)


def in_a_gradient(h, x):
    def loss(y):
        h.table["in"] = len(h.table)
        return (y ** 2).sum() * len(h.items)
    return jax.grad(loss)(x)


def on_one_side(h, x):
    if x.sum() > 12:
        h.table["big"] = 1
    else:
        h.table["small"] = len(h.table)
    return x + 1


def read_whole(h, x):
    h.table["zz"] = 1
    return x + len(h.items), list(h.table)[-1], {**h.table, "r": 2}


PARTS = {last_items: 0, appended: 0, sized: 0, entries: 0, taken_out: 0, updated: 0, missed: 0, in_a_gradient: 0,
         on_one_side: 2, read_whole: 4}  # and the graph breaks that they take


@pytest.mark.parametrize("fn, breaks", PARTS.items(), ids=lambda x: getattr(x, "__name__", None))
def test_of_containers_that_change_only_what_was_asked_for_is_guarded(fn, breaks):
    dynacomp.reset()
    made, plain, held, captured = dynacomp.jit(fn, backend="eager"), Held(), Held(), []
    for n in range(16):
        plain.grow(n)
        held.grow(n)
        want, have = fn(plain, X + n), made(held, X + n)
        assert jax.tree.structure(want) == jax.tree.structure(have)
        for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(have)):
            assert type(a) is type(b) and (a == b if isinstance(a, str) else np.allclose(a, b, rtol=1e-6))
        assert str(vars(held)) == str(vars(plain)), n
        captured.append(dynacomp.stats()["frames_captured"])
    assert captured[-6] == captured[-1] and not dynacomp.stats()["frames_eager"]
    assert sum(dynacomp.stats()["breaks"].values()) <= breaks


def of_any_number(scale, *arrays):
    hidden = jnp.tanh(scale * 2)
    return jnp.cos(hidden + sum(arrays)), len(arrays)


def test_tuples_of_ever_other_lengths_are_read_by_python():
    """What stands around it stays compiled; before, the function ended in plain Python."""
    dynacomp.reset()
    compiled, made = dynacomp.jit(of_any_number, backend="eager"), [0]
    for n in (5, 7, 9, 6, 12, 8, 11, 10, 13, 4):
        given = [X + i for i in range(n)]
        found, expected = compiled(X, *given), of_any_number(X, *given)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
        assert found[1] == expected[1]
        made.append(dynacomp.stats()["frames_captured"])
    assert not dynacomp.stats()["frames_eager"] and made[-1] == made[5] <= 7


def logged(h, x):
    h.lists["loss"].append(x.sum())
    h.lists["seen"].append(float(len(x)))
    return {k: v[-1] for k, v in h.lists.items()}


def test_what_the_program_has_appended_is_read_whatever_stood_there_before():
    """`log[-1]` behind `log.append` looked at the whole log, and guarded its length: a capture more."""
    dynacomp.reset()
    compiled, held, plain, captured = dynacomp.jit(logged, backend="eager"), Held(), Held(), []
    for n in range(5):
        assert str(compiled(held, X + n)) == str(logged(plain, X + n))
        captured.append(dynacomp.stats()["frames_captured"])
    assert captured == [1, 2, 2, 2, 2] and not dynacomp.stats()["breaks"] and len(held.lists["loss"]) == 5
