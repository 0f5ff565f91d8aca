"""`fuse.schedule`: what steps say of themselves, and how a Schedule prints."""

import jax
import jax.numpy as jnp

from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.fuse.schedule import (
    BranchStep,
    ExternStep,
    KernelStep,
    LoopStep,
    TemplateStep,
    all_steps,
    without_control,
)
from dynacomp.lowering.primitives.translate import lower_function

X = jnp.arange(12.0).reshape(3, 4)


def everything(x):
    y = jax.lax.fori_loop(0, 100, lambda i, v: jnp.tanh(v) + i, x)
    y = jax.lax.while_loop(lambda v: v.max() > 1, lambda v: jnp.sort(v / 2), y)
    z = jax.lax.cond(y.sum() > 0, jnp.sin, jnp.cos, y)
    return jnp.sort(z.ravel())


def planned():
    return schedule(lower_function(everything, X))


def test_every_step_says_what_it_reads_and_writes():
    plan = planned()
    ready, kinds = {*plan.inputs, *plan.consts}, set()
    for step in plan.steps:
        kinds.add(type(step))
        assert ready.issuperset(step.operands), step
        assert set(step.results) | set(step.scratch) <= plan.buffers.keys()
        ready |= set(step.results)
    assert ready >= {plan.aliases.get(o, o) for o in plan.outputs}
    assert kinds >= {KernelStep, TemplateStep, LoopStep, BranchStep}


def test_kernels_say_it_in_the_schedules_names():
    step = next(s for s in planned().steps if isinstance(s, KernelStep))
    assert step.operands == tuple(step.bindings[b.name] for b in step.kernel.inputs)
    assert step.results == tuple(step.bindings[b.name] for b in step.kernel.outputs)
    assert step.inner == step.scratch == ()


def test_steps_inside_of_others():
    plan = planned()
    loops = [s for s in plan.steps if isinstance(s, (LoopStep, BranchStep))]
    inside = sum(len(list(all_steps(inner))) for s in loops for inner in s.inner)
    assert inside > 2 and len(list(all_steps(plan))) == len(plan.steps) + inside
    left = without_control(plan)
    assert [type(s) for s in left.steps].count(ExternStep) == len(loops) == 3
    assert not any(s.inner for s in left.steps)


def test_how_it_prints():
    text = str(planned())
    for words in (" = loop 100(", " = loop(", " = branches(", " = sort(", "    body "):
        assert words in text, text
