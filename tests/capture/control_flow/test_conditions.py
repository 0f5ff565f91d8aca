"""`control_flow.conditions`: a jump on an array is part of the graph, and breaks it where its sides do not agree."""

import jax.numpy as jnp
import pytest

from tests.capture.flow_kit import breaks_of
from tests.capture.program_kit import check_one_graph

X = jnp.arange(1.0, 4.0)


def an_if(x):
    return x * 2 if x.sum() > 0 else x - 1


def values_of_and_and_or(x):
    low, high = x.min() > 0, x.max() > 3
    return (low and high), (low or high), not low


def a_range_that_ends_at_a_number_of_the_graph(x):
    n = 0
    while x.sum() < 50:
        x, n = x + 1, n + 1
    return x, n


def sides_of_other_shapes(x):
    return x[1:] if x.sum() > 0 else x


def test_jumps_are_part_of_the_graph():
    for program in (an_if, values_of_and_and_or, a_range_that_ends_at_a_number_of_the_graph):
        check_one_graph(program, (X,), (-X,))


def test_sides_that_do_not_agree_are_pythons():
    assert set(breaks_of(sides_of_other_shapes, lambda: (X,), lambda: (-X,))) == {"branch"}


@pytest.mark.parametrize("body", [
    "out * n if n else out", "out if not n else out * n", "out + (n and 2) + (n or 3)", "out + bool(n)"])
def test_a_counter_that_is_never_zero(body):
    """What its range says is known: there is no condition left."""
    made = {}
    exec(f"def fn(out, rounds):\n    for n in range(1, rounds):\n        out = {body}\n    return out", made)
    check_one_graph(made["fn"], *((jnp.arange(3.0), rounds) for rounds in (4, 5, 9, 7)), captures=2)
