"""Steps as C++ statements: where buffers are, what is copied, how loops carry and branches choose."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.cpp.steps import FEW, _carries, buffers_of, entry_frame, frame_code, inlined
from dynacomp.lowering.fuse.schedule import BranchStep, LoopStep
from tests.codegen.cpp_kit import compiled
from tests.lowering.closed import scheduled

X, BIG = np.arange(4, dtype=np.float32), np.arange(2048, dtype=np.float32)


class Named(dict):
    """A name for each kernel, made when it is asked for."""

    def __missing__(self, key):
        self[key] = f"kernel{len(self)}"
        return self[key]


def code(function, *args):
    return "\n".join(frame_code(entry_frame(scheduled(function, *args)), Named()))


def step_of(kind, function, *args):
    plan = scheduled(function, *args)
    return next(iter(of_class(kind, plan.steps))), plan


def right(function, *args):
    np.testing.assert_allclose(compiled(function, *args)(*args)[0], function(*args), rtol=1e-5)


def test_each_buffer_has_one_place():
    plan = scheduled(lambda x, i: (jnp.sort(jnp.sin(x) + 1) * x, x[i]), BIG, np.int32(3))
    frame = entry_frame(plan)
    places = [frame.where(n) for n in (*plan.inputs, *plan.outputs)]
    assert places == ["inputs[0]", "inputs[1]", "outputs[0]", "outputs[1]"]
    inside = [frame.where(n) for n in plan.offsets]
    assert sorted(inside) == ["((char*)arena + 0)", "((char*)outputs[0] + 0)"]


def test_a_kernel_gets_its_inputs_before_its_outputs_and_no_buffer_twice():
    plan = scheduled(lambda x: (jnp.sin(x), x.sum()), BIG)
    for step in plan.steps:
        names = list(buffers_of(step.kernel))
        assert len(names) == len(set(names)) and names[:len(step.kernel.inputs)] == [
            b.name for b in step.kernel.inputs]


@pytest.mark.parametrize(("function", "copies"), [
    (lambda x: (x, x + 1), 1), (lambda x: (x + 1, x + 1), 1), (lambda x: (x, x), 2), (lambda x: x + 1, 0)])
def test_every_output_owns_its_memory(function, copies):
    assert code(function, BIG).count("__builtin_memcpy") == copies
    assert code(function, X).count("copy_few<4>") == copies


def carry_kinds(function, *args):
    step, plan = step_of(LoopStep, function, *args)
    return [c.kind for c in _carries(step, entry_frame(plan))]


def add_up(x):
    return lax.fori_loop(0, 50, lambda i, c: jnp.sin(c) + x, x)


def in_place(x):
    return lax.fori_loop(0, 50, lambda i, c: c.at[i].add(x[0]), x)


def test_what_a_loop_carries():
    assert X.nbytes <= FEW < BIG.nbytes
    assert "few" in carry_kinds(add_up, X) and "moving" in carry_kinds(add_up, BIG)
    assert "fixed" in carry_kinds(in_place, BIG)
    for function in (add_up, in_place):
        right(function, BIG)
    right(add_up, X)


def test_small_kernels_of_loops_are_inlined_and_others_are_not():
    loop, plan = step_of(LoopStep, add_up, X)
    assert inlined(plan)
    assert not inlined(scheduled(add_up, np.ones(1 << 16, np.float32)))
    assert not inlined(scheduled(lambda x: x + 1, X)), "no loop is around it"


def test_a_while_asks_before_each_step():
    function = lambda x: lax.while_loop(lambda c: c.sum() < 99, lambda c: c * 2 + 1, x)
    made = code(function, X)
    assert made.index("for (;;)") < made.index("if (!go0) break;")
    right(function, X)


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_go_either_way_over_slices(reverse):
    def function(x):
        return lax.scan(lambda c, row: (c * 0.5 + row, c), x[0], x, reverse=reverse)[1]

    rows = BIG.reshape(32, 64)
    assert ("--n0" in code(function, rows)) == reverse and "n0*" in code(function, rows)
    right(function, rows)


def test_branches_take_the_nearest_where_the_number_is_out_of_range():
    cases = [jnp.sin, jnp.cos, lambda x: x * 3]
    function = lambda i, x: lax.switch(i, cases, x)
    step, _ = step_of(BranchStep, function, np.int32(1), BIG)
    made = code(function, np.int32(1), BIG)
    assert len(step.inner) == 3 and "case INT32_MIN ... 0:" in made and "case 1:" in made and "default:" in made
    program = compiled(function, np.int32(1), BIG)
    for i in (-7, 0, 1, 2, 50):
        np.testing.assert_allclose(program(np.int32(i), BIG)[0], function(np.int32(i), BIG), rtol=1e-5, atol=1e-6)
