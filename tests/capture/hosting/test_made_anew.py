"""`tracing.made_anew`: library callables that each call makes anew are known by what they are made of."""

import functools
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import dynacomp

W = {"w": jnp.ones((4, 3)) / 3, "b": jnp.zeros(3)}
X, Y = jnp.linspace(0, 1, 20).reshape(5, 4), jnp.ones((5, 3))


def loss(p, x, y):
    return jnp.mean((jnp.tanh(x @ p["w"] + p["b"]) - y) ** 2)


def settled(program, calls, most):
    """As plain Python in each call, with so many captures, none of them after the first half of the calls."""
    dynacomp.reset()
    made, seen = dynacomp.jit(program, backend="eager"), []
    for args in calls:
        want, got = program(*args), made(*args)
        for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        seen.append(dynacomp.stats()["frames_captured"])
    assert seen[-1] <= most and seen[-1] == seen[len(seen) // 2], seen
    assert not dynacomp.stats()["frames_eager"] and dynacomp.stats()["graphs"] >= 1, dynacomp.stats()


def optimiser(p, rate):
    tx = optax.adam(rate)
    state, losses = tx.init(p), []
    for _ in range(3):
        value, grads = jax.value_and_grad(loss)(p, X, Y)
        print(end="")
        updates, state = tx.update(grads, state, p)
        p = optax.apply_updates(p, updates)
        losses.append(value)
    return p, losses


def gradient(p, rate):
    f = jax.value_and_grad(lambda q: rate * loss(q, X, Y))
    print(end="")
    return f(p)


def jitted(p, rate):
    step = jax.jit(lambda q: jax.tree.map(lambda a, b: a - rate * b, q, jax.grad(loss)(q, X, Y)))
    print(end="")
    return step(step(p))


def schedule(p, rate):
    rates = optax.cosine_decay_schedule(rate, 10)
    print(end="")
    return jax.tree.map(lambda a: a * rates(3), p)


def chained(p, rate):
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.add_decayed_weights(rate), optax.sgd(0.1, momentum=0.9))
    print(end="")
    return tx.update(jax.grad(loss)(p, X, Y), tx.init(p), p)[0]


def mapped(p, rate):
    f = jax.vmap(functools.partial(jnp.clip, min=rate, max=0.9))
    print(end="")
    return f(p["w"])


def own_derivative(p, rate):
    @jax.custom_vjp
    def clipped(w):
        return w * rate

    clipped.defvjp(lambda w: (w * rate, w), lambda w, g: (jnp.clip(g, -rate, rate) + w,))
    print(end="")
    return jax.grad(lambda w: jnp.sum(clipped(w) ** 3))(p["w"]), clipped(p["b"])


def own_tangent(p, rate):
    @jax.custom_jvp
    def doubled(w):
        return w * rate

    doubled.defjvp(lambda given, tangents: (given[0] * rate, tangents[0] * 2 * rate))
    print(end="")
    return jax.grad(lambda w: jnp.sum(jnp.sin(doubled(w))))(p["w"])


def parted(p, rate):
    """Its cells hold a dict of optimisers and a tree of labels."""
    tx = optax.multi_transform({"a": optax.adam(rate), "b": optax.sgd(0.1)}, {"w": "a", "b": "b"})
    state = tx.init(p)
    for _ in range(2):
        print(end="")
        updates, state = tx.update(jax.grad(loss)(p, X, Y), state, p)
        p = optax.apply_updates(p, updates)
    return p


PROGRAMS = [optimiser, gradient, jitted, schedule, chained, mapped, own_derivative, own_tangent, parted]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_made_in_the_call(program):
    settled(program, [(W, 0.25)] * 10, 8)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", PROGRAMS)
def test_made_in_the_call_with_other_numbers(program):
    settled(program, [(W, rate) for rate in (0.25, 0.125, 0.5, 0.25, 0.375, 0.625, 0.75, 0.875, 0.1875, 0.3125)], 14)


def test_given_as_an_argument():
    def step(tx, p):
        return tx.update(jax.grad(loss)(p, X, Y), tx.init(p), p)[0]

    settled(step, [(optax.adam(0.1), W) for _ in range(10)], 2)
    settled(step, [(optax.adam(0.1 * (i + 1)), W) for i in range(10)], 3)


def test_another_optimiser_is_another_entry():
    def step(tx, p):
        return tx.update(jax.grad(loss)(p, X, Y), tx.init(p), p)[0]

    made = [lambda: optax.adam(0.1), lambda: optax.sgd(0.1), lambda: optax.adamw(0.1, weight_decay=0.1)]
    settled(step, [(made[i % 3](), W) for i in range(18)], 6)


def test_arrays_in_cells_are_inputs():
    def step(i, p):
        q = X + i
        return jax.grad(lambda r: loss(r, q, Y))

    def program(f, p):
        return f(p)

    settled(program, [(step(i, W), W) for i in range(10)], 3)


def test_other_options_of_jit_are_another_entry():
    def program(f, x):
        return f(x, 3)

    def times(x, n):
        return x * n

    made = [lambda: jax.jit(lambda x, n: x * n), lambda: jax.jit(lambda x, n: x * n, static_argnums=1)]
    settled(program, [(made[i % 2](), X) for i in range(12)], 6)


def test_other_labels_are_another_entry():
    def step(tx, p):
        return tx.update(jax.grad(loss)(p, X, Y), tx.init(p), p)[0]

    labels = [{"w": "a", "b": "b"}, {"w": "b", "b": "a"}]
    settled(step, [(optax.multi_transform({"a": optax.adam(0.1), "b": optax.sgd(0.1)}, labels[i % 2]), W)
                   for i in range(12)], 5)


def test_another_rule_is_another_entry():
    def program(f, x):
        return jax.grad(lambda y: jnp.sum(f(y)))(x)

    def clipping(by, twice):
        f = jax.custom_vjp(lambda x: jnp.sin(x))
        f.defvjp(lambda x: (jnp.sin(x), None), (lambda _, g: (2 * g * by,)) if twice else lambda _, g: (g * by,))
        return f

    settled(program, [(clipping(1.0 + i % 3, i % 2), X) for i in range(20)], 12)


def test_a_jitted_function_of_a_module_made_anew():
    """`functools.wraps` names what JAX makes like the module's function, which it is not."""
    def program(f, x):
        return f(W, x, Y)

    settled(program, [(jax.value_and_grad(jax.jit(loss)), X + i) for i in range(10)], 3)


class Scaled:
    def __init__(self, by, plus):
        self.by = by + plus

    def of(self, x):
        return jnp.tanh(x) * self.by


@pytest.mark.parametrize("method", ["Scaled.of", "Normal.log_prob", "ScalarAffine.forward_and_log_det"])
@pytest.mark.parametrize("arrays", [False, True], ids=["numbers", "arrays"])
def test_a_jitted_method_of_an_object_made_anew(method, arrays):
    """It was known by its identity: a capture in each call, then a break ("made anew in each call")."""
    name, _, method = method.partition(".")
    cls = Scaled if name == "Scaled" else getattr(pytest.importorskip("distrax"), name)

    def program(x, number):
        f = jax.jit(getattr(cls(x[0] if arrays else number, 1.0), method))
        print(end="")
        return f(x)

    settled(program, [(X + i, 2.0) for i in range(10)], 4)
    assert dynacomp.stats()["breaks"] == {"effect": 1}


def test_tracing_changes_no_cell_of_the_program():
    """Optax's schedules replace, in their cells, what they were given by what they make of it."""
    made = dynacomp.jit(lambda s: s(2) * X, backend="eager")
    for _ in range(5):
        rates = optax.cosine_decay_schedule(0.1, 10)
        np.testing.assert_allclose(made(rates), optax.cosine_decay_schedule(0.1, 10)(2) * X, rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] >= 1
    assert [c.cell_contents for c in rates.__closure__] == [
        c.cell_contents for c in optax.cosine_decay_schedule(0.1, 10).__closure__]


def test_functions_out_of_sight_in_objects():
    """A static field is no leaf: the functions there are entered all the same."""
    class Layer(eqx.Module):
        w: jax.Array
        act: object = eqx.field(static=True)
        last: object

        def __call__(self, x):
            return self.last(self.act(x @ self.w))

    def layer(k):
        if k % 4 == 3:
            return Layer(W["w"], lambda y: y - float(k), jnp.tanh)
        return Layer(W["w"], lambda y: y * float(k), lambda y: y + float(k))

    def applied(made, x):
        again = jax.tree.map(lambda leaf: leaf, made)
        assert again.act is made.act
        return made(x), again(x)

    settled(applied, [(layer(k), X) for k in range(12)], most=4)


def test_a_step_of_equinox_that_lives_at_a_break():
    def trained(p, rate, squared):
        if squared:
            def error(q):
                return loss(q, X, Y)
        else:
            def error(q):
                return jnp.sum(jnp.abs(X @ q["w"]))

        @eqx.filter_jit
        def step(q):
            return jax.tree.map(lambda a, b: a - rate * b, q, eqx.filter_grad(error)(q))

        print(end="")
        return step(step(p))

    settled(trained, [(W, 0.1 * k, k % 3 == 0) for k in range(12)], most=8)


def test_signatures():
    def bound(x, signature, n):
        given = signature.bind(x, scale=n)
        given.apply_defaults()
        return given.arguments["x"] * given.arguments["scale"] + given.arguments["c"]

    def signature(k):
        def one(x, scale, c=k % 2):
            pass

        def other(x, *, c=5, scale):
            pass
        return inspect.signature(one if k % 4 else other)

    settled(bound, [(X, signature(k), k) for k in range(16)], most=6)


def test_an_object_of_a_library_is_itself_in_what_the_library_makes_with_it():
    """From the second size on, the tag was known by its structure, and a copy of it was among the operator's tags."""
    lineax = pytest.importorskip("lineax")
    one, other = lineax.positive_semidefinite_tag, lineax.symmetric_tag

    def program(x, tag):
        operator = lineax.MatrixLinearOperator(x, tag)
        return x + 1, lineax.is_positive_semidefinite(operator), [t is tag for t in operator.tags]

    compiled = dynacomp.jit(program, backend="eager")
    for n, tag in ((3, one), (4, one), (5, one), (3, other), (4, other), (6, one)):
        assert compiled(jnp.ones((n, n)), tag)[1:] == program(jnp.ones((n, n)), tag)[1:]
    before = dynacomp.stats()["frames_captured"]
    compiled(jnp.ones((7, 7)), one)
    assert dynacomp.stats()["frames_captured"] == before


def test_what_a_library_makes_anew_around_what_no_graph_takes_is_called_by_python():
    """A closure around a jaxpr: each entry would serve the one that it has seen."""
    def program(x):
        converted, consts = jax.closure_convert(lambda t: t * x.sum(), x)
        return converted(x, *consts) * 2

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in (4, 5, 6, 7, 3, 9, 8, 2, 11, 12, 13, 14):
        x = jnp.arange(float(n))
        assert compiled(x).tolist() == program(x).tolist()
    stats = dynacomp.stats()
    assert "limit" not in stats["frames_eager"] and stats["frames_captured"] <= 10, stats


class Raveled:
    def __init__(self, p):
        self.flat, self.back = ravel_pytree(p)
        self.rows = jax.vmap(self.back)


def unraveled(flat, back):
    return back(flat * 2), jax.vmap(back)(jnp.stack([flat, flat])), jax.grad(lambda v: (back(v)["w"] ** 2).sum())(flat)


def unraveled_by_object(made):
    return made.back(made.flat), made.rows(made.flat[None])


@pytest.mark.parametrize("same", [False, True])
def test_the_way_back_from_one_array(same):
    """What `ravel_pytree` gives was known by its identity: a capture for each, then it could not be called."""
    trees = [{"w": jnp.ones((2 if same else 2 + n % 2, 3)) * n, "n": jnp.arange(3)} for n in range(12)]
    settled(unraveled, [ravel_pytree(p) for p in trees], most=3)
    settled(unraveled_by_object, [(Raveled(p),) for p in trees], most=3)


def tripled(factor):
    @eqx.filter_custom_vjp
    def f(x):
        return x * 1

    @f.def_fwd
    def f_fwd(perturbed, x):
        return x, None

    @f.def_bwd
    def f_bwd(residuals, grad, perturbed, x):
        return grad * factor

    return f


def test_what_holds_itself_is_not_followed_for_ever():
    """A function of `eqx.filter_custom_vjp` is in the cells of its own rules: Python's recursion limit, or seconds for
    each capture."""
    dynacomp.reset()
    compiled = dynacomp.jit(lambda f, x: jax.grad(f)(x) + f(x), backend="eager")
    for made in (tripled, tripled, lambda n: jax.jit(tripled(n)), lambda n: jax.jit(tripled(n))):
        assert compiled(made(3.0), jnp.float32(2.0)) == 5.0
    stats = dynacomp.stats()
    assert "depth" not in stats["frames_eager"] and stats["frames_captured"] <= 8, stats


@pytest.mark.parametrize("index", [lambda n: slice(n, 3), lambda n: (slice(None), slice(n, n + 2)),
                                   lambda n: (slice(jnp.int32(n)), 0)])
def test_an_update_that_was_begun_before_the_call(index):
    """Wrong: the array that `x.at[n:]` holds was a constant of the entry, its slice too."""
    program, compiled = lambda ref: ref.get() * 2, dynacomp.jit(lambda ref: ref.get() * 2, backend="eager")
    for n in range(6):
        made = (jnp.arange(16.0).reshape(4, 4) + n).at[index(n % 3)]
        assert np.array_equal(compiled(made), program(made)), n


def test_an_update_begun_before_a_call_is_captured():
    x = jnp.arange(5.0)
    settled(lambda ref, y: ref.add(y) * 2, [((x + n).at[n % 3:], 1.0) for n in range(8)], most=2)
