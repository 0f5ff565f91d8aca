"""Donation as under `jax.jit`: what is deleted, what is not, what is said and what raises."""

import copy
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

RIVALS = {"jax": jax.jit, "dynacomp": lambda fn, **options: dynacomp.jit(fn, backend="eager", **options)}
pytestmark = pytest.mark.parametrize("jit", RIVALS.values(), ids=RIVALS)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def x():
    return jnp.arange(4.0)


def test_a_usable_buffer_is_deleted(jit):
    step = jit(lambda a, b: a + b, donate_argnums=0)
    a, b = x(), x()
    np.testing.assert_array_equal(step(a, b), 2 * np.arange(4))
    assert a.is_deleted() and not b.is_deleted()
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        a + 1
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        step(a, b)
    np.testing.assert_array_equal(step(x(), b), 2 * np.arange(4))


def test_trees_names_keywords_and_varargs(jit):
    params = {"w": x(), "b": (x(), 3.0, None)}
    new = jit(lambda p, g: jax.tree.map(lambda v: v * g, p), donate_argnames="p")(params, 2.0)
    assert params["w"].is_deleted() and params["b"][0].is_deleted() and not new["w"].is_deleted()
    for options in ({"donate_argnums": 0}, {"donate_argnums": (0,)}, {"donate_argnames": ("a",)}):
        a = x()
        jit(lambda a, b: a + b, **options)(a, x())
        assert a.is_deleted()
    a, b = x(), x()
    jit(lambda a, b: a + b, donate_argnums=0)(b=b, a=a)
    assert a.is_deleted() and not b.is_deleted()
    rest = [x(), x()]
    jit(lambda *args: args[1] + 1, donate_argnums=1)(*rest)
    assert rest[1].is_deleted() and not rest[0].is_deleted()


def test_another_dtype_of_the_same_size_takes_the_place(jit):
    a = x()
    jit(lambda a: a.astype(jnp.int32), donate_argnums=0)(a)
    assert a.is_deleted()
    for narrow in (jnp.int8, bool):
        a = x()
        jit(lambda a, to=narrow: a.astype(to), donate_argnums=0)(a)
        assert not a.is_deleted()


def test_unusable_buffers_stay_and_one_warning_says_so(jit):
    total = jit(lambda a: a.sum(), donate_argnums=0)
    a = x()
    with pytest.warns(UserWarning, match=r"Some donated buffers were not usable: float32\[4\]"):
        total(a)
    total(x())
    assert not a.is_deleted()


def test_a_buffer_that_is_passed_twice(jit):
    a = x()
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"f\(donate\(a\), a\)"):
        jit(lambda a, b: a + b, donate_argnums=0)(a, a)
    b = x()
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"f\(donate\(a\), donate\(a\)\)"):
        jit(lambda a, b: (a + b, a * b), donate_argnums=(0, 1))(b, b)


def test_what_raises_deletes_nothing(jit):
    a = x()
    with pytest.raises(ZeroDivisionError):
        jit(lambda a: a / (1 // 0), donate_argnums=0)(a)
    assert not a.is_deleted()


def test_numbers_and_names_are_checked(jit):
    with pytest.raises(ValueError, match="donate_argnums"):
        jit(lambda a: a, donate_argnums=3)
    with pytest.raises(ValueError, match="donate_argnames"):
        jit(lambda a: a, donate_argnames="b")
    with pytest.raises(ValueError, match="static_argnums"):
        jit(lambda a: a, static_argnums=3)
    with pytest.raises(ValueError, match="cannot intersect"):
        jit(lambda a: a, donate_argnums=0, static_argnums=0)
    with pytest.raises(TypeError):
        jit(lambda a: a, donate_argnums="a")


def test_numpy_arrays_and_tracers_are_not_donated(jit):
    a = np.arange(4.0, dtype=np.float32)
    step = jit(lambda a, b: a * b, donate_argnums=0)
    np.testing.assert_array_equal(step(a, 2.0), a * 2)
    b = x()
    np.testing.assert_array_equal(jax.jit(lambda b: step(b, 2.0))(b), a * 2)
    assert not b.is_deleted()


class Model:
    def __init__(self):
        self.w = x()

    def step(self, state):
        return state + self.w

    def __call__(self, state):
        return state * self.w


def test_methods(jit):
    model, state = Model(), x()
    jit(model.step, donate_argnums=0)(state)
    assert state.is_deleted() and not model.w.is_deleted()


def test_callable_objects_and_their_copies(jit):
    model = Model()
    for compiled in (jit(model, donate_argnums=0), copy.copy(jit(model, donate_argnums=0))):
        state = x()
        compiled(state)
        assert state.is_deleted() and not model.w.is_deleted()


def test_graph_breaks(jit):
    if jit is jax.jit:
        pytest.skip("jax.jit refuses the function")
    a = x()

    def f(a):
        b = a + 1
        print(end="")
        return (b * a) if float(b[0]) else b

    np.testing.assert_array_equal(jit(f, donate_argnums=0)(a), np.arange(4.0) * np.arange(1.0, 5))
    assert a.is_deleted()


def test_an_array_that_is_returned_lives_on(jit):
    if jit is jax.jit:
        pytest.skip("jax.jit returns another object")
    a = x()
    assert jit(lambda a: a, donate_argnums=0)(a) is a and not a.is_deleted()


def test_memory_is_used_again(jit):
    """A thousand steps of 4 MB need no more than a few buffers."""
    step = jit(lambda a: a + 1, donate_argnums=0)
    a = jnp.zeros(1 << 20)
    for _ in range(1000):
        a = step(a)
    assert float(a[0]) == 1000
