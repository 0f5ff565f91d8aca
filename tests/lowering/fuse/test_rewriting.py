"""Values over the loops of one kernel: where another item's value is read from, and loops that become one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.lowering.kernel_ir.printer import text
from tests.lowering.closed import same_as_eager, scheduled

X = np.random.RandomState(0).randn(12, 5, 8).astype(np.float32)


def kernel(function, *args):
    (step,) = scheduled(function, *args).steps
    return text(step.kernel)


@pytest.mark.parametrize(("function", "loops"), [
    (lambda x: x * 2 + 1, 1),                                  # one stride through all three dimensions
    (lambda x: x.transpose(1, 0, 2) * 2, 3),
    (lambda x: x + x[0], 2),                                   # the last two cross together
    (lambda x: x[:, ::-1] * 2, 3),
    (lambda x: x.sum((1, 2)), 2),
    (lambda x: x.sum(0), 2),
    (lambda x: x.reshape(60, 8)[:, None] * 3, 1)])
def test_neighbouring_loops_join_where_nothing_tells_them_apart(function, loops):
    made = kernel(function, X)
    assert sum(" < " in line and line.endswith(":") for line in made.split("\n")) == loops, made
    same_as_eager(function, X)


def test_a_position_that_is_reported_keeps_its_loop():
    """Merged, the loop of an argmax would count over both dimensions."""
    function = lambda x: (jnp.argmax(x, 1), jnp.argmax(x.reshape(12, 40), 1))
    for step in scheduled(function, X).steps:
        assert " at i" in text(step.kernel)
    same_as_eager(function, X)


def test_an_item_read_at_its_own_place_is_computed_where_it_is_read():
    made = kernel(lambda x: jnp.exp(x) + (jnp.exp(x) > 1), X)
    assert made.count("exp(") == 1 and "local" not in made


def test_an_item_read_elsewhere_in_the_row_is_kept_in_scratch():
    def function(x):
        e = jnp.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    made = kernel(function, X.reshape(12, 40))
    assert "local (row0: f32[40])" in made and "row0[" in made
    same_as_eager(function, X.reshape(12, 40))


def test_a_masked_read_of_a_value_in_a_register_is_a_choice():
    def function(x):
        total = x.sum(1, keepdims=True)
        return jnp.concatenate([x, total], 1)

    same_as_eager(function, X.reshape(12, 40))
    for step in scheduled(function, X.reshape(12, 40)).steps:
        assert "a0 if" not in text(step.kernel)


def test_computed_positions_move_with_the_loops():
    """Two gathers through one table, of which the second reads where the first has found."""
    table = np.int32(np.random.RandomState(1).randint(0, 12, 12))
    function = lambda x, t: x[t[t]] * 2 + x[t]
    assert kernel(function, X, table).count("at_") == 0, "positions have names of the kernel"
    same_as_eager(function, X, table)


def test_accumulators_are_numbered_in_order():
    made = kernel(lambda x: (x.sum(1), x.max(1), jnp.cumsum(x, 1)), X.reshape(12, 40))
    assert [made.index(f" a{k}:") for k in range(3)] == sorted(made.index(f" a{k}:") for k in range(3))
    same_as_eager(jax.nn.log_softmax, X)
