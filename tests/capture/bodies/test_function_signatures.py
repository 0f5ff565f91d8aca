"""Signatures of functions that a call makes: JAX resolves keyword arguments by them, and defaults become arguments."""

import functools

import jax
import jax.numpy as jnp

from tests.capture.program_kit import check_one_graph

X = jnp.arange(1.0, 4.0)


class Model:
    def apply(self, x, scale=2.0):
        return x * scale


def test_arguments_by_name_and_defaults_find_their_places():
    def program(x, y):
        def product(a, b=y, *, c=1.0):
            return (a * b + c).sum()

        @functools.wraps(product)
        def outer(*args, **kwargs):
            return product(*args, **kwargs)

        return (jax.grad(product, argnums=1)(x, y), jax.jit(product, static_argnames="c")(x, c=3.0),
                jax.jit(outer, static_argnames="c")(x, b=y, c=2.0), jax.jit(Model().apply)(x))

    check_one_graph(program, (X, X + 1), (X, X * 2))
