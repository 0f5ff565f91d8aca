"""dynacomp.capture.tracing.jaxprs: what `jax.make_jaxpr` gives."""

import jax
import jax.numpy as jnp

from dynacomp.capture.tracing.jaxprs import jaxpr_of

SHIFT = jnp.arange(3.0)


def test_the_jaxpr_is_that_of_make_jaxpr():
    structs = [jax.ShapeDtypeStruct((2, 3), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32, weak_type=True),
               jax.ShapeDtypeStruct((2,), jax.random.key(0).dtype)]

    def fn(x, n, keys):
        return [jnp.tanh(x) * n + SHIFT, jax.vmap(jax.random.uniform)(keys), n]

    found, known = jaxpr_of(fn, structs), jax.make_jaxpr(fn)(*structs)
    assert str(found) == str(known) and found.out_avals == known.out_avals
    assert [a.weak_type for a in found.in_avals[:2]] == [False, True]
    assert len(found.consts) == len(known.consts)
