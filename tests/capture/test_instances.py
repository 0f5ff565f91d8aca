"""What happens when a class of the program is called, where its bases are a library's."""

import dataclasses

import jax
import jax.numpy as jnp
import optax
import pytest
from flax.training.train_state import TrainState

import dynacomp


def test_a_class_that_its_library_registers_when_it_is_first_called():
    distrax = pytest.importorskip("distrax")

    class Constant(distrax.Distribution):
        def __init__(self, at):
            super().__init__()
            self.at = at

        def _sample_n(self, key, n):
            return jnp.broadcast_to(self.at, (n,))

        def log_prob(self, value):
            return -(value - self.at) ** 2

        @property
        def event_shape(self):
            return ()

    def made(x):
        return jax.tree.leaves(Constant(x)), Constant(x + 1)

    leaves, second = dynacomp.jit(made, backend="eager")(jnp.ones(()))
    assert [x.shape for x in leaves] == [()] and jax.tree.leaves(second)[0] == 2


def test_a_frozen_class_of_a_library_stays_frozen():
    def change(x):
        state = TrainState.create(apply_fn=None, params={"w": x}, tx=optax.sgd(0.1))
        try:
            state.step = 3
        except dataclasses.FrozenInstanceError:
            return "frozen"

    assert dynacomp.jit(change, backend="eager")(jnp.ones(2)) == change(jnp.ones(2)) == "frozen"
