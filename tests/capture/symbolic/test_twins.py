"""A list, dict or struct that is given twice: as two, in one entry, unless the program could tell."""

import copy
import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import dynacomp


def params(scale=1.0):
    return {"w": jnp.ones((3, 2)) * scale, "b": jnp.zeros(2)}


def mixed(p, t):
    return jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, p, t)


def differentiated(p, t):
    return jax.grad(lambda q: sum(jnp.sum((a - b) ** 2) for a, b in zip(jax.tree.leaves(q), jax.tree.leaves(t))))(p)


def given_back(p, t):
    return [p, t], p["w"] + t["w"]


def stored(p, t):
    p["w"] = p["w"] * 2
    return t["w"] + 1


def read_then_stored(p, t):
    total = p["w"] + t["w"]
    t["w"] = total
    p["n"] = p["w"] + 1
    return t


def through_another(p, t):
    both = {"a": p, "b": t}
    both["a"]["w"] = both["a"]["w"] * 3
    return both["b"]["w"]


def in_a_cell(p, t):
    def change():
        p["w"] = p["w"] + 5
    change()
    return t["w"]


def compared(p, t):
    return p is t, id(p) == id(t), p["w"] + 1, {id(p): 1}.get(id(t))


def found(p, t):
    return (t in [p], [p].index(t)) if p is t else None, p["w"] + 1


def copied(p, t):
    a, b = copy.deepcopy((p, t))
    a["w"] = a["w"] * 2
    return b["w"], a is b


def decided(p, t):
    if p["w"].sum() > 0:
        p["w"] = p["w"] * 2
    return t["w"] + 1


def check(fn, make, captures):
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for twice in [True, False] * 3:
        want, got = (make(twice) for _ in range(2))
        assert shown((fn(*want), want)) == shown((compiled(*got), got))
    stats = dynacomp.stats()
    assert stats["frames_captured"] == captures and not stats["breaks"] and not stats["frames_eager"]


def shown(x):
    if isinstance(x, dict):
        return [(k, shown(v)) for k, v in x.items()]
    return [*map(shown, x)] if isinstance(x, (tuple, list)) else jnp.asarray(x).tolist() if hasattr(x, "shape") else x


def networks(twice):
    first = params()
    return first, first if twice else params(2.0)


@pytest.mark.parametrize("fn", [mixed, differentiated, given_back], ids=lambda fn: fn.__name__)
def test_what_is_read_may_be_one_or_two(fn):
    check(fn, networks, 1)


@pytest.mark.parametrize("fn", [stored, read_then_stored, through_another, in_a_cell, compared, found, copied, decided],
                         ids=lambda fn: fn.__name__)
def test_who_could_tell_has_an_entry_for_each(fn):
    check(fn, networks, 2)


def lists_read(x, rows):
    return [a * x for a in rows[0]], [b + x for b in rows[1]]


def lists_grown(x, rows):
    rows[0].append(x)
    return len(rows[1]), rows[1][0] * x


def lists_stored(x, rows):
    rows[0][0] = x
    return rows[1][0] * 1


@pytest.mark.parametrize("fn, captures", [(lists_read, 1), (lists_grown, 2), (lists_stored, 2)])
def test_rows(fn, captures):
    def make(twice):
        row = [1.0, 2.0]
        return jnp.ones(2), [row, row if twice else [1.0, 2.0]]

    check(fn, make, captures)


def test_what_is_given_is_itself_again():
    p = params()
    both, _ = dynacomp.jit(given_back, backend="eager")(p, p)
    assert both[0] is p and both[1] is p


@dataclasses.dataclass(frozen=True)
class Struct:
    w: Any
    kept: Any


class Module(eqx.Module):
    w: jax.Array
    kept: Any


def structs_read(p, t):
    return p.w * 2 + t.w, {"a": p.w, "b": t.w * t.w}


def structs_compared(p, t):
    return p is t, id(p) == id(t), (t in [p]) if p is t else 0, p.w + 1


def structs_stored(p, t):
    object.__setattr__(p, "w", p.w * 2)
    return t.w + 1


def structs_stored_in_dicts(p, t):
    vars(p)["w"] = p.w * 2
    return t.w + 1


def inside_structs_stored(p, t):
    p.kept["w"] = p.w + 1
    return t.kept.get("w", t.w)


@pytest.mark.parametrize("cls", [Struct, Module])
@pytest.mark.parametrize("fn, captures", [
    (structs_read, 1), (structs_compared, 2), (structs_stored, 2), (structs_stored_in_dicts, 2),
    (inside_structs_stored, 2)], ids=lambda v: getattr(v, "__name__", ""))
def test_structs(fn, captures, cls):
    def make(twice):
        first = cls(jnp.ones(2), {})
        return first, first if twice else cls(jnp.ones(2) * 2, {})

    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for twice in [True, False] * 3:
        want, got = make(twice), make(twice)
        assert shown([fn(*want), *map(vars, want)]) == shown([compiled(*got), *map(vars, got)])
    stats = dynacomp.stats()
    assert stats["frames_captured"] == captures and not stats["breaks"] and not stats["frames_eager"]
