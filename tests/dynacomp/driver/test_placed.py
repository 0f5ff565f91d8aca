"""PlacedProgram: the first call is eager JAX's, later ones put their results where it did."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from dynacomp import notices
from dynacomp.driver.placed import PlacedProgram, place

X = jnp.arange(4.0)
SPREAD = NamedSharding(jax.sharding.Mesh(jax.devices()[:1], "d"), PartitionSpec("d"))


def test_results_lie_where_those_of_the_first_call_lay():
    calls = []

    def run(x):
        calls.append(x)
        return jax.device_put(x, SPREAD), x + 1

    program = PlacedProgram(run, ("", 0))
    results = [program(X) for _ in range(3)]
    assert [isinstance(x, jax.core.Tracer) for x in calls] == [False, True]
    assert all(r[0].sharding == SPREAD and r[1].sharding == X.sharding for r in results)
    assert all(r[0].committed for r in results) and place(results[0][0]) == SPREAD and place(3) is None
    assert program(jnp.arange(3.0))[0].shape == (3,) and len(program.compiled) == 2


def test_what_xla_cannot_compile_runs_operation_by_operation():
    def run(x):
        if isinstance(x, jax.core.Tracer):
            raise ValueError("no")
        return (x + 1,)

    notices.reset()
    program = PlacedProgram(run, ("file.py", 3))
    assert all(jnp.array_equal(program(X)[0], X + 1) for _ in range(3))
    assert "file.py:3" in str(notices.told()[0]) and "ValueError: no" in str(notices.told()[0])


def test_what_a_first_call_prints_is_printed_once():
    seen = []

    def run(x):
        def body(carry, _):
            jax.debug.callback(lambda c: seen.append(float(c[0])), carry)
            return carry + 1, None
        return jax.device_put(jax.lax.scan(body, x, None, length=2)[0], SPREAD),

    program = PlacedProgram(run, ("", 0))
    for i in range(3):
        assert jnp.array_equal(program(X)[0], X + 2)
        jax.effects_barrier()
        assert seen == [0.0, 1.0] * (i + 1)
