"""Numbers that change from call to call: NumPy's scalars are inputs too, with NumPy's own arithmetic."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp


def numbers(x, t):
    shifted = abs(t - 3) / 7
    return x * t, t * 2 + 1.5, shifted, x[:2] + shifted, t**2, -t, t > 2, t.dtype, t.shape


def places(x, i):
    return x.at[i % 3].set(i)[i // 9], i // 3


def needed(x, t):
    return x * float(t), np.sin(t), f"{t:.2f}"


def branches(x, t):
    return x * t if t > 0.5 else x + np.float32(t)


VALUES = [np.linspace(0, 5, 10), np.linspace(0, 5, 10, dtype=np.float32), np.arange(10), np.arange(10, dtype=np.int16)]


@pytest.mark.parametrize("values", VALUES, ids=lambda v: str(v.dtype))
@pytest.mark.parametrize("program", [numbers, places, needed, branches])
def test_numpy_scalars_that_change_are_what_they_are_in_python(program, values):
    if program is places and values.dtype.kind == "f":
        pytest.skip("floats are no indices")
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for t in values:
        want, got = program(jnp.ones(3), t), compiled(jnp.ones(3), t)
        assert repr(got) == repr(want)
        assert list(map(type, got)) == list(map(type, want))
    assert not dynacomp.stats()["frames_eager"]


@pytest.mark.parametrize("program", [numbers, places])
def test_a_loop_over_numpy_numbers_compiles_twice(program):
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for t in np.arange(20):
        compiled(jnp.ones(3), t)
    assert dynacomp.stats()["frames_captured"] == 2
    assert not dynacomp.stats()["breaks"]


def test_a_python_int_that_changes_may_not_fit_numpys_type():
    def add(t, n):
        return t + n

    compiled = dynacomp.jit(add, backend="eager")
    for n in range(4):
        assert compiled(np.int8(n), n) == 2 * n
    with pytest.raises(OverflowError):
        compiled(np.int8(5), 300)
