"""Loads at computed positions: lanes whose offsets stand in a register are gathered by it, and narrow ones stay so."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.codegen.cpp.unit import unit_source
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function

TABLE = jnp.sin(jnp.arange(300.0))
IDS = jnp.arange(-40, 411, 7) * 5 % 313


def interpolated(image, y, x):
    """Bilinear, at positions computed in lanes."""
    low, left = (jnp.floor(v).astype(jnp.int32) for v in (y, x))
    b, a = y - low, x - left
    at = lambda i, j: image[jnp.clip(i, 0, 11), jnp.clip(j, 0, 24)]
    return ((1 - b) * ((1 - a) * at(low, left) + a * at(low, left + 1))
            + b * ((1 - a) * at(low + 1, left) + a * at(low + 1, left + 1)))


PROGRAMS = {
    "taken": (lambda t, i: t[i] * 2, TABLE, IDS),
    "unsigned": (lambda t, i: t[i.astype(jnp.uint32)] + 1, TABLE, IDS + 40),
    "from behind": (lambda t, i: t[::-1][i] * 2, TABLE, IDS),
    "filled": (lambda t, i: t.at[i].get(mode="fill", fill_value=3) + i, TABLE, IDS),
    "filled, unsigned": (lambda t, i: t.at[i.astype(jnp.uint32)].get(mode="fill", fill_value=3) * 2, TABLE, IDS),
    "bytes": (lambda t, i: t[i] // 2, (TABLE * 100).astype(jnp.int8), IDS),
    "halves": (lambda t, i: t[i] * 2, TABLE.astype(jnp.bfloat16), IDS),
    "truths": (lambda t, i: jnp.where(t[i], i, -i), TABLE > 0, IDS),
    "a column": (lambda t: jnp.tanh(t[:, 4]) + t[:, 1], TABLE.reshape(30, 10)),
    "a column from behind": (lambda t: t[::-1, 4] * 2, TABLE.reshape(60, 5)),
    "into columns": (lambda a, b: jnp.stack([a, b, a * b, a + b, a - b], -1), TABLE, IDS[:1] * TABLE),
    "columns of truths": (lambda t: jnp.where(t[:, 3], 2, t[:, 0] + 1), TABLE.reshape(60, 5) > 0),
    "a plane": (interpolated, TABLE.reshape(12, 25), jnp.linspace(-1, 12, 77), jnp.linspace(26, -2, 77)),
    "sorted": (lambda t, v: jnp.searchsorted(t, v), jnp.sort(TABLE), jnp.linspace(-1.1, 1.1, 333)),
}


def source(fn, *args):
    return unit_source(schedule(optimise(lower_function(fn, *args))), exact=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    fn, *args = PROGRAMS[name]
    dynacomp.reset()
    got, want = (np.asarray(f(*args), np.float64) for f in (dynacomp.jit(fn), fn))
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["externs"]


@pytest.mark.parametrize("name", ["taken", "unsigned", "from behind", "filled", "a plane", "sorted"])
def test_offsets_stay_in_their_register(name):
    text = source(*PROGRAMS[name])
    assert "gather_at(" in text and "[&](int l)" not in text and "int64_t>(t" not in text, text


def best_of_row(x, w, v):
    z = jnp.tanh(x @ w) @ v
    return jnp.take_along_axis(z, z.argmax(-1)[:, None], 1)[:, 0]


def chosen_of_two(x, w, v):
    z, other = jnp.tanh(x @ w) @ v, jnp.cos(x @ w) @ v
    return other[jnp.arange(len(x)), z.argmax(-1)] + z[:, 0]


@pytest.mark.parametrize("fn", [best_of_row, chosen_of_two])
def test_rows_that_lie_in_lanes_are_gathered_from_by_computed_places(fn):
    """Each lane has a row of its own: the value of the action that another network finds best was another row's."""
    dynacomp.reset()
    compiled, w, v = dynacomp.jit(fn), jnp.sin(jnp.arange(18.0)).reshape(3, 6), jnp.cos(jnp.arange(12.0)).reshape(6, 2)
    for n in (4, 5, 37):
        x = jnp.sin(jnp.arange(3.0 * n) * 7).reshape(n, 3)
        np.testing.assert_allclose(compiled(x, w, v), fn(x, w, v), rtol=1e-5, atol=1e-5)
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and not stats["externs"]


def test_short_rows_of_one_array_or_another():
    """Of complex numbers: their halves stand two apart."""
    first, second = (TABLE[:12] + 1j * TABLE[12:24]).reshape(2, 2, 3)
    dynacomp.reset()
    np.testing.assert_array_equal(dynacomp.jit(jnp.vstack)([first, second]), jnp.vstack([first, second]))
    assert dynacomp.stats()["frames_captured"] == 1 and not dynacomp.stats()["externs"]


def test_arrays_too_large_for_offsets_of_32_bits():
    large = jax.ShapeDtypeStruct((2**30,), jnp.float32)
    assert "gather_at(" not in source(lambda t, i: t[i] * 2, large, jax.ShapeDtypeStruct((64,), jnp.int32))


@pytest.mark.parametrize("by", [1500, 4099])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_quotients_that_lanes_mostly_share_are_asked_for_twice(by, dtype):
    """At the first lane and at the last; where these differ, at each."""
    def fn(x):
        return x * jax.lax.broadcasted_iota(dtype, (7, by), 0).reshape(-1)[5:]

    x = jnp.arange(7 * by - 5).astype(dtype)
    assert "steady_lanes" in source(fn, x)
    np.testing.assert_array_equal(dynacomp.jit(fn)(x), fn(x))


@pytest.mark.parametrize("name", ["a column", "a column from behind", "into columns", "columns of truths"])
def test_a_known_step_is_one_function_for_all_loads_and_stores(name):
    """A lambda for each would make g++ build each anew: columns of 63 took 5 seconds."""
    text = source(*PROGRAMS[name])
    assert "spread" in text and "[&](int l)" not in text, text
