"""lowering.fuse.items: lanes between inserted zeros are cut by what their position leaves, and stay right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynacomp
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.interpret import schedules
from dynacomp.lowering.kernel_ir.printer import text
from dynacomp.lowering.passes.pipeline import optimise
from dynacomp.lowering.primitives.translate import lower_function
from tests.lowering.closed import scheduled


def spread(x, low, high, inner, value=0):
    """Numbers between the columns."""
    return lax.pad(x, jnp.asarray(value, x.dtype), [(0, 0, 0), (low, high, inner)])


def interleaved(x):
    """As jax.lax.associative_scan joins its halves."""
    return spread(x, 0, 1, 1) + spread(-x, 1, 0, 1)


def uneven(x):
    return spread(x, 0, 0, 1, 7) * spread(x, 0, 0, 1) + spread(x[:, 1:], 1, 1, 1)


FUNCTIONS = {
    "interleaved": interleaved, "uneven": uneven, "third": lambda x: spread(x, 1, 3, 2, 5) + 1,
    "cut": lambda x: spread(x, -1, -2, 1), "both": lambda x: spread(x, 0, 4, 1) + spread(x, 2, 0, 1)[:, 2:].sum(),
    "slices": lambda x: jax.vmap(jax.grad(lambda r: (jnp.sin(r[:-1:2]) * r[1::2]).sum()))(x),
    "prefixes": lambda x: lax.associative_scan(jnp.multiply, x, axis=1),
    "one row": lambda x: spread(x[:1], 0, 1, 1, 3).ravel() * 2,
}


def lowered(fn, x):
    return schedule(optimise(lower_function(fn, x)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", [2, 20, 51, 64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_stands_between_inserted_numbers(name, columns):
    fn = FUNCTIONS[name]
    x = (1 + jnp.arange(9.0 * columns).reshape(9, columns) / 512)
    plan = lowered(fn, x)
    (got,), want = schedules.run(plan, (np.asarray(x),), {}), np.asarray(fn(x))
    np.testing.assert_allclose(got, want, rtol=2e-5)
    np.testing.assert_allclose(dynacomp.jit(fn)(x), want, rtol=2e-5)


def test_no_lane_asks_for_its_remainder():
    even, odd = (text(lowered(interleaved, jnp.ones((9, n))).steps[0].kernel) for n in (64, 20))
    assert "FloorMod" not in even + odd and "p1[2*i1 + 1] =" in even
    assert "FloorMod" in text(lowered(interleaved, jnp.ones((2, 5))).steps[0].kernel), "too short to be cut"


SHORT = {
    "colours": lambda x: (x - jnp.arange(x.shape[-1])) * 2, "turned": lambda x: jnp.moveaxis(x, 1, -1) + 1,
    "each row": lambda x: jnp.sin(x) * x.sum(-1, keepdims=True),
    "positions": lambda x: x + lax.iota(x.dtype, x.size)[0],
    "gradient": jax.grad(lambda x: (jnp.sin(x) * jnp.arange(x.shape[-1])).sum()),
    "repeated": lambda x: jnp.repeat(jnp.repeat(x, 2, 1), 3, 2),
    "joined": lambda x: jnp.concatenate([x, -x], 1).ravel(),
}


@pytest.mark.parametrize("last", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", SHORT)
def test_lanes_go_along_the_dimension_before_a_short_one(name, last):
    fn, x = SHORT[name], jnp.arange(6 * 35.0 * last).reshape(6, 35, last) / 64
    (got,), want = schedules.run(lowered(fn, x), (np.asarray(x),), {}), np.asarray(fn(x))
    np.testing.assert_allclose(got, want, rtol=2e-5)
    np.testing.assert_allclose(dynacomp.jit(fn)(x), want, rtol=2e-5)


def test_a_short_dimension_is_no_loop_where_lanes_differ_along_it():
    colours, flat, turned = (text(lowered(fn, jnp.ones((64, 50, 3))).steps[0].kernel)
                             for fn in (SHORT["colours"], lambda x: x * 2, lambda x: jnp.moveaxis(x, 0, -1)[:, :, :3]))
    assert "< 3:" not in colours + turned and "p1[3*i1 + 2]" in colours and "p1[3*i1 + 2]" not in flat


def test_zeros_keep_their_signs():
    x = jnp.full((2, 64), -0.0)
    got = dynacomp.jit(interleaved)(x)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(interleaved(x)))


FOLDED_AWAY = {
    "product": lambda a, b: jnp.tanh(a) @ b, "sum": lambda a, b: (jnp.tanh(a) * b)[:, :, None].sum(2),
    "scan": lambda a, b: jnp.cumsum((a * b)[:, :, None], axis=2),
}


@pytest.mark.parametrize("columns", [3, 4, 5])
@pytest.mark.parametrize("name", FOLDED_AWAY)
def test_a_fold_over_one_element_into_a_short_dimension(name, columns):
    fn, b = FOLDED_AWAY[name], 1 + jnp.arange(float(columns)).reshape(1, columns)
    dynacomp.reset()
    compiled = dynacomp.jit(fn, options={"recall": False})
    for rows in (200, 150, 70):
        a = jnp.arange(float(rows)).reshape(rows, 1) / 64
        np.testing.assert_allclose(compiled(a, b), fn(a, b), rtol=2e-6)
    assert set(dynacomp.stats()["regions"]) == {"cpp"}


def test_rows_that_go_on_in_memory_are_no_parts():
    """The last dimension is short, but what is read and what is stored go on along the dimension before it."""

    def shuffled(x):
        return x.reshape(4, 32, 2, 32, 2, 3).transpose(0, 1, 3, 2, 4, 5)

    (step,) = scheduled(shuffled, np.zeros((4, 64, 64, 3), np.float32)).steps
    assert text(step.kernel).count("p1[") == 1


def forces(x):
    apart = x[:, None] - x[None]
    return (apart / ((apart ** 2).sum(-1) + 0.1)[..., None] ** 1.5).sum(1)


def test_what_a_fold_goes_through_for_each_column_is_computed_once():
    x = np.random.default_rng(0).standard_normal((40, 3), np.float32)
    (step,) = scheduled(forces, x).steps
    lines = text(step.kernel).splitlines()
    assert [line.split(" = ")[0].strip() for line in lines if "pow(" in line] == ["row1[i1]"]
    np.testing.assert_allclose(dynacomp.jit(forces)(x), forces(x), rtol=2e-5, atol=2e-5)
    (step,) = scheduled(lambda x: (x / jnp.exp(x.sum(-1))[:, None]).sum(1), x).steps
    assert "t0 = exp(a0)" in text(step.kernel)  # the row has it at hand
