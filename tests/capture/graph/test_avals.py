"""What is known of arrays before they exist: as JAX says it."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.extend.random import define_prng_impl

import dynacomp
from dynacomp.capture.graph.avals import (
    ARRAY_TYPE,
    Aval,
    as_struct,
    aval_of,
    blank,
    class_of,
    is_numpy_dtype,
    key_impl,
    weak,
)

KEY = jax.random.key(0)


@pytest.mark.parametrize(("x", "text"), [
    (jnp.ones((2, 3)), "f32[2,3]"), (np.float16(1), "f16[]"), (1, "i32[]*"), (1.0, "f32[]*"), (True, "bool[]"),
    (np.zeros(4, ml_dtypes.bfloat16), "bf16[4]"), (2j, "c64[]*"), (jax.ShapeDtypeStruct((5,), np.uint8), "u8[5]"),
    (jax.ShapeDtypeStruct((), np.int32, weak_type=True), "i32[]*"), (jnp.asarray(2.0) * 1.0, "f32[]*"),
])
def test_avals_print_shape_dtype_and_weak_type(x, text):
    assert repr(aval_of(x)) == text
    assert aval_of(aval_of(x)) is not x and aval_of(aval_of(x)) == aval_of(x)
    assert aval_of(as_struct(aval_of(x))) == aval_of(x)


def test_what_jax_takes_for_no_array_has_none():
    with pytest.raises(TypeError):
        aval_of("text")


@pytest.mark.parametrize("aval", [Aval((2, 0), np.dtype(np.int8)), Aval((), np.dtype(np.float32), True),
                                  Aval((3,), KEY.dtype)], ids=repr)
def test_a_blank_array_has_the_aval_and_the_class_that_is_said(aval):
    made = blank(aval.shape, aval.dtype, aval.weak_type)
    assert aval_of(made) == aval and type(made) is class_of(aval)


def _double(name):
    """Keys that are two of JAX's own."""
    as_key = jax.random.wrap_key_data
    twice = lambda key: jnp.stack([jax.random.key_data(key)] * 2, -2)
    return define_prng_impl(
        key_shape=(2, 2), seed=lambda seed: twice(jax.random.key(seed)), name=name,
        split=lambda data, shape: twice(jax.random.split(as_key(data[0]), shape)),
        random_bits=lambda data, width, shape: jax.random.bits(as_key(data[0]), shape, f"uint{width}"),
        fold_in=lambda data, x: twice(jax.random.fold_in(as_key(data[0]), x)))


@pytest.mark.parametrize("name", ["<unnamed>", "threefry2x32"])
def test_keys_of_an_implementation_that_no_name_leads_to_are_made_by_itself(name, is_captured):
    def step(key, x):
        key, sub = jax.random.split(key)
        return key, jax.random.bits(sub, x.shape) + x

    impl = _double(name)
    key = jax.random.key(1, impl=impl)
    assert key_impl(KEY.dtype) == "threefry2x32" and key_impl(key.dtype) == impl
    assert blank((3,), key.dtype).dtype == key.dtype
    compiled, other = dynacomp.jit(step), key
    for size in (3, 3, 4, 5):
        x = jnp.arange(size, dtype=jnp.uint32)
        (key, expected), (other, got) = step(key, x), compiled(other, x)
        assert (got == expected).all() and other.dtype == key.dtype and (other == key).all()


def test_keys_are_no_arrays_of_numpy():
    assert not is_numpy_dtype(KEY.dtype) and is_numpy_dtype(np.dtype(ml_dtypes.float8_e4m3fn))
    assert class_of(aval_of(KEY)) is type(KEY) is not ARRAY_TYPE


@pytest.mark.parametrize(("kind", "text"), [(int, "i32[]*"), (float, "f32[]*"), (bool, "bool[]")])
def test_numbers_that_a_graph_computes_are_typed_like_those_of_python(kind, text):
    assert repr(aval_of(weak(jnp.asarray(1, np.int8), kind))) == text


def test_a_tracer_has_the_aval_of_its_array():
    seen = []
    jax.jit(lambda x: seen.append(aval_of(x)))(jnp.ones((2, 1), jnp.int16))
    assert seen == [Aval((2, 1), np.dtype(np.int16))]
