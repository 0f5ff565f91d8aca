"""Calls of functions that `jax.jit` has made: entered, with what shows of the jit kept."""

import copy
import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import dynacomp
from tests.capture.program_kit import check_one_graph

X = jnp.arange(3.0)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Pair:
    a: jax.Array
    b: jax.Array


@jax.jit
def swap(pair):
    pair.a, pair.b = pair.b, pair.a
    return pair


@jax.jit
def step(params, x):
    params["w"] = params["w"] - x
    params["inner"].append(x)
    return params


@jax.jit
def numbers(x):
    return x, 3, 2.5, True


@jax.jit
def handed_back(tree):
    return tree


def object_of_the_call(x):
    pair = Pair(x, x + 1)
    return swap(pair), pair


def object_given(pair):
    return swap(pair).a, pair.a


def dict_of_the_call(x):
    params = {"w": x, "inner": [x]}
    made = step(step(params, x), x)
    return made, params


def dict_given(params):
    return step(params, params["w"] * 2), params


def trees_are_new(x):
    tree = [x, {"k": x + 1}]
    made = handed_back(tree)
    return made, made is tree, made[1] is tree[1]


def through_a_loop(x):
    params, seen = {"w": x, "inner": []}, []
    for _ in range(3):
        seen.append(step(params, x)["w"])
    return seen, params


def results_are_arrays(x):
    return numbers(x * 2)


@pytest.mark.parametrize("program", [object_of_the_call, dict_of_the_call, trees_are_new, through_a_loop,
                                     results_are_arrays])
def test_it_has_trees_of_its_own(program):
    check_one_graph(program, (X,), (X + 1,))


def test_what_the_caller_passes_stays_as_it_is():
    check_one_graph(object_given, (Pair(X, X * 2),), (Pair(X + 1, X),))
    check_one_graph(dict_given, ({"w": X, "inner": [X]},), ({"w": X * 3, "inner": [X]},))


def counting():
    """A program whose jitted function counts how often it is traced."""
    traced = []

    @jax.jit
    def double(x):
        traced.append(x.shape)
        return x * 2

    return lambda x: (double(x) + double(x + 1), list(traced))


def test_what_happens_when_jax_traces_happens_once():
    plain, compiled = counting(), dynacomp.jit(counting())
    for x in (X, X, jnp.ones(4), X):
        assert repr(compiled(x)) == repr(plain(x))
    assert set(dynacomp.stats()["breaks"]) == {"effect"}


STACK: list[int] = []


@jax.jit
def within_a_context(x):
    STACK.append(1)
    y = x * len(STACK)
    STACK.pop()
    return y


def test_what_is_put_back_is_no_change():
    check_one_graph(lambda x: within_a_context(x) + 1, (X,), (X + 1,))


def test_a_jitted_function_compiled_is_itself():
    compiled = dynacomp.jit(numbers)
    for _ in range(3):
        assert repr(compiled(X)) == repr(numbers(X))
    told = []
    saying = jax.jit(lambda x: (told.append(type(x).__name__), x + 1)[1])
    for _ in range(3):
        dynacomp.jit(saying)(X)
    assert len(told) == 1 and "Tracer" in told[0]


# --- identity


SAME = jax.jit(lambda x: x)
ADDED = jax.jit(lambda tree, x: {**tree, "n": tree["n"] + 1, "x": x})
OUTER = jnp.arange(4.0)
IDENTITIES = {
    "itself": lambda x: (SAME(x) is x, SAME(x), x + 1),
    "nested": lambda x: (lambda y: (y is x, y, x * 2))(jax.jit(lambda x: SAME(x))(x)),
    "twice": lambda x: (lambda p: (p, p[0] is p[1], x + 1))(jax.jit(lambda x: (x, x, x + 1))(x)),
    "made, twice": lambda x: (lambda p: (p, p[0] is p[1]))(jax.jit(lambda x: (lambda y: (y, y))(x * 2))(x)),
    "closure": lambda x: (jax.jit(lambda x: (OUTER, x * 2))(x), OUTER),
    "tree": lambda x: (lambda t: (ADDED(t, x), t, ADDED(t, x)["n"] is t["n"]))({"n": x, "k": (x, x * 2)}),
    "numbers": lambda x: (jax.jit(lambda n: (n, n))(2.5), x + 1),
    "numpy": lambda x: (lambda a: (SAME(a), jax.jit(lambda n: [n, n])(a), x + 1))(np.ones(3)),
    "inside": lambda x: jax.jit(lambda x: x * (2.0 if SAME(x) is x else 3.0))(x),
    "in a loop": lambda x: jax.lax.scan(lambda c, y: (c, y * (2.0 if SAME(c) is c else 3.0)), x, x)[1],
    "grad": lambda x: jax.value_and_grad(
        lambda y: (y.sum() * (2.0 if SAME(y) is y else 3.0), SAME(y)), has_aux=True)(x),
    "vmap": lambda x: (jax.vmap(SAME)(x), x, x + 1),
    "inlined": lambda x: (lambda f: (f(x) is x, jax.jit(lambda x: x * (f(x) is x))(x)))(
        jax.jit(lambda x: x, inline=True)),
    "left in the graph": lambda x: SAME(x) * 2 + SAME(SAME(x)),
}


def identities(result, *given):
    """For each array in a result the place at which it was first: among the arguments, or in the result."""
    arrays = [x for x in jax.tree.leaves((given, result)) if isinstance(x, jax.Array)]
    return [next(i for i, y in enumerate(arrays) if y is x) for x in arrays]


@pytest.mark.parametrize("name", IDENTITIES)
@pytest.mark.parametrize("backend", ["eager", "auto"])
def test_arrays_that_it_gives_are_new_ones(name, backend):
    program = IDENTITIES[name]
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend=backend)
    for n in (3, 3, 4, 5, 3, 7, 4, 6, 3, 5):
        x = jnp.arange(n, dtype=jnp.float32)
        got, want = compiled(x), program(x)
        assert repr(got) == repr(want) and identities(got, x, OUTER) == identities(want, x, OUTER)
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] <= 2


def test_a_copy_of_a_jitted_function_is_called_by_python():
    """It says nothing of itself, not even what it donates: that was a defect."""
    made = copy.deepcopy({"sin": jnp.sin})
    compiled = dynacomp.jit(lambda x: made["sin"](x * 2) + 1, backend="eager")
    dynacomp.reset()
    for n in range(1, 4):
        assert jnp.allclose(compiled(jnp.ones(3) * n), jnp.sin(jnp.ones(3) * n * 2) + 1)
    assert dynacomp.stats()["breaks"] == {"call": 1} and not dynacomp.stats()["frames_eager"]


def compiled(fn):
    return dynacomp.jit(fn, backend="eager")


def trained(x, rate, rounds, jit=compiled):
    """Compiled functions made anew in each call, one of which the other derives."""
    @jit
    def loss(p):
        return jnp.mean((x @ p) ** 2)

    @jit
    def update(p):
        return p - rate * jax.grad(loss)(p), loss(p)

    p = jnp.ones(x.shape[1])
    for _ in range(rounds):
        p, value = update(p)
    return p, value


class Trainer:
    def __init__(self, x, rate, jit):
        self.x, self.rate = x, rate
        self.loss, self.update = jit(self.loss), jit(self.update)

    def loss(self, p, scale=2.0):
        return jnp.mean((self.x @ p) ** 2) * scale

    def update(self, p):
        value, slope = jax.value_and_grad(self.loss)(p, scale=3.0)
        return p - self.rate * slope, value + self.loss(p)


def trained_by_object(x, rate, rounds, jit=compiled):
    trainer, p = Trainer(x, rate, jit), jnp.ones(x.shape[1])
    for _ in range(rounds):
        p, value = trainer.update(p)
    return p, value


def mapped_and_derived(x, rate, rounds, jit=compiled):
    @jit
    def unit(p, row):
        return jnp.tanh(p * row).sum()

    slope = jax.grad(jit(lambda p: jax.vmap(unit, (None, 0))(p, x).sum()))
    step = jit(lambda p: p - rate * slope(p))
    p = jnp.ones(x.shape[1])
    for _ in range(rounds):
        p = step(p)
    return p


@pytest.mark.parametrize("train", [trained, trained_by_object, mapped_and_derived])
def test_compiled_functions_made_anew_are_known_by_their_functions(train):
    counts = []
    for n in range(7):
        args = (jnp.arange(4.0 * (n + 2)).reshape(-1, 4) / 10, 0.01 * (n + 1), 2 + n % 3)
        before = dynacomp.stats()
        got = train(*args)
        counts.append(dynacomp.stats()["frames_captured"] - before["frames_captured"])
        assert dynacomp.stats()["breaks"] == before["breaks"]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), got, train(*args, jit=lambda f: f))
    assert not any(counts[2:])


def test_compiled_functions_of_other_options_are_other_functions():
    @dynacomp.jit(backend="eager")
    def outer(f, x):
        return f(x) + 1

    def double(x):
        return x * 2

    plain, exact = compiled(double), dynacomp.jit(double, backend="eager", options={"numerics": "exact"})
    for f in (plain, exact, compiled(double), plain, exact):
        np.testing.assert_array_equal(outer(f, X), X * 2 + 1)


class Net(nn.Module):
    n: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.n)(jnp.tanh(x))


NET = Net(2)
PARAMS = NET.init(jax.random.key(0), X)


def applied(x, apply):
    return apply(PARAMS, x), jax.vmap(apply, (None, 0))(PARAMS, jnp.stack([x, x]))


def derived(x, apply):
    return jax.grad(lambda p: apply(p, x).sum())(PARAMS)


@pytest.mark.parametrize("program", [applied, derived])
@pytest.mark.parametrize("apply", [lambda: APPLY, lambda: compiled(NET.apply), lambda: compiled(Net(2).apply)],
                         ids=["one", "made anew", "of a module made anew"])
def test_a_librarys_method_compiled_is_called_in_the_graph(program, apply):
    inside = compiled(program)
    before = dynacomp.stats()
    for n in range(4):
        got = inside(X + n, apply())
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), got, program(X + n, NET.apply))
    now = dynacomp.stats()
    assert now["breaks"] == before["breaks"]
    assert now["frames_eager"] == before["frames_eager"]
    assert now["frames_captured"] - before["frames_captured"] <= 2


def test_a_librarys_method_compiled_in_the_closure_of_a_function_made_anew():
    counts = []
    for n in range(4):
        apply = compiled(NET.apply)
        step = compiled(lambda x, apply=apply: derived(x, apply))
        before = dynacomp.stats()
        got = step(X + n)
        counts.append(dynacomp.stats()["frames_captured"] - before["frames_captured"])
        assert dynacomp.stats()["breaks"] == before["breaks"]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), got, derived(X + n, NET.apply))
    assert not any(counts[2:])


APPLY = compiled(NET.apply)


@jax.jit
@eqx.filter_custom_vjp
def doubled(x):
    return x * 2


@doubled.__wrapped__.def_fwd
def doubled_fwd(perturbed, x):
    return x * 2, None


@doubled.__wrapped__.def_bwd
def doubled_bwd(residuals, grad, perturbed, x):
    return grad * 3


def test_a_librarys_callable_that_holds_itself():
    """Its own rules have it in their cells: Python ran the whole function."""
    check_one_graph(lambda x: (doubled(x) + 1, jax.grad(lambda t: doubled(t).sum())(x)), (X,), (jnp.ones((2, 2)),),
                    captures=2)


def noted_loss(w, state, x):
    state["last"] = x * w
    state["sums"].append(state["last"].sum())
    return state["last"].sum() + state["calls"], {**state, "calls": state["calls"] + 1}


NOTED = {
    "value_and_grad": jax.jit(jax.value_and_grad(noted_loss, has_aux=True)),
    "grad": jax.jit(jax.grad(noted_loss, has_aux=True)),
    "by_name": jax.jit(lambda w, state, x: noted_loss(w=w, state=state, x=x)),
}


@pytest.mark.parametrize("name", NOTED)
def test_what_a_transformed_function_changes_in_a_jits_copy_is_no_change(name):
    def train(w, x):
        state = {"calls": 0, "sums": []}
        first = NOTED[name](w, state, x)
        return first, NOTED[name](w + 1, {"calls": 0, "sums": [x.sum()]}, x), state

    check_one_graph(train, (jnp.float32(2), jnp.arange(3.0)))


def test_what_a_transformed_function_changes_in_the_callers_tree_is_a_change():
    def inner(w, state, x):
        state["weight"] = x.sum()  # no tracer: the gradient is by w
        return w * x.sum()

    @jax.jit
    def step(w, state, x):
        return jax.grad(inner)(w, state, x), state["weight"]

    @jax.jit
    def other(w, x):
        state = {}
        return jax.grad(inner)(w, state, x), dict(state)

    for program, args in ((step, ({},)), (other, ())):
        want, got = (f(jnp.float32(2), *copy.copy(args), jnp.arange(3.0)) for f in (
            program, dynacomp.jit(lambda w, *rest, run=program: run(w, *rest), backend="eager")))
        assert repr(got) == repr(want)


def told(x):
    """2 of a tracer, 3 of an array."""
    return 2 if isinstance(x, jax.core.Tracer) else 3


@jax.jit
def of_arguments(x, tree):
    return x * told(x) * told(tree["a"][0]) * told(x + 1) + told(jnp.zeros(2)) * told(W) * told(W * 1) * told(3)


@functools.partial(jax.jit, static_argnames="n")
def of_static(x, n):
    return x * told(x) + n * told(n)


@jax.jit
def of_types(x):
    return x * (1 if type(x) is type(W) else 5) * (7 if issubclass(type(x), jax.Array) else 11) * len(type(x).__name__)


@jax.jit
def of_bodies(x):
    inner = jax.vmap(lambda y: y * told(y) * told(W) * told(x))(x)
    return jax.lax.fori_loop(0, 3, lambda i, c: c + told(c) * told(i), inner)


W = jnp.ones(3)
PROGRAMS = {
    "arguments": lambda x: of_arguments(x, {"a": [x, 1.0]}), "static": lambda x: of_static(x, 3),
    "types": lambda x: of_types(x), "bodies": lambda x: of_bodies(x),
    "around": lambda x: (told(x), of_static(x, n=2) * told(of_static(x, n=2)), told(x)),
    "grad": lambda x: jax.grad(lambda x: of_static(x, 3).sum() * told(x))(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_arrays_are_tracers_inside(name):
    """Also where the function was called before."""
    PROGRAMS[name](jnp.arange(3.0))
    check_one_graph(PROGRAMS[name], (jnp.arange(3.0),), (jnp.arange(3.0) + 1,))


LOOKS = {
    "float": lambda x: x * float(x.sum()),
    "item": lambda x: x * x.sum().item(),
    "branch": lambda x: x * 2 if x.sum() > 1 else x,
    "branch of what is made": lambda x: x * (2 if (jnp.ones(3) > 0).all() else 3),
    "of a closure": lambda x: x * float(W.sum()),
    "sharding": lambda x: (x.sharding, x)[1],
    "device": lambda x: (x.device, x)[1],
    "committed": lambda x: x + x.committed,
    "ready": lambda x: x.block_until_ready() + 1,
    "text": lambda x: (f"{x.sum():.2f}", x)[1],
    "power": lambda x: 2 ** x.astype(int)[0] * int(x.astype(int)[0]),
}
JITTED = {name: jax.jit(look) for name, look in LOOKS.items()}


def raised(fn, x):
    try:
        return fn(x)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", LOOKS)
def test_nobody_looks_into_arrays_inside(name):
    """As eager JAX, which traces what a jitted function computes, whatever that is computed of."""
    def caught(x):
        try:
            return JITTED[name](x)
        except Exception:
            return x - 1

    outside = dynacomp.jit(lambda x: JITTED[name](x))
    dynacomp.reset()
    for _ in range(2):
        assert raised(outside, X) == raised(JITTED[name], X)
        assert jnp.array_equal(dynacomp.jit(caught)(X), X - 1)


def test_numbers_inside_are_tracers():
    pick = jax.jit(lambda n, x: x * (2 if n > 1 else 3))
    assert type(raised(dynacomp.jit(lambda x: pick(float(x.sum()), x)), X)) is str
