"""What a call of a library returns, found on tracers: the shape of its result, and what it must not do meanwhile."""

from types import SimpleNamespace

import flax.linen as nn
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax._src import test_util
from jax.experimental import checkify

import dynacomp
from dynacomp.capture.base.errors import Break
from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.symbolic.effects import Effects
from dynacomp.capture.tracing.abstract_evaluation import Outcome, calls_back, is_nothing, label, may_tell, nothing
from dynacomp.notices import told


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


@pytest.mark.parametrize("fn", [
    lambda x, n: x.at[:n].set(0.0), lambda x, n: x.at[-n:].add(1.0), lambda x, n: x.at[n - 2:n].max(5.0),
    lambda x, n: (x.at[n].set(1.0).at[-n].set(2.0), x.at[:n].get().sum()),
    lambda x, n: jax.grad(lambda v: (v.at[:n].set(0.0) ** 2).sum())(x),
    lambda x, n: jax.lax.fori_loop(0, 3, lambda i, c: c.at[n:].add(1.0), x),
    lambda x, n: jnp.zeros((40, 40), bool).at[:n, :n].set(True) & (x > 3),
])
def test_numbers_that_earlier_calls_were_given_become_sizes(fn):
    """`x.at[:n]` takes any number; the `set` after it wants a size."""
    dynacomp.reset()
    x, compiled = jnp.arange(40.0), dynacomp.jit(fn, backend="eager")
    for n in (5, 6, 9, 12, 17, 20, 19, 11):
        for got, want in zip(jax.tree.leaves(compiled(x, n)), jax.tree.leaves(fn(x, n)), strict=True):
            np.testing.assert_allclose(got, want)
    stats = dynacomp.stats()
    assert stats["frames_captured"] == 2 and not stats["breaks"] and not stats["frames_eager"]


def refused(fn, x, n):
    try:
        return fn(x * 2, n)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("fn", [
    lambda x, n: x.reshape(n, 4), lambda x, n: jnp.reshape(x, (len(x) // 4, 4)), lambda x, n: x.reshape(n // 2, -1),
    lambda x, n: jax.jit(lambda v: v.reshape(4, n))(x)])
def test_reshapes_that_do_not_fit_are_refused(fn):
    """JAX compares numbers of elements only where all of them are numbers."""
    dynacomp.reset()
    compiled = dynacomp.jit(lambda x, n: refused(fn, x, n), backend="eager")
    for size, n in ((12, 3), (16, 4), (20, 5), (12, 4), (13, 3), (24, 6), (14, 4), (28, 7)):
        got, want = compiled(jnp.arange(float(size)), n), refused(fn, jnp.arange(float(size)), n)
        assert repr(got) == repr(want)
    stats = dynacomp.stats()
    assert stats["frames_captured"] and stats["breaks"].keys() == {"raises"}


def test_reshapes_that_fit_are_captured_once_for_all_sizes():
    compiled = dynacomp.jit(lambda x, n: (x * 2).reshape(n, 4), backend="eager")
    dynacomp.reset()
    for n in (3, 4, 5, 6, 9):
        assert compiled(jnp.arange(4.0 * n), n).shape == (n, 4)
    assert dynacomp.stats()["frames_captured"] == 2 and not dynacomp.stats()["breaks"]


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


@pytest.mark.medium
def test_what_fails_for_arrays_of_jax_alone_has_not_failed():
    """The call was traced; the program gives it an array of NumPy's."""
    def f(x, y):
        exactly = test_util.numpy_with_mpmath(mpmath, extra_prec=1).expm1
        try:
            return exactly(y), x + 1
        except AttributeError as error:
            return x, str(error)

    compiled = dynacomp.jit(f, backend="eager")
    for n in (2, 3):
        args = jnp.ones(n), np.ones(n)
        assert repr(compiled(*args)) == repr(f(*args))


def test_of_what_jax_says_about_a_size_one_line_is_told():
    @dynacomp.allow_in_graph
    def counted(x):
        return jnp.arange(x.shape[0] * 1.0)

    dynacomp.reset()
    compiled = dynacomp.jit(counted, backend="eager")
    for n in (3, 4, 5):
        assert compiled(jnp.ones(n)).shape == (n,)
    (reason,) = [notice.reason for notice in told()]
    assert "counted: Abstract tracer value" in reason and "\n" not in reason


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
