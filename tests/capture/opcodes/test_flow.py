"""Opcodes that move control: jumps, loops, calls, in one graph."""

import jax.numpy as jnp

from tests.capture.program_kit import check_one_graph

X = jnp.arange(3.0)


def jumps(x):
    found = []
    for n in range(6):
        if n == 1:
            continue
        if n == 4:
            break
        found.append(n if n % 2 else -n)
    else:
        found.append("never")
    while len(found) < 5:
        found.append(None)
    else:
        found.append("always")
    return found, found[0] is None, x if found else 0, (lambda: 1 if found else 2)(), 1 if not found else 0 or "or"


def test_one_graph():
    check_one_graph(jumps, (X,), (X + 1,))


def test_each_way_through_the_code_is_its_own_entry():
    def program(x, how):
        if how == "early":
            return how, x
        for n in range(3):
            if how == n:
                return x * n
        return x

    check_one_graph(program, (X, "early"), (X, 0), (X, 2), (X, "none"), captures=4)
