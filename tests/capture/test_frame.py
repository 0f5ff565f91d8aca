"""Capturing leaves nothing behind: the program's objects die when they would without it."""

import gc
import weakref

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
