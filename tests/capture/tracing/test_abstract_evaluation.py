"""What a call of a library returns, found on tracers: the shape of its result, and what it must not do meanwhile."""

from types import SimpleNamespace

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.example_libraries import stax
from jax.experimental import checkify
from jax.extend.core import jaxpr_as_fun

import dynacomp
from dynacomp.capture.base.errors import Break
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.symbolic.effects import Effects
from dynacomp.capture.tracing.abstract_evaluation import Outcome, calls_back, is_nothing, label, may_tell, nothing


def test_dicts_of_a_library_keep_their_order_of_keys():
    def made(x):
        return {"held": nn.Dense(3).init(jax.random.key(0), x)}

    x = jnp.ones((2, 4))
    got = dynacomp.jit(made, backend="eager")(x)
    assert list(got["held"]["params"]) == list(made(x)["held"]["params"]) == ["kernel", "bias"]


def test_derivatives_by_integers_are_what_jax_makes_of_them():
    def tangents(xs):
        def step(count, x):
            return count, x * 2

        return jax.jvp(lambda xs: jax.lax.scan(step, 0, xs), (xs,), (xs,))[1]

    def pulled(xs, n):
        @jax.jit
        def inner(xs, n):
            return jax.vjp(lambda n, xs: xs * n, n, xs)[1](xs)

        return inner(xs, n)

    xs = jnp.arange(3.0)
    for program, args in ((tangents, (xs,)), (pulled, (xs, jnp.arange(3)))):
        want, got = program(*args), dynacomp.jit(program, backend="eager")(*args)
        assert [(type(x), x.dtype, x.shape) for x in want] == [(type(x), x.dtype, x.shape) for x in got]


def test_nothing_is_what_has_no_numbers():
    assert nothing((2, 3)).shape == (2, 3) and is_nothing(nothing(())) and is_nothing(np.zeros(2, jax.dtypes.float0))
    assert not is_nothing(np.zeros(2)) and not is_nothing(None) and nothing((2,)) is nothing((2,))


def test_outcomes_know_whether_arrays_are_in_them():
    aval = Aval((2,), np.dtype(np.float32))
    kinds = [(leaves, made.plain, made.has_arrays) for leaves in ([aval, 1], [1, "a"], [aval, object()], [])
             for made in [Outcome(None, None, leaves, [])]]
    assert [k[1:] for k in kinds] == [(True, True), (True, False), (False, True), (True, False)]


def printing(x):
    jax.debug.print("{}", x)
    return x


def calling(x):
    return jax.pure_callback(np.sin, x, x)


def inside(x):
    return jax.lax.fori_loop(0, 2, lambda i, y: calling(y), x)


@pytest.mark.parametrize(("fn", "back", "effect"), [(jnp.sin, False, False), (calling, True, False),
                                                    (inside, True, False), (printing, False, True)])
def test_calls_that_run_python_or_have_effects(fn, back, effect):
    jaxpr = jax.make_jaxpr(fn)(jnp.ones(2))
    assert calls_back(jaxpr.jaxpr) == back
    capturing = SimpleNamespace(effects=Effects(), graph=SimpleNamespace(checks=[]), bodies=[],
                                root=SimpleNamespace(traced=False))
    assert may_tell(capturing, fn, jaxpr) == effect
    if effect:
        capturing.effects.call(print, [])
        with pytest.raises(Break, match="printing"):
            may_tell(capturing, fn, jaxpr)


def test_functions_are_called_by_their_names():
    class Made:
        def __call__(self):
            return 0

        def method(self):
            return 1

    assert label(Made.method).endswith("Made.method") and label(Made()) == "Made" and label(jnp.sin) == "sin"


def test_a_function_that_is_told_how_an_array_is_placed_runs_in_python():
    dynacomp.reset()
    seen = []

    @dynacomp.jit
    def f(x):
        y = x * 2
        jax.debug.inspect_array_sharding(y, callback=seen.append)
        return y + 1

    for i in range(3):
        assert (f(jnp.ones(2) * i) == jnp.ones(2) * i * 2 + 1).all()
        assert len(seen) == i + 1
    assert dynacomp.stats()["frames_captured"] == 2 and set(dynacomp.stats()["breaks"]) <= {"call", "effect"}


def test_errors_that_jax_numbers_are_made_in_python():
    checked = checkify.checkify(lambda x: jnp.log(x - 1), errors=checkify.float_checks)

    def f(x):
        error, y = checked(x + 1)
        return error.get(), y * 2

    dynacomp.reset()
    compiled = dynacomp.jit(f)
    for x in (jnp.ones(2), -jnp.ones(2), jnp.ones(2)):
        (words, y), (expected, _) = compiled(x), f(x)
        assert words == expected and y.shape == (2,)
    assert dynacomp.stats()["breaks"]["call"] == 1 and "internal" not in dynacomp.stats()["frames_eager"]


def test_what_asks_for_tracers_is_asked_in_python():
    def f(x):
        convert, hoisted = jax.closure_convert(lambda v: v * x, x)
        return convert(x + 1, *hoisted), len(hoisted)

    dynacomp.reset()
    y, count = dynacomp.jit(f)(jnp.arange(3.0))
    assert (y == jnp.array([0.0, 2.0, 6.0])).all() and count == f(jnp.arange(3.0))[1]
    assert "internal" not in dynacomp.stats()["frames_eager"]


@dynacomp.allow_in_graph
def asks_who_traces(x):
    return isinstance(x, jax.core.Tracer)


@dynacomp.allow_in_graph
def asks_what_it_is(x):
    return x.ndim == 1 and isinstance(x, jax.Array)


@pytest.mark.parametrize("asks, breaks", [(asks_who_traces, {"tracer": 1}), (asks_what_it_is, {})])
def test_a_call_that_asks_which_arrays_jax_traces(asks, breaks):
    def program(x):
        y = x * 2
        return y + 1 if asks(y) else y - 1

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(10):
        x = jnp.arange(3.0) * i
        assert jnp.array_equal(compiled(x), program(x))
    stats = dynacomp.stats()
    assert stats["breaks"] == breaks and stats["frames_captured"] == 1 + 2 * len(breaks)


@jax.tree_util.register_pytree_node_class
class Filled:
    """As distributions of TensorFlow Probability keep their shapes: in an array of NumPy's."""

    def __init__(self, shape, value):
        self.shape, self.value = shape, value

    def tree_flatten(self):
        return (self.shape, self.value), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


@dynacomp.allow_in_graph
def array_of(filled):
    return jnp.full(filled.shape, filled.value)


def test_shapes_that_objects_keep_in_arrays_of_numpy():
    def program(filled, x):
        return array_of(filled) * x

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for i in range(10):
        given = Filled(np.array([2, 3 + (i > 6)]), jnp.ones(()) * i)
        assert repr(compiled(given, i)) == repr(program(given, i))
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] <= 3


def looked_into(x):
    made = jax.make_jaxpr(lambda y: y + x)(1)
    return x + len(made.jaxpr.constvars), len(made.consts)


def run_again(x):
    made = jax.make_jaxpr(lambda y: y + x)(1)
    return jaxpr_as_fun(made)(1)[0] * len(made.consts)


def test_arrays_that_a_function_closes_over_are_constants_of_its_jaxpr():
    for fn in (looked_into, run_again, jax.vmap(run_again), jax.grad(lambda x: run_again(x).sum())):
        compiled = dynacomp.jit(lambda x, fn=fn: fn(x * 2.0), backend="eager")
        for n in range(2, 4):
            for got, want in zip(compiled(jnp.arange(float(n))), fn(jnp.arange(float(n)) * 2.0)):
                assert jnp.array_equal(got, want)


def dense(gain):
    return (lambda key, shape: (shape, jnp.eye(2) / 2)), lambda w, x, **_: jnp.sin(x @ w * gain)


class Net:
    def __init__(self, count, gain):
        init, self.apply = stax.serial(*[dense(gain) for _ in range(count)])
        self.params = init(jax.random.key(0), (-1, 2))[1]


def test_a_number_that_a_library_needs_is_a_constant_and_sizes_stay_symbols():
    """stax multiplies a tuple by how many layers there are: the shapes of all arrays were to blame, too."""
    dynacomp.reset()
    compiled = dynacomp.jit(lambda net, x: net.apply(net.params, x).sum())
    for rows, count in (4, 2), (8, 2), (12, 3), (13, 3), (14, 2), (15, 4):
        net, x = Net(count, 1.0 + rows), jnp.ones((rows, 2))
        np.testing.assert_allclose(compiled(net, x), net.apply(net.params, x).sum(), rtol=1e-5)
    assert not dynacomp.stats()["breaks"] and not dynacomp.stats()["frames_eager"]
    assert dynacomp.stats()["frames_captured"] <= 5


class Pooled(nn.Module):
    """Its loop needs the length; nothing needs the number of rows."""

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(2)(x)
        return sum(x[:, k] * k for k in range(x.shape[1]))


def trained(x, rate):
    net, losses = Pooled(), []
    params = net.init(jax.random.key(0), x)
    for _ in range(2):
        loss, slopes = jax.value_and_grad(lambda p: (net.apply(p, x) ** 2).mean())(params)
        params = jax.tree.map(lambda p, g: p - rate * g, params, slopes)
        losses.append(loss)
    return losses, params


def test_a_size_that_a_model_needs_is_a_constant_alone_however_many_there_were():
    """A break there would have Flax run the model in Python."""
    dynacomp.reset()
    compiled = dynacomp.jit(trained, backend="eager")
    for call in range(9):
        args = jnp.ones((7 + call, 2 + call % 3, 2)), 0.1 + call
        jax.tree.map(np.testing.assert_allclose, compiled(*args), trained(*args))
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"] and stats["frames_captured"] <= 4


@pytest.mark.parametrize("show", [
    lambda x, n: eqx.tree_pformat(x),
    lambda x, n: eqx.tree_pformat({"x": x, "n": n}, truncate_leaf=lambda leaf: False),
    lambda x, n: [eqx.tree_pformat((x, n), short_arrays=True), x.shape],
])
def test_a_text_of_what_changes_is_made_in_each_call(show):
    """The library would spell the symbols that stand for sizes and numbers while it is traced."""
    def shown(x, n):
        return show(x, n), x * n

    compiled = dynacomp.jit(shown, backend="eager")
    dynacomp.reset()
    captures = []
    for n in range(2, 8):
        assert repr(compiled(jnp.ones(n), n)) == repr(shown(jnp.ones(n), n))
        captures.append(dynacomp.stats()["frames_captured"])
    assert captures[3] == captures[-1] <= 8


def _struct(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


KNOWN = jax.core.ShapedArray((6,), np.dtype(np.float32))
OF_SIZES = {  # what says how an array is: its texts, its hash and what it equals are those of the sizes of the call
    "text": (lambda x: x.aval.str_short(), 6),
    "text of what is made": (lambda x: jax.core.ShapedArray(x.shape, x.dtype).str_short(True), 5),
    "texts": (lambda x: f"{x.aval} {x.aval!r} {jax.typeof(x)}", 12),
    "formatted": (lambda x: format(x.aval.update(dtype=jnp.int32), ""), 6),
    "given back": (lambda x: (x.aval, x.aval.update(dtype=jnp.int32), x.aval.strip_weak_type()), 3),
    "parts": (lambda x: (x.aval.shape, x.aval.size, x.aval.ndim, jax.typeof(x).shape), 3),
    "key": (lambda x: {x.aval: 1}, 7),
    "equal": (lambda x: x.aval == KNOWN, 6),
    "equal, by Python": (lambda x: _struct(x) == jax.ShapeDtypeStruct((6,), x.dtype), 3),
    "differ": (lambda x: (x.aval != KNOWN, x.aval == x.aval), 6),
    "made equal": (lambda x: jax.core.ShapedArray(x.shape, x.dtype) == KNOWN, 8),
    "found": (lambda x: {_struct(x): 1}.get(jax.ShapeDtypeStruct((6,), x.dtype)), 12),
    "hash": (lambda x: hash(_struct(x)) == hash(jax.ShapeDtypeStruct((6,), np.dtype(np.float32))), 9),
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_what_says_how_an_array_is_says_it_of_this_call(name):
    says, captures = OF_SIZES[name]
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x: (says(x), x * 3), backend="eager", options={"capture_idle": False})
    for n in (3, 4, 5, 6, 7, 3, 8, 6):
        (want, _), (got, tripled) = (says(jnp.ones(n)), None), compiled(jnp.ones(n))
        assert (got, repr(got), type(got)) == (want, repr(want), type(want)) and tripled.shape == (n,)
    assert dynacomp.stats()["frames_captured"] <= captures


def converted(a, b, s):
    return eqx.filter_closure_convert(lambda v: jnp.sin(a) @ v * s, b)(b)


def converted_before_a_change(a, b, s):
    fn = eqx.filter_closure_convert(lambda v: jnp.sin(a) @ v * s, b)
    a = a * 0
    return fn(b), jax.vmap(lambda t: fn(b * t))(b), a


def constants_of_what_was_converted(a, b, s):
    a = jnp.cos(a)
    fn = eqx.filter_closure_convert(lambda v: a @ v * s, b)
    return [c * 2 for c in fn.consts], fn.consts[0] is a, fn.consts[1] is s, type(fn).__name__, fn(b)


def converted_in_bodies(a, b, s):
    def step(carry, row):
        fn = eqx.filter_closure_convert(lambda v: v * row * s, carry)
        return fn(carry), fn(row)

    derived = jax.grad(lambda a: converted(a, b, s).sum())(a)
    return derived, jax.lax.scan(step, b, a), jax.vmap(lambda row: converted(row[None], row, s))(a)


@pytest.mark.parametrize("program", [
    converted, converted_before_a_change, constants_of_what_was_converted, converted_in_bodies])
def test_a_jaxpr_around_arrays_that_a_function_closes_over(program):
    """The graph broke there, and the rest was Python's: what stood for these arrays would have been in the jaxpr."""
    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for k, n in enumerate((3, 4, 5, 3, 6, 7)):
        given = jnp.eye(n) * n + 0.1, jnp.arange(float(n)) / n, jnp.float32(1 + k / 10)
        got, want = compiled(*given), program(*given)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        for ours, eager in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
            assert type(ours) is type(eager) and (ours == eager if type(eager) in (bool, str) else jnp.allclose(
                ours, eager, rtol=1e-5))
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 3 and not stats["breaks"] and not stats["frames_eager"]


def test_a_closed_jaxpr_around_arrays_is_pythons():
    def program(a, b):
        made = jax.make_jaxpr(lambda v: a @ v)(b)
        return jax.core.eval_jaxpr(made.jaxpr, made.consts, b)[0], [c + 1 for c in made.consts]

    compiled = dynacomp.jit(program, backend="eager")
    for n in (3, 4, 5):
        a, b = jnp.eye(n) * n, jnp.arange(float(n))
        assert str(compiled(a, b)) == str(program(a, b))


def test_structures_that_a_library_compares():
    """They were different, where the sizes of two arrays are the same number by chance of the call: an operator that
    must be square was refused."""
    lx = pytest.importorskip("lineax")

    def program(a, b):
        of = jax.ShapeDtypeStruct(b.shape, b.dtype)
        return lx.FunctionLinearOperator(lambda v: a @ v, of, lx.symmetric_tag).mv(b)

    dynacomp.reset()
    compiled = dynacomp.jit(program)
    for n in (3, 4, 5, 3, 6, 7):
        a, b = jnp.eye(n) * n + 0.1, jnp.arange(float(n))
        assert jnp.allclose(compiled(a, b), program(a, b), rtol=1e-5)
    assert dynacomp.stats()["frames_captured"] <= 3 and not dynacomp.stats()["breaks"]
    with pytest.raises(ValueError, match="matching input and output"):
        compiled(jnp.ones((4, 3)), jnp.ones(3))
