"""`tracing.donors`: which jaxprs delete what they are given, and for what JAX traces."""

import jax
import jax.numpy as jnp
import pytest

from dynacomp.capture.base.errors import Break
from dynacomp.capture.tracing.donors import _donates, checked

GIVES = jax.jit(lambda x: x + 1, donate_argnums=0)
KEEPS = jax.jit(lambda x: x + 1)


@pytest.mark.parametrize("fn, deletes", [
    (GIVES, True), (KEEPS, False), (lambda x: GIVES(x) * 2, True), (jax.jit(lambda x: GIVES(x) * 2), False),
    (jax.checkpoint(lambda x: GIVES(x) * 2), True),
    (lambda x: jax.lax.fori_loop(0, 3, lambda i, y: GIVES(y), x), False)])
def test_what_a_jaxpr_deletes(fn, deletes):
    assert _donates(jax.make_jaxpr(fn)(jnp.ones(2)).jaxpr) == deletes


def test_what_is_no_array_of_jax_is_refused():
    with pytest.raises(Break, match="none of JAX's"):
        checked(None)
