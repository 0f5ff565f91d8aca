"""Ways of calling a body: what tells them apart while capturing, and when the Graph runs."""

import jax.numpy as jnp
import pytest

from dynacomp.capture.tracing.body_variants import Dispatch, differ_by_bodies, way_of


def body():
    """What stands for a function of the program: another function at each trace."""
    def stand(x):
        return x

    stand._standin = None
    return stand


def test_bodies_among_the_arguments_are_other_functions_when_the_graph_runs():
    first, two, four = body(), jnp.ones(2), jnp.ones(4)
    pick = Dispatch((way_of((first, two), {}), way_of((first, four), {})))(lambda g, x: "two", lambda g, x: "four")
    assert pick(body(), four) == "four" and pick(body(), two) == "two"
    with pytest.raises(KeyError, match="had not seen"):
        pick(abs, two)
    assert pick._standin is None  # itself one of them


def test_ways_that_nothing_else_tells_apart():
    first, second, x = body(), body(), jnp.ones(2)
    assert differ_by_bodies((way_of((first, x), {}), way_of((second, x), {})))
    assert not differ_by_bodies((way_of((first, x), {}), way_of((second, jnp.ones(3)), {}), way_of((x,), {})))
