"""`bytecode.handing_on`: which classes only hand on what their objects hold, and what is captured of these."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.bytecode.handing_on import hands_on


class Own:
    def __init__(self, x, n):
        self.x, self.n = x, n

    def tree_flatten(self):
        return (self.x,), (self.n,)

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children, *aux)


class Below(Own):
    def __init__(self, x, n=3):
        super().__init__(x, n=n)


class Named:
    __slots__ = ("x", "shape")

    def tree_flatten(self):
        return [self.x], tuple(self.shape.items())

    @classmethod
    def tree_unflatten(cls, aux, children):
        made = object.__new__(cls)
        made.x, made.shape = children[0], dict(aux)
        return made


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: jax.Array
    n: int
    tree_flatten = Own.tree_flatten
    tree_unflatten = Own.__dict__["tree_unflatten"]


class Helped(Own):
    def tree_flatten(self):
        return self.parts()

    def parts(self):
        return (self.x,), (self.size,)

    @property
    def size(self):
        return self.n


class Computes(Own):
    def tree_flatten(self):
        return (self.x,), (self.n // 2 * 2,)


class Compares(Own):
    def __init__(self, x, n):
        super().__init__(x, n)
        self.long = n > 5


class Asks(Own):
    def __init__(self, x, n):
        super().__init__(x, n if isinstance(n, int) else 0)


class Texts(Own):
    def tree_flatten(self):
        return (self.x,), (f"{self.n}",)

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children, *map(int, aux))


class Calls(Own):
    seen = staticmethod(str)

    def tree_flatten(self):
        self.seen(self.n)
        return (self.x,), (self.n,)


class Picks(Own):
    table = dict(zip(range(20), range(20)))

    def tree_flatten(self):
        return (self.x,), (self.table[self.n],)


class Watched(Own):
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


class Stores(Own):
    @property
    def n(self):
        return self.m

    @n.setter
    def n(self, n):
        self.m = n + 0


class Calling(Own):
    def tree_flatten(self):
        return (self.x,), (self.fns[0](self.n),)


class CallsAux(Own):
    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children, aux[0](3))


HAND_ON = (Own, Below, Named, Frozen, Helped)
LOOK = (Computes, Compares, Asks, Texts, Calls, Picks, Watched, Stores, Calling, CallsAux)
for each in (*HAND_ON, *LOOK):
    jax.tree_util.register_pytree_node_class(each)


@pytest.mark.parametrize("cls", [*HAND_ON, *LOOK])
def test_what_only_hands_on(cls):
    assert hands_on(cls, cls.tree_flatten, cls.tree_unflatten) is (cls in HAND_ON)


def made(cls, n):
    if cls is Named:
        return Named.tree_unflatten((("n", n), ("m", 3)), [jnp.arange(1.0 * n)])
    return cls(jnp.arange(1.0 * n), n)


def size(o):
    return o.shape["n"] if isinstance(o, Named) else o.n


USES = {
    "jit": lambda o: jax.jit(lambda o: o.x * size(o))(o),
    "map": lambda o: jax.tree.map(lambda a: a * 2, o).x * size(o),
    "grad": lambda o: jax.grad(lambda o: (o.x ** 2).sum() / size(o))(o).x,
    "vmap": lambda o: jax.vmap(lambda o: o.x * size(o))(o),
    "scan": lambda o: jax.lax.scan(
        lambda c, _: (jax.tree.map(lambda a: a * 2 + size(c), c), None), o, None, length=3)[0].x,
    "handed out": lambda o: jax.jit(lambda o: jax.tree.map(lambda a: a + 1, o))(o),
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("cls", HAND_ON)
def test_a_size_that_is_handed_on_may_change(cls, name):
    dynacomp.reset()
    compiled = dynacomp.jit(USES[name])
    for n in (3, 5, 9, 4, 7):
        got, want = compiled(made(cls, n)), USES[name](made(cls, n))
        assert type(got) is type(want) and (name != "handed out" or size(got) == size(want) == n)
        np.testing.assert_allclose(*(jax.tree.leaves(v)[0] for v in (got, want)), rtol=1e-6)
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and not stats["frames_eager"]


@pytest.mark.parametrize("cls", [Computes, Compares, Asks, Texts, Picks])
def test_a_size_that_is_looked_at_is_of_each_call(cls):
    def program(o):
        return jax.jit(lambda o: o.x * o.n)(o), jax.tree.map(lambda a: a + 1, o).n

    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for n in (3, 5, 9, 4, 7):
        (got, size), (want, other) = compiled(made(cls, n)), program(made(cls, n))
        assert size == other and type(size) is int
        np.testing.assert_allclose(got, want)


def test_the_order_of_a_dict_that_is_handed_on_is_its_own():
    compiled = dynacomp.jit(lambda o: jax.tree.map(lambda a: a + 1, o))
    for n in (3, 5, 4, 7, 6):
        for names in (("n", "m"), ("m", "n")):
            o = Named.tree_unflatten(tuple((name, n) for name in names), [jnp.ones(n)])
            assert tuple(compiled(o).shape.items()) == tuple(o.shape.items())
