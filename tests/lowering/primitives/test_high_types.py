"""`primitives.high_types`: values that are no arrays are XLA's, and no defect of ours."""

import jax
import jax.numpy as jnp
import pytest
from jax._src.hijax import Box

import dynacomp
from dynacomp.lowering.primitives.high_types import HighType, refuse_high_types


def fill(box, x):
    box.set(box.get() + x)
    return x * 2


def test_refused():
    box = Box(1.0)
    with pytest.raises(HighType, match="BoxTy"):
        refuse_high_types(jax.make_jaxpr(lambda x: (box.set(x), x)[1])(2.0))
    refuse_high_types(jax.make_jaxpr(jax.jit(jnp.sin))(2.0))


@pytest.mark.parametrize("compiler", [dynacomp.jit, lambda f: f])
def test_a_box_in_a_derivative(compiler):
    for x in (2.0, 3.0, 4.0):
        box, tangent = Box(5.0), Box(1.0)
        y, dy = jax.jvp(compiler(fill), (box, x), (tangent, 1.0))
        assert (float(y), float(dy), float(box.get()), float(tangent.get())) == (2 * x, 2.0, 5 + x, 2.0)


def test_a_box_that_a_rule_fills():
    box = Box(0.0)

    @jax.custom_vjp
    def kept(x):
        return x

    kept.defvjp(lambda x: (kept(x), None), lambda _, g: (box.set(g), (g,))[1])
    compiled = dynacomp.jit(lambda x: 2 * kept(2 * x))
    for x in (1.0, 2.0, 3.0):
        box.set(0.0)
        assert float(jax.grad(compiled)(x)) == 4.0 and float(box.get()) == 2.0
