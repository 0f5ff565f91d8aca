"""Where a program has an object: as an argument, in an attribute, a cell, a library's module, a transformed function.

A place is a function of `use` and `make` (see objects.py) and of what compiles, `jit`; it gives `run(i, x)`, which
makes the object of the number `i` and calls the compiled function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import lax

Place = Callable[[Any, Any, Any], Callable[[int, Any], Any]]
PLACES: dict[str, Place] = {}
AT_HOME: dict[str, Any] = {}


def place(made: Place) -> Place:
    PLACES[made.__name__] = made
    return made


class Holder:
    def __init__(self, o):
        self.o = o

    def run(self, use, x):
        return use(self.o, x)


class Static(eqx.Module):
    o: object = eqx.field(static=True)


class Linen(nn.Module):
    o: object
    use: object

    @nn.compact
    def __call__(self, x):
        return self.use(self.o, x)


class Dense(nn.Module):
    o: object
    use: object

    @nn.compact
    def __call__(self, x):
        return self.use(self.o, nn.Dense(3, kernel_init=nn.initializers.ones)(x))


class Nnx(nnx.Module):
    def __init__(self, o, use):
        self.o, self.use, self.w = o, use, nnx.Param(jnp.ones(()))

    def __call__(self, x):
        return self.use(self.o, x) * self.w[...]


@jax.tree_util.register_pytree_node_class
class Tree:
    def __init__(self, w, o):
        self.w, self.o = w, o

    def tree_flatten(self):
        return (self.w,), (self.o,)

    @classmethod
    def tree_unflatten(cls, aux, leaves):
        return cls(leaves[0], aux[0])


def given(body: Callable[..., Any], wrapped: Any = lambda o, use: o) -> Place:
    """Of a function of what is made of the object, and the array."""
    def made(use: Any, make: Any, jit: Any) -> Callable[[int, Any], Any]:
        compiled = jit(lambda o, x: body(use, o, x))
        return lambda i, x: compiled(wrapped(make(i), use), x)

    return made


def with_break(use, o, x):
    y = x * 2
    print(end="")
    return use(o, y)


def haikus(use, o, x):
    scaled = lambda y: use(o, y) * hk.get_parameter("s", (), init=hk.initializers.Constant(2.0))
    return hk.without_apply_rng(hk.transform(scaled)).apply({"~": {"s": jnp.float32(2)}}, x)


def stateless(use, o, x):
    transform = optax.stateless(lambda updates, params: jax.tree.map(lambda v: use(o, v) * 1, updates))
    return optax.apply_updates(x, transform.update(x, optax.EmptyState(), x)[0])


PLACES |= {
    "argument": given(lambda use, o, x: use(o, x)),
    "attribute": given(lambda use, h, x: h.run(use, x) + 0, lambda o, use: Holder(o)),
    "closure": given(lambda use, h, x: h(x) * 1, lambda o, use: lambda x: use(o, x)),
    "partial": given(lambda use, h, x: h(x) * 1, lambda o, use: functools.partial(use, o)),
    "vmap": given(lambda use, o, x: jax.vmap(lambda row: use(o, row) * 1)(jnp.stack([x, x]))),
    "jit": given(lambda use, o, x: jax.jit(lambda v: use(o, v) * 1)(x)),
    "scan": given(lambda use, o, x: lax.scan(lambda c, v: (c, use(o, v) * 1), 0.0, jnp.stack([x, x]))[1]),
    "checkpoint": given(lambda use, o, x: jax.grad(jax.checkpoint(lambda v: (use(o, v) * 1).sum()))(x)),
    "shape": given(lambda use, o, x: jax.eval_shape(lambda v: use(o, v) * 1, x).shape),
    "tree_map": given(lambda use, o, x: jax.tree.map(lambda v: use(o, v) * 1, {"a": x, "b": [x]})),
    "behind_a_break": given(with_break),
    "equinox": given(lambda use, e, x: use(e.o, x), lambda o, use: Static(o)),
    "filter_jit": given(lambda use, e, x: eqx.filter_jit(lambda e, x: use(e.o, x) * 1)(e, x), lambda o, use: Static(o)),
    "filter_jit_argument": given(lambda use, o, x: eqx.filter_jit(lambda o, x: use(o, x) * 1)(o, x)),
    "filter_grad": given(lambda use, o, x: eqx.filter_grad(lambda x: (use(o, x) * 1).sum())(x)),
    "pytree": given(lambda use, t, x: use(jax.tree.map(lambda v: v + 1, t).o, x) * 1,
                    lambda o, use: Tree(jnp.ones(3), o)),
    "linen": given(lambda use, m, x: m.apply({}, x), Linen),
    "linen_init": given(lambda use, m, x: m.init_with_output(jax.random.key(0), x)[0], Dense),
    "nnx": given(lambda use, m, x: m(x), Nnx),
    "nnx_jit": given(lambda use, m, x: nnx.jit(lambda m, x: m(x))(m, x), Nnx),
    "haiku": given(haikus),
    "optax": given(stateless),
}


@place
def made_inside(use, make, jit):
    return jit(lambda i, x: use(make(i), x))


@place
def in_a_global(use, make, jit):
    compiled = jit(lambda x: use(AT_HOME["o"], x))

    def run(i, x):
        AT_HOME["o"] = make(i)
        return compiled(x)

    return run


@place
def in_a_cell(use, make, jit):
    o = None

    def f(x):
        return use(o, x)

    compiled = jit(f)

    def run(i, x):
        nonlocal o
        o = make(i)
        return compiled(x)

    return run


@place
def in_a_list(use, make, jit):
    compiled = jit(lambda objects, x: [use(o, x) for o in objects][-1])
    return lambda i, x: compiled([make(i - 1), make(i)], x)


@place
def a_default(use, make, jit):
    compiled = jit(lambda h, x: h(x) * 1)

    def run(i, x):
        def h(x, o=make(i)):  # noqa: B008
            return use(o, x)

        return compiled(h, x)

    return run


@place
def compiled_anew(use, make, jit):
    def run(i, x):
        o = make(i)
        return jit(lambda x: use(o, x))(x)

    return run


@place
def set_on_one_object(use, make, jit):
    holder = Holder(None)
    compiled = jit(lambda h, x: use(h.o, x) * 1)

    def run(i, x):
        holder.o = make(i)
        return compiled(holder, x)

    return run


@place
def in_a_method(use, make, jit):
    class Model(Holder):
        @jit
        def go(self, x):
            return use(self.o, x)

    return lambda i, x: Model(make(i)).go(x)
