"""Primitives of the program's: with a lowering they stay in the graph, whatever they are called."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.dispatch import apply_primitive
from jax._src.lib.mlir.dialects import hlo
from jax.extend.core import Primitive
from jax.interpreters import mlir

import dynacomp
from dynacomp.lowering.primitives.ops import OPS, is_known
from dynacomp.lowering.primitives.own import new_op

X = jnp.arange(4.0)


BY_HAND = lambda ctx, x, y, z: [hlo.add(hlo.multiply(x, y), z)]
BY_TRACING = mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False)


def multiply_add(name, impl, rule=BY_HAND):
    primitive = Primitive(name)
    primitive.def_impl(impl or functools.partial(apply_primitive, primitive))
    primitive.def_abstract_eval(lambda x, y, z: jax.core.ShapedArray(x.shape, x.dtype))
    if rule:
        mlir.register_lowering(primitive, rule)
    return primitive


in_numpy = lambda x, y, z: jnp.asarray(np.asarray(x) * np.asarray(y) + np.asarray(z))


@pytest.mark.parametrize("name", ["multiply_add", "attention", "mul", "jit", "copy"])
@pytest.mark.parametrize("impl", [None, in_numpy], ids=["by its lowering", "by NumPy"])
@pytest.mark.parametrize("rule", [BY_HAND, BY_TRACING], ids=["seam", "kernel"])
def test_one_with_a_lowering_of_xlas_operations_is_a_seam_and_one_of_jaxs_is_none(name, impl, rule):
    primitive = multiply_add(name, impl, rule)
    assert is_known(primitive) == (name == "multiply_add")
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: primitive.bind(x + 1, x, x) * 2, fullgraph=True)
    for x in (X, X * 3):
        np.testing.assert_allclose(compiled(x), ((x + 1) * x + x) * 2, rtol=1e-6)
    assert dynacomp.stats()["externs"] == ({f"`{name}` has no lowering": 1} if rule is BY_HAND else {})


def test_one_without_a_lowering_runs_in_python():
    primitive = multiply_add("in_python", in_numpy, rule=None)
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: primitive.bind(x + 1, x, x) * 2)
    for _ in range(2):
        np.testing.assert_allclose(compiled(X), ((X + 1) * X + X) * 2, rtol=1e-6)
    assert dynacomp.stats()["breaks"]["call"] == 1


def test_names_of_ours_are_unique():
    one, two = (new_op("twice_named", lambda x: (x,), lambda x, k=k: (x + k,)) for k in (1, 2))
    assert one.name != two.name and {one.name, two.name} <= OPS.keys() and is_known(one) and is_known(two)
    np.testing.assert_allclose(two.bind(X)[0], X + 2)
