"""Updates of arrays whose length is not known, and may be 0: then nothing is written."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

PLACES = np.array([0, -1, 3, 0])
UPDATES = {
    "set": lambda x: x.at[PLACES].set(-1, mode="clip"), "add": lambda x: x.at[PLACES].add(-1, mode="clip"),
    "rows": lambda x: jnp.stack([x, x]).at[:, PLACES].max(2, mode="clip"),
    "drop": lambda x: x.at[PLACES].multiply(2, mode="drop"),
}


@pytest.mark.parametrize("how", UPDATES)
@pytest.mark.parametrize("lengths", [(5, 9, 0, 3), (0, 5, 0, 1)])
def test_updates_of_what_may_be_empty(how, lengths):
    dynacomp.reset()
    compiled = dynacomp.jit(UPDATES[how])
    for n in lengths * 2:
        x = jnp.arange(float(n))
        np.testing.assert_array_equal(compiled(x), UPDATES[how](x))
    assert not dynacomp.stats()["breaks"]
