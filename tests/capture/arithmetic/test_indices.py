"""What C code makes of objects where it wants an integer."""

import warnings

import jax.numpy as jnp
import pytest

import dynacomp

pytestmark = pytest.mark.usefixtures("is_captured")


class Place:
    def __init__(self, at):
        self.at = at

    def __index__(self):
        return self.at


class Trap(int):
    def __index__(self):
        return 99


class Number:
    def __int__(self):
        return True


def outcome(fn, *args):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            return repr(fn(*args)), [str(w.message) for w in told]
        except Exception as error:
            return type(error), str(error)


@pytest.mark.parametrize("fn", [
    lambda x: ([1, x, 3][Place(1)], (1, 2)[Place(-1)], "abc"[Place(1):], [1, 2, 3][Place(1):], range(3)[Place(1)]),
    lambda x: ([1, 2] * Place(2), Place(2) * [1], [1].__mul__(Place(3)), (1, 2)[Trap(1)], [0] * Trap(2)),
    lambda x: [1, x]["a"],
    lambda x: [1, x][Place("a")],
    lambda x: [1, x][Place(True)],
    lambda x: [1, x].index(1, "a"),
    lambda x: [1, x].insert(1.5, 2),
    lambda x: (int(Number()), x),
])
def test_indices(fn):
    x = jnp.ones(2)
    want = outcome(fn, x)
    compiled = dynacomp.jit(fn)
    assert outcome(compiled, x) == want and outcome(compiled, x) == want


def test_places_that_change_from_call_to_call():
    def repeated(x, place):
        return [x] * place, [1, 2, 3, 4, 5, 6, 7][place]

    compiled = dynacomp.jit(repeated)
    for n in range(6):
        assert repr(compiled(1, Place(n))) == repr(repeated(1, Place(n)))


def test_numbers_that_python_does_not_print():
    def add(x, n):
        return n + 1

    big = 10 ** 5000
    compiled = dynacomp.jit(add)
    assert compiled(1, big) == big + 1 and compiled(1, big + 1) == big + 2
