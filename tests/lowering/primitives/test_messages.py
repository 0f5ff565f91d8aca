"""What a callback sees of weak types: those of its operands where eager JAX calls it, none where XLA does."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import io_callback

import dynacomp


def told(x):
    jax.debug.print("{} {a!r} {k}", [1, x], a=3, k=("s", None, 2.5))
    return x * 2


def inside(x):
    return jax.vmap(jax.jit(told))(x), jax.lax.map(told, x), jax.lax.cond(x[0, 0] > 0, told, jnp.sin, x)


WAYS = {
    "at once": told, "batch": jax.vmap(told), "gradient": jax.grad(lambda x: told(x).sum()), "jit": jax.jit(told),
    "checkpoint": jax.grad(jax.checkpoint(lambda x: told(x).sum())), "compiled bodies": inside,
}


@pytest.mark.parametrize("way", WAYS)
def test_prints_show_weak_types_as_eager_jax_does(way, capsys):
    dynacomp.reset()
    compiled, said = dynacomp.jit(lambda x: WAYS[way](x)), []
    for k in range(3):
        for fn in (WAYS[way], compiled):
            fn(jnp.full((1, 2), float(k + 1)))
            jax.effects_barrier()
            said.append(capsys.readouterr().out)
    assert said[0::2] == said[1::2] and "Array(1, dtype=int32" in said[0]
    assert (dynacomp.stats()["frames_captured"], dynacomp.stats()["breaks"]) == (1, {})


def test_callbacks_get_what_compiled_programs_give():
    seen = []

    def note(x, n, text=""):
        seen.append([*((v.dtype, v.weak_type) for v in (x, n)), text])

    def fn(x):
        io_callback(note, None, x, 3)
        jax.jit(lambda x: jax.debug.callback(note, x, 2.5, text="jit"))(x)
        jax.debug.callback(note, x, 1, text="at once")
        return x

    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for run in (fn, compiled, compiled):
        run(jnp.full(2, 1.5))
        jax.effects_barrier()
    assert seen[:3] == seen[3:6] == seen[6:] and [row[0][1] for row in seen[:3]] == [False, False, True]
    assert dynacomp.stats()["frames_captured"] <= 3  # what a function below `jax.jit` changes breaks the graph
