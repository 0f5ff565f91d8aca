"""Numbers that JAX hands back are Python's, or have a dtype, as eager JAX gives them; see `passthrough.py`."""

import sys
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.tree_util import Partial

import dynacomp
from tests.capture.program_kit import check_one_graph


@jax.custom_vjp
def same(x):
    return x


same.defvjp(lambda x: (x, None), lambda _, cotangent: (cotangent,))

CALLS = {
    "value of the identity": lambda x: jax.value_and_grad(lambda t: t)(x),
    "value of a jitted identity": lambda x: jax.value_and_grad(jax.jit(lambda t: t))(x),
    "aux": lambda x: jax.grad(lambda t: (t * t, t), has_aux=True)(x),
    "aux of a value": lambda x: jax.value_and_grad(jax.jit(lambda t: (t, t)), has_aux=True)(x),
    "one of two": lambda x: jax.value_and_grad(jax.jit(lambda t, u: t), argnums=(0, 1))(x, x),
    "a dict": lambda x: jax.value_and_grad(jax.jit(lambda d: d["a"]))({"a": x, "b": x}),
    "jvp": lambda x: jax.jvp(lambda t: (t, t * 2), (x,), (1.0,)),
    "vjp": lambda x: jax.vjp(lambda t: t, x)[0],
    "a carry": lambda x: lax.scan(lambda c, _: (c, c), x, None, length=2),
    "stop_gradient": lambda x: (lax.stop_gradient(x), jnp.float32(x)),
    "an array of it": lambda x: (jnp.asarray(x), jnp.asarray(x).__pow__(jnp.int32(3)), jnp.asarray(x) + 1),
    "arrays of it in a body": lambda x: jax.value_and_grad(
        lambda t: (t * x, lax.stop_gradient(jnp.asarray(2.0))), has_aux=True)(x),
    "an array of a number around it": lambda x: jax.value_and_grad(
        lambda t: (t * x, lax.stop_gradient((jnp.asarray(x), x + 1, jnp.squeeze(x + 2)))), has_aux=True)(x),
    "checkpoint": lambda x: jax.checkpoint(lambda t: (t, t * x, 2.0, 3, True, x, x + 1, jnp.asarray(2.0)))(x),
    "checkpoint of an array": lambda x: jax.checkpoint(lambda t: (t, x, t * x, 5))(jnp.ones(2)),
    "gradient of a checkpoint": lambda x: jax.value_and_grad(
        jax.checkpoint(lambda t: (t * t, (2.0, x, False))), has_aux=True)(x),
    "stop_gradient in a body": lambda x: jax.value_and_grad(lambda t: lax.stop_gradient(t))(x),
    "stop_gradient of all kinds": lambda x: jax.value_and_grad(lambda t: (
        t * t, lax.stop_gradient((t, x, 2, 3.0, True, jnp.float32(x), jnp.array(2.0)))), has_aux=True)(jnp.float32(x)),
    "stop_gradient of nothing": lambda x: jax.value_and_grad(lambda t: lax.stop_gradient(2.0))(x),
    "stop_gradient below jvp": lambda x: jax.jvp(lambda t: (t, lax.stop_gradient(t)), (x,), (1.0,)),
    "bools": lambda x: (lax.stop_gradient((True, x)), jnp.float32(x)),
    "a derivative of the program's": lambda x: (same(x), same(3), jnp.float32(x)),
    "NumPy's": lambda x: (jax.checkpoint(lambda t, u: (u, t))(np.float32(3), np.ones(2)), jnp.float32(x)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_numbers_come_back_as_eager_jax_gives_them(call):
    dynacomp.reset()
    compiled = dynacomp.jit(call, backend="eager")
    for x in (2.0, 3.0, -1.0, 0.5, 2.0, 7.0, 0.1, 4.0, 9.0, -3.0):
        assert _shown(compiled(x)) == _shown(call(x))
    assert dynacomp.stats()["frames_captured"] <= 3


def _shown(tree):
    return jax.tree.map(lambda v: (type(v), repr(v)), tree)


def test_a_number_with_a_dtype_is_one_to_the_program():
    def asked(x):
        value, grad = jax.value_and_grad(jax.jit(lambda t: t))(x)
        return value, value.dtype, value + 1, float(value), grad * value, isinstance(value, float)
    dynacomp.reset()
    compiled = dynacomp.jit(asked, backend="eager")
    for k in range(10):
        assert _shown(compiled(k / 4)) == _shown(asked(k / 4))


RINGS = '''
import jax
import jax.numpy as jnp

class Ring:
    def __init__(self, scale):
        self.scale = jnp.asarray(scale)

def area(ring):
    return ring.scale * 2

def remade(aux, leaves):
    ring = object.__new__(Ring)
    ring.scale, = aux
    return ring

jax.tree_util.register_pytree_node(Ring, lambda r: ((), (r.scale,)), remade)
'''


def test_trees_that_jax_cannot_compare_are_no_defect():
    rings = types.ModuleType("ringing")
    exec(RINGS, vars(rings))
    rings.Ring.__module__ = "ringing"
    dynacomp.register_library("ringing", pure=True)
    check_one_graph(lambda s, x: rings.area(rings.Ring(s)) * x,
                    *((0.5 + n, jnp.arange(3.0) + n) for n in range(5)), captures=2)


CONVERTING = '''
import jax, jax.numpy as jnp

class Scale:
    def __init__(self, scale):
        self.scale = converted(scale)

inside = False

def converted(x):  # no attempt can enter it
    global inside
    before, inside = inside, True
    try:
        return x if isinstance(x, jax.Array) else jnp.asarray(x, jnp.float32)
    finally:
        inside = before

def mirrored(x):
    return x if isinstance(x, jax.Array) else jnp.asarray(-x, jnp.float32)

def both(x):
    return {"converted": converted(x), "kept": x}

jax.tree_util.register_pytree_node(Scale, lambda s: ((s.scale,), None), lambda _, leaves: Scale(*leaves))
'''


def test_numbers_of_which_a_library_makes_arrays_that_are_not_weak():
    """A tracer it leaves as it is, weak; with another value the array is not the number: the function is entered."""
    converting = types.ModuleType("converting")
    exec(CONVERTING, vars(converting))
    converting.Scale.__module__ = "converting"
    dynacomp.register_library("converting", pure=True)
    calls = [(0.5 + n, jnp.arange(3) + n) for n in range(5)]
    check_one_graph(lambda s, x: converting.converted(s), *calls, captures=2)
    check_one_graph(lambda s, x: (converting.both(s), converting.mirrored(s)), *calls, captures=2)
    check_one_graph(lambda s, x: (converting.Scale(s).scale, converting.Scale(s).scale * x), *calls, captures=2)


JUDGING = """
import math, jax, jax.numpy as jnp

def made(number):
    return lambda x: x if isinstance(x, jax.Array) else jnp.asarray(number(x), jnp.float32)

no_less, no_more, of_no_sign = made(lambda x: max(x, 1.5)), made(lambda x: min(x, 4.0)), made(abs)
rounded, whole, same = made(round), made(math.floor), made(lambda x: x)

def least(a, b):
    return made(lambda x: x)(a) if isinstance(a, jax.Array) else jnp.asarray(min(a, b), jnp.float32)
"""


@pytest.mark.parametrize("name", ["no_less", "no_more", "of_no_sign", "rounded", "whole", "same"])
def test_a_number_that_a_library_bounds_or_rounds_is_not_that_number(name):
    """It was, where the first calls had ones within the bounds (wrong)."""
    judging = types.ModuleType("judging")
    exec(JUDGING, vars(judging))
    dynacomp.register_library("judging", pure=True)
    make = getattr(judging, name)

    def program(s, x):
        return make(s), make(s) * x, jax.grad(lambda y: (y * make(s)).sum())(x), judging.least(s, s + 1)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for s in (2.0, 3.0, 4.5, 1.0, -2.0, 0.5, 7.0, -3.0, 2.5, 1e18):
        assert _shown(compiled(s, jnp.arange(3.0))) == _shown(program(s, jnp.arange(3.0)))
    assert dynacomp.stats()["frames_captured"] <= 3


KEEPING = """
import jax, jax.numpy as jnp

def converted(s):
    return s if isinstance(s, jax.Array) else jnp.asarray(max(s, 1.5), jnp.float32)

class Keeper:
    def __init__(self, s):
        self.number, self.twice, self.array = s, 2 * s, converted(s)
        self.inside = [s, {"a": s}]

    def scaled(self, x):
        return x * self.array

    def both(self):
        return self.array, self.number

    @property
    def more(self):
        return self.twice + 1
"""
KEPT = {
    "attributes": lambda made, x: (made.number, made.twice, made.array, made.inside),
    "methods": lambda made, x: (made.scaled(x), made.both()),
    "property": lambda made, x: made.more,
    "computed with": lambda made, x: (x * made.array, x * made.number, x * made.more, x * made.inside[1]["a"]),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_an_object_of_a_library_keeps_of_a_number_is_that_number(name, monkeypatch):
    """It was a weak array from the second call on: of any attribute of an instance whose class is no tree (wrong)."""
    keeping = types.ModuleType("keeping")
    exec(KEEPING, vars(keeping))
    monkeypatch.setitem(sys.modules, "keeping", keeping)
    dynacomp.register_library("keeping", pure=True)
    asked, x = KEPT[name], jnp.arange(3, dtype=jnp.float16)

    def program(s, x):
        return asked(keeping.Keeper(s), x), x * 3

    dynacomp.reset()
    compiled = dynacomp.jit(program)  # compiled: what runs the Graph in Python gives the library the number
    for s in (2.0, 3.0, 4.5, 1.0, -2.0, 0.5, 7.0, -3.0, 2.5):
        assert _shown(compiled(s, x)) == _shown(program(s, x))
    assert dynacomp.stats()["frames_captured"] <= 3 and not dynacomp.stats()["breaks"]


PARTS = {  # a row for each: what is read of a changing number that JAX, or Equinox, has been given
    "put": lambda x, s: (jax.device_put(s), jax.device_put({"a": s, "b": x}), jax.tree.map(jax.device_put, (x, s * 2))),
    "put, in a derivative": lambda x, s: jax.grad(lambda y: (y * jax.device_put((s, y))[0]).sum())(x),
    "of a Partial": lambda x, s: (Partial(jnp.add, s, x).args, Partial(jnp.add, y=s).keywords),
    "of its parts": lambda x, s: ([a * 2 for a in Partial(jnp.add, s, 1).args],
                                  isinstance(Partial(jnp.add, s).args[0], type(s))),
    "of a shape": lambda x, s: (eqx.filter_eval_shape(lambda n: n, s), eqx.filter_eval_shape(lambda y: y * s, x)),
    "of shapes": lambda x, s: eqx.filter_eval_shape(lambda y, n: (y * n, [n]), x, s),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
def test_a_number_that_is_put_or_kept_is_what_eager_jax_has_there(name):
    """Not a `TypedFloat` for an array, nor a weak array or what says how one is for a number, from the second call."""
    dynacomp.reset()
    read, x = PARTS[name], jnp.arange(3.0)
    compiled = dynacomp.jit(lambda x, s: (read(x, s), x * 3))
    for s in (2.0, 3.0, 4.5, -1.0, 0.5, 7, 4, 12):
        assert _shown(compiled(x, s)[0]) == _shown(read(x, s))
