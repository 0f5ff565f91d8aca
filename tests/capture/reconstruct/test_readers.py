"""Numbers and truths read out of arrays where they lie: what Python gives, for arrays of every kind, and its errors."""

import traceback

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import dynacomp
from dynacomp.capture import _native
from dynacomp.capture.reconstruct.readers import READERS

NUMBERS = [0, 1, -1, 7, 127, 0.5, -0.0, 2.75, float("inf")]
DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]


def answer(fn, x):
    try:
        return fn(x)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kind_of_array(dtype):
    arrays = [jnp.asarray(np.array(n).astype(getattr(ml_dtypes, dtype, dtype))) for n in NUMBERS]
    arrays += [jnp.zeros(1, dtype), jnp.zeros((), dtype)[None], jnp.ones((2, 1), dtype)]
    for x in arrays:
        for kind, read in READERS.items():
            got, want = answer(read, x), answer(kind, x)
            assert (type(got), repr(got)) == (type(want), repr(want)), (kind, x)


def test_what_is_no_array():
    class Odd:
        def __bool__(self):
            raise KeyError("odd")

        def __len__(self):
            return 3

    for x in (0, 3.7, "12", "", [], [1], np.float32(2.5), np.array([1, 2]), None, Odd(), True):
        for kind, read in READERS.items():
            assert answer(read, x) == answer(kind, x)


def test_deleted_and_traced_arrays():
    x = jnp.float32(1)
    x.delete()
    assert answer(_native.read_float, x) == answer(float, x) and answer(float, x)[0] is RuntimeError
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(_native.read_float)(1.0)


def test_with_64_bits():
    with jax.enable_x64(True):
        for n in (2 ** 62 + 1, -2 ** 63):
            assert _native.read_int(jnp.asarray(n)) == n
        assert _native.read_int(jnp.asarray(2 ** 64 - 1, jnp.uint64)) == 2 ** 64 - 1
        assert _native.read_float(jnp.asarray(1 / 3)) == 1 / 3


def test_arrays_can_be_donated_after_they_were_read():
    x = jnp.float32(2)
    assert _native.read_float(x) == 2.0
    assert jax.jit(lambda x: x * 2, donate_argnums=0)(x) == 4 and x.is_deleted()


def test_in_compiled_code():
    seen = []

    def step(x):
        loss = jnp.sum(x * x)
        seen.append(float(loss))
        if loss > 3:
            seen.append("large")
            return x * 2, int(jnp.argmax(x))
        return x, bool(loss > 1)

    def calls(fn):
        seen.clear()
        return [jax.tree.map(lambda leaf: (type(leaf), str(leaf)), fn(jnp.arange(4.0) * k)) for k in range(10)], [*seen]

    want = calls(step)
    dynacomp.reset()
    assert calls(dynacomp.jit(step)) == want
    stats = dynacomp.stats()
    assert stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] <= 4


def test_the_line_of_a_truth_that_raises():
    def step(x):
        y = x * 2
        if y:
            return y
        return x

    def where(fn):
        with pytest.raises(ValueError) as found:
            fn(jnp.ones(3))
        return [f.lineno for f in traceback.extract_tb(found.value.__traceback__) if f.name == "step"], str(found.value)

    want = where(step)
    dynacomp.reset()
    compiled = dynacomp.jit(step)
    assert where(compiled) == want and where(compiled) == want
