"""Compiled functions under JAX's transformations: as eager JAX has them, captured once, run by our kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src import core
from jax.experimental.jet import jet
from jax.experimental.sparse import BCOO, sparsify

import dynacomp

X = jnp.array([0.3, -0.2, 0.9])
W = jnp.linspace(-1, 1, 12).reshape(3, 4)
SEEN = []


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()
    SEEN.clear()


@jax.custom_vjp
def clipped(x):
    return x * 2


clipped.defvjp(lambda x: (x * 2, x), lambda x, g: (jnp.clip(g, -0.1, 0.1) * x,))


def dense(x):
    return (jnp.tanh(x @ W) ** 2).sum()


def broken(x):
    y = jnp.tanh(x) * 2
    SEEN.append(y.shape)
    dynacomp.graph_break()
    return (y * x).sum()


def branching(x):
    return (x ** 2).sum() if x.sum() > 0 else jnp.cos(x).sum()


def scanning(x):
    last, each = lax.scan(lambda c, a: (jnp.tanh(c + a), c * a), jnp.zeros(()), x)
    return last + each.sum()


def own_rule(x):
    return clipped(x).sum()


def ruled(f, factor):
    """`f` with a derivative of its own, made anew in each call."""
    made = jax.custom_vjp(lambda x: f(x))
    made.defvjp(lambda x: (f(x), x), lambda x, g: (g * jnp.cos(x) * factor,))
    return made


def rule_made_inside(x):
    return ruled(lambda a: a * a, 3)(x).sum()


def inner_gradient(x):
    return jax.grad(lambda z: (jnp.sin(z) ** 3).sum())(x).sum()


def caught(x):
    try:
        return (x @ jnp.ones((7, 7))).sum()
    except TypeError:
        return (x * 2).sum()


def asks_for_tracers(x):
    return (x * 2).sum() if isinstance(x, jax.core.Tracer) else (x * 3).sum()


FUNCTIONS = (dense, broken, branching, scanning, own_rule, rule_made_inside, inner_gradient, caught, asks_for_tracers)
TRANSFORMS = {
    "grad": jax.grad,
    "value_and_grad": jax.value_and_grad,
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x + 1,)),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
    "hessian": jax.hessian,
    "third order": lambda f: jax.jacfwd(jax.jacrev(jax.jacrev(f))),
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x + 1])),
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.stack([x, 2 * x])),
    "grad of vmap": lambda f: jax.grad(lambda x: jax.vmap(f)(jnp.stack([x, 2 * x])).sum()),
    "jacfwd": jax.jacfwd,
    "vmap to one": lambda f: lambda x: jax.vmap(lambda a: (f(a), f(x)), out_axes=(0, None))(jnp.stack([x, 2 * x])),
    "jit": jax.jit,
    "jit of grad": lambda f: jax.jit(jax.grad(f)),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
}


def outcome(fn, x):
    try:
        return jax.tree.map(np.asarray, fn(x))
    except Exception as error:
        return type(error)


def agree(a, b):
    if isinstance(a, type) or isinstance(b, type):
        assert a is b
    else:
        jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=2e-4, atol=1e-5), a, b)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_transformation_of_a_compiled_function(fn, transform):
    """Values, exceptions and side effects, called thrice; what JAX stages whole, and functions that raise, aside,
    each region runs on our side of JAX's tracers."""
    want = [outcome(transform(fn), x) for x in (X, X + 1, -X)]
    effects, SEEN[:] = list(SEEN), []
    compiled = dynacomp.jit(fn, backend="eager")
    for _ in range(2):
        SEEN.clear()
        for x, expected in zip((X, X + 1, -X), want):
            agree(outcome(transform(compiled), x), expected)
        if "jit" not in str(transform) and transform is not TRANSFORMS["checkpoint"]:  # JAX keeps what it traced
            assert SEEN == effects


@pytest.mark.parametrize("name", ["grad", "jvp", "hessian", "vmap", "vmap of grad", "grad of vmap"])
def test_native_programs_of_derivatives(name):
    """One capture for ever, none in plain Python; our kernels compute it all."""
    transform, compiled = TRANSFORMS[name], dynacomp.jit(dense)
    for scale in range(1, 5):
        agree(outcome(transform(compiled), scale * X), outcome(transform(dense), scale * X))
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 1 + (name in ("grad of vmap", "hessian") and stats["frames_captured"] - 1)
    assert stats["frames_captured"] <= 2 and not stats["frames_eager"] and not stats["externs"]
    assert set(stats["regions"]) == {"cpp"}


def tangent_rule(x):
    made = jax.custom_jvp(lambda a: jnp.sin(a))
    made.defjvps(lambda t, out, a: t * 3 * a)
    return made(x).sum()


def rule_in_a_loop(x):
    return lax.scan(lambda c, t: (ruled(jnp.sin, 2)(c) * t, None), x, jnp.arange(1.0, 4.0))[0].sum()


@pytest.mark.parametrize("fn", [rule_made_inside, tangent_rule, rule_in_a_loop], ids=lambda f: f.__name__)
def test_rules_made_inside_are_captured_for_the_derivative(fn):
    compiled = dynacomp.jit(fn)
    for transform in (jax.grad, TRANSFORMS["vmap of grad"]):
        for scale in range(1, 5):
            agree(outcome(transform(compiled), scale * X), outcome(transform(fn), scale * X))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 2 and not stats["breaks"] and not stats["frames_eager"]
    assert not dynacomp.notices.told() and set(stats["regions"]) == {"cpp"}


def rule_of_a_rule(x):
    """Its second derivative differentiates a rule that the first one only calls."""
    made = jax.custom_vjp(lambda a: a * a)
    made.defvjp(lambda a: (a * a, a), lambda a, g: (g * ruled(jnp.sin, 5)(a),))
    return made(x).sum()


def test_a_derivative_of_a_higher_order_than_the_entry_was_captured_for():
    compiled = dynacomp.jit(rule_of_a_rule, backend="eager")
    for order in (jax.grad, jax.hessian, lambda f: jax.jacrev(jax.jacrev(jax.grad(f))), jax.hessian):
        for scale in (1, 2):
            agree(outcome(order(compiled), scale * X), outcome(order(rule_of_a_rule), scale * X))


def test_a_rule_for_batches_that_capture_has_not_met():
    def program(x):
        made = jax.custom_batching.custom_vmap(lambda a: a * 2)
        made.def_vmap(lambda size, batched, a: (a * 3, True))
        return made(x)

    compiled = dynacomp.jit(program)
    for scale in (1.0, 2.0, 3.0):
        xs = scale * jnp.stack([X, X + 1])
        agree(outcome(jax.vmap(compiled), xs), outcome(jax.vmap(program), xs))
        agree(outcome(compiled, scale * X), outcome(program, scale * X))


def test_eager_and_traced_calls_have_entries_of_their_own():
    compiled = dynacomp.jit(asks_for_tracers, backend="eager")
    for _ in range(3):
        agree(outcome(compiled, X), outcome(asks_for_tracers, X))
        agree(outcome(jax.grad(compiled), X), outcome(jax.grad(asks_for_tracers), X))
        agree(outcome(compiled, X), outcome(asks_for_tracers, X))


def test_keys_that_are_traced():
    def noisy(key, x):
        return x + jax.random.normal(key, x.shape), jax.random.split(key)[0]

    keys, xs = jax.random.split(jax.random.key(0), 4), jnp.ones((4, 3))
    compiled = dynacomp.jit(noisy)
    for _ in range(3):
        got, want = jax.vmap(compiled)(keys, xs), jax.vmap(noisy)(keys, xs)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
        np.testing.assert_array_equal(jax.random.key_data(got[1]), jax.random.key_data(want[1]))
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 1 and not stats["breaks"] and not stats["frames_eager"]


def test_an_axis_that_is_mapped_over_devices():
    """Its name, which sharding constraints ask for, was lost in the region of a function below `vmap`."""
    there = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    compiled = dynacomp.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, there))
    mapped, named = jax.vmap(compiled), jax.vmap(compiled, spmd_axis_name="x")
    for n in (4, 4, 6):
        assert (mapped(jnp.arange(n)) == 2 * jnp.arange(n)).all()
        with pytest.raises(ValueError, match="spmd_axis_name"):
            named(jnp.arange(n))


def test_named_axes_and_meshes():
    def centred(x):
        return x - lax.pmean(x, "i")

    xs = jnp.arange(12.0).reshape(4, 3)
    compiled = dynacomp.jit(centred)
    for _ in range(3):
        np.testing.assert_allclose(jax.vmap(compiled, axis_name="i")(xs), jax.vmap(centred, axis_name="i")(xs))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    mapped = jax.shard_map(dynacomp.jit(lambda x: jnp.sin(x) * 2), mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_allclose(mapped(xs), jnp.sin(xs) * 2, rtol=1e-6)


OF_LENGTHS = {
    "energy": lambda x: (jnp.sin(x) * x.shape[0]).sum(),
    "windows": lambda x: (jnp.concatenate([x, x[::-1]])[1:-1] ** 2).sum() / jnp.cumsum(x)[-1],
    "looped": lambda x: scanning(x) * jnp.sort(x)[-1],
    "checked": jax.checkpoint(lambda x: jnp.tanh(x).sum() * x.max()),
    "ruled": lambda x: (jax.nn.softmax(x) * jax.nn.relu(x - 1)).sum() + jax.nn.softplus(x).mean(),
}
OUTSIDE = {
    "grad": (jax.grad, 2),
    "value_and_grad": (jax.value_and_grad, 2),
    "jvp": (lambda f: lambda x: jax.jvp(f, (x,), (x,)), 1),
    "vmap": (lambda f: lambda x: jax.vmap(f)(jnp.stack([x, 2 * x])), 1),
    "vmap of grad": (lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.stack([x, 2 * x])), 2),
    "batch of the length": (lambda f: lambda x: jax.vmap(f)(jnp.outer(x, x)), 2),
    "hessian": (jax.hessian, 4),
}


@pytest.mark.parametrize("fn, transform", [
    ("windows", "grad"), ("windows", "vmap"), ("ruled", "value_and_grad"), ("energy", "jvp"), ("looped", "grad"),
    ("energy", "hessian"), ("checked", "value_and_grad"), *(pytest.param(*case, marks=pytest.mark.slow) for case in [
        *(("windows", t) for t in OUTSIDE if t not in ("grad", "vmap")), ("ruled", "vmap of grad"),
        ("ruled", "hessian"), ("energy", "grad"), ("looped", "vmap of grad")])])
def test_derivatives_and_batches_serve_all_lengths(fn, transform):
    """Of the first length, then of any: programs are counted, not only captures."""
    outside, most = OUTSIDE[transform]
    plain, compiled = jax.jit(outside(OF_LENGTHS[fn])), outside(dynacomp.jit(OF_LENGTHS[fn]))
    made = []
    for n in (3, 4, 5, 6, 12):
        x = jnp.linspace(0.5, 2, n)
        got, want = compiled(x), plain(x)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
        made.append(sum(dynacomp.stats()["regions"].values()))
    assert made[-1] == made[3] <= 2 * most, made
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and set(stats["regions"]) == {"cpp"}, stats


def test_lengths_that_are_compiled_one_by_one_are_told(caplog):
    """The backward pass, Python code of the program's, asks for the length."""
    made = jax.custom_vjp(lambda x: jnp.sin(x))
    made.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x) * (2 if x.shape[0] > 5 else 3),))

    def ruled(x):
        return made(x).sum() * 2

    compiled = jax.grad(dynacomp.jit(ruled))
    for n in (3, 4, 5, 6, 9, 7):
        x = jnp.linspace(0.5, 2, n)
        np.testing.assert_allclose(compiled(x), jax.grad(ruled)(x), rtol=1e-6)
    assert caplog.text.count("constant size") == 1, caplog.text
    assert "a derivative rule of its own" in caplog.text and "test_traced.py" in caplog.text
    assert dynacomp.stats()["frames_captured"] == 2


def test_a_length_for_which_something_else_was_decided():
    """Derivatives are made anew where the program's own condition on the length has another answer."""
    def padded(x):
        return (jnp.pad(x, (0, max(6 - x.shape[0], 0))) ** 2).sum() * min(x.shape[0], 8)

    compiled = jax.value_and_grad(dynacomp.jit(padded))
    for n in (3, 4, 5, 9, 12, 6, 2, 8):
        x = jnp.linspace(0.5, 2, n)
        for a, b in zip(compiled(x), jax.value_and_grad(padded)(x)):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    assert dynacomp.stats()["frames_captured"] <= 4


def test_what_does_not_move_below_a_break_is_known_not_to():
    """Eager JAX has no backward pass for a `while_loop` whose state moves."""
    def doubled(x):
        n, y = lax.stop_gradient(jnp.abs(x.sum())) + 1, jnp.sin(x)
        dynacomp.graph_break()
        return (y * lax.while_loop(lambda c: c < 10, lambda c: c * 2, n)).sum()

    compiled = dynacomp.jit(doubled)
    for n in (3, 3, 4, 5):
        x = jnp.linspace(0.5, 2, n)
        np.testing.assert_allclose(jax.grad(compiled)(x), jax.grad(doubled)(x), rtol=1e-6)
        np.testing.assert_allclose(jax.jvp(compiled, (x,), (x,))[1], jax.jvp(doubled, (x,), (x,))[1], atol=1e-5)
    assert dynacomp.stats()["frames_captured"] == 4


def as_eager(program):
    """Calls a program of one vector with several lengths, compiled and plainly."""
    compiled = dynacomp.jit(program)
    for n in (3, 3, 4, 5):
        x = jnp.linspace(0.5, 2, n)
        for a, b in zip(compiled(x), program(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_what_is_not_asked_for_above_a_break_has_no_backward_pass():
    """A loop that moves may stand above a `stop_gradient`: eager JAX never asks for its backward pass."""
    def program(x):
        def cost(x):
            _, s = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x + 1), (0, jnp.ones_like(x)))
            y = x * 3
            dynacomp.graph_break()
            t, u = (lax.stop_gradient(s * 3) * y * 2).sum(), s * 2
            dynacomp.graph_break()
            return t + lax.stop_gradient(u).sum(), u
        return jax.grad(cost, has_aux=True)(x)

    as_eager(program)
    assert dynacomp.stats()["graphs"] and not dynacomp.stats()["frames_eager"]


@dynacomp.disable
def counted(x):
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x + 1), (0, jnp.ones_like(x)))[1]


def test_what_nothing_moves_with_asks_for_no_backward_pass_of_what_python_ran():
    """The loop is no region of ours: JAX asks for its backward pass unless nothing that follows takes its tangent."""
    def program(x):
        def cost(x):
            s = counted(x)
            return (lax.stop_gradient(s * 3) * jnp.sin(x) * 2).sum(), s
        return jax.grad(cost, has_aux=True)(x)

    as_eager(program)
    assert dynacomp.stats()["graphs"]


def unmoved(x):
    """Nothing in the functions moves with `x`; what they return knows the shape of their results."""
    made = lambda a: jnp.tanh(x) * 2
    (y, pull), (z, push) = jax.vjp(made, x), jax.linearize(made, x)
    return pull(y)[0] + push(x) + z


def test_what_holds_no_arrays_may_know_shapes():
    as_eager(lambda x: [unmoved(x)])
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["frames_eager"] and not stats["breaks"], stats


def test_rules_of_hijax_are_left_to_it(caplog):
    if not hasattr(jax.config, "jax_custom_vjp3"):
        pytest.skip("this JAX has no such rules")
    with jax._src.config.custom_vjp3(True):
        clipped = jax.custom_vjp(lambda x: jnp.sin(x))
        clipped.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * 3,))

        def loss(x):
            return (clipped(x) * x).sum()

        compiled = jax.grad(dynacomp.jit(loss))
        for n in (3, 3, 4, 5):
            x = jnp.linspace(0.5, 2, n)
            np.testing.assert_allclose(compiled(x), jax.grad(loss)(x), rtol=1e-6)
    assert dynacomp.stats()["frames_captured"] == 2 and caplog.text.count("hijax") == 1


def test_parameters_that_are_not_differentiated():
    """Arrays and trees of them, integers, NumPy arrays and numbers beside what moves; what else is returned."""
    def loss(params, ids, table, scale, *, shift):
        picked = params["emb"][ids] * scale + shift
        return (picked * table).sum(), {"ids": ids + 1, "scale": scale}

    params = {"emb": jnp.arange(6.0).reshape(3, 2), "unused": jnp.ones(2)}
    compiled = dynacomp.jit(loss)
    for scale in (2.0, 3.0, 4.0, 5.0):
        args = params, jnp.array([0, 2]), np.ones((2, 2), np.float32), scale
        want = jax.value_and_grad(loss, has_aux=True)(*args, shift=1)
        got = jax.value_and_grad(compiled, has_aux=True)(*args, shift=1)
        agree(*(jax.tree.map(np.asarray, found) for found in (got, want)))
    assert dynacomp.stats()["frames_captured"] <= 2


def pushed(f):
    """The derivative along the first number."""
    return lambda a, *rest: jax.jvp(lambda x: f(x, *rest), (a,), (1.0,))


def test_numbers_stay_weakly_typed():
    def product(a, b, n):
        return a * b * b * n

    compiled = dynacomp.jit(product)
    for n in range(1, 6):
        for transform in (lambda f: jax.grad(f, (0, 1)), jax.value_and_grad, pushed):
            got, want = transform(compiled)(2.0, 3.0, n), transform(product)(2.0, 3.0, n)
            assert [(float(x), x.weak_type) for x in jax.tree.leaves(got)] == [
                (float(x), x.weak_type) for x in jax.tree.leaves(want)]
    assert dynacomp.stats()["frames_captured"] <= 5  # b traced or not, n changing or not


def test_what_jax_stages_is_left_to_it(caplog):
    compiled = dynacomp.jit(dense)
    jax.jit(compiled)(X)
    lax.scan(lambda c, x: (c, compiled(x)), 0.0, jnp.stack([X, X]))
    stats = dynacomp.stats()
    assert not stats["frames_captured"] and set(stats["frames_eager"]) == {"traced"}
    assert not caplog.records


def test_a_function_called_by_jax_below_a_break_is_compiled():
    """The hook finds frames that a transformation calls after a break."""
    def program(x):
        dynacomp.graph_break()
        y = sorted([float(x[0]), 2.0])[0]
        return jax.grad(dense)(x) * y

    compiled = dynacomp.jit(program)
    for _ in range(3):
        np.testing.assert_allclose(compiled(X), program(X), rtol=1e-5)


def test_errors_about_tracers_name_the_file_of_the_program():
    def choose(x):
        y = x * 2
        return 1 if (y > 0).all() else 2

    for _ in range(2):
        with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
            jax.vmap(dynacomp.jit(choose))(jnp.stack([X, X]))
        assert f"{__file__}:" in str(caught.value)


class Hearing(core.Trace):
    """A trace of a library's own, as Quax has one: it doubles sines."""

    def __init__(self, parent):
        super().__init__()
        self.parent, self.heard = parent, []

    def process_primitive(self, primitive, values, params):
        self.heard.append(primitive.name)
        with core.set_current_trace(self.parent):
            found = primitive.bind(*values, **params)
            return found * 2 if primitive is lax.sin_p else found


def test_rules_that_close_over_values_of_the_trace(caplog):
    """They live for one call: no region may hold them."""
    def f(x, y):
        made = jax.custom_jvp(lambda a: y * jnp.sin(a))
        made.defjvp(lambda primals, tangents: (made(*primals), y * sum(tangents)))
        dynacomp.graph_break()
        return made(x + 1)

    compiled = dynacomp.jit(f, backend="eager")
    for x in (jnp.arange(3.0), jnp.arange(4.0), jnp.arange(4.0) - 1):
        for transform in (jax.vmap, lambda f: jax.vmap(jax.grad(f)), as_it_is):
            np.testing.assert_allclose(transform(compiled)(x, x + 2), transform(f)(x, x + 2), rtol=1e-6)
    assert dynacomp.stats()["graphs"] and "defect" not in caplog.text


def as_it_is(f):
    return f


def test_interpreters_of_jax_with_rules_of_their_own_hear_each_operation(caplog):
    def f(x):
        return x * jnp.sin(x)

    def gradient(x):
        return jax.grad(f)(x)

    compiled, of_gradient = dynacomp.jit(f, backend="eager"), dynacomp.jit(gradient, backend="eager")
    product = dynacomp.jit(lambda m, v: m @ v, backend="eager")
    for x in (1.0, 2.0, 0.5):
        compiled(x)
        for fn, made in ((f, compiled), (gradient, of_gradient)):
            got, want = (jet(g, (x,), ([1.0, 0.5],)) for g in (made, fn))
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), got, want)
        sparse = BCOO.fromdense(jnp.array([[0.0, x, 2.0]]))
        np.testing.assert_allclose(sparsify(product, use_tracer=True)(sparse, jnp.ones(3)), [x + 2.0])
    assert caplog.text.count("hears") == 3 and dynacomp.stats()["graphs"] == 2  # of f, for a number and for any


@pytest.mark.parametrize("transform", [as_it_is, lambda f: lambda x: jax.vmap(f)(x)])
def test_a_trace_of_another_library_hears_each_operation(transform, caplog):
    def f(x):
        return lax.sin(x) + lax.cos(x)

    compiled = dynacomp.jit(f, backend="eager")
    x = jnp.arange(3.0)
    for _ in range(3):
        for fn in (f, compiled):
            transform(fn)(x)
            trace = Hearing(core.eval_trace)
            with core.set_current_trace(trace):
                found = transform(fn)(x)
            np.testing.assert_allclose(found, lax.sin(x) * 2 + lax.cos(x), rtol=1e-6)
            assert "sin" in trace.heard
    assert dynacomp.stats()["frames_captured"]
    assert transform is not as_it_is or "a trace of another library" in caplog.text


def counting(calls):
    def f(x):
        calls.append(x.shape[0])
        SEEN.append((len(calls), calls[-1]))
        return (jnp.sin(x) * len(calls)).sum()
    return f


@pytest.mark.parametrize("transform", [as_it_is, jax.grad, jax.vmap], ids=["none", "grad", "vmap"])
def test_what_calls_miss_an_entry_by_is_learned_under_transformations(transform):
    """As elsewhere: a list that the function keeps grows, and is as long as it is."""
    plain, compiled = transform(counting([])), transform(dynacomp.jit(counting([])))
    for n in (3, 4, 5, 3, 6, 4, 7, 5, 3, 6):
        x, outcomes = jnp.linspace(-1, 1, 2 * n).reshape(n, 2)[:, 0 if transform is not jax.vmap else slice(None)], []
        for fn in (plain, compiled):
            SEEN.clear()
            outcomes.append((np.round(fn(x), 4).tolist(), list(SEEN)))
        assert outcomes[0] == outcomes[1]
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["frames_eager"], stats


REVERSED = {"grad": jax.grad, "jacrev": jax.jacrev, "hessian": jax.hessian, "linearize": TRANSFORMS["linearize"],
            "inside": lambda f: dynacomp.jit(lambda x: jax.grad(f)(x))}


def counted_loop(x):
    SEEN.append("called")
    return lax.fori_loop(0, (x > 0).sum() + 1, lambda i, a: jnp.sin(a) * 1.5, x).sum()


def open_loop(x):  # of zeros it would never end
    return lax.while_loop(lambda a: a.sum() < 3, lambda a: a * 1.5, x * x).sum()


@pytest.mark.parametrize("transform", REVERSED.values(), ids=REVERSED)
@pytest.mark.parametrize("fn", [counted_loop, open_loop])
def test_loops_are_reversed_where_jax_knows_their_ends(fn, transform, caplog):
    """An array that is not differentiated has a value in eager JAX: the loop is a scan there, and no `while`."""
    plain, compiled = transform(fn), transform(dynacomp.jit(fn))
    for n in (3, 3, 4):
        x = jnp.linspace(-0.5, 1, n)
        SEEN.clear()
        want, before = outcome(plain, x), len(SEEN)
        agree(outcome(compiled, x), want)
        assert len(SEEN) == 2 * before
    assert dynacomp.stats()["frames_captured"]
    assert (transform is not REVERSED["linearize"] and fn is counted_loop) == ("one by one" in caplog.text)


def of_64_bits(x, n):
    def loss(x):
        with jax.enable_x64(True):
            print(end="")
            return (x * x).sum() * n
    return jax.grad(loss)(x), jax.vmap(loss)(x)


def through_64_bits(x, n):
    def loss(x):
        with jax.enable_x64(True):
            y = jnp.asarray(x, jnp.float64) * n
            print(end="")
            z = jnp.sin(y)
        return z.astype(jnp.float32).sum()
    return jax.value_and_grad(loss)(x)


@pytest.mark.parametrize("program", [of_64_bits, through_64_bits])
def test_what_is_traced_with_64_bits_is_derived_with_them(program):
    """The backward pass runs where the `with` statement has ended (our TypeError: an input was float64)."""
    compiled = dynacomp.jit(program)
    for i in range(5):
        x = jnp.ones((2, 2)) * (i + 1)
        for want, got in zip(*map(jax.tree.leaves, (program(x, float(i)), compiled(x, float(i))))):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-6)
    assert not dynacomp.stats()["frames_eager"].keys() - {"no_ops", "idle"}
