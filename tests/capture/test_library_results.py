"""Objects that only a library can make, alive where captured code ends: made of what there was at that time."""

import jax
import jax.numpy as jnp

import dynacomp

X = jnp.ones(3)
SHARED = [1.0]


def described():
    class Model:
        def __init__(self):
            self.a = jnp.ones(3) * 2

    return jax.eval_shape(lambda: {"a": Model().a})


def pulled_back(x):
    class Model:
        def __call__(self, x):
            return x * 2

    return jax.vjp(lambda x: Model()(x), x)[1]


def changed_twice(x):
    SHARED.append(2.0)
    pull = jax.vjp(lambda x: x * SHARED[-1], x)[1]
    SHARED[-1] = 5.0
    return pull


def test_functions_are_called_when_what_they_read_is_there():
    compiled = [dynacomp.jit(fn, backend="eager") for fn in (described, pulled_back, changed_twice)]
    for _ in range(2):
        assert compiled[0]() == described()
        assert jnp.array_equal(compiled[1](X)(X)[0], X * 2)
        assert jnp.array_equal(compiled[2](X)(X)[0], X * 2)
    assert SHARED == [1.0, 5.0, 5.0]


def test_descriptions_of_arrays_are_constants():
    def program(x):
        made = jax.eval_shape(lambda x: {"a": x + 1}, x)
        return made, made["a"].shape, x * 2

    dynacomp.reset()
    found = dynacomp.jit(program, backend="eager")(X)
    assert found[:2] == program(X)[:2] and not dynacomp.stats()["breaks"]
