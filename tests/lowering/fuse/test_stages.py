"""The loops inside one kernel: stages that share loops, and where a value waits between two of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.lowering.fuse.stages import LONGEST_LOCAL, Stage, _alike
from dynacomp.lowering.kernel_ir.loops import inner_loops
from dynacomp.lowering.kernel_ir.printer import text
from dynacomp.lowering.sizes.symbols import symbol
from tests.lowering.closed import same_as_eager, scheduled

ROWS, LONG = np.ones((64, 48), np.float32), np.ones((16, LONGEST_LOCAL + 1), np.float32)
LOOPS = ((symbol("i1"), 48),)


def kernel(function, *args):
    (step,) = scheduled(function, *args).steps
    return step.kernel


def stages_of(made):
    (rows,) = inner_loops(made.body)
    return [len(list(inner_loops((s,)))) for s in inner_loops((*rows.body, *rows.after))]


@pytest.mark.parametrize(("function", "stages"), [
    (jax.nn.softmax, 3),
    (lambda x: (x.sum(1), x.max(1), (x * x).sum(1)), 1),
    (lambda x: (x - x.mean(1, keepdims=True), x.max(1)), 2),
    (lambda x: jnp.cumsum(x / x.sum(1, keepdims=True), 1), 2)])
def test_items_with_equal_loops_share_a_stage(function, stages):
    assert len(stages_of(kernel(function, ROWS))) == stages
    same_as_eager(function, np.random.RandomState(0).randn(64, 48).astype(np.float32))


def test_short_rows_wait_in_scratch_and_long_ones_in_their_buffer():
    function = lambda x: jnp.exp(x) / jnp.exp(x).sum(1, keepdims=True)
    assert [b.numel for b in kernel(function, ROWS).locals] == [48]
    shown = lambda x: (jnp.exp(x), function(x))
    assert kernel(shown, LONG).locals == (), "it goes to its own buffer all the same"
    same_as_eager(shown, np.random.RandomState(0).randn(64, 48).astype(np.float32))


def test_folds_without_dimensions_wait_in_registers():
    made = text(kernel(lambda x: x / x.sum(1, keepdims=True), ROWS))
    assert "local" not in made and "acc a0: sum" in made and ", a0)" in made


def test_lanes_compute_again_what_they_cannot_keep():
    made = kernel(lambda x: jax.nn.softmax(x, 0), np.ones((48, 512), np.float32))
    assert made.locals == () and text(made).count("exp(") == 2


@pytest.mark.parametrize(("there", "here", "alike"), [
    ((LOOPS, (), "point"), (LOOPS, (), "point"), True),
    ((LOOPS, (), "point"), ((), LOOPS, "fold"), True),
    ((LOOPS, (), "point"), (LOOPS, (), "fold"), False),
    (((), LOOPS, "fold"), ((), LOOPS, "fold"), True),
    ((LOOPS, (), "point"), ((), (), "point"), False),
    ((LOOPS, (), "scan"), (LOOPS, (), "scan"), False)])
def test_which_stages_are_alike(there, here, alike):
    assert _alike(Stage(*there), Stage(*here)) == alike
