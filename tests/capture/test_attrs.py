"""Attributes: what a module, class or object has or lacks is guarded."""

import functools
import random
import types

import jax
import jax.numpy as jnp
import numpy as np

import dynacomp


def test_an_attribute_that_a_module_did_not_have():
    module = types.ModuleType("shared")

    def program(x):
        return x + getattr(module, "extra", 1)

    compiled = dynacomp.jit(program, backend="eager")
    np.testing.assert_array_equal(compiled(jnp.arange(3.0)), jnp.arange(3.0) + 1)
    module.extra = 5
    np.testing.assert_array_equal(compiled(jnp.arange(3.0)), jnp.arange(3.0) + 5)


def test_the_dict_of_a_module_is_the_modules_own():
    module = types.ModuleType("made_here")

    def read():
        return module.__dict__ is vars(module), module.__dict__

    def written():
        exec("there = 5", module.__dict__)
        return module.there

    same, found = dynacomp.jit(read, backend="eager")()
    assert same and found is module.__dict__
    assert dynacomp.jit(written, backend="eager")() == 5


class Scaled:
    def __init__(self, by):
        self.by = by

    @functools.partial(jax.jit, static_argnums=0)
    def __call__(self, x):
        return x * self.by

    @functools.partial(jax.jit, static_argnums=0)
    def twice(self, x):
        return self(x) * 2


def test_methods_under_jax_jit_are_methods():
    def program(x):
        return Scaled(3).twice(x), jax.grad(lambda v: Scaled(2).twice(v).sum())(x)

    dynacomp.reset()
    got, want = dynacomp.jit(program, backend="eager")(jnp.ones(3)), program(jnp.ones(3))
    np.testing.assert_array_equal(jnp.stack(got), jnp.stack(want))
    assert dynacomp.stats()["breaks"] == {}


def test_methods_of_objects_with_a_part_in_c_are_found_in_their_class():
    def draw(source, x):
        return x * source.random(), source.uniform(1, 2), source.randint(1, 9), source.choice([1, 2, 3])

    ours, plain = random.Random(1), random.Random(1)
    compiled = dynacomp.jit(draw, backend="eager")
    dynacomp.reset()
    for _ in range(3):
        assert repr(compiled(ours, jnp.ones(2))) == repr(draw(plain, jnp.ones(2)))
    assert ours.getstate() == plain.getstate() and "attribute" not in dynacomp.stats()["breaks"]
    ours.uniform = plain.uniform = lambda a, b: 7.0
    assert repr(compiled(ours, jnp.ones(2))) == repr(draw(plain, jnp.ones(2)))
