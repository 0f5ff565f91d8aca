"""The table of backends: each row makes Programs of a Graph, or says why it cannot here."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.codegen.backends import BACKENDS


def test_rows_stand_under_their_names():
    assert all(name == row.name for name, row in BACKENDS.items())
    assert BACKENDS.keys() == {"xla", "cpp", "triton"}


def test_xla_is_for_every_platform_and_always_there():
    assert BACKENDS["xla"].unavailable((), None) is None and not BACKENDS["xla"].needs_schedule
    assert all(set(row.platforms) <= set(BACKENDS["xla"].platforms) for row in BACKENDS.values())


def test_without_a_compiler_the_reason_is_told(tmp_path):
    reason = BACKENDS["cpp"].unavailable(("no-such-compiler",), tmp_path)
    assert reason and "no-such-compiler" in reason


@pytest.mark.parametrize("name", ["xla", "cpp"])
def test_each_gives_the_same_answer(name):
    x = jnp.linspace(-1.0, 1.0, 12).reshape(3, 4)
    compiled = dynacomp.jit(lambda x: jnp.tanh(x) @ x.T + 1, backend=name)
    for args in (x, x + 1, x):
        np.testing.assert_allclose(compiled(args), jnp.tanh(args) @ args.T + 1, rtol=1e-5)


def test_a_backend_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'nosuch'"):
        dynacomp.jit(lambda x: x, backend="nosuch")(jnp.ones(1))
