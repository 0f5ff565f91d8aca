"""Trees put together in compiled code: classes of the program that compute then see arrays, as in eager JAX."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.spatial.transform import Rotation

import dynacomp

X = jnp.ones(3)


@jax.tree_util.register_pytree_node_class
class Asking:
    def __init__(self, x):
        self.x = x
        self.is_array, self.shape = isinstance(x, jax.Array), getattr(x, "shape", None)

    def tree_flatten(self):
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Checked:
    n: int

    def __post_init__(self):
        self.is_array = isinstance(self.n, jax.Array)
        if isinstance(self.n, int) and self.n <= 0:
            raise ValueError("n must be positive")


def asked(made):
    return made.is_array, made.shape


PROGRAMS = {
    "map": lambda x: asked(jax.tree.map(lambda leaf: leaf + 1, Asking(x))),
    "inside containers": lambda x: asked(jax.tree.map(lambda leaf: leaf + 1, {"a": [Asking(x)], "b": x})["a"][0]),
    "unflatten": lambda x: asked(jax.tree.unflatten(*reversed(jax.tree.flatten(Asking(x))))),
    "cond": lambda x: asked(jax.lax.cond(x.sum() > 0, lambda a: a, lambda a: a, Asking(x))),
    "argument of a body": lambda x: jax.lax.map(lambda a: a.x * a.is_array, Asking(x)),
    "dataclass": lambda x: jax.tree.map(lambda leaf: leaf + 1, Checked(x)).is_array,
    "dataclass that refuses": lambda x: jax.tree.map(lambda leaf: 0, Checked(1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_classes_that_compute_when_put_together(name):
    def outcome(fn):
        try:
            return repr(fn(X))
        except ValueError as error:
            return repr(error)

    assert outcome(dynacomp.jit(PROGRAMS[name], backend="eager")) == outcome(PROGRAMS[name])


def test_trees_of_such_classes_stay_in_one_graph():
    dynacomp.reset()
    dynacomp.jit(PROGRAMS["inside containers"], backend="eager")(X)
    assert not dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]


class Own(NamedTuple):
    """A named tuple with operators of its own: not what a tuple does with these items."""
    x: jax.Array

    def __getitem__(self, at):
        return Own(self.x[at])

    def __sub__(self, other):
        return Own(self.x * other.x)

    def __call__(self, y):
        return self.x - y

    def __enter__(self):
        return self.x

    def __exit__(self, *_):
        pass


def entered(x):
    with Own(x) as held:
        return held * 2


QUATERNIONS = jnp.eye(4)[:2] + 0.5
NAMED = {
    "made by a library": (lambda q: Rotation.from_quat(q), QUATERNIONS),
    "a field of it": (lambda q: Rotation.from_quat(q).quat * 2, QUATERNIONS),
    "an item of it": (lambda q: Rotation.from_quat(q)[0], QUATERNIONS),
    "its length": (lambda q: len(Rotation.from_quat(q)) + q, QUATERNIONS),
    "its operator": (lambda q: (Rotation.from_quat(q) * Rotation.from_quat(q)).as_matrix(), QUATERNIONS),
    "an item": (lambda x: Own(x)[0].x, X),
    "an operator": (lambda x: (Own(x) - Own(x)).x, X + 1),
    "a call": (lambda x: Own(x)(x), X),
    "a context": (entered, X),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_tuples_with_methods_of_their_own(name):
    fn, x = NAMED[name]
    dynacomp.reset()
    want, got = fn(x), dynacomp.jit(fn)(x)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), got, want)
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["graphs"] == 1
