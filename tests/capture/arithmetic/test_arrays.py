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


OF_CLASSES = ("__class__", "__name__", "__qualname__", "__mro__", "mro", "__bases__", "__doc__", "__hash__",
              "__basicsize__", "__module__", "__len__", "__call__")


def compiled(fn):
    return dynacomp.jit(fn, backend="eager")


def read(x, name):
    try:
        return getattr(x, name)
    except AttributeError as error:
        return str(error)


@pytest.mark.parametrize("kind", [k for k in ARRAYS if k != "key"])
def test_what_only_classes_have_their_arrays_do_not(kind):
    def fn(x):
        return (x + 1).dtype, x.__class__.__name__, x.__class__ is type(x), [hasattr(x, n) for n in OF_CLASSES]

    assert compiled(fn)(ARRAYS[kind]) == fn(ARRAYS[kind])


@pytest.mark.parametrize("transform", [jax.grad, jax.vmap])
def test_the_class_of_traced_arrays(transform):
    def fn(x):
        seen.append((x.__class__.__name__, x.__class__ is type(x)))
        return (x * 2).sum()

    seen, x = [], jnp.float32(1.0) if transform is jax.grad else jnp.ones(2)
    transform(fn)(x)
    compiled(lambda x: transform(fn)(x))(x)
    assert seen[0] == seen[1]


def test_the_dictionary_of_an_array():
    def fn(x):
        return jnp.sum(x), vars(x), x.__dict__

    assert compiled(fn)(jnp.ones(2))[1:] == ({}, {})


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
