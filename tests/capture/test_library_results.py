"""Objects that only a library can make, alive where captured code ends: made of what there was at that time."""

import contextlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.tree_util import prefix_errors

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


def test_an_exception_that_a_library_makes_is_raised():
    def program(x):
        (make,) = prefix_errors((1, 2), [1, 2])
        try:
            raise make("axes")
        except ValueError as error:
            return x + 1, str(error), error.__traceback__ is None

    def in_a_block(x):
        (make,) = prefix_errors((1, 2), [1, 2])
        with contextlib.suppress(ValueError):
            raise make("axes")
        return x + 1

    dynacomp.reset()
    for fn in (program, in_a_block):
        assert repr(dynacomp.jit(fn, backend="eager")(X)) == repr(fn(X))
    assert not dynacomp.stats()["frames_eager"]


def test_symbolic_sizes_of_the_programs_own():
    def program(x):
        n, _ = jax.export.symbolic_shape("n, 3")
        out = jax.eval_shape(lambda a: a @ a.T, jax.ShapeDtypeStruct((n, 3), x.dtype))
        return x * len(out.shape), out.shape[0] == n, str(out.shape)

    dynacomp.reset()
    assert repr(dynacomp.jit(program, backend="eager")(X)) == repr(program(X))
    assert "internal" not in dynacomp.stats()["frames_eager"]


def freed(model):
    new = eqx.tree_at(lambda m: m.bias, model, jnp.zeros(4))
    return new.weight is model.weight, new.bias is model.bias, new


def shared(key):
    one, other = jax.random.split(key)
    parts = eqx.nn.Embedding(3, 4, key=one), eqx.nn.Linear(4, 3, key=other)
    embedding, head = eqx.nn.Shared(parts, lambda p: p[1].weight, lambda p: p[0].weight)()
    return embedding.weight is head.weight, embedding, head


def with_aux(x):
    y = x * 2
    (_, aux), _ = jax.value_and_grad(lambda v: (v.sum(), (v, v + 1)), has_aux=True)(y)
    return aux[0] is y, aux[1] is y, aux


@pytest.mark.parametrize("fn,given", [
    (freed, eqx.nn.Linear(3, 4, key=jax.random.key(0))), (shared, jax.random.key(1)), (with_aux, X)])
def test_arrays_that_a_library_only_moves_stay_the_same_objects(fn, given):
    want, got = fn(given), dynacomp.jit(fn, backend="eager")(given)
    assert want[:-1] == got[:-1]
    assert all(jnp.array_equal(a, b) for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True))


def test_a_numpy_array_that_a_library_makes_one_of_jax_is_another_object():
    given = np.ones(3, np.float32)
    (made,) = dynacomp.jit(lambda a: (jax.tree.map(jnp.asarray, [a])), backend="eager")(given)
    assert isinstance(made, jax.Array) and made is not given
