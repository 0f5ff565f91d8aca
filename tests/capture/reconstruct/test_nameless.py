"""Trees of classes that the captured code makes, below JAX's transformations: no graph keeps such a class."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from tests.capture.program_kit import check_one_graph

INPUTS = [(jnp.arange(4.0) + n, n) for n in range(6)]


def value_and_grad(pair: Any, x: Any, n: int) -> Any:
    loss, grad = jax.value_and_grad(lambda p: (p.a * p.b).sum() * n)(pair(x, x + 1))
    return loss, type(grad) is pair, tuple(grad)


def aux(pair: Any, x: Any, n: int) -> Any:
    grad, kept = jax.grad(lambda x: ((x * n).sum(), pair(x, {"n": x + 1})), has_aux=True)(x)
    return grad, type(kept) is pair, kept._asdict()


def scan(pair: Any, x: Any, n: int) -> Any:
    def step(carry: Any, t: Any) -> Any:
        return carry._replace(a=carry.a + t * n), pair(t, carry)

    last, rows = lax.scan(step, pair(jnp.zeros(()), x), x)
    return type(last) is pair, tuple(last), type(rows.b) is pair, rows.b.a, rows.a


def loops(pair: Any, x: Any, n: int) -> Any:
    p = lax.while_loop(lambda p: p.a < 5, lambda p: pair(p.a + 1, p.b * 2), pair(jnp.zeros((), int), x))
    p = lax.fori_loop(0, 3, lambda i, p: p._replace(b=p.b + i), p)
    p = lax.cond(x[0] > 2, lambda p: pair(p.a, p.b + n), lambda p: p, p)
    return type(p) is pair, tuple(p)


def vmap(pair: Any, x: Any, n: int) -> Any:
    out = jax.vmap(lambda p: pair(p.a * n, p.b), in_axes=(pair(0, None),), out_axes=pair(0, None))(pair(x, x))
    return type(out) is pair, tuple(out)


def pulled_back(pair: Any, x: Any, n: int) -> Any:
    out, pull = jax.vjp(lambda p: pair(p.a * p.b, p.a * n), pair(x, x + 1))
    return tuple(out), tuple(pull(pair(x, x))[0]), tuple(jax.jit(lambda p: pair(p.b, p.a))(pair(x, n)))


@pytest.mark.parametrize("use", [value_and_grad, aux, scan, loops, vmap, pulled_back])
def test_named_tuples_below_transformations(use):
    def program(x, n):
        class Pair(NamedTuple):
            a: Any
            b: Any

        return use(Pair, x, n)

    check_one_graph(program, *INPUTS, captures=2)
