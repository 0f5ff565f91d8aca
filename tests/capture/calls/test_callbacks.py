"""`jax.pure_callback` stays in the Graph: one capture, one region, whatever is called with it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import dynacomp


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def backwards(v):
    return np.ascontiguousarray(np.asarray(v)[::-1])


def of_module(x):
    y = jnp.sin(x) * 2
    return jax.pure_callback(backwards, jax.ShapeDtypeStruct(y.shape, y.dtype), y) + y


def made_here(x):
    by = 3
    return jnp.cos(jax.pure_callback(lambda v, b=2: np.asarray(v) * by + b, x, jnp.sin(x)))


def of_parts(x):
    struct = jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), x.dtype)
    less, most = jax.pure_callback(lambda d: (np.asarray(d["a"]) - 1, np.max(d["b"])), struct, {"a": x, "b": x * 2})
    return less * most


def batched(x):
    return jax.vmap(lambda row: jax.pure_callback(backwards, row, row * 2, vmap_method="sequential"))(x[None] * 3)


def in_a_loop(x):
    return jax.lax.fori_loop(0, 3, lambda i, c: jax.pure_callback(backwards, c, c * 2) + i, x)


@jax.custom_jvp
def flipped(x):
    return jax.pure_callback(backwards, x, x)


flipped.defjvp(lambda primals, tangents: (flipped(*primals), tangents[0][::-1]))


def differentiated(x):
    return jax.grad(lambda x: (flipped(x * x) * jnp.arange(x.size)).sum())(x)


@pytest.mark.parametrize("fn", [of_module, made_here, of_parts, batched, in_a_loop, differentiated],
                         ids=lambda f: f.__name__)
def test_one_capture(fn):
    compiled, before = dynacomp.jit(fn), dynacomp.stats()
    for i in range(4):
        x = jnp.linspace(i, i + 1, 5)
        np.testing.assert_allclose(compiled(x), fn(x), rtol=1e-6, atol=1e-6)
    after = dynacomp.stats()
    assert after["breaks"] == before["breaks"] and after["frames_captured"] == before["frames_captured"] + 1
    assert after["cache_hits"] >= before["cache_hits"] + 3
    assert after["regions"].get("xla", 0) == before["regions"].get("xla", 0)


def test_other_sizes():
    compiled = dynacomp.jit(of_module)
    for n in (5, 6, 7, 9, 12):
        x = jnp.arange(n) / 7
        np.testing.assert_allclose(compiled(x), of_module(x), rtol=1e-6)
    assert dynacomp.stats()["breaks"] == {}


def test_another_function_is_another_callback():
    """A callback is known by its identity, and what it reads it reads when it runs."""
    compiled = dynacomp.jit(lambda f, x: jax.pure_callback(f, x, x) + 1)
    x, held = jnp.arange(3.0), {"by": 2}

    def scaled(v):
        return np.asarray(v) * held["by"]

    for by in (2, 5, 7):
        held["by"] = by
        np.testing.assert_array_equal(compiled(scaled, x), x * np.float32(by) + 1)
        np.testing.assert_array_equal(compiled(backwards, x), x[::-1] + 1)
    assert dynacomp.stats()["breaks"] == {}


def test_of_an_array_in_its_closure():
    """What a closure holds may be another array in each call: the graph breaks, the answer is right."""
    def fn(x, w):
        return jax.pure_callback(lambda v: np.asarray(v) * np.asarray(w), x, x) + 1

    compiled = dynacomp.jit(fn)
    for i in range(3):
        x, w = jnp.arange(3.0), jnp.full(3, float(i))
        np.testing.assert_array_equal(compiled(x, w), fn(x, w))


def test_a_callback_that_counts():
    def fn(x):
        calls = 0

        def counted(v):
            nonlocal calls
            calls += 1
            return np.asarray(v) * 2

        y = jax.pure_callback(counted, x, x)
        return y + 1, calls

    compiled = dynacomp.jit(fn)
    for i in range(3):
        y, calls = compiled(jnp.full(3, float(i)))
        np.testing.assert_array_equal(y, jnp.full(3, 2.0 * i + 1))
        assert calls == 1


def test_errors_are_those_of_jax():
    def wrong(v):
        raise ValueError("not this one")

    compiled = dynacomp.jit(lambda x: jax.pure_callback(wrong, x, x * 2) + 1)
    for _ in range(2):
        with pytest.raises(Exception, match="not this one") as eager:
            jax.pure_callback(wrong, jnp.ones(3), jnp.ones(3)).block_until_ready()
        with pytest.raises(type(eager.value), match="not this one"):
            jax.block_until_ready(compiled(jnp.ones(3)))


def test_of_a_partial():
    compiled = dynacomp.jit(lambda x: jax.pure_callback(functools.partial(np.roll, shift=1), x, x * 2) + 1)
    for i in range(3):
        x = jnp.arange(4.0) + i
        np.testing.assert_array_equal(compiled(x), jnp.roll(x * 2, 1) + 1)


FACTOR = [1.0]


def test_a_callback_that_reads_what_the_call_has_changed():
    def scaled(x, k):
        FACTOR[0] = k
        first = jax.pure_callback(lambda v: np.asarray(v) * np.float32(FACTOR[0]), x, x)
        FACTOR[0] = 100.0
        return first

    compiled = dynacomp.jit(scaled, backend="eager")
    for k in (1.0, 2.0, 3.0):
        assert jnp.allclose(compiled(jnp.arange(3.0), k), jnp.arange(3.0) * k)


class Notes:
    def __init__(self):
        self.seen = []

    def add(self, value, step=0, tag=None):
        self.seen.append((value, step, tag))

    def all(self):
        return [tuple((type(v), str(v), getattr(v, "weak_type", None)) for v in row) for row in self.seen]


def told(x, notes):
    jax.debug.callback(notes.add, x.sum(), step=3, tag="sum")
    jax.debug.callback(notes.add, x * 2, ordered=True)
    return x + len(notes.seen)


def told_sizes(x, notes):
    jax.debug.callback(notes.add, len(x))
    jax.debug.callback(lambda v, w: notes.add(v, tag=w), 2.5, x.shape[0] * 2)
    return x + 1


@pytest.mark.parametrize("fn", [told, told_sizes])
def test_callbacks_with_effects_are_entered(fn):
    """They have happened when the program looks."""
    compiled = dynacomp.jit(fn, backend="eager")
    for k in range(9):
        x, want, got = jnp.arange(2.0 + k % 3), Notes(), Notes()
        np.testing.assert_array_equal(compiled(x, got), fn(x, want))
        assert got.all() == want.all()
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] <= 3


def test_what_io_callback_returns():
    def fn(x):
        y = io_callback(lambda v, by: {"a": v * by}, {"a": x}, x + 1, 2.0, ordered=True)
        return y["a"], type(y["a"])

    compiled = dynacomp.jit(fn, backend="eager")
    for k in range(4):
        got, want = compiled(jnp.arange(3.0) + k), fn(jnp.arange(3.0) + k)
        np.testing.assert_array_equal(got[0], want[0])
        assert got[1] is want[1]


def test_a_callback_that_raises(caplog):
    def fn(x, notes):
        def refuse(v):
            notes.add(v)
            raise ValueError("refused")

        try:
            jax.debug.callback(refuse, x)
        except ValueError as error:
            return x + len(notes.seen), str(error)

    compiled = dynacomp.jit(fn, backend="eager")
    for _ in range(3):
        caplog.clear()
        notes = Notes()
        found, text = compiled(jnp.arange(2.0), notes)
        assert found.tolist() == [1, 2] and text == "refused" and len(notes.seen) == 1
        assert [r.getMessage() for r in caplog.records if r.name.startswith("jax")] == ["jax.debug.callback failed"]


def test_callbacks_under_transformations():
    notes = Notes()

    def loss(x):
        jax.debug.callback(notes.add, x.sum())
        return jnp.sum(x ** 2)

    compiled = dynacomp.jit(lambda x: jax.grad(loss)(x), backend="eager")
    for k in range(3):
        np.testing.assert_allclose(compiled(jnp.arange(2.0) + k), 2 * (jnp.arange(2.0) + k))
    jax.effects_barrier()
    assert [float(v) for v, _, _ in notes.seen] == [1, 3, 5]


def test_a_callback_below_a_named_axis_is_not_captured_in_each_call():
    seen = []

    def note(a):
        seen.append(float(a))
        return np.float32(seen[-1] + 1)

    def f(x):
        return x * io_callback(note, jax.ShapeDtypeStruct((), jnp.float32), 1.0, ordered=True)

    compiled = jax.vmap(dynacomp.jit(f, backend="eager"), axis_name="i")
    for k in range(10):
        assert compiled(jnp.ones((1, 3)) * k).tolist() == [[2.0 * k] * 3]
    assert seen == [1.0] * 10 and dynacomp.stats()["frames_captured"] <= 3
