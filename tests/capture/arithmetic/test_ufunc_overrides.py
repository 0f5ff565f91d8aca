"""NumPy's functions of elements on objects whose classes say what becomes of them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass
class Field(np.lib.mixins.NDArrayOperatorsMixin):
    data: jax.Array
    offset: tuple

    def tree_flatten(self):
        return (self.data,), (self.offset,)

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children, *aux)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__" or kwargs or not hasattr(jnp, ufunc.__name__):
            return NotImplemented
        made = getattr(jnp, ufunc.__name__)(*(x.data if isinstance(x, Field) else x for x in inputs))
        offset = next(x.offset for x in inputs if isinstance(x, Field))
        return tuple(Field(x, offset) for x in made) if isinstance(made, tuple) else Field(made, offset)


def test_a_grid_that_a_scan_carries():
    """Each operator broke the graph: what jax-cfd's programs run in a scan was Python's in each call."""
    def program(x, n):
        def step(field, _):
            moved = Field(jnp.where((field > 0).data, field.data * 2, field.data - 1), field.offset)
            return (moved * 1.5 + 0.25) / 2 - np.float32(1) * abs(moved), field.data.sum()
        return jax.lax.scan(step, Field(x, (0.5,)), None, n)

    compiled = dynacomp.jit(program)
    dynacomp.reset()
    for n in (2, 3, 2, 3):
        mine, theirs = compiled(jnp.arange(3.0) - 1, n), program(jnp.arange(3.0) - 1, n)
        assert type(mine[0]) is Field and mine[0].offset == (0.5,)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), mine, theirs)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 2 and not stats["breaks"] and not stats["frames_eager"]


class Says(np.lib.mixins.NDArrayOperatorsMixin):
    def __init__(self, name, answers=True):
        self.name, self.answers = name, answers

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return (self.name, ufunc.__name__, method, len(inputs), sorted(kwargs)) if self.answers else NotImplemented


class Below(Says):
    pass


def test_who_is_asked():
    """A subclass's object before one of its base, else from left to right, until one has an answer; `out` too."""
    def program(x):
        said, below, mute = Says("base"), Below("below"), Below("mute", answers=False)
        out = np.multiply(3, 4, out=said), np.multiply(said, 4, said), np.multiply(said, 4, None, where=True)
        return x + 1, said + below, np.add(said, mute), np.modf(below), -said, out, np.subtract(x, said)

    compiled = dynacomp.jit(program, backend="eager")
    dynacomp.reset()
    for _ in range(2):
        assert str(compiled(jnp.arange(3.0))) == str(program(jnp.arange(3.0)))
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["breaks"]


class Refuses:
    __array_ufunc__ = None


@pytest.mark.parametrize("other", [Refuses(), Says("mute", answers=False)])
def test_nobody_has_an_answer(other):
    def program(x):
        try:
            return x, np.add(other, 1)
        except TypeError as error:
            return x + 1, str(error)

    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(2):
        mine, pythons = compiled(jnp.ones(2)), program(jnp.ones(2))
        assert str(mine[0]) == str(pythons[0]) and mine[1] == pythons[1]
