"""Library callables that hold objects of the program: what these change is the program's own."""

import functools
import inspect
import types

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.flatten_util import ravel_pytree

import dynacomp
from tests.capture.program_kit import check_one_graph

X = jnp.ones(3)


class Counting:
    def __init__(self):
        self.n = 0

    def __call__(self, x):
        self.n += 1
        return x * self.n


counting = Counting()
mapped = jax.vmap(counting)


def test_an_object_inside_a_transformed_function_is_called_as_often():
    def program(x):
        counting.n = 0
        return mapped(x), mapped(x), counting.n

    want = program(jnp.ones(3))
    assert repr(dynacomp.jit(program, backend="eager")(jnp.ones(3))) == repr(want) and counting.n == 2


def test_a_library_object_is_made_in_each_function_that_uses_it():
    def first_outside(x, _):
        flat, unravel = ravel_pytree({"a": x})
        y = unravel(flat)["a"]
        return jax.grad(lambda v: jnp.sum(unravel(v)["a"] ** 2))(flat), y

    def first_inside(x, _):
        flat, unravel = ravel_pytree({"a": x})
        slope = jax.grad(lambda v: jnp.sum(unravel(v)["a"] ** 2))(flat)
        return unravel(slope)["a"], jax.grad(lambda v: jnp.sum(jax.vmap(jnp.sin)(unravel(v)["a"])))(flat)

    for step in (first_outside, first_inside):
        def program(x, step=step):
            return jax.lax.scan(step, x, None, length=2)

        x = jnp.arange(3.0)
        before = dynacomp.stats()["breaks"]
        got = dynacomp.jit(program, backend="eager")(x)
        assert jax.tree.all(jax.tree.map(jnp.allclose, got, program(x)))
        assert dynacomp.stats()["breaks"] == before


def test_rules_made_for_what_xla_leaves_out():
    def program(x):
        f = jax.custom_vjp(lambda x: jnp.sin(x) ** 2)
        f.defvjp(lambda x: (jnp.sin(x) ** 2, x), lambda x, g: (g * 2 * x,), optimize_remat=True)
        value = lambda x: jax.vjp(f, x)[0]
        return value(x), jax.jit(value)(x), jax.lax.cond(x > 0, value, value, x), jax.grad(jax.checkpoint(f))(x)

    got = dynacomp.jit(program, backend="eager")(jnp.float32(2))
    assert jnp.allclose(jnp.stack(got), jnp.stack(program(jnp.float32(2))))


def test_what_a_librarys_object_keeps_is_the_objects():
    library = types.ModuleType("optax.made_up")
    exec("class Log:\n    def __init__(self):\n        self.seen, self.n = {}, 0\n"
         "class Slots:\n    __slots__ = ('seen', 'n')\n    __init__ = Log.__init__", vars(library))

    def program(x, kept):
        kept.seen[len(kept.seen)] = x
        return x + len(kept.seen), kept.n, made.n

    for cls in (library.Log, library.Slots):
        made, other = cls(), cls()
        compiled = dynacomp.jit(program, backend="eager")
        for i in range(3):
            made.n = other.n = i
            assert repr(compiled(X, made)[1:]) == repr((i, i)) and compiled(X, other)[0][0] == 2 + i
        assert len(made.seen) == len(other.seen) == 3


def test_functions_that_a_library_makes_for_a_body():
    def solve(product, b):
        return jax.lax.fori_loop(0, 5, lambda i, x: x + 0.1 * (b - product(x)), b)

    def loss(m, b):
        return jnp.sum(jax.lax.custom_linear_solve(lambda x: m @ x, jnp.cos(b), solve, solve))

    def program(a, b):
        m = jnp.exp(a)
        return loss(m, b), jax.grad(loss)(m, b), jax.vmap(loss, (None, 0))(m, jnp.stack([b, b + 1]))

    args = jnp.array([[2.0, 0.1], [0.2, 1.0]]), jnp.ones(2)
    dynacomp.reset()
    got = dynacomp.jit(program, backend="eager")(*args)
    assert jax.tree.all(jax.tree.map(jnp.allclose, got, program(*args)))
    assert not dynacomp.stats()["breaks"]


def test_a_linen_module_is_applied_by_a_method_of_its_own():
    nn = pytest.importorskip("flax.linen")

    class Model(nn.Module):
        def setup(self):
            self.dense = nn.Dense(2)

        def __call__(self, x):
            return self.dense(x)

        def decode(self, x):
            return nn.sigmoid(self.dense(x))

    model = Model()
    variables = model.init(jax.random.key(0), X)
    dynacomp.reset()
    got = dynacomp.jit(lambda v, x: model.apply(v, x, method=model.decode), backend="eager")(variables, X)
    assert jnp.allclose(got, model.apply(variables, X, method=model.decode)) and not dynacomp.stats()["breaks"]


SPREAD = '''
import jax, jax.numpy as jnp

@jax.tree_util.register_pytree_node_class
class Spread:
    def __init__(self, scale):
        self.scale = scale
        self.log = jnp.log(scale)

    def density(self, x):
        return -(x / self.scale) ** 2 - self.log

    def tree_flatten(self):
        return (self.scale,), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)
'''


def test_objects_whose_class_computes_when_unflattened_are_made_in_the_graph():
    spread = types.ModuleType("computing_spread")
    exec(SPREAD, vars(spread))
    dynacomp.register_library("computing_spread", pure=True)

    def loss(scale, x):
        made = spread.Spread(scale + 1)
        return made.density(x).sum() + made.log.sum()

    dynacomp.reset()
    f = dynacomp.jit(lambda s, x: (loss(s, x), jax.grad(loss)(s, x)), backend="eager")
    for n in range(3):
        s, x = jnp.arange(1.0, 4.0), jnp.ones(3) * n
        assert jnp.allclose(f(s, x)[1], jax.grad(loss)(s, x)) and jnp.allclose(f(s, x)[0], loss(s, x))
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["frames_captured"] == 1


def test_a_model_may_give_an_object_whose_class_computes_when_unflattened():
    """As the policies of most agents in JAX do: distributions of TensorFlow Probability."""
    spread = types.ModuleType("computing_spread")
    exec(SPREAD, vars(spread))
    dynacomp.register_library("computing_spread", pure=True)

    class Policy(nn.Module):
        @nn.compact
        def __call__(self, x):
            return spread.Spread(jnp.exp(nn.Dense(3)(x)))

    def program(x, rate):
        policy = Policy()
        params = policy.init(jax.random.key(0), x)
        loss, slopes = jax.value_and_grad(lambda p: -policy.apply(p, x).density(rate).mean())(params)
        made = policy.apply(jax.tree.map(lambda p, g: p - rate * g, params, slopes), x)
        return loss, made.density(x), made, type(made).__name__, made is made

    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for n in range(4):
        args = jnp.ones((2 + n, 3)), 0.1 * (n + 1)
        (*got, one), (*want, other) = compiled(*args), program(*args)
        assert got[3:] == want[3:] and one is other is True and type(got[2]) is type(want[2])
        for a, b in zip(jax.tree.leaves(got[:3]), jax.tree.leaves(want[:3]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
        np.testing.assert_allclose(got[2].log, want[2].log, rtol=1e-5)
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] == 2


def test_numpys_classes_of_numbers_are_constants_wherever_a_library_keeps_them():
    """As the `dtype` of TensorFlow Probability's distributions."""
    spread = types.ModuleType("computing_spread")
    exec(SPREAD + "    dtype = property(lambda self: self.scale.dtype.type)\n", vars(spread))
    dynacomp.register_library("computing_spread", pure=True)

    def program(scale, x):
        def density(scale):
            kind = spread.Spread(scale).dtype
            assert kind is np.float32 and not hasattr(kind, "parts") and getattr(kind, "other", None) is None
            return spread.Spread(scale).density(x).astype(kind), kind(2) * scale

        return jax.vmap(density)(scale), spread.Spread(scale).dtype

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in range(4):
        args = jnp.arange(1.0, 3.0 + n), jnp.ones(3) * n
        got, want = compiled(*args), program(*args)
        assert got[1] is want[1] is np.float32 and jax.tree.all(jax.tree.map(jnp.allclose, got[0], want[0]))
    assert not dynacomp.stats()["breaks"] and dynacomp.stats()["frames_captured"] == 2


PARTS = '''
class Part:
    def __init__(self, size):
        self.size = size
    def __eq__(self, other):
        return type(other) is Part and self.size == other.size
    def __hash__(self):
        return hash(self.size)

class Parts(tuple):
    def __new__(cls, parts=()):
        return tuple.__new__(cls, [p if type(p) is Part else Part(p) for p in parts])
    def __add__(self, other):
        return Parts(tuple.__add__(self, Parts(other)))
    def __contains__(self, part):
        return any(p == part for p in self)
    def slices(self):
        ends = [sum(p.size for p in self[:i + 1]) for i in range(len(self))]
        return [slice(end - p.size, end) for p, end in zip(self, ends)]
'''


def test_constants_of_a_library_s_class_are_asked_by_its_methods():
    layout = types.ModuleType("laying_out")
    exec(PARTS, vars(layout), vars(layout))
    layout.Parts.__module__ = layout.Part.__module__ = "laying_out"
    dynacomp.register_library("laying_out", pure=True)
    given = layout.Parts((1, 2))

    def program(x):
        whole = sum([given, given], layout.Parts(()))  # the start is a constant, what is added an object
        kept = layout.Parts((2,))
        flags = np.concatenate([np.full(p.size, p in kept) for p in whole])
        return [x[s] * 2 for s in whole.slices()], [bool(np.all(flags[s])) for s in layout.Parts((1, 2)).slices()]

    f = dynacomp.jit(program, backend="eager")
    dynacomp.reset()
    for n in range(3):
        x = jnp.arange(6.0) + n
        want, got = program(x), f(x)
        assert got[1] == want[1] == [False, True] and jax.tree.all(jax.tree.map(jnp.array_equal, want[0], got[0]))
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["frames_captured"] == 1


@nnx.remat
def layer_kept(m, x):
    m.count[...] += 1
    return jax.nn.relu(m(x))


def test_nnx_remat_is_part_of_the_graph():
    """Made in each call, as most models have it, or kept as a decorator of the module's."""
    def layer(m, x, scale):
        return jax.nn.relu(m(x)) * scale

    def model(m, x):
        for n in range(1, 3):
            x = nnx.remat(layer, static_argnums=(2,))(m, x, n)
        return layer_kept(m, x).sum()

    def program(x):
        m = nnx.Linear(3, 3, rngs=nnx.Rngs(0))
        m.count = nnx.Variable(jnp.zeros(()))
        loss, grads = nnx.value_and_grad(model)(m, x)
        return loss, jax.tree.leaves(nnx.state(grads)), m.count[...]

    check_one_graph(program, (X,))


def test_what_functools_wraps_reads_of_a_function_that_a_decorator_has_made():
    def program(x):
        def inner(x, *, scale=2.0):
            return x * scale

        inner.told = "told"
        made = jax.checkpoint(inner)

        @functools.wraps(made)
        def outer(*args, **kwargs):
            return made(*args, **kwargs) + 1

        return outer(x, scale=3.0), outer.told, outer.__name__, str(inspect.signature(outer)), sorted(vars(outer))

    check_one_graph(program, (X,))
