"""Trees put together in compiled code: classes of the program that compute then see arrays, as in eager JAX."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

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
