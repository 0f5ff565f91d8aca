"""Calls to libraries as nodes: what their results look like, and which calls must happen in Python."""

import dataclasses

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import test_util

import dynacomp
from tests.capture.program_kit import outcome


def test_a_class_is_registered_once_and_for_good():
    def registered(x):
        @jax.tree_util.register_dataclass
        @dataclasses.dataclass
        class Pair:
            a: object
            b: object

        return jax.tree.leaves(Pair(x, x + 1))

    def struct(x):
        @flax.struct.dataclass
        class Pair:
            a: object
            b: object

        return jax.jit(lambda p: p.a + p.b)(Pair(x, x + 1))

    for program in (registered, struct):
        compiled = dynacomp.jit(program, backend="eager")
        for _ in range(2):
            assert jnp.array_equal(jnp.stack(compiled(jnp.ones(2))), jnp.stack(program(jnp.ones(2))))


def test_pytree_rules_of_a_registered_class_are_the_programs_own():
    def make():
        class Box:
            def __init__(self, v):
                self.v = v

        jax.tree_util.register_pytree_node(Box, lambda box: ((box.v,), None), lambda _, kids: Box(*kids))
        return Box

    box = dynacomp.jit(make, backend="eager")()
    assert jax.tree.map(lambda v: v + 1, box(1)).v == 2
    assert jax.vmap(lambda b: b.v * 2)(box(jnp.ones(3))).shape == (3,)


class Layer(nn.Module):
    def setup(self):
        self.inner = nn.Dense(2)

    def __call__(self, x):
        return self.inner(x) * 2


def test_modules_of_a_host_run_plainly_where_the_host_calls_them():
    dynacomp.reset()
    compiled = dynacomp.jit(Layer.__call__, backend="eager")

    class Inside(Layer):
        def __call__(self, x):
            return compiled(self, x)

    key, x = jax.random.key(0), jnp.ones((1, 3))
    got, want = Inside().init(key, x), Layer().init(key, x)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    assert jnp.array_equal(Inside().apply(got, x), Layer().apply(want, x))
    assert dynacomp.stats()["frames_eager"] == {"host": 2}


def test_objects_of_a_library_are_not_asked_for_their_dtype():
    distrax = pytest.importorskip("distrax")

    def program(x):
        return distrax.Normal(x, x + 1).log_prob(x)

    x = jnp.zeros(())
    assert jnp.allclose(dynacomp.jit(program, backend="eager")(x), program(x))


def test_an_exception_among_the_arguments_of_a_library():
    def caught(x):
        try:
            raise ValueError("here")
        except ValueError as error:
            return jax.tree.leaves((x + 1, error))[1].args

    assert dynacomp.jit(caught, backend="eager")(jnp.ones(2)) == ("here",)


def test_the_configuration_is_set_at_each_call():
    def program(x):
        jax.config.update("jax_default_matmul_precision", "float32")
        return x + 1

    compiled = dynacomp.jit(program, backend="eager")
    try:
        for _ in range(3):
            jax.config.update("jax_default_matmul_precision", None)
            compiled(jnp.ones(2))
            assert jax.config.jax_default_matmul_precision == "float32"
    finally:
        jax.config.update("jax_default_matmul_precision", None)


def test_functions_that_a_library_binds_to_constants_read_what_the_graph_computes():
    def bound(x, n):
        y = x * 2 + n
        return jax.tree_util.Partial(lambda a, b: a * y + b, 3)(x)

    compiled, x = dynacomp.jit(bound), jnp.arange(3.0)
    for n in range(3):
        assert jnp.array_equal(compiled(x, n), bound(x, n))


def test_functions_that_a_library_keeps_for_later_run_in_python():
    lineax = pytest.importorskip("lineax")

    def operator(x):
        made = lineax.FunctionLinearOperator(lambda v: v * x.sum() + v, jax.eval_shape(lambda: x))
        return made.mv(x), made

    compiled, x = dynacomp.jit(operator), jnp.arange(3.0)
    for _ in range(2):
        product, made = compiled(x)
        assert jnp.array_equal(product, 4 * x) and jnp.array_equal(made.mv(x), 4 * x)


def test_results_that_are_no_arrays_are_pythons():
    def program(x, token):
        return type(jax.lax.after_all(token, jax.lax.create_token())).__name__, x + 1

    dynacomp.reset()
    args = jnp.ones(3), jax.lax.create_token()
    assert repr(dynacomp.jit(program, backend="eager")(*args)) == repr(program(*args))
    assert not dynacomp.stats()["frames_eager"]


def test_arrays_that_come_back_are_the_same():
    def program(x, given):
        made = jnp.sin(x)
        same = [jnp.asarray(v) is v for v in (x, made, given)] + [x.astype(x.dtype) is x, x[...] is x, x[:] is x]
        same += [jnp.array(x, copy=False) is x, jnp.reshape(made, made.shape) is made]
        return same, [jnp.array(x) is x, jnp.squeeze(x) is x, +x is x, jnp.conj(made) is made], jnp.asarray(x)

    x = jnp.ones(3)
    for given in (np.ones(3, np.float32), jnp.ones(2)):
        want, got = program(x, given), dynacomp.jit(program, backend="eager")(x, given)
        assert got[:2] == want[:2] and got[2] is x


RANDOM = np.random.RandomState(0)
DRAWN = test_util.rand_int(RANDOM, 100)  # a function of a library whose cell holds the generator
PARTIAL = jax.tree_util.Partial(DRAWN)


@pytest.mark.parametrize("fn", [
    lambda x: (x * (sizes := DRAWN((3,), np.int64)).sum(), sizes),
    lambda x: (x * (sizes := test_util.rand_int(RANDOM, 100)((3,), np.int64)).sum(), sizes),
    lambda x: (x * (sizes := PARTIAL((3,), np.int64)).sum(), sizes),
    lambda x: (x, *jax.tree.map(DRAWN, [3, 3], [np.int64, np.int32])),
])
def test_what_keeps_a_generator_of_random_numbers_is_no_node(fn):
    """It was called while the call was captured: the sum was a constant, and the numbers were drawn again."""
    compiled, x = dynacomp.jit(fn, backend="eager"), jnp.ones(3)
    RANDOM.seed(0)
    want = [fn(x) for _ in range(4)]
    RANDOM.seed(0)
    got = [compiled(x) for _ in range(4)]
    assert jax.tree.all(jax.tree.map(lambda a, b: type(a) is type(b) and bool((a == b).all()), got, want))
    assert RANDOM.randint(1 << 30) == _after(fn, x)


def _after(fn, x):
    """What the generator gives behind four calls."""
    RANDOM.seed(0)
    for _ in range(4):
        fn(x)
    return RANDOM.randint(1 << 30)


@jax.tree_util.register_pytree_node_class
class Around:
    def __init__(self, w, fn):
        self.w, self.fn = w, fn

    def tree_flatten(self):
        return (self.w,), self.fn

    @classmethod
    def tree_unflatten(cls, fn, children):
        return cls(*children, fn)


def test_the_shapes_of_an_object_around_a_function_of_the_call():
    """They had the capture's own function: 'Const' object is not callable."""
    def program(x, k):
        one = Around(x, lambda y: y * k)
        shapes = jax.eval_shape(lambda s: Around(s.w[None], s.fn), one)
        return shapes.fn(x), shapes.fn is one.fn, shapes.w.shape

    compiled = dynacomp.jit(program)
    for n in range(4):
        got = compiled(jnp.ones(3) * n, n + 0.5)
        assert (got[0] == n * (n + 0.5)).all() and got[1:] == (True, (1, 3))
    stats = dynacomp.stats()
    assert not stats["breaks"] and stats["frames_captured"] <= 2


DTYPES = {np.dtype("float32"): 3, np.dtype("int32"): 2, np.dtype("complex64"): 5, np.dtype(jnp.bfloat16): 7}


def a_dtype_as_a_key(x, n):
    return x * DTYPES[jnp.result_type(x, n)], jnp.result_type(n), {jnp.result_type(x)}


def a_dtype_in_a_gradient(x, n):
    def loss(y):
        held = jnp.finfo(jnp.result_type(y, float))
        return (jnp.clip(y, held.tiny, 1 - held.eps) * n).sum() * jnp.finfo(y.dtype).eps / jnp.finfo(y).bits

    return jax.grad(loss)(x), jax.vmap(lambda r: r * jnp.finfo(r.dtype).resolution)(x)


def limits_given_back(x, n):
    held = jnp.finfo(x.dtype)
    same = held is jnp.finfo(x.dtype), held is jnp.finfo(np.float32)
    return x * n, held, same, jnp.iinfo(jnp.int8).max, held.dtype, (
        jnp.finfo(jnp.bfloat16).max, type(jnp.finfo(jnp.bfloat16)), str(jnp.iinfo(jnp.int16)))


@pytest.mark.parametrize("fn", [a_dtype_as_a_key, a_dtype_in_a_gradient, limits_given_back])
def test_dtypes_and_their_limits_are_constants(fn):
    """Such a dtype was no key of a dict, and the limits, which NumPy finds out once, broke the graph: in a gradient's
    function, so that all ran in Python."""
    compiled = dynacomp.jit(fn)
    for n in (2, 3, 4.5, 5.5, jnp.float32(2), 1 if fn is a_dtype_in_a_gradient else 1j, 6):
        x = jnp.arange(6.0).reshape(2, 3)
        want, got = fn(x, n), compiled(x, n)
        assert str(got) == str(want) and jax.tree.map(type, got) == jax.tree.map(type, want)
        assert fn is not limits_given_back or got[1] is want[1]
    assert not dynacomp.stats()["breaks"] and dynacomp.stats()["frames_captured"] <= 6


TAKERS = {
    "finfo": lambda x: jnp.finfo(x).eps,
    "iinfo": lambda x: jnp.iinfo(x.astype(np.int64)).max,
    "issubdtype": lambda x: jnp.issubdtype(x, jnp.floating),
    "promote_types": lambda x: jnp.promote_types(x, jnp.float32),
    "left": lambda x: jnp.float32 == x,
    "right": lambda x: x == jnp.float32,
}


@pytest.mark.parametrize("name", TAKERS)
def test_what_takes_dtypes_looks_at_that_of_a_numpy_array(name):
    x = np.arange(3.0)
    compiled = dynacomp.jit(TAKERS[name], backend="eager")
    for _ in range(2):
        assert repr(outcome(compiled, (x,))) == repr(outcome(TAKERS[name], (x,)))


@pytest.mark.parametrize("make", [lambda x: np.zeros(3, np.float16), np.asarray, lambda x: x])
def test_the_limits_of_a_numpy_arrays_numbers_break_nothing(make):
    def program(x):
        return jnp.asarray(x) * jnp.finfo(make(x)).eps, jnp.iinfo(np.arange(3, dtype=np.int8)).max

    x = np.arange(3.0)
    compiled = dynacomp.jit(program, backend="eager")
    for _ in range(2):
        assert repr(outcome(compiled, (x,))) == repr(outcome(program, (x,)))
    assert not dynacomp.stats()["breaks"]
