"""dynacomp.jit: every way of calling it behaves as the function or object itself."""

import asyncio
import copy
import functools
import inspect
import pickle

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.api import CompiledObject

X = jnp.arange(4.0)
jit = functools.partial(dynacomp.jit, backend="eager")


def plain(a, b=1):
    """Adds."""
    return jnp.sin(a) + b


compiled = jit(plain)


@jit
def decorated(a):
    return a + 1


def same(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
        assert g.dtype == w.dtype and bool(jnp.array_equal(g, w))


class Model:
    bias = 3.0

    def __init__(self):
        self.w = jnp.ones(4)

    def __call__(self, a):
        return self.w * a

    @jit
    def method(self, a):
        return a * self.w + self.bias

    @classmethod
    @jit
    def of_class(cls, a):
        return a + cls.bias

    @staticmethod
    @jit
    def of_none(a):
        return a - 1

    @jit
    @staticmethod
    def inside_out(a):
        return a - 2

    @property
    @jit
    def attribute(self):
        return self.w * 2

    @functools.cached_property
    @jit
    def cached(self):
        return self.w * 3


def test_metadata_is_the_functions():
    assert (compiled.__name__, compiled.__doc__, compiled.__module__) == ("plain", "Adds.", __name__)
    assert inspect.signature(compiled) == inspect.signature(plain)
    assert compiled.__wrapped__ is plain and compiled.__defaults__ == (1,)
    assert functools.wraps(compiled)(lambda: None).__name__ == "plain"
    compiled.note = 3
    assert compiled.note == 3 and not hasattr(plain, "note")


def test_decorator_with_and_without_arguments():
    same(compiled(X, b=2), plain(X, b=2))
    same(jit(dynamic=False)(plain)(X), plain(X))
    same(dynacomp.jit(backend="eager", fullgraph=True, mode="exact", options={"threads": 1})(plain)(X), plain(X))


def test_every_kind_of_method():
    m = Model()
    same(m.method(X), X + 3)
    same((Model.of_class(X), m.of_class(X)), (X + 3, X + 3))
    same((Model.of_none(X), m.inside_out(X)), (X - 1, X - 2))
    same((m.attribute, m.cached, m.cached), (m.w * 2, m.w * 3, m.w * 3))
    same(jit(m.__call__)(X), m(X))


def test_what_is_compiled_already_stays_as_it_is():
    m = Model()
    assert jit(compiled) is compiled
    assert jit(m.method).__func__ is Model.method
    wrapped = jit(m)
    assert jit(wrapped) is wrapped


def test_partials_classes_builtins_and_jax_functions():
    same(jit(functools.partial(plain, b=3))(X), plain(X, 3))
    same(jit(Model)()(X), X)
    for fn in (jnp.tanh, abs, jax.nn.gelu):
        same(jit(fn)(X), fn(X))


def test_jax_jit_inside_with_its_static_arguments():
    power = jax.jit(lambda a, n: a ** n, static_argnums=1)
    same(jit(power)(X, 3), power(X, 3))
    same(jit(jax.jit(plain))(X), plain(X))


def test_arguments_of_jax_jit_are_accepted():
    reshape = lambda a, n: a.reshape(n)
    same(jit(reshape, static_argnums=(1,), donate_argnums=0)(X + 0, (2, 2)), X.reshape(2, 2))
    same(jit(static_argnames=("n",), donate_argnames="a")(reshape)(X + 0, n=(2, 2)), X.reshape(2, 2))


def test_a_models_attributes_are_seen_set_and_deleted():
    m = Model()
    wrapped = jit(m)
    same(wrapped(X), X)
    wrapped.w = jnp.zeros(4)
    wrapped.extra = 5
    same(wrapped(X), X * 0)
    assert m.extra == 5 and wrapped.bias == 3.0
    del wrapped.extra
    assert not hasattr(m, "extra") and "Model" in repr(wrapped)


def test_each_callable_object_has_entries_of_its_own():
    dynacomp.reset()
    for f in [jit(functools.partial(plain, b=n)) for n in range(12)]:
        f(X)
    assert dynacomp.stats()["frames_eager"] == {} and dynacomp.stats()["recompiles"] == 0


def test_pickles_and_copies():
    assert pickle.loads(pickle.dumps(decorated)) is decorated and copy.deepcopy(decorated) is decorated
    wrapped = jit(Model())
    deep, shallow = copy.deepcopy(wrapped), copy.copy(wrapped)
    loaded = pickle.loads(pickle.dumps(wrapped))
    wrapped.__wrapped__.w = wrapped.w * 5
    for other in (deep, shallow, loaded):
        assert type(other) is CompiledObject
    same((deep(X), loaded(X), shallow(X)), (X, X, X * 5))


def test_a_function_without_a_name_of_its_own_is_pickled_by_what_it_is_made_of():
    made = jit(plain, options={"recompile_limit": 3}, donate_argnums=0)
    loaded = pickle.loads(pickle.dumps(made))
    assert type(loaded) is type(made) and loaded.__wrapped__ is plain and loaded.key == made.key
    assert loaded.donated == made.donated and copy.copy(made) is copy.deepcopy(made) is made
    inner = jit(lambda a: a * 2)
    outer = pickle.loads(pytest.importorskip("cloudpickle").dumps(jit(lambda a: inner(a) + 1)))
    same(outer(X), X * 2 + 1)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(inner)


def test_generators_and_coroutines_run():
    @jit
    def some(a):
        yield a + 1
        yield a + 2

    @jit
    async def later(a):
        return a + 1

    same(list(some(X)), [X + 1, X + 2])
    same(asyncio.run(later(X)), X + 1)


def test_under_transformations():
    same(jax.vmap(compiled)(X), plain(X))
    same(jax.jit(compiled)(X), jax.jit(plain)(X))
    same(jax.grad(lambda a: compiled(a).sum())(X), jnp.cos(X))


def test_what_jax_calls_a_backend_is_a_platform():
    same(dynacomp.jit(plain, backend=None, device=None)(X), plain(X))
    got = dynacomp.jit(plain, backend="cpu")(X)
    same(got, plain(X))
    assert got.committed == jax.jit(plain, device=jax.devices("cpu")[0])(X).committed
    same(jit(lambda a: dynacomp.jit(plain, backend="cpu")(a) + dynacomp.jit(plain, device=None)(a))(X), plain(X) * 2)


def test_may_take_the_place_of_jax_jit(monkeypatch):
    def program(x, y):
        return jnp.fft.fft(x * y).real, jnp.sort(x) + y

    want = program(X, 3.0)
    monkeypatch.setattr(jax, "jit", dynacomp.jit)
    before = dynacomp.stats()["frames_captured"]
    compiled = jax.jit(program)
    for _ in range(2):
        for g, w in zip(compiled(X, 3.0), want):
            assert jnp.allclose(g, w, rtol=1e-5)
    assert dynacomp.stats()["frames_captured"] == before + 1  # and none of dynacomp's own


@pytest.mark.parametrize("how, error, text", [
    (dict(backend="cpu", device=jax.devices()[0]), ValueError, "a platform or a device, not both"),
    (dict(mode="fast"), ValueError, "unknown mode"),
    (dict(backend="cuda"), ValueError, "no backend 'cuda'; there are"),
    (dict(options={"numeric": 1}), ValueError, "did you mean 'numerics'"),
    (dict(options={"threads": 0}), ValueError, "at least 1"),
    (dict(options=[1]), TypeError, "options must be a dict"),
    (dict(dynamic=3), ValueError, "True, False or None"),
    (dict(fullgraph="yes"), ValueError, "True or False"),
])
def test_bad_arguments_say_what_would_be_right(how, error, text):
    with pytest.raises(error, match=text):
        dynacomp.jit(plain, **how)


def test_only_callables():
    with pytest.raises(TypeError, match="expected a callable, got int"):
        dynacomp.jit(3)


def test_disabled_functions_run_plainly_below_compiled_ones():
    seen = []

    @dynacomp.disable
    def host(a):
        seen.append(type(a).__name__)
        return a + 1

    dynacomp.reset()
    same(jit(lambda a: host(a * 2) * 3)(X), (X * 2 + 1) * 3)
    assert seen == ["ArrayImpl"] and sum(dynacomp.stats()["breaks"].values()) == 1


def test_graph_break_splits_the_graph():
    def two(a):
        b = jnp.sin(a)
        dynacomp.graph_break()
        return b + 1

    dynacomp.reset()
    same(jit(two)(X), jnp.sin(X) + 1)
    assert dynacomp.stats()["graphs"] == 2 and dynacomp.stats()["breaks"] == {"user": 1}
    with pytest.raises(dynacomp.GraphBreakError, match=r"test_api.py:\d+: graph break under fullgraph=True"):
        jit(two, fullgraph=True)(X)


def test_reset_forgets_entries_counters_and_notices():
    jit(plain)(X)
    dynacomp.reset()
    assert dynacomp.stats()["graphs"] == 0 == dynacomp.stats()["cache_hits"]
    jit(plain)(X)
    assert dynacomp.stats()["graphs"] == 1


def test_backends_say_whether_they_can_be_used():
    backends = dynacomp.list_backends()
    assert backends["xla"] is None and set(backends) >= {"cpp", "triton", "xla"}


def test_jit_in_compiled_code_is_the_function():
    dynacomp.reset()

    @dynacomp.jit(backend="eager")
    def step(x):
        @dynacomp.jit(backend="eager")
        def inner(v):
            return v * 2

        return inner(x) + dynacomp.jit(jnp.sin)(x)

    x = jnp.arange(3.0)
    assert step(x).tolist() == step(x).tolist() == (x * 2 + jnp.sin(x)).tolist()
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["graphs"] == 1


def test_compiled_functions_with_other_numerics_are_not_mixed():
    dynacomp.reset()
    exact = dynacomp.jit(lambda x: x * 2, backend="eager", mode="exact")
    step = dynacomp.jit(lambda x: exact(x) + 1, backend="eager")
    assert step(jnp.ones(2)).tolist() == [3.0, 3.0]
    assert dynacomp.stats()["breaks"] == {"call": 1}


def test_counters_are_asked_by_python():
    dynacomp.reset()

    @dynacomp.jit(backend="eager")
    def step(x):
        y = x * 2
        return y, dynacomp.stats()["graphs"]

    assert step(jnp.ones(2))[1] == 1
    assert dynacomp.stats()["breaks"] == {"user": 1}
