"""One translation unit for a Schedule: kernels once, templates as parts of their own, jobs that share the work."""

import re
import subprocess

import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from jax import lax

from dynacomp.codegen.compiler import find
from dynacomp.codegen.cpp.jobs import MAX_JOBS
from dynacomp.codegen.cpp.unit import jobs_for, kernel_names, kernels_of, parts, unit_source
from dynacomp.lowering.fuse.schedule import all_steps
from tests.codegen.cpp_kit import softmax_schedule
from tests.lowering.closed import scheduled

X = np.zeros((64, 64), np.float32)


def chained(count):
    """As many kernels, each of another text."""
    def function(x):
        for k in range(count):
            x = jnp.cumsum(x.T * (k + 2), 1)[::-1]
        return x
    return scheduled(function, X)


def test_kernels_that_steps_share_are_written_once():
    plan = scheduled(lambda x, y: (jnp.sort(x * 2) * 2, jnp.sort(y * 2) * 2), X, X)
    steps = [s for s in all_steps(plan) if hasattr(s, "kernel")]
    assert len(kernels_of(plan)) < len(steps)
    bodies = re.findall(r"^__attribute__\(\(noinline\)\) void kernel\d+_\w+\(.*\) \{$", unit_source(plan, False), re.M)
    assert len(bodies) == len(kernels_of(plan))


def test_steps_are_named_in_order_those_of_loops_too():
    plan = scheduled(lambda x: lax.fori_loop(0, 9, lambda i, c: jnp.sin(c @ x), x), X)
    assert "matmul" in kernel_names(plan) and any(n.startswith("sin") for n in kernel_names(plan))


def test_templates_are_units_of_their_own_one_for_each_set_of_types():
    product = lambda *xs: [x @ x for x in xs]
    one, two = scheduled(product, X, X + 1), scheduled(product, X, jnp.asarray(X, jnp.bfloat16))
    assert len(parts(one)) == 1 and len(parts(two)) == 2
    assert '#include "calls.h"' in unit_source(one, False)
    assert parts(scheduled(lambda x: x + 1, X)) == ()
    looped = scheduled(lambda x: lax.fori_loop(0, 9, lambda i, c: c @ x, x), X)
    assert parts(looped) == parts(one), "those of a loop's body count"


def test_jobs_are_as_many_as_the_kernels_are_worth():
    (few, one), (many, text) = ((plan, unit_source(plan, False)) for plan in (chained(1), chained(24)))
    assert jobs_for(few, one, 8) == 1 < jobs_for(many, text, 8) <= MAX_JOBS
    assert jobs_for(many, text, 1) == 1


def definitions(plan, job, jobs):
    """The functions that one job defines, as the preprocessor leaves them."""
    text = unit_source(plan, False).replace("#include", "//include")
    macros = [f"-DDYNACOMP_JOB={job}", f"-DDYNACOMP_JOBS={jobs}", "-DDYNACOMP_EXPORT="]
    ran = subprocess.run([*find(()).command, "-E", "-P", "-x", "c++", *macros, "-"], input=text, text=True,
                         capture_output=True, check=True)
    return re.findall(r"void (kernel\d+)_\w+\([^;{]*\) \{|int (dynacomp_run)\(", ran.stdout)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_each_kernel_is_defined_by_one_job(jobs):
    plan = chained(6)
    made = [a or b for job in range(jobs) for a, b in definitions(plan, job, jobs)]
    assert sorted(made) == sorted({*(f"kernel{n}" for n in range(len(kernels_of(plan)))), "dynacomp_run"})


def test_shapes_are_told_before_the_call():
    text = unit_source(softmax_schedule(), False)
    shapes = text[text.index("dynacomp_shapes("):text.index("dynacomp_run(")]
    assert "n_ = sizes[0];" in shapes and "d_ = sizes[1];" in shapes
    assert softmax_schedule().arena == sympy.Integer(0) and "    0, 0, 0,\n" in shapes, "as data what is known"
    assert "out[1] = n_;" in shapes and "out[2] = d_;" in shapes and "out[0]" not in shapes


def test_jobs_have_about_as_much_to_do_each():
    halves = [len(definitions(chained(40), job, 2)) for job in (0, 1)]
    assert max(halves) - min(halves) < 30
