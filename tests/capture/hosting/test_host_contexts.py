"""What a library keeps of the code around a call: interceptors, rules, stacks of keys. It counts at each call."""

import threading

import haiku
import jax
import jax.numpy as jnp
import pytest
from haiku._src import base as haiku_base

import dynacomp
from dynacomp.capture.hosting import host_contexts
from dynacomp.capture.hosting.host_contexts import found

nn = pytest.importorskip("flax.linen")
hk = pytest.importorskip("haiku")
base = pytest.importorskip("haiku._src.base")
lift = pytest.importorskip("flax.core.lift")

X = jnp.arange(12.0).reshape(3, 4)
MODEL = nn.Dense(2)
PARAMS = MODEL.init(jax.random.key(0), X)
NET = hk.without_apply_rng(hk.transform(lambda x: hk.Linear(2)(x)))
WEIGHTS = NET.init(jax.random.PRNGKey(0), X)


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


def linen_times(k):
    def interceptor(next_fun, args, kwargs, context):
        return next_fun(*args, **kwargs) * k

    return nn.intercept_methods(interceptor)


def haiku_times(k):
    def interceptor(next_fun, args, kwargs, context):
        made = next_fun(*args, **kwargs)
        return made * k if context.method_name == "__call__" else made

    return hk.intercept_methods(interceptor)


def linen_step(x):
    return MODEL.apply(PARAMS, x)


def haiku_step(x):
    return NET.apply(WEIGHTS, x)


def gradient(x):
    return jax.grad(lambda x: MODEL.apply(PARAMS, x).sum())(x)


def same(compiled, plain, *args):
    assert jnp.allclose(compiled(*args), plain(*args), rtol=1e-5, atol=1e-5)


def test_the_contexts_are_found():
    names = {root.name for root, _ in found()}
    assert {"haiku._src.base.frame_stack", "haiku._src.module.interceptor_stack",
            "flax.linen.module._global_interceptor_stack", "flax.core.spmd._axis_rules"} <= names


@pytest.mark.parametrize(("step", "times"), [(linen_step, linen_times), (haiku_step, haiku_times),
                                             (gradient, linen_times)])
def test_an_interceptor_around_a_compiled_call_counts(step, times):
    compiled = dynacomp.jit(step)
    same(compiled, step, X)
    for k in range(2, 12):  # a function made anew: Python calls the library in the end
        if k == 8:
            settled = dynacomp.stats()["frames_captured"]
        with times(float(k)):
            same(compiled, step, X)
        same(compiled, step, X)
    assert dynacomp.stats()["frames_captured"] == settled


def test_a_constant_interceptor_is_compiled():
    def doubled(next_fun, args, kwargs, context):
        return next_fun(*args, **kwargs) * 2.0

    compiled = dynacomp.jit(linen_step)
    for rows in (3, 3, 5, 6, 7):
        with nn.intercept_methods(doubled):
            same(compiled, linen_step, jnp.ones((rows, 4)))
    assert dynacomp.stats()["frames_captured"] <= 2 and not dynacomp.stats()["breaks"]


def intercepted(x, k):
    with linen_times(k):
        return MODEL.apply(PARAMS, x).sum()


def test_an_interceptor_within_the_compiled_function_counts():
    compiled = dynacomp.jit(intercepted)
    for k in (1.0, 2.0, 3.0, jnp.array(4.0), jnp.array(5.0)):
        same(compiled, intercepted, X, k)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 8 and stats["graphs"] == 2 and stats["breaks"].keys() == {"iterator", "opaque"}


def test_rules_that_say_where_axes_live_cost_an_entry_each():
    compiled = dynacomp.jit(linen_step)
    for rules in (("a", "b"), ("a", "b"), ("a", "c"), ("a", "b")):
        with nn.logical_axis_rules((rules,)):
            for k in range(3):
                same(compiled, linen_step, X + k)
    assert dynacomp.stats()["frames_captured"] == 2


def test_another_thread_has_contexts_of_its_own():
    compiled, found_there = dynacomp.jit(linen_step), []
    same(compiled, linen_step, X)
    with linen_times(2.0):
        thread = threading.Thread(target=lambda: found_there.append(compiled(X)))
        thread.start()
        thread.join()
    assert jnp.allclose(found_there[0], linen_step(X)) and dynacomp.stats()["frames_captured"] == 1


def drawn(seed):
    with base.new_context(rng=jax.random.PRNGKey(seed)):
        first = jax.random.uniform(base.next_rng_key(), ()).item()
        with base.with_rng(jax.random.PRNGKey(seed + 1)):
            return first, jax.random.uniform(base.next_rng_key(), ()).item()


def test_what_a_call_takes_from_a_context_is_not_taken_by_tracing():
    """The keys of a context opened by hand: traced, the sequence kept tracers."""
    compiled = dynacomp.jit(drawn)
    for seed in range(4):
        assert compiled(seed) == drawn(seed)
    assert "effect" in dynacomp.stats()["breaks"]


class Jitted(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.jit(nn.Dense)(4)(x) + nn.Dropout(0.5, deterministic=False)(x)


def test_a_memo_in_a_context_is_no_part_of_it():
    """Linen's `jit` notes there what a module has done with its keys."""
    model = Jitted()
    params = model.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, X)

    def step(params, x, key):
        return model.apply(params, x, rngs={"dropout": key}).sum()

    compiled = dynacomp.jit(step)
    for k in range(5):
        same(compiled, step, params, jnp.ones((3 + k, 4)), jax.random.key(k))
    assert dynacomp.stats()["frames_captured"] <= 2 and not dynacomp.stats()["breaks"]


def test_a_memo_that_a_later_call_of_the_program_fills():
    model = nn.jit(nn.Dense)(5)  # Flax notes for each such transformation what it has done to counters
    params = model.init(jax.random.key(0), X)

    def program(x):
        return MODEL.apply(PARAMS, x).sum() + model.apply(params, x)

    vars(lift._side_effect_cache)["cache"].clear()
    host_contexts._MEMOS.clear()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(10):
        assert jnp.array_equal(compiled(X * i), program(X * i))
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] == 1


def test_policies_of_precision_cost_an_entry_each():
    jmp = pytest.importorskip("jmp")

    def step(x):
        return NET.apply(WEIGHTS, x)

    compiled = dynacomp.jit(step)
    try:
        for half in (jnp.float32, jnp.float16, jnp.bfloat16, jnp.float16, jnp.float32, jnp.bfloat16):
            hk.mixed_precision.set_policy(hk.Linear, jmp.Policy(jnp.float32, half, half))
            for k in range(2):
                got, want = compiled(X + k), step(X + k)
                assert got.dtype == want.dtype == half and jnp.allclose(got, want, rtol=2e-2)
    finally:
        hk.mixed_precision.clear_policy(hk.Linear)
    same(compiled, step, X)
    assert dynacomp.stats()["frames_captured"] == 4 and not dynacomp.stats()["breaks"]


def test_a_context_that_the_program_enters_is_as_it_was():
    """Names were counted twice, tracers stayed among the parameters: only the names in use were put back."""
    def names():
        with haiku_base.new_context() as ctx:
            mlp = haiku.nets.MLP([3, 2], name="mlp", w_init=jnp.ones)
            mlp(jnp.ones((1, 4)))
            return list(ctx.collect_params()), mlp.module_name, haiku.Linear(1, name="mlp").module_name

    compiled = dynacomp.jit(names, backend="eager")
    assert [compiled() for _ in range(3)] == [names()] * 3
