"""What an entry says of the capture that made it."""

from types import SimpleNamespace

import jax.numpy as jnp

import dynacomp
from dynacomp.capture.entries import numbers_of
from dynacomp.capture.values import sources as S


def capture_with(scalars):
    return SimpleNamespace(numbers=SimpleNamespace(scalars=scalars))


def test_a_name_of_several_places_says_of_none_that_it_changes():
    first, second = (S.Root(object(), "Thing") for _ in range(2))
    alike, other, nan = S.Attr(first, "kind"), S.Attr(first, "index"), S.Attr(first, "nan")
    scalars = {other: 1, S.Attr(second, "index"): 2, alike: 3, S.Attr(second, "kind"): 3, nan: float("nan")}
    assert set(numbers_of(capture_with(scalars))) == {"Thing.kind", "Thing.nan"}


def test_numbers_of_one_place_are_kept():
    def scaled(x, n):
        return x * n

    compiled = dynacomp.jit(scaled, backend="eager")
    x = jnp.ones(2)
    captures = []
    for n in (2, 3, 4):
        before = dynacomp.stats()["frames_captured"]
        assert repr(compiled(x, n)) == repr(scaled(x, n))
        captures.append(dynacomp.stats()["frames_captured"] - before)
    assert captures == [1, 1, 0]  # the second sees it change
