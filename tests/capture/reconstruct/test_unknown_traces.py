"""Questions about the trace that runs a frame: what is said is what plain Python hears, and nothing breaks for it."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from jax._src import core

import dynacomp

ARRAY = type(jnp.ones(1))
X = jnp.linspace(0.5, 1, 3)


class Variable:
    """As NNX's are: of the trace that has made it."""

    def __init__(self, value):
        self.state, self.value = core.get_opaque_trace_state(convention="nnx"), value

    def store(self, value):
        if self.state != core.get_opaque_trace_state(convention="nnx"):
            raise ValueError("another trace")
        if type(value) in (int, str) or type(value) is Variable or type(value) is None:
            raise TypeError("no array")
        if getattr(value, "sharding", None) != getattr(self.value, "sharding", None):
            raise TypeError("elsewhere")
        self.value = value


def variables(x):
    made = Variable(jnp.ones(3))
    made.store(jnp.arange(3.0) * 2)
    return (made.value * jnp.sin(x)).sum()


OUTER = Variable(X)


def of_another_trace(x):
    if OUTER.state != core.get_opaque_trace_state():
        return (x * 2).sum()
    return (x * 3).sum()


def stores(variable, x):
    if variable.state != core.get_opaque_trace_state():
        raise ValueError("another trace")
    variable.value = getattr(variable.value, "sharding", 2) * x  # 2: a tracer has none
    return variable.value.sum()


def asks_in_the_body(x):
    return jax.grad(lambda v: (v * (3 if type(v) is ARRAY else 2)).sum())(x).sum() * (x ** 2).sum()


def asks_for_arrays(x):
    y = jnp.sin(x)
    return (y * (3 if type(y) is ARRAY else 2)).sum()


KINDS = {Variable: 2.0, int: 3.0}
TRACED = {core.Tracer: 2.0, Variable: 3.0}


def looks_in_a_table(x):
    def scaled(v):
        known = type(v) in KINDS or type(v) in {Variable, str}
        return (v * (5.0 if known else KINDS.get(type(v), 1.5))).sum()
    return jax.grad(scaled)(x).sum() * scaled(x ** 2)


def looks_among_arrays(x):
    y = jnp.sin(x)
    return (y * TRACED.get(type(y), 1.0) * (2 if type(y) in {ARRAY: 1} else 3)).sum()


def asks_for_bases(x):
    y = jnp.sin(x)
    pairs = issubclass(type(y), tuple) or issubclass(type(x), (Variable, str, dict))
    return (y * (3 if pairs else 2) * issubclass(type(y), object)).sum()


def asks_for_bases_among_arrays(x):
    y = jnp.sin(x)
    return (y * (3 if issubclass(type(y), core.Tracer) else 2) / (2 if issubclass(type(y), core.Tracer) else 3)).sum()


def asks_for_attributes(x):
    def scaled(v):
        fields = dataclasses.is_dataclass(v) or getattr(type(v), "_fields", None) or hasattr(type(v), "_asdict")
        return (v * (3 if fields else 2) * hasattr(type(v), "shape")).sum()
    return jax.grad(scaled)(x).sum() * scaled(x ** 2)


def asks_for_attributes_among_arrays(x):
    y = jnp.sin(x)
    return (y * (3 if hasattr(type(y), "_trace") else 2) / (2 if hasattr(type(y), "_trace") else 3)).sum()


@pytest.mark.parametrize(("fn", "breaks", "captures"), [
    (asks_for_attributes, False, 1), (asks_for_attributes_among_arrays, True, 3),
    (asks_for_bases, False, 1), (asks_for_bases_among_arrays, True, 3),
    (looks_in_a_table, False, 1), (looks_among_arrays, True, 3),
    (variables, False, 1), (of_another_trace, False, 1), (asks_in_the_body, True, 4), (asks_for_arrays, True, 2)])
def test_what_is_asked_about_the_trace(fn, breaks, captures):
    for transform in (lambda f: f, jax.grad, lambda f: lambda x: jax.vmap(f)(x[None])):
        dynacomp.reset()
        compiled = transform(dynacomp.jit(fn, backend="xla"))
        for k in range(10):
            assert jnp.allclose(compiled(X * (k + 1)), transform(fn)(X * (k + 1)))
        assert set(dynacomp.stats()["breaks"]) <= ({"tracer", "attribute", "placement"} if breaks else set())
        assert dynacomp.stats()["frames_captured"] <= captures


def test_a_class_that_is_kept_is_that_of_the_tracer():
    names = []

    def kept(x):
        cls = type(jnp.sin(x))
        dynacomp.graph_break()
        names.append(cls.__name__)
        return x.sum()

    for fn in (kept, dynacomp.jit(kept, backend="xla")):
        jax.grad(fn)(X)
        jax.vmap(fn)(X[None])
    assert names[:2] == names[2:] and names[1] == "BatchTracer"


def test_what_the_caller_has_made_under_the_same_trace():
    def loss(f):
        return lambda x: f(Variable(x), x) + f(Variable(x * 2), x)

    compiled = dynacomp.jit(stores, backend="xla")
    for transform in (jax.grad, lambda f: lambda x: jax.vmap(f)(x[None])):
        dynacomp.reset()
        for k in range(10):
            assert jnp.allclose(transform(loss(compiled))(X * k), transform(loss(stores))(X * k))
            with pytest.raises(ValueError, match="another trace"):
                transform(lambda x: compiled(OUTER, x))(X)
        assert (dynacomp.stats()["frames_captured"], dynacomp.stats()["breaks"]) == (1, {})


SQUARE = jnp.linspace(0.5, 1, 9).reshape(3, 3)


class Quantized:
    pass


def is_type(x, cls):
    return (type(x).__name__ == cls.__name__) and (type(x).__module__ == cls.__module__)


def product(a, b):
    if is_type(b, Quantized) or type(a).__qualname__ == "Other":
        return a
    return a @ b if type(a).__name__ != "Quantized" else b


def squares(transform):
    return lambda x: transform(lambda a: product(a, a.T).sum() if a.ndim > 1 else product(a, a))(x)


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap, jax.checkpoint, lambda f: lambda x: jax.lax.scan(
    lambda c, _: (f(c) * c, None), x, None, length=3)[0]])
def test_no_class_of_jax_has_the_name_of_one_of_the_programs(transform):
    """It broke the graph; below `jax.jit` and in bodies of loops the whole function was plain Python."""
    fn = squares(transform)
    compiled = dynacomp.jit(fn)
    for k in range(3):
        assert jnp.allclose(compiled(SQUARE * (k + 1)), fn(SQUARE * (k + 1)))
    assert not dynacomp.stats()["breaks"] and dynacomp.stats()["frames_captured"] == 1


@pytest.mark.parametrize("transform", [lambda f: f, jax.grad, lambda f: lambda x: jax.vmap(f)(x[None])])
def test_where_a_transformation_runs_the_frame(transform):
    def fn(x):
        return product(jnp.sin(x), x).sum()

    compiled = transform(dynacomp.jit(fn, backend="xla"))
    for k in range(3):
        assert jnp.allclose(compiled(SQUARE * (k + 1)), transform(fn)(SQUARE * (k + 1)))
    assert not dynacomp.stats()["breaks"]


def named(x):
    array = type(jnp.ones(1)).__name__

    def scaled(v):
        made = jnp.ones(3)
        return (v * len(type(v).__name__) * (2 if type(v).__name__ == array else 3)).sum() + (
            5 if type(made).__name__ == array else 7)

    return jax.grad(lambda v: scaled(v) ** 2)(x), jax.vmap(scaled)(x), jax.jit(scaled)(x)


def test_names_that_jaxs_classes_have():
    compiled = dynacomp.jit(named)
    for k in range(3):
        for got, want in zip(compiled(SQUARE * (k + 1)), named(SQUARE * (k + 1))):
            assert jnp.allclose(got, want)
