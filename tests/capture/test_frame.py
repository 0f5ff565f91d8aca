"""Capturing leaves nothing behind: the program's objects die when they would without it."""

import gc
import weakref

import jax
import jax.numpy as jnp
import pytest

import dynacomp


class Thing:
    size = 1


def returns(thing):
    return thing.size + 1


def breaks(thing):
    print(end="")
    return thing.size + 2


def catches(thing):
    try:
        thing.missing  # noqa: B018
    except AttributeError:
        pass
    return [thing.size]


def raises(thing):
    raise ValueError(thing.size)


@pytest.mark.parametrize("fn", [returns, breaks, catches, raises])
def test_an_argument_dies_with_its_last_reference(fn):
    thing = Thing()
    seen = weakref.ref(thing)
    gc.disable()
    try:
        dynacomp.jit(fn)(thing)
    except ValueError:
        pass
    finally:
        del thing
        alive = seen()
        gc.enable()
    assert alive is None


def test_a_cell_that_is_filled_later_is_read_then():
    def fill():
        def read(x):
            try:
                return x + later
            except NameError:
                return x

        compiled = dynacomp.jit(read, backend="eager")
        before = compiled(1)
        later = 5
        return before, compiled(1)

    assert fill() == (1, 6)


def test_what_raises_under_a_transformation_keeps_no_other_size_from_its_entry():
    dynacomp.reset()

    def total(x):
        if x.shape[0] == 7:
            raise ValueError("seven")
        return jnp.sum(x * x)

    compiled = dynacomp.jit(jax.grad(total), backend="eager")
    for size in (4, 5, 7, 6, 3, 7, 8):
        x = jnp.arange(1.0, size + 1)
        if size == 7:
            with pytest.raises(ValueError, match="seven"):
                compiled(x)
        else:
            assert jnp.array_equal(compiled(x), 2 * x)
    assert dynacomp.stats()["frames_captured"] == 3  # its own size, any size, and the one that raises


def test_a_first_call_that_raises_leaves_later_ones_their_whole_graph():
    dynacomp.reset()

    def total(x, y):
        return jnp.sum(x + y)

    compiled = dynacomp.jit(jax.grad(total), backend="eager")
    with pytest.raises(TypeError, match="broadcast"):
        compiled(jnp.ones(3), jnp.ones(4))
    for size in (3, 4, 5):
        assert compiled(jnp.ones(size), jnp.ones(size)).shape == (size,)
    assert dynacomp.stats()["breaks"] == {"raises": 1}
