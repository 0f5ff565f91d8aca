"""Every program that makes things anew settles: nothing captured from the eighth call on, its operations in graphs.

The quick ones are tested here; `python -m tests.settling.report` shows all, and how fast they are.
"""

import jax
import jax.numpy as jnp
import pytest

from tests.settling import kit

QUICK = ("closures.lambda_compiled", "closures.jitted_with_static", "closures.custom_vjp_made",
         "closures.decorator_made", "closures.pipeline_of_functions", "closures.iterators_after_breaks",
         "searches.retries", "searches.batches", "everyday.functions_by_name")


def marked(p):
    still_open = [pytest.mark.xfail(reason=p.open, strict=True)] if p.open else []
    return pytest.param(p, id=p.name, marks=[*still_open, *[pytest.mark.slow] * (p.name not in QUICK)])


@pytest.mark.parametrize("p", [marked(p) for p in kit.load()])
def test_program(p):
    assert kit.differences(p, kit.check(p)) == []


def test_what_does_not_settle_is_found():
    seen = []

    def restless(x):
        seen.append(lambda y: y)  # alive for ever, and another in each call
        return jax.jit(lambda y: y * len(seen))(x)

    p = kit.Program(restless, kit.vector, 0.95, 1e-6, "")
    assert any("captures" in line or "expected" in line for line in kit.differences(p, kit.check(p)))


def test_operations_outside_of_graphs_are_found():
    def alone(x):
        return jnp.sin(x) + 1

    p = kit.Program(alone, kit.vector, 0.95, 1e-6, "")
    bound = kit.Bound()
    with kit.counted(bound):
        plain = kit.called(p, alone, bound)
        assert kit.Report(plain, kit.called(p, alone, bound)).share == 0.0
    assert kit.check(p).share == 1.0
