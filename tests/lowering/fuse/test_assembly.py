"""`fuse.assembly`: the buffers of a Schedule: who gives them, which share memory, where sizes are read."""

import jax.numpy as jnp
import numpy as np
import pytest

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.lowering.fuse.assembly import assemble
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function

F32 = np.dtype("float32")


def chain(x):
    for _ in range(4):  # products, each of which needs the one before it alone
        x = x @ x
    return x


def test_temporaries_share_an_arena_where_their_lives_do_not_meet():
    plan = schedule(lower_function(chain, jnp.ones((16, 16))))
    assert len(plan.offsets) == 3 and not plan.offsets.keys() & {*plan.inputs, *plan.outputs}
    assert int(plan.arena) == 2 * 16 * 16 * 4


def test_an_output_that_is_an_input_or_a_constant_is_not_computed():
    table = np.arange(3.0, dtype=np.float32)
    plan = schedule(lower_function(lambda x: (x, jnp.asarray(table), x), jnp.ones(2)))
    assert plan.steps == () and set(plan.aliases.values()) == {*plan.inputs, *plan.consts}
    assert [plan.outputs[0], plan.outputs[2]] == list(plan.inputs) * 2


def test_sizes_are_read_from_the_first_input_that_has_them():
    scope = Scope()
    n, m = scope.symbol("n", 4), scope.symbol("m", 5)
    graph = lower_function(lambda x, y: x[:, None] * y, Aval((n,), F32), Aval((n, m), F32))
    found = schedule(graph).sizes
    assert [(str(name), place) for name, place in found] == [("m", (1, 1)), ("n", (0, 0))]


def test_a_size_that_no_input_has_is_an_error():
    n = Scope().symbol("n", 4)
    graph = lower_function(lambda x: x * 2, Aval((n + 1,), F32))
    with pytest.raises(ValueError, match="as a dimension of its own"):
        schedule(graph)


def test_a_step_that_reads_what_nobody_has_written_is_an_error():
    graph = lower_function(chain, jnp.ones((16, 16)))
    plan = schedule(graph)
    shapes = {n: (b.shape, b.dtype) for n, b in plan.buffers.items()}
    assert assemble(graph, plan.steps, shapes, plan.outputs, inner=False).arena == plan.arena
    with pytest.raises(ValueError, match="before it is written"):
        assemble(graph, plan.steps[::-1], shapes, plan.outputs, inner=False)
    with pytest.raises(ValueError, match="nothing writes"):
        assemble(graph, plan.steps[:-1], shapes, plan.outputs, inner=False)
