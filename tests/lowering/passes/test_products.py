"""`turn_products`: which transposes go into their products, and that the values stay."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynacomp.capture.graph.verifier import verify
from dynacomp.lowering.passes.products import turn_products
from dynacomp.lowering.primitives.specialise import run
from dynacomp.lowering.primitives.translate import lower_function

RNG = np.random.default_rng(0)
A = RNG.integers(-9, 9, (2, 3, 4, 5)).astype(np.float32)
B = RNG.integers(-9, 9, (2, 5, 3, 6)).astype(np.float32)

# name → (function of A[b, i, j, k] and B[b, k, i, l], names of the Ops that are left)
CASES = {
    "matrices": (lambda a, b: (a[0, 0] @ b[0, :, 0]).T, 1),
    "batched": (lambda a, b: jnp.einsum("bijk,bkil->bijl", a, b).swapaxes(2, 3), 1),
    "several free": (lambda a, b: lax.dot_general(a, b, (((3,), (1,)), ((0,), (0,)))).transpose(0, 3, 4, 1, 2), 1),
    "sides mixed": (lambda a, b: lax.dot_general(a, b, (((3,), (1,)), ((0,), (0,)))).transpose(0, 3, 1, 4, 2), 0),
    "no left side": (lambda a, b: lax.dot_general(a[0, 0, 0], b[0], (((0,), (0,)), ((), ()))).T, 0),
    "read plain too": (lambda a, b: ((p := a[0, 0] @ b[0, :, 0]).T, p), 0),
    "read twice, merged": (lambda a, b: ((p := (a[0, 0] @ b[0, :, 0]).T), p + 1), 1),
}


def count(graph, name):
    return sum(getattr(n.target, "name", None) == name for n in graph.calls)


@pytest.mark.parametrize("case", CASES)
def test_turned(case):
    function, gone = CASES[case]
    graph = lower_function(function, A, B)
    turned = turn_products(graph)
    verify(turned)
    assert count(graph, "transpose") - count(turned, "transpose") == gone
    assert count(turned, "dot_general") == count(graph, "dot_general")
    for got, want in zip(run(turned, A, B), run(graph, A, B), strict=True):
        np.testing.assert_array_equal(got, want)
