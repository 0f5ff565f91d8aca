"""Weak references that captured code makes: what can be reached is alive, and gone objects are gone behind the code."""

import weakref

import jax.numpy as jnp

import dynacomp
from tests.capture.program_kit import check_one_graph

X = jnp.arange(3.0)


class Transform:
    """As NumPyro writes it: its inverse refers to it, and it to its inverse, weakly."""

    def __init__(self, scale):
        self.scale, self._inverse = scale, None

    @property
    def inverse(self):
        found = self._inverse() if isinstance(self._inverse, weakref.ref) else None
        if found is None:
            found = Inverse(self)
            self._inverse = weakref.ref(found)
        return found


class Inverse:
    def __init__(self, of):
        self.of = of

    def __call__(self, x):
        return x / self.of.scale


def test_references_to_what_can_be_reached():
    def program(x):
        transform = Transform(2.0)
        inverse = transform.inverse
        again = weakref.ref(inverse)
        return (inverse(x), transform.inverse is inverse, again is transform._inverse, again() is inverse,
                isinstance(again, weakref.ref), type(again) is weakref.ref, Transform(3.0).inverse(x))

    check_one_graph(program, (X,), (X + 1,))


def test_references_leave_as_references():
    def program(x, outer):
        transform = Transform(2.0)
        inverse = transform.inverse
        return transform, inverse, outer.inverse(x) + inverse(x)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(4):
        outer = Transform(3.0)
        transform, inverse, result = compiled(X, outer)
        assert transform._inverse() is inverse and outer._inverse() is None
        assert (result == program(X, Transform(3.0))[2]).all()
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


def test_an_object_that_is_dropped_behind_a_break():
    def program(x):
        transform = Transform(2.0)
        inverse, seen = transform.inverse, transform._inverse
        dynacomp.graph_break()
        alive = seen() is inverse
        del inverse
        return x + 1, alive, seen() is None

    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(3):
        assert compiled(X)[1:] == (True, True)
    assert dynacomp.stats()["frames_captured"]


def test_a_reference_with_a_callback_is_pythons():
    def program(x):
        thing, seen = Transform(2.0), []
        kept = weakref.ref(thing, seen.append)
        return x * kept().scale, thing, kept

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(3):
        _, thing, kept = compiled(X)
        assert kept() is thing and kept.__callback__
    assert dynacomp.stats()["breaks"]
