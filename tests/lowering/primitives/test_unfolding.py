"""Primitives of a program that are lowered by a function of arrays are compiled as what that function does."""

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import dynacomp


def primitive_of(name, fn, many=False, lowering=None):
    """A primitive that evaluates and lowers by `fn`, in the way of JAX's tutorial on primitives."""
    primitive = Primitive(name)
    primitive.multiple_results = many
    primitive.def_impl(fn)

    def shapes(*avals, **params):
        structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        out = jax.eval_shape(lambda *args: fn(*args, **params), *structs)
        made = [jax.core.ShapedArray(s.shape, s.dtype) for s in jax.tree.leaves(out)]
        return made if many else made[0]

    primitive.def_abstract_eval(shapes)
    mlir.register_lowering(primitive, lowering or mlir.lower_fun(fn, multiple_results=many))
    return primitive


squares = primitive_of("program_squares", lambda x, power: x ** power)
halves = primitive_of("program_halves", lambda x: [x[: x.shape[0] // 2], x.sum()], many=True)
outer = primitive_of("program_outer", lambda x: squares.bind(x, power=3) + 1)
sin_of_another = primitive_of("sin", lambda x: x * 2 + 1)
ad.primitive_jvps[squares] = lambda xs, ts, power: (
    squares.bind(*xs, power=power), power * squares.bind(*xs, power=power - 1) * ts[0])
batching.primitive_batchers[squares] = lambda xs, dims, power: (squares.bind(*xs, power=power), dims[0])

FUNCTIONS = [
    lambda x: jnp.cos(squares.bind(x, power=2)) + 1,
    lambda x: halves.bind(x * 2)[1] + halves.bind(x)[0],
    lambda x: outer.bind(x) - x,
    lambda x: sin_of_another.bind(x) + jnp.sin(x),
    jax.grad(lambda x: squares.bind(x, power=3).sum()),
    jax.vmap(lambda x: squares.bind(x, power=2) + 1),
    lambda x: jax.lax.cond(x[0] > 0, lambda y: squares.bind(y, power=2), lambda y: y, x),
]


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_it_is_compiled_to_kernels_whatever_the_size(number):
    fn = FUNCTIONS[number]
    dynacomp.reset()
    compiled = dynacomp.jit(fn)
    for size in (4, 6, 4, 9, 33, 8):
        x = jnp.linspace(-1, 2, size)
        want, got = fn(x), compiled(x)
        assert got.dtype == want.dtype and jnp.allclose(got, want, rtol=1e-6, atol=1e-6)
    assert not dynacomp.stats()["externs"] and dynacomp.stats()["frames_captured"] <= 2
    assert set(dynacomp.stats()["regions"]) == {"cpp"}


def test_what_this_platform_lowers_in_its_own_way_stays_with_xla():
    primitive = primitive_of("program_of_platform", lambda x: x + 1)
    mlir.register_lowering(primitive, mlir.lower_fun(lambda x: x + 2, multiple_results=False), platform="cuda")
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: primitive.bind(x) * 2)
    assert [compiled(jnp.ones(n)).tolist() for n in (1, 2, 1)] == [[4.0], [4.0, 4.0], [4.0]]
    assert not dynacomp.stats()["externs"]
    by_hand = primitive_of("program_by_hand", lambda x: x * 3, lowering=lambda ctx, x: [x])  # XLA's operand
    mine = dynacomp.jit(lambda x: by_hand.bind(x) + 1)
    assert [mine(jnp.ones(n)).tolist() for n in (1, 2, 1)] == [[2.0], [2.0, 2.0], [2.0]]  # its rule returns x
    assert dynacomp.stats()["externs"]


def test_a_function_that_needs_to_know_the_size_is_compiled_for_each():
    total = primitive_of("program_total", lambda x: sum(x[i] * i for i in range(x.shape[0])))
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: total.bind(x) + 1)
    for size in (3, 4, 5, 3, 4, 5):
        assert compiled(jnp.ones(size)) == 1 + sum(range(size))
    assert not dynacomp.stats()["externs"] and set(dynacomp.stats()["regions"]) == {"cpp"}
