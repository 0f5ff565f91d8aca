"""Library callables that hold objects of the program: what these change is the program's own."""

import jax
import jax.numpy as jnp

import dynacomp


class Counting:
    def __init__(self):
        self.n = 0

    def __call__(self, x):
        self.n += 1
        return x * self.n


counting = Counting()
mapped = jax.vmap(counting)


def test_an_object_inside_a_transformed_function_is_called_as_often():
    def program(x):
        counting.n = 0
        return mapped(x), mapped(x), counting.n

    want = program(jnp.ones(3))
    assert repr(dynacomp.jit(program, backend="eager")(jnp.ones(3))) == repr(want) and counting.n == 2
