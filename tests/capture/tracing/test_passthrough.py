"""Python numbers that change from call to call come back from libraries as what eager JAX has: numbers or arrays."""

import dataclasses
import functools

import chex
import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import jmp
import numpy as np
import optax
import pytest
from equinox.internal import ω
from flax import struct
from jax.scipy.spatial.transform import Rotation

import dynacomp
from tests.capture.program_kit import check_one_graph, outcome

X = jnp.ones(2)


class Model(eqx.Module):
    w: jax.Array
    n: int


@struct.dataclass
class State:
    w: jax.Array
    n: int = struct.field(default=0)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Record:
    w: jax.Array
    n: int


def described(tree):
    return jax.tree.map(lambda v: (type(v).__name__, getattr(v, "weak_type", None), getattr(v, "dtype", None)), tree)


@pytest.mark.parametrize("fn", [
    lambda x, n: State(x).replace(n=n + 1),
    lambda x, n: eqx.tree_at(lambda m: m.n, Model(x, 0), n + 1),
    lambda x, n: eqx.partition(Model(x, n), eqx.is_array),
    lambda x, n: jax.value_and_grad(lambda w: (jnp.sum(w * n), {"n": n, "m": n + 1, "k": 3, "x": w}), has_aux=True)(x),
    lambda x, n: jax.vjp(lambda w: (w * n, n), x, has_aux=True)[2],
    lambda x, n: jax.tree_util.Partial(lambda a, b: (a, b), n)(x),
    lambda x, n: optax.apply_updates({"a": n * 1.5, "b": x}, {"a": x[0], "b": x}),
    lambda x, n: (jax.vmap(lambda w: (w, n))(x), jax.jit(lambda n: n)(n), jax.lax.cond(x[0] > 0, lambda: n, lambda: 2)),
    lambda x, n: jax.vmap(lambda v: (v, n), out_axes=(0, None))(x),
    lambda x, n: jax.tree.transpose(jax.tree.structure([0, 0]), jax.tree.structure((0, 0)), [(n, 1), (2, n)]),
    lambda x, n: dataclasses.replace(Record(x, n), w=x + 1),
    lambda x, n: (eqx.is_array(n), eqx.filter({"n": n, "x": x}, eqx.is_array), x * n),
    lambda x, n: eqx.filter_jit(lambda m: m)(Model(x, n)),
    lambda x, n: eqx.filter_vmap(lambda v: (v * n, n, n + 0.5), out_axes=eqx.if_array(0))(x),
    lambda x, n: eqx.filter_jit(lambda m, k: (m.w * k, m.n, k, k > 0))(Model(x, n), n + 0.5),
    lambda x, n: eqx.filter_grad(lambda m: jnp.sum(m.w * m.n))(Model(x, n * 1.0)),
    lambda x, n: eqx.filter_value_and_grad(lambda m, k: jnp.sum(m.w * k) * m.n)(Model(x, n), n * 0.5),
    lambda x, n: eqx.filter_jit(lambda v: [Model(v * n, n), {"m": (n + 1,)}])(x),
])
def test_numbers_and_arrays_stay_what_they_are(fn):
    compiled = dynacomp.jit(fn, backend="eager")
    for n in range(1, 4):
        want, got = fn(X, n), compiled(X, n)
        assert described(got) == described(want)
        assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all() if hasattr(a, "all") else a == b), want, got))


def test_numbers_that_a_library_refuses_are_refused():
    def checked(x, n):
        try:
            chex.assert_type(n, float)
        except AssertionError as error:
            return type(error).__name__, x + n

    compiled = dynacomp.jit(checked, backend="eager")
    for n in (1, 2, 3):
        assert compiled(1, n) == checked(1, n)


def test_numbers_that_are_handed_through_do_not_compile_anew():
    compiled = dynacomp.jit(
        lambda x, n: jax.value_and_grad(lambda w: (jnp.sum(w * n), n), has_aux=True)(x), backend="eager")
    for n in range(3):
        compiled(X, n)
    before = dynacomp.stats()["frames_captured"]
    assert [compiled(X, n)[0][1] for n in range(3, 9)] == list(range(3, 9))
    assert dynacomp.stats()["frames_captured"] == before


@pytest.mark.parametrize("fn", [
    lambda x, n: eqx.filter_jit(lambda v: (jnp.all(v > n), 2.0, v * n))(x),
    lambda x, n: eqx.filter_checkpoint(lambda v: jnp.any(v * n > 2))(x),
])
def test_numbers_that_only_the_programs_functions_read_do_not_compile_anew(fn):
    compiled = dynacomp.jit(fn, backend="eager")
    for n in range(3):
        assert described(compiled(X, n)) == described(fn(X, n))
    before = dynacomp.stats()["frames_captured"]
    for n in range(3, 9):
        want, got = fn(X, n), compiled(X, n)
        assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all() if hasattr(a, "all") else a == b), want, got))
    assert dynacomp.stats()["frames_captured"] == before


def test_numbers_that_a_library_computes_stay_numbers():
    brownian = pytest.importorskip("diffrax").VirtualBrownianTree
    key = jax.random.key(0)

    def tolerance(x, t):
        tree = brownian(0.0, t, 1e-3, (), key)
        return tree.tol, x * tree.tol, tree.t1, eqx.is_array(t), eqx.is_array(x)

    check_one_graph(tolerance, (X, 1.0), (X, 1.5), (X, 2.5), (X, 0.25), captures=2)
    compiled = dynacomp.jit(tolerance, backend="eager")
    for t in (1.0, 2.0, 3.0, -1.0, 0.0, 4.0):
        assert repr(outcome(compiled, (X, t))) == repr(outcome(tolerance, (X, t)))


def test_objects_that_tell_ints_from_functions_do_not_compile_anew():
    def accumulated(x, rate, every):
        tx = optax.MultiSteps(optax.sgd(rate), every)
        state = tx.init(x)
        for _ in range(2):
            updates, state = tx.update(jnp.sin(x), state, x)
            x = optax.apply_updates(x, updates)
        return x, state.mini_step

    check_one_graph(accumulated, *((X, 0.1 * n, n) for n in (1, 2, 4)), captures=2)


@pytest.mark.parametrize("library", ["optimistix", pytest.param("diffrax", marks=pytest.mark.medium)])
def test_solvers_of_functions_around_numbers_do_not_compile_anew(library):
    solvers = pytest.importorskip(library)

    def root(y, n):
        solver = solvers.Newton(rtol=1e-4, atol=1e-4)
        found = solvers.root_find(lambda y, args: y ** 2 - n, solver, y, throw=False, max_steps=16)
        return found.value + solvers.root_find(lambda y, k: y ** 2 - k, solver, y, n, throw=False, max_steps=16).value

    def flow(y, n):
        term = solvers.ODETerm(lambda t, y, args: -n * y)
        return solvers.diffeqsolve(term, solvers.Euler(), 0.0, n, n / 4, y, max_steps=8, throw=False).ys[0]

    fn = root if library == "optimistix" else flow
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in (2.0, 3.0, 5.0):
        assert jnp.allclose(compiled(X[0], n), fn(X[0], n))
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_numbers_that_bodies_read_are_weak(dtype):
    def slopes(x, n):
        return jax.value_and_grad(lambda w: (jnp.sum(w * n), (w * n).astype(w.dtype) * n), has_aux=True)(x)

    compiled, x = dynacomp.jit(slopes, backend="eager"), jnp.ones(2, dtype)
    for n in (1.0, 2.0, 3.0):
        assert described(compiled(x, n)) == described(slopes(x, n))


def renamed(updates, state):
    """What `optax.identity` hands back is what it was given: changed afterwards, it has changed under both names."""
    same, states = optax.identity().update(updates, state)
    same["more"] = 3
    return same, same is updates, states is state


@pytest.mark.parametrize("fn", [
    lambda x: renamed({"w": x + 1}, (optax.EmptyState(), x)),
    lambda x: renamed({"w": [x, 2]}, [{"mu": x * 2}]),
    lambda x: (lambda pair: (optax.identity().update(pair, None)[0] is pair, x + 1))((x, [x])),
    lambda x: (lambda tree, inner: (jmp.NoOpLossScale().scale(tree)["a"] is inner, tree, inner, x + 1))(
        *(lambda inner: ({"a": inner}, inner))([x * 2])),
    lambda x: (lambda state: (jax.block_until_ready(state) is state, x + 1))(State(x, 1)),
    lambda x: (lambda tree: (jax.tree.map(lambda v: v, tree) is tree, x + 1))([x]),
], ids=["dict", "list", "tuple", "part", "object", "another"])
def test_containers_that_libraries_hand_back(fn):
    check_one_graph(fn, (X,), (X * 2,))


def test_containers_of_the_caller_that_libraries_hand_back():
    def f(tree):
        return jmp.NoOpLossScale().scale(tree), tree["a"] + 1

    dynacomp.reset()
    compiled = dynacomp.jit(f, backend="eager")
    for n in range(2, 6):
        tree = {"a": jnp.ones(n)}
        assert compiled(tree)[0] is tree
    assert dynacomp.stats()["frames_captured"] == 2


def test_a_named_tuple_that_will_not_be_counted_is_handed_through():
    """Its class forbids `len` of a single one: what it holds is asked of the tuple."""
    check_one_graph(lambda q: Rotation.from_quat(q).inv().as_rotvec(), (jnp.array([0.1, 0.2, -0.3, 0.9]),))
    compiled = dynacomp.jit(lambda q: (Rotation.from_quat(q), Rotation.from_quat(q).inv()), backend="eager")
    for scale in (1.0, 2.0, -1.0):
        one, other = compiled(jnp.array([0.1, 0.2, -0.3, 0.9]) * scale)
        assert type(one) is type(other) is Rotation and bool((one.quat[:3] == -other.quat[:3]).all())


class Handing(nn.Module):
    @nn.compact
    def __call__(self, x, rate):
        return nn.Dense(3)(x), rate


class Counting(nn.Module):
    @nn.compact
    def __call__(self, x, step):
        return nn.Dense(3)(x) * step, step + 1


def by_apply(module, variables, x, number):
    return module.apply(variables, x, number)


def by_bind(module, variables, x, number):
    return module.bind(variables)(x, number)


def by_function(module, variables, x, number):
    return nn.apply(lambda m, x, n: m(x, n), module)(variables, x, number)


def by_haiku(module, variables, x, number):
    f = hk.transform(lambda x, n: (hk.Linear(3)(x), n))
    return f.apply(f.init(jax.random.key(0), x, number), None, x, number)


@pytest.mark.parametrize("number", [0.5, 1])
@pytest.mark.parametrize("module", [Handing(), Counting()], ids=["handing", "counting"])
@pytest.mark.parametrize("how", [by_apply, by_bind, by_function, by_haiku])
def test_a_number_that_a_module_gives_back_is_a_number(how, module, number):
    """It was an array from the second number on."""
    x = jnp.ones((2, 3))
    variables = module.init(jax.random.key(0), x, number)
    compiled = dynacomp.jit(functools.partial(how, module), backend="eager")
    for i in range(4):
        want, got = how(module, variables, x, number + i), compiled(variables, x, number + i)
        assert (type(got[1]), got[1]) == (type(want[1]), want[1])
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5)


def counting(a, x, n):
    seen = 0

    def loss(t):
        nonlocal seen
        seen += a
        return t * a, (t, a, seen)

    return jax.value_and_grad(loss, has_aux=True)(a), seen


@pytest.mark.parametrize("fn", [
    lambda a, x, n: jax.value_and_grad(lambda t: (t * t, (t, a)), has_aux=True)(a),
    lambda a, x, n: jax.value_and_grad(jax.checkpoint(lambda t: (t * t, (t, a, n))), has_aux=True)(a),
    lambda a, x, n: jax.value_and_grad(lambda t, k: (t * k, {"k": k, "a": a, "t": t}), has_aux=True)(a, a),
    lambda a, x, n: jax.value_and_grad(lambda c: (c["w"] * a, (c, a)), has_aux=True)({"w": a, "b": 2.0}),
    lambda a, x, n: jax.grad(lambda t: ((t * a).sum(), (a, jnp.asarray(a), n * 2, a)), has_aux=True)(x),
    lambda a, x, n: jax.vjp(lambda t: (t * a, (t, a, n)), a, has_aux=True)[::2],
    lambda a, x, n: jax.jacrev(lambda t: (t * a, (t, a, n)), has_aux=True)(a),
    lambda a, x, n: jax.value_and_grad(lambda t: jax.value_and_grad(lambda s: (s * t, (s, t, a)), has_aux=True)(t)[0],
                                       has_aux=True)(a),
])
def test_a_number_that_is_read_and_given_is_what_jax_makes_of_either(fn):
    """The number that a derivative is asked at comes out with a dtype, the same one that its function reads does not,
    and `jnp.asarray` of it is an array."""
    compiled = dynacomp.jit(fn, backend="eager")
    dynacomp.reset()
    for n in range(1, 5):
        given = n + 0.5, X[:2 + n % 2], n
        assert described(compiled(*given)) == described(fn(*given))
    assert dynacomp.stats()["frames_captured"] == 2


def test_a_number_that_is_read_and_given_while_the_function_counts():
    """It is not asked what comes out: it would count twice. The number is a constant."""
    compiled = dynacomp.jit(counting, backend="eager")
    for n in range(1, 5):
        assert described(compiled(n + 0.5, X, n)) == described(counting(n + 0.5, X, n))


def test_what_a_library_says_of_numbers_is_asked_in_each_call():
    """`tree_equal` says the same of tracers as of most numbers: it is entered, and the numbers are compared."""
    def same(x, n, tree):
        return eqx.tree_equal({"n": n}, {"n": 3}), eqx.tree_equal(tree, {"x": x, "k": 0}), x * n

    compiled = dynacomp.jit(same, backend="eager")
    dynacomp.reset()
    for n in (1, 2, 3, 4, 3, 5, 6, 3):
        given = X, n, {"x": X, "k": n % 2}
        assert repr(compiled(*given)) == repr(same(*given))
    assert dynacomp.stats()["frames_captured"] <= 4 and not dynacomp.stats()["breaks"]


def test_operators_of_a_librarys_objects_give_numbers_where_it_computes_with_them():
    def program(x, n):
        return (ω(n) + 1).ω, (2 * ω((x, n))).ω, ((x, n)**ω * n).ω, (n**ω - n**ω).ω

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in (1.5, 2.5, 3.5, 4.5, 5.5):
        assert str(compiled(X, n)) == str(program(X, n))
    assert dynacomp.stats()["frames_captured"] <= 2 and not dynacomp.stats()["breaks"]
