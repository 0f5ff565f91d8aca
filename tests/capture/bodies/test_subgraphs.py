"""Transformations inside compiled code: the same values as eager JAX, in one graph, with no breaks."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph

X = jnp.arange(1.0, 5.0)
W = jnp.ones((4, 4)) * 0.3
OUTER = jnp.array([2.0, 3.0, 4.0, 5.0])
SCALE = 3.0
PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


def square_sum(x):
    return jnp.sum(jnp.sin(x) ** 2)


def product(a, b):
    return jnp.sum(a * jnp.sin(b))


class Model:
    def __init__(self):
        self.k, self.n = jnp.array(2.0), 3

    def loss(self, x):
        return jnp.sum(x ** self.n * self.k)


MODEL, JITTED = Model(), jax.jit(square_sum)


@program
def value_and_grad(x):
    return jax.value_and_grad(lambda v: (jnp.sin(v).sum(), {"y": v, "n": 3, "none": None}), has_aux=True)(x)


@program
def argnums(x):
    return (jax.grad(product, argnums=1)(x, x * 2), jax.grad(product, argnums=(0, 1))(x, x * 2),
            jax.grad(product)(x, b=x))


@program
def of_methods_partials_jitted(x):
    return jax.grad(MODEL.loss)(x), jax.grad(functools.partial(product, x))(x + 1), jax.grad(JITTED)(x)


@program
def closures(x):
    count, table = [1, 2, 3], {"k": 2.0}
    return jax.grad(lambda v: sum(count) * table["k"] * (v * OUTER * SCALE).sum())(x)


@program
def third_order(x):
    return jax.vmap(jax.grad(jax.grad(jax.grad(lambda v: jnp.sin(v) * v))))(x)


@program
def vmaps(x):
    return (jax.vmap(lambda a, b: a * b, in_axes=(0, None), out_axes=1)(W, x),
            jax.vmap(lambda a: a / jax.lax.psum(a, "i"), axis_name="i")(x),
            jax.vmap(jax.vmap(lambda a, b: a * b + OUTER.sum(), (None, 0)), (0, None))(x, x))


@program
def forward_and_back(x):
    y, pull, aux = jax.vjp(lambda a: (jnp.sin(a), {"k": a * 2}), x, has_aux=True)
    z, push = jax.linearize(square_sum, x)
    return y, pull(y), aux, z, push(x), push(x * 2), jax.jvp(square_sum, (x,), (x,))


@program
def jacobians(x):
    return jax.hessian(square_sum)(x), jax.jacfwd(jnp.sin)(x), jax.jacrev(lambda v: v * jnp.cos(v))(x)


@program
def checkpoints(x):
    policy = jax.checkpoint_policies.everything_saveable
    saved = jax.checkpoint(lambda v: jnp.sin(jnp.cos(v)).sum(), policy=policy)
    return jax.grad(saved)(x), jax.grad(lambda v: jax.checkpoint(square_sum)(v) * 2)(x)


@jax.custom_jvp
def twice(x):
    return jnp.sin(x)


@twice.defjvp
def twice_rule(primals, tangents):
    return twice(primals[0]), tangents[0] * 2 * jnp.cos(primals[0])


@program
def custom_jvp(x):
    return twice(x), jax.grad(lambda v: twice(v).sum())(x), jax.vmap(jax.grad(jax.grad(twice)))(x)


@jax.custom_vjp
def thrice(x, y):
    return jnp.sin(x) * y


thrice.defvjp(lambda x, y: (thrice(x, y), (x, y)), lambda r, g: (g * jnp.cos(r[0]) * r[1] * 3, g))


@program
def custom_vjp(x):
    return thrice(x, x), jax.grad(lambda v: thrice(v, v * 2).sum())(x)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def applied(fn, x):
    return fn(x)


applied.defvjp(lambda fn, x: (fn(x), x), lambda fn, r, g: (g * fn(r) * 5,))


@program
def custom_vjp_of_a_function(x):
    return applied(jnp.sin, x), jax.grad(lambda v: applied(lambda q: q * q, v).sum())(x)


@program
def custom_rules_made_inside(x):
    @jax.custom_vjp
    def five(x):
        return jnp.sin(x)

    five.defvjp(lambda x: (five(x), x), lambda r, g: (g * r * 5,))

    @jax.custom_jvp
    def seven(x):
        return jnp.sin(x)

    seven.defjvps(lambda t, ans, x: t * 7)
    return five(x), jax.grad(lambda v: five(v).sum())(x), jax.grad(lambda v: seven(v).sum())(x)


@program
def one_checkpoint_in_two_bodies(x):
    kept = jax.checkpoint(lambda v: v * OUTER * x)
    return jax.grad(lambda v: kept(v).sum())(x), jax.grad(lambda v: (v * kept(v)).sum())(x), kept(x)


@program
def one_callable_for_two_shapes(x):
    def sized(v):
        return v * jnp.ones(v.shape[0]) * v.shape[0]

    mapped = jax.checkpoint(sized)
    return mapped(x), mapped(x[:2])


@program
def conditions(x):
    return (jax.lax.cond(x.sum() > 1, lambda v: v * 2, lambda v: v - 1, x),
            jax.lax.cond(x.sum() > 100, lambda: x * 2, lambda: x - OUTER),
            jax.lax.switch(jnp.int32(x[0]), [lambda v: v, lambda v: v * 2, jnp.sin], x))


@program
def loops(x):
    return (jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.1), (0, x)),
            jax.lax.fori_loop(0, 4, lambda i, c: c + i, x), jax.lax.map(lambda a: a * a, x, batch_size=2))


@program
def scan_with_outputs(x):
    return jax.lax.scan(lambda c, a: (c + a, {"o": c * a * OUTER.sum()}), 0.0, x)


@program
def scan_from_weak_types(x):
    return jax.lax.scan(lambda c, a: (c * 2 + a.sum(), c), 1, jnp.arange(4))


@program
def scan_in_a_gradient(x):
    return jax.value_and_grad(lambda w: jax.lax.scan(lambda c, a: (jnp.tanh(c * w + a), None), 0.0, x)[0])(0.5)


@program
def ever_shorter_arrays(x):
    return jax.lax.associative_scan(lambda a, b: a * b * jnp.ones(a.shape) * len(a), x)


@program
def solvers(x):
    def solve(f, start):
        return jax.lax.fori_loop(0, 9, lambda i, v: v - f(v) / (2 * v), start)

    return (jax.lax.custom_root(lambda v: v ** 2 - 2.0, jnp.array(1.5), solve, lambda g, y: y / g(1.0)),
            jax.lax.custom_linear_solve(lambda v: v * 3.0, x, lambda mv, b: b / 3.0, symmetric=True))


@program
def trees(x):
    tree = {"a": x, "b": [x]}
    return (jax.tree.map(lambda a, b: a + b * SCALE, tree, tree), jax.tree.reduce(lambda a, b: a + b.sum(), tree, 0),
            jax.tree_util.tree_map_with_path(lambda path, a: a * len(path), tree))


@program
def names_and_jits(x):
    with jax.named_scope("inside"):
        y = jnp.sin(x)
    times = jax.jit(lambda a, n: a * n, static_argnums=1)
    return jax.named_call(lambda v: v + 1, name="q")(times(y, 3)), jax.grad(lambda v: jax.lax.stop_gradient(v) @ v)(x)


@program
def other_callers(x):
    return (jnp.vectorize(lambda a, b: a + b, signature="(),()->()")(x, x),
            jnp.apply_along_axis(lambda r: r.sum(), 0, W), jax.linear_transpose(lambda v: v * 3, x)(x),
            jax.vmap(lambda a: None)(x))


def same(want, got):
    """Trees, dtypes and weak types equal, values close."""
    left, tree = jax.tree.flatten(want)
    right, other = jax.tree.flatten(got)
    assert tree == other
    for a, b in zip(left, right):
        if isinstance(a, jax.Array):
            assert (a.dtype, a.shape, a.weak_type) == (b.dtype, b.shape, b.weak_type)
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)
        else:
            assert a == b


def captured(fn, *args, breaks=None, backend="eager"):
    """Runs `fn` plainly and compiled twice; the counters of the compiled runs."""
    dynacomp.reset()
    want, compiled = fn(*args), dynacomp.jit(fn, backend=backend)
    same(want, compiled(*args))
    same(want, compiled(*args))
    stats = dynacomp.stats()
    assert stats["breaks"] == (breaks or {})
    assert not set(stats["frames_eager"]) - {"traced"}
    return stats


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_captured_whole(fn):
    stats = captured(fn, X)
    assert stats["graphs"] <= 1 and not stats["frames_eager"]


@pytest.mark.parametrize("fn", [value_and_grad, custom_vjp, scan_with_outputs], ids=lambda f: f.__name__)
def test_native(fn):
    captured(fn, X, backend="auto")


def test_a_print_in_a_loss_waits_for_the_graph(capsys):
    def step(x):
        def loss(v):
            print("loss")
            return (v * v).sum()
        return jax.grad(loss)(x)

    assert captured(step, X)["graphs"] == 1
    assert capsys.readouterr().out == "loss\n" * 3


def test_debug_print_in_a_loss_prints_each_time(capsys):
    def step(x):
        return jax.grad(lambda v: (jax.debug.print("sum {}", v.sum()), v.sum())[1])(x)

    assert captured(step, X)["graphs"] == 1  # it stays in the Graph, as eager JAX's own callback
    jax.effects_barrier()
    assert capsys.readouterr().out == "sum 10.0\n" * 3


def test_a_callback_runs_in_python():
    def step(x):
        return jax.pure_callback(lambda a: np.sin(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    assert captured(step, X)["frames_captured"] == 1  # it stays in the graph, as a seam


def test_a_change_of_an_outer_list_in_a_loss():
    def step(x):
        seen = []

        def loss(v):
            seen.append(3)
            return (v * v).sum()
        return jax.grad(loss)(x), seen

    captured(step, X)


def test_effects_of_a_new_function_that_jax_traces():
    def step(x):
        seen = []

        def body(carry, v):
            seen.append(3)
            return carry + v, v
        return jax.lax.scan(body, 0.0, x), seen

    captured(step, X)


SEEN = []


def noting(carry, v):
    SEEN.append(3)
    return carry + v, v


def test_effects_of_a_function_whose_trace_jax_may_have_kept_break():
    captured(lambda x: jax.lax.scan(noting, 0.0, x), X, breaks={"effect_in_body": 1})


def test_a_loss_that_lets_its_own_arrays_out():
    def step(x):
        seen = []

        def loss(v):
            seen.append(v * 2)
            return (v * v).sum()
        return jax.grad(loss)(x), len(seen), jnp.sin(x)

    captured(step, X)


class Pure:
    """A module whose parameters a transformed function sets, through its `__dict__`."""

    def __setattr__(self, name, value):
        self.__dict__[name] = value

    def loss(self, w):
        self.w = w
        return jnp.sum(jnp.sin(self.w))


def test_a_loss_that_stores_its_argument_in_a_dict_of_an_outer_object():
    captured(lambda model, x: jax.grad(model.loss)(x), Pure(), X, breaks={"effect_in_body": 1})


def test_a_loss_whose_own_array_is_used_outside():
    def step(x):
        seen = []

        def loss(v):
            seen.append(v * 2)
            return (v * v).sum()
        jax.grad(loss)(x)
        return seen[0] + x

    with pytest.raises(jax.errors.UnexpectedTracerError):
        step(X)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        dynacomp.jit(step, backend="eager")(X)


def test_around_compiled_functions():
    f = dynacomp.jit(square_sum, backend="eager")
    f(X)
    for transform in (jax.grad, jax.jit, jax.hessian, jax.checkpoint, jax.jacrev,
                      lambda g: lambda x: jax.vmap(g)(x[:, None]), lambda g: lambda x: jax.jvp(g, (x,), (x,)),
                      lambda g: lambda x: jax.vjp(g, x)[1](1.0), lambda g: lambda x: jax.linearize(g, x)[1](x),
                      lambda g: lambda x: jax.lax.scan(lambda c, a: (c + g(a), None), 0.0, x[:, None])[0]):
        same(transform(square_sum)(X), transform(f)(X))
    assert str(jax.make_jaxpr(f)(X)) == str(jax.make_jaxpr(square_sum)(X))


def per_example(w, x, y):
    return jax.grad(lambda w: jax.vmap(lambda x, y: jnp.sum(x * y * w))(x, y).sum())(w)


def test_batches_inside_gradients_whose_sizes_are_found_equal():
    dynacomp.reset()
    f = dynacomp.jit(per_example, backend="eager")
    for n in (3, 4, 5, 6):
        x = jnp.arange(n * 4.0).reshape(n, 4)
        same(per_example(X, x, x * 2), f(X, x, x * 2))
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["frames_captured"] == 2


@pytest.mark.parametrize("replace", [
    lambda m, new: eqx.tree_at(lambda m: m.layers[-1], m, new),
    lambda m, new: eqx.tree_at(lambda m: m.layers, m, (m.layers[0], new)),
    lambda m, new: eqx.tree_at(lambda m: (m.layers[1], m.layers[0].bias), m, (new, m.layers[0].bias * 2)),
    lambda m, new: eqx.tree_at(lambda m: [m.layers[1]], m, replace_fn=lambda old: new),
])
def test_parts_of_its_arguments_that_a_function_gives_back_are_the_very_objects(replace):
    def surgery(m, key, x):
        return replace(m, eqx.nn.Linear(8, 3, key=key))(x)

    dynacomp.reset()
    f = dynacomp.jit(surgery, backend="eager")
    for n in range(3):
        args = eqx.nn.MLP(4, 2, 8, 1, key=jax.random.key(n)), jax.random.key(n), X
        same(surgery(*args), f(*args))
    assert dynacomp.stats()["breaks"] == {} and dynacomp.stats()["frames_captured"] == 1


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: jax.Array


def test_a_body_changes_an_argument_that_is_handed_on_as_it_is():
    """`jax.grad` gives a function the very objects by which it does not differentiate: what it does to them stays."""
    def by_position(x):
        seen = {"x": x}

        def loss(p, seen):
            seen["loss"] = len(seen)
            return (p * seen["x"]).sum()

        return jax.grad(loss)(x, seen), list(seen)

    def by_name(x):
        seen = [x]

        def loss(p, *, seen):
            seen.append(1)
            return (p * seen[0]).sum()

        return jax.value_and_grad(loss)(x, seen=seen), len(seen)

    def inside(x):
        def loss(p, seen):
            seen["state"].x = seen["x"] + 1
            return (p * seen["x"]).sum()

        seen = {"state": State(x), "x": x}
        return jax.grad(loss)(x, seen), seen["state"].x.tolist()

    def of_its_own(x):
        def loss(p, seen):
            p["y"] = seen["x"]  # a copy, which JAX has made
            return (p["x"] * p["y"]).sum()

        tree = {"x": x}
        return jax.grad(loss)(tree, {"x": x})["x"], list(tree)

    for fn, breaks in ((by_position, 1), (by_name, 1), (inside, 1), (of_its_own, 0)):
        dynacomp.reset()
        compiled = dynacomp.jit(fn, backend="eager")
        for n in (3, 3, 4):
            got, want = compiled(jnp.ones(n)), fn(jnp.ones(n))
            assert got[1] == want[1]
            assert jax.tree.all(jax.tree.map(jnp.array_equal, got[0], want[0]))
        assert len(dynacomp.stats()["breaks"]) == breaks


def made_anew(power, told):
    """Functions as a library's factory makes them: with defaults, and with what a decorator keeps."""
    def energy(v, scale=2.0, *, shift=None):
        return jnp.sum(v ** power) * scale + (0.0 if shift is None else shift)

    @functools.wraps(energy)
    def wrapper(*args, **kwargs):
        return energy(*args, **kwargs)

    wrapper.told = told
    return energy, wrapper


def test_a_function_made_anew_with_defaults_is_known_by_them():
    def program(x, functions):
        energy, wrapper = functions
        return jax.grad(energy)(x), jax.grad(wrapper)(x, scale=3.0) * wrapper.told, wrapper.__wrapped__.__name__

    check_one_graph(program, *((X, made_anew(2, 1)) for _ in range(4)))


def test_defaults_of_a_function_made_anew_are_guarded():
    def program(x, energy):
        return jax.grad(energy)(x)

    def with_default(scale):
        def energy(v, scale=scale):
            return jnp.sum(v) * scale

        return energy

    compiled = dynacomp.jit(program, backend="eager")
    for scale in (2.0, 3.0, jnp.float32(4.0), 2.0):
        np.testing.assert_array_equal(compiled(X, with_default(scale)), program(X, with_default(scale)))
    assert not dynacomp.stats()["breaks"]


def test_a_function_that_is_transformed_is_annotated_with_classes_that_the_call_makes():
    def annotated(x):
        class State:
            position: jax.Array

        def kernel(x: State, by: int = 2) -> tuple[State, int]:
            def body(carry: State, y) -> tuple[State, State]:
                return carry * y, carry

            return jax.lax.scan(body, x, jnp.ones(3) * by)

        return jax.vmap(kernel)(x), kernel.__annotations__["by"], kernel.__annotations__["x"] is State

    check_one_graph(annotated, (X,), (X + 1,))


def pulled_in_a_body(a, b):
    out, pull = jax.vjp(lambda v: a @ v, b)
    a = a * 0
    return out, jax.vmap(lambda s: pull(out * s))(b)


def pushed_in_a_body(a, b):
    _, push = jax.linearize(lambda v: jnp.sin(a @ v), b)
    a = a * 0
    return jax.lax.map(lambda s: push(b * s), b), push(b)


def pulled_two_bodies_further_in(a, b):
    box = [a]
    out, pull = jax.vjp(lambda v: box[0] @ v, b)
    box[0] = a * 0
    return jax.vmap(lambda s: jax.grad(lambda t: pull(out * t)[0].sum() * s)(s))(b), box


def layers(a, b):
    pulls, y = [], b
    for n in range(3):
        w = a * (n + 1)
        y, pull = jax.vjp(lambda v: jnp.tanh(w @ v), y)  # noqa: B023
        pulls.append(pull)

    def back(g):
        for pull in reversed(pulls):
            (g,) = pull(g)
        return g

    return jax.vmap(back)(jnp.eye(len(b)))


def powers(a, b):
    pushes = []
    for k in range(1, 4):
        pushes.append(jax.linearize(lambda v: (a @ v) ** k * b.sum(), b)[1])  # noqa: B023
    return [jax.vmap(push)(jnp.eye(len(b))) for push in pushes]


@pytest.mark.parametrize("program", [powers, pulled_in_a_body, pushed_in_a_body, pulled_two_bodies_further_in, layers])
def test_what_a_library_has_made_of_a_function_that_reads_something_else_by_now(program):
    """In a body it was made again, of the function as it was by then: derivatives by another matrix."""
    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for n in (3, 4, 5, 3, 6, 4):
        a, b = jnp.eye(n) * 0.2 + jnp.arange(float(n)) / n / n, jnp.arange(float(n)) / n
        for got, want in zip(jax.tree.leaves(compiled(a, b)), jax.tree.leaves(program(a, b)), strict=True):
            assert jnp.allclose(got, want, rtol=1e-4, atol=1e-6)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"]


def called_twice(a, b):
    box, n = [a], 2.0
    derived = jax.grad(lambda v: (box[0] @ v * n).sum())
    first = derived(b)
    box[0], n = a * 3, 5.0
    return first, derived(b)


def counted_twice(a, b):
    seen = []
    derived = jax.grad(lambda v: (seen.append(len(seen)) or a @ v).sum())
    return derived(b), derived(b * 2), seen


@pytest.mark.parametrize("program", [called_twice, counted_twice])
def test_a_function_called_again_once_two_sizes_were_found_to_be_one(program):
    """Its first call found it; to the second, it was called in another way, and ran as at the first."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for n in (3, 4, 5, 3, 6):
        a, b = jnp.eye(n) * 0.2, jnp.arange(float(n)) / n
        got, want = compiled(a, b), program(a, b)
        assert jnp.allclose(got[0], want[0]) and jnp.allclose(got[1], want[1]) and got[2:] == want[2:]
    assert program is counted_twice or dynacomp.stats()["frames_captured"] <= 3 and not dynacomp.stats()["breaks"]


def test_functions_have_their_own_names_for_jax():
    """The text of the module that `jit_<lambda>` is lowered to named it `jit_lambda_` from the second capture on."""
    doubled = jax.jit(lambda t: t * 2)

    def f(x):
        return len(doubled.lower(x).as_text()), x + 1

    dynacomp.reset()
    compiled = dynacomp.jit(f)
    for n in (4, 5, 4):
        x = jnp.arange(float(n))
        assert compiled(x)[0] == f(x)[0]
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]
