"""What code that a library runs changes around it: noticed and put back, and changed at each call, as in eager JAX."""

import dataclasses
import functools
import itertools
import random
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.base.errors import Break
from dynacomp.capture.hosting.outside import Outside, changes_unseen

hk = pytest.importorskip("haiku")
linen = pytest.importorskip("flax.linen")


class Slotted:
    __slots__ = ("count", "late")

    def __init__(self):
        self.count = 0


class Config:
    shared = 0

    def __init__(self):
        self.names, self.slotted, self.inner = [], Slotted(), types.SimpleNamespace(count=0)


def appends(c, n):
    c.names.append(n)


def counts_in_slots(c, n):
    c.slotted.count += 1
    c.slotted.late = n


def counts_inside(c, n):
    c.inner.count += n


def counts_in_the_class(c, n):
    Config.shared += n


def counts_in_the_function(c, n):
    counts_in_the_function.count = getattr(counts_in_the_function, "count", 0) + 1


def writes_an_array(c, n):
    c.array[n % 3] += 1


def writes_bytes(c, n):
    c.bytes[0] += 1


def consumes(c, n):
    c.names.append(next(c.numbers))


def generates(c, n):
    next(c.generated)


def draws(c, n):
    c.names.append(c.rng.random())


def draws_with_numpy(c, n):
    c.names.append(c.nrng.normal())


def sets_what_a_thread_has(c, n):
    c.local.n = getattr(c.local, "n", 0) + n


def by_a_bound_method(c, n):
    c.append(n)


def config():
    made = Config()
    Config.shared = 0
    vars(counts_in_the_function).pop("count", None)
    made.array, made.bytes, made.numbers, made.rng = np.zeros(3), bytearray(2), itertools.count(), random.Random(0)
    made.nrng, made.local, made.generated = np.random.default_rng(0), threading.local(), (made.names.append(i)
                                                                                          for i in range(99))
    made.append = made.names.append
    return made


def state(c):
    return (c.names, c.slotted.count, getattr(c.slotted, "late", None), c.inner.count, Config.shared,
            getattr(counts_in_the_function, "count", 0), c.array.tolist(), bytes(c.bytes), next(c.numbers),
            getattr(c.local, "n", 0), c.rng.getstate() == random.Random(0).getstate())


@pytest.mark.parametrize("library", ["haiku", "flax"])
@pytest.mark.parametrize("change", [
    appends, counts_in_slots, counts_inside, counts_in_the_class, counts_in_the_function, writes_an_array, writes_bytes,
    consumes, generates, draws, draws_with_numpy, sets_what_a_thread_has, by_a_bound_method])
def test_what_is_changed_is_changed_once_a_call(change, library):
    """Found by names: the object comes to the function that changes it as an argument."""
    def run(jit):
        c = config()

        class Module(linen.Module):
            def __call__(self, x):
                change(c, len(x))
                return x * 2

        def net(x):
            change(c, len(x))
            return x * 2

        def program(x):
            if library == "flax":
                return Module().apply({}, x) + 1
            return hk.without_apply_rng(hk.transform(net)).apply({}, x) + 1

        called = jit(program)
        results = [np.asarray(called(jnp.arange(float(n)))).tolist() for n in (3, 3, 4, 2, 3)]
        return results, state(c)

    dynacomp.reset()
    assert run(lambda f: dynacomp.jit(f, backend="eager")) == run(lambda f: f)
    assert set(dynacomp.stats()["breaks"]) <= {"effect"}


def test_a_call_asked_again_about_its_sizes_is_watched_each_time():
    """A dict was filled twice, where the call fails: the second time it did not fail."""
    def run(jit):
        seen = {}

        def net(x):
            n = x.shape[0]
            if n not in seen:
                seen[n] = str(n)
                if n == 4:
                    raise RuntimeError(f"no {n}")
            return x * n

        called, found = jit(lambda x: hk.without_apply_rng(hk.transform(net)).apply({}, x)), []
        for n in (3, 3, 4, 5, 4):
            try:
                found.append(called(jnp.ones(n)).tolist())
            except RuntimeError as error:
                found.append(str(error))
        return found, seen

    assert run(dynacomp.jit) == run(lambda f: f)


def test_what_a_cache_keeps_stays_where_nothing_is_put_back():
    calls = []

    @functools.cache
    def scale(n):
        return n * 0.5

    @functools.lru_cache
    def counted(n):
        calls.append(n)
        return n * 0.5

    def program(x):
        return hk.without_apply_rng(hk.transform(lambda x: x * scale(3))).apply({}, x)

    def counting(x):
        return hk.without_apply_rng(hk.transform(lambda x: x * counted(x.shape[0]))).apply({}, x)

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    assert all((compiled(jnp.ones(2)) == 1.5).all() for _ in range(3))
    assert scale.cache_info().currsize == 1 and not dynacomp.stats()["breaks"]
    compiled = dynacomp.jit(counting, backend="eager")
    assert [float(compiled(jnp.ones(n))[0]) for n in (2, 2, 4, 6, 2, 4)] == [1, 1, 2, 3, 1, 2]
    assert calls == [2, 4, 6] and all(type(n) is int for n in calls)


def test_all_kinds_are_put_back():
    made = config()
    module = types.ModuleType("of_the_program")
    module.n = 1

    def fn():
        return made

    outside = Outside()
    outside.keep([made, module, fn, made.array], ("array", "bytes"))
    outside.keep([], ("slotted", "inner"))
    made.names.append(1)
    made.new = made.slotted.count = made.slotted.late = made.inner.count = made.array[1] = made.bytes[1] = 7
    fn.n = module.n = Config.shared = Config.new = 7
    assert len(outside.changed()) == 9 and outside.restore() and not outside.restore()
    assert state(made)[:8] == ([], 0, None, 0, 0, 0, [0, 0, 0], b"\0\0") and not hasattr(made, "new")
    assert not vars(fn) and module.n == 1 and not hasattr(Config, "new")


def test_what_cannot_be_put_back():
    for found in (iter([]), zip(), itertools.count(), (x for x in ()), random.Random(), np.random.default_rng(),
                  np.random.RandomState(), threading.local()):
        assert changes_unseen(found)
        with pytest.raises(Break, match="changes when it is used"):
            Outside().keep([[found]], ())
    for found in ([], np.arange(3), random, random.random, np.random.default_rng, Config()):
        assert not changes_unseen(found)


def noted(x, seen=[], *, by={}):  # noqa: B006
    seen.append(len(x))
    by[len(x)] = by.get(len(x), 0) + 1
    return x * len(seen)


def test_what_stands_in_defaults_is_changed_once_a_call():
    def run(jit):
        noted.__defaults__[0].clear()
        noted.__kwdefaults__["by"].clear()
        linear = jax.custom_vjp(lambda x: noted(x))
        linear.defvjp(lambda x: (noted(x), None), lambda _, g: (g * 2,))
        program = jit(lambda x: (jax.grad(lambda v: linear(v).sum())(x), linear(x)))
        results = [[np.asarray(y).tolist() for y in program(jnp.arange(float(n)))] for n in (3, 3, 4, 2, 3)]
        return results, list(noted.__defaults__[0]), dict(noted.__kwdefaults__["by"])

    dynacomp.reset()
    assert run(lambda f: dynacomp.jit(f, backend="eager")) == run(lambda f: f)
    assert set(dynacomp.stats()["breaks"]) <= {"effect", "effect_in_body", "scalar_branch"}


class Rematerialised(linen.Module):
    width: int

    @linen.compact
    def __call__(self, x, scale):
        return jnp.tanh(linen.Dense(self.width)(x)) * scale


class Stack(linen.Module):
    """`linen.remat` makes a class in each call; Flax takes fields of the one it is derived from away, and puts another
    dict of the same ones there."""

    @linen.compact
    def __call__(self, x):
        for n in range(2):
            x = linen.remat(Rematerialised, static_argnums=(2,))(3, name=f"layer{n}")(x, n + 1)
        return x


def test_a_class_that_flax_derives_from_has_its_fields_as_before():
    net, x, fields = Stack(), jnp.ones((2, 3)), [*Rematerialised.__dataclass_fields__]
    params = net.init(jax.random.key(0), x)

    def step(params, x):
        return jax.value_and_grad(lambda p: (net.apply(p, x) ** 2).sum())(params)

    dynacomp.reset()
    compiled = dynacomp.jit(step, backend="eager")
    for n in range(3):
        got, want = compiled(params, x * n), step(params, x * n)
        assert jax.tree.all(jax.tree.map(lambda a, b: jnp.allclose(a, b, rtol=1e-5, atol=1e-6), got, want))
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] == 1
    assert [*Rematerialised.__dataclass_fields__] == fields


def test_fields_of_a_class_that_were_taken_away_are_put_back():
    @dataclasses.dataclass
    class Point:
        x: int
        y: int

    fields = dict(Point.__dataclass_fields__)
    outside = Outside()
    outside.keep([Point], ())
    Point.__dataclass_fields__ = dict(fields)
    assert not outside.restore()
    del Point.__dataclass_fields__["y"]
    assert outside.restore() and Point.__dataclass_fields__ == fields
    del Point.__dataclass_fields__
    assert outside.restore() and Point.__dataclass_fields__ == fields
