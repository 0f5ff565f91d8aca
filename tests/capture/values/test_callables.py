"""Values of functions and methods, and all others: the types that programs see."""

import jax.numpy as jnp

import dynacomp


def test_types_that_programs_see():
    def program(x, table, f):
        return x, [type(v).__name__ for v in (
            x, table, table.keys(), f, f.__call__, [].append, slice(1), range(x.shape[0]), (i for i in ()), zip(),
            enumerate([x]), map(f, ()), filter(None, []), iter(f, 0), x.sum, super, len(table), id(x), x.at)]

    compiled = dynacomp.jit(program)
    dynacomp.reset()
    for n in range(2, 9):
        args = jnp.ones(n), dict.fromkeys(range(3), n), lambda: 0
        assert compiled(*args)[1] == program(*args)[1]
    assert dynacomp.stats()["breaks"] == {}
