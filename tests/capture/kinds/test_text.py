"""Texts that show where an object lies: made in the end, and only if the program keeps them."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import dynacomp
from tests.capture.program_kit import check_one_graph


class Thing:
    pass


def name_of(f: Any) -> str:
    return getattr(f, "__name__", str(f))


def test_a_default_that_nothing_takes_is_no_break():
    def layers(x, slope):
        def act(v):
            return jnp.where(v > 0, v, v * slope)

        def loss(v):
            for f in (act, jnp.sin, jax.nn.relu):
                seen.append(name_of(f))
                v = f(v) + 1
            return v.sum()

        seen: list[str] = []
        return jax.grad(loss)(x), seen

    check_one_graph(layers, (jnp.arange(3.0), 0.1), (jnp.arange(4.0), 0.2), captures=2)


def shown(x, slope):
    def act(v):
        return jnp.tanh(v) * slope

    thing, part = Thing(), partial(act, slope)
    return act(x), act, thing, part, [repr(act), f"{thing!s} and {thing!r}", name_of(part), repr(jax.nn.relu)]


def test_texts_show_the_objects_that_the_program_gets():
    dynacomp.reset()
    compiled = dynacomp.jit(shown, backend="eager")
    for n in (2, 3, 4):
        texts = []
        for f in (shown, compiled):
            _, act, thing, part, said = f(jnp.arange(1.0 * n), 0.5)
            assert hex(id(act)) in said[0] and said[1] == f"{thing} and {thing}"
            assert said[2] == repr(part) and hex(id(act)) in said[2]
            texts.append(re.sub(r"0x\w+", "", "".join(said)))
        assert texts[0] == texts[1]
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] == 2


def looked_into(x):
    text = str(Thing())
    return x + text.count("Thing")


def test_what_looks_into_one_is_pythons():
    dynacomp.reset()
    compiled = dynacomp.jit(looked_into, backend="eager")
    assert compiled(jnp.arange(3.0)).tolist() == [1.0, 2.0, 3.0]
    assert sum(dynacomp.stats()["breaks"].values()) == 1


class Layer:
    def __init__(self, k: float) -> None:
        self.k = k

    def apply(self, x):
        return x * self.k


class Shown(Layer):
    def __repr__(self) -> str:
        return f"Shown({self.k})"


def methods(layer, x):
    made = Shown(layer.k + 1)
    return layer.apply(x), name_of(layer.apply), [f"{layer.apply} {layer.apply!r}", str(made.apply), repr(made.apply)]


def test_texts_of_bound_methods():
    """They were said to show an address that only Python knows: a break, also where nothing took the text."""
    for cls in (Layer, Shown):
        dynacomp.reset()
        compiled = dynacomp.jit(methods)
        for k in range(5):
            layer, x = cls(float(k)), jnp.arange(3.0) + k
            assert repr(compiled(layer, x)) == repr(methods(layer, x))
        stats = dynacomp.stats()
        assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] == 2
