"""`control_flow.loop_state`: what a loop of arrays carries: arrays and numbers that stay what they are."""

import jax.numpy as jnp
import pytest

from tests.capture.flow_kit import breaks_of

INPUTS = [lambda: (jnp.arange(1.0, 4.0),), lambda: (jnp.ones(3) / 8,), lambda: (jnp.full(3, 100.0),)]


def arrays_numbers_and_tuples(x):
    n, pair, done = 0, (x, x.sum()), False
    while pair[1] < 50:
        pair, n, done = (pair[0] * 2, pair[1] * 2), n + 1, not done
    return pair, n, done


def an_array_from_outside(x):
    y = x
    while y.sum() < 50:
        y = y * 2
    return y, x


def a_constant_of_all_rounds(x):
    name, y = "fixed", x
    while y.sum() < 50:
        y, name = y + 10, "fixed"
    return y, name


def a_counter_that_moves_little(x):
    n = 5
    while x.sum() < 50:
        x, n = x + 10, n + 3 - 1
    return x, n, n - 5


def a_shape_that_grows(x):
    y = x
    while y.sum() < 50:
        y = jnp.concatenate([y, y])
    return y


def a_text_that_grows(x):
    name = ""
    while x.sum() < 50:
        x, name = x + 10, name + "a"
    return x, name


def a_number_that_doubles(x):
    n = 1
    while x.sum() < 50:
        x, n = x + 10, n * 2
    return x, n


@pytest.mark.parametrize("program", [
    arrays_numbers_and_tuples, an_array_from_outside, a_constant_of_all_rounds, a_counter_that_moves_little])
def test_one_graph(program):
    assert breaks_of(program, *INPUTS) == {}


@pytest.mark.parametrize("program", [a_shape_that_grows, a_text_that_grows, a_number_that_doubles])
def test_what_a_loop_does_not_carry(program):
    assert breaks_of(program, *INPUTS).keys() == {"branch"}
