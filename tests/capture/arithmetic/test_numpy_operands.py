"""`arithmetic.numpy_operands`: NumPy's arrays and numbers on the left of the program's objects."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import dynacomp
from tests.capture.program_kit import outcome


class Told:
    """Says who asked it, with what."""

    def __rmul__(self, other):
        return "rmul", type(other).__name__, other

    def __gt__(self, other):
        return "gt", type(other).__name__


class First(Told):
    __array_priority__ = 10


class Alone(Told):
    __array_ufunc__ = None


class Pair(Told):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        return (4.0, 5.0)[i]


class Delegating(Told):
    """As Flax's variables: what it lacks its array has, the priority too."""

    def __getattr__(self, name):
        return getattr(jnp.zeros(()), name)


class Wrapped(np.lib.mixins.NDArrayOperatorsMixin):
    def __init__(self, value):
        self.value = value

    def __array_ufunc__(self, ufunc, method, *args):
        return ufunc.__name__, [type(a).__name__ for a in args]


LEFT = (np.float32(2), np.int64(3), np.bool_(True), np.ones(2, np.float32), np.arange(2))


@pytest.mark.parametrize("cls", [Told, First, Alone, Pair, Delegating, lambda: Wrapped(2)])
@pytest.mark.parametrize("left", LEFT, ids=lambda v: f"{type(v).__name__}_{v.dtype}")
def test_an_object_is_asked_as_numpy_asks_it(cls, left):
    """It was always asked, with NumPy's own number or array, wherever NumPy makes an array of objects."""
    def fn(x, made):
        return left * made, left < made, x + 1

    compiled = dynacomp.jit(fn, backend="eager", options={"capture_idle": True})
    for _ in range(3):
        args = jnp.ones(2), cls()
        assert str(outcome(compiled, args)) == str(outcome(fn, args))
    assert "internal" not in dynacomp.stats()["frames_eager"]


def test_numbers_of_numpy_and_variables_of_flax_need_no_break():
    def fn(x, p):
        return np.sqrt(4.0) * p + np.float32(3), x * np.int64(2)

    compiled = dynacomp.jit(fn, backend="eager")
    for scale in (1.0, 2.0):
        args = jnp.ones(2), nnx.Param(jnp.full(2, scale))
        for got, want in zip(compiled(*args), fn(*args)):
            assert got.dtype == want.dtype and got.tolist() == want.tolist()
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["frames_captured"] == 1


def test_what_only_jax_takes_for_an_array_is_an_object_to_numpy():
    class Held:
        def __jax_array__(self):
            return jnp.ones(2)

    def fn(x, held):
        try:
            return held + np.ones(2, np.float32), x
        except TypeError as error:
            return str(error), jnp.asarray(held) + x

    compiled = dynacomp.jit(fn, backend="eager")
    assert str(compiled(jnp.ones(2), Held())) == str(fn(jnp.ones(2), Held()))
