"""Attributes of arrays, and texts made of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

pytestmark = pytest.mark.usefixtures("is_captured")

ARRAYS = {
    "numpy": np.arange(3.0),
    "numpy scalar array": np.array(2),
    "jax": jnp.arange(3.0),
    "weak": jnp.asarray(2.0),
    "key": jax.random.key(0),
}
NAMES = ("weak_type", "aval", "itemsize", "device", "dtype", "size", "__array_priority__", "__slots__", "nosuch")


def compiled(fn):
    return dynacomp.jit(fn, backend="eager")


def read(x, name):
    try:
        return getattr(x, name)
    except AttributeError as error:
        return str(error)


@pytest.mark.parametrize("kind", ARRAYS)
def test_attributes_are_those_of_the_array_at_hand(kind):
    def fn(x):
        return [getattr(x, name, None) for name in NAMES], [hasattr(x, name) for name in NAMES]

    assert compiled(fn)(ARRAYS[kind]) == fn(ARRAYS[kind])


@pytest.mark.parametrize("name", NAMES)
def test_missing_attributes_say_so(name):
    def fn(x):
        return read(x, name)

    for x in ARRAYS.values():
        assert compiled(fn)(x) == fn(x)


def test_computed_keys_are_keys():
    def fn(key):
        first, _ = jax.random.split(key)
        return type(first), hasattr(first, "weak_type")

    assert compiled(fn)(ARRAYS["key"]) == fn(ARRAYS["key"])


@pytest.mark.parametrize("text", [
    lambda x: "%s" % (x + 1),
    lambda x: "%.0s|" % x,  # noqa: UP031
    lambda x: "%s of %s" % (x, x.sum()),  # noqa: UP031
    lambda x: "%(a)s" % {"a": x * 2},  # noqa: UP031
    lambda x: (x + 1).__format__(""),
    lambda x: (x + 1).__str__(),
    lambda x: jnp.array_repr(x + 1),
])
def test_texts_show_numbers_not_tracers(text):
    assert compiled(text)(ARRAYS["jax"]) == text(ARRAYS["jax"])
