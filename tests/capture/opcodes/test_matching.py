"""Opcodes of `match` statements, in one graph."""

import jax.numpy as jnp

from tests.capture.program_kit import check_one_graph

X = jnp.arange(3.0)


class Logged:
    def __init__(self, log):
        self.log = log


def matched(x):
    def kind(value):
        match value:
            case [first, *_] if first == 1:
                return "starts with one"
            case {"k": inner, **rest}:
                return inner, rest
            case int(n) | float(n):
                return n + 1
            case Logged(log=[]):
                return "empty log"
            case None:
                return "none"
            case _:
                return "other"

    return [kind(v) for v in ([1, 2], [2], {"k": 1, "z": 2}, 4, 1.5, Logged([]), Logged([1]), None, "text")], x


def test_one_graph():
    check_one_graph(matched, (X,), (X + 1,))
