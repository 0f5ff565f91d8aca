"""Every public function of jax.numpy, jax.nn, jax.lax and jax.scipy.special under `dynacomp.jit`, against eager JAX.

Arguments are found by trying: the first of SHAPES of arguments that eager JAX takes, and gives finite numbers or
integers for, is what the function is compiled with. Then its gradient by the first argument, where that is defined.
What takes none of them (functions of functions, of settings, of devices) is listed by the test of how many were found.
"""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

MODULES = {"numpy": jnp, "nn": jax.nn, "lax": jax.lax, "special": jax.scipy.special}
SQUARE = jnp.asarray(np.random.RandomState(0).rand(4, 4).astype(np.float32) * 0.8 + 0.1)
VECTOR, WHOLE = SQUARE[0], jnp.arange(1, 5, dtype=jnp.int32)
FLAGS = jnp.array([True, False, True, True])
SHAPES = (  # tried in this order
    (SQUARE,), (SQUARE, SQUARE.T + 0.2), (SQUARE, SQUARE.T, SQUARE + 0.5), (VECTOR,), (VECTOR, VECTOR[::-1] + 0.3),
    (WHOLE,), (WHOLE, WHOLE[::-1]), (FLAGS,), (FLAGS, ~FLAGS), (SQUARE, 1), (SQUARE, (1, 0)), (WHOLE, VECTOR),
    ((SQUARE, SQUARE + 1),), ([VECTOR, VECTOR],), (SQUARE, WHOLE - 1), (VECTOR, VECTOR, VECTOR, VECTOR), (3,),
    ((2, 3),), (0.2, 3.0), (SQUARE, 0, 1), (SQUARE, (4, 4)), (SQUARE + 1j * SQUARE.T,), (FLAGS, VECTOR, VECTOR + 1),
    (SQUARE, WHOLE[:2], 0), ("ij,jk->ik", SQUARE, SQUARE), (VECTOR, 1, 0), (SQUARE, 0.5), (2, VECTOR), ((3,), 0.5),
)
AT_RANDOM = frozenset({"empty", "empty_like", "rng_uniform", "rng_bit_generator"})  # what nobody has written


def names():
    return [f"{where}.{name}" for where, module in MODULES.items() for name in sorted(dir(module))
            if not name.startswith("_") and name not in AT_RANDOM and callable(getattr(module, name))
            and not inspect.isclass(getattr(module, name))]


def function_of(name):
    where, _, attribute = name.partition(".")
    return getattr(MODULES[where], attribute)


def arrays_of(result):
    return [x for x in jax.tree.leaves(result) if isinstance(x, jax.Array)]


@functools.cache
def arguments(name):
    """The first arguments that a function takes; None where it takes none of them."""
    for args in SHAPES:
        try:
            found = arrays_of(function_of(name)(*args))
            if found and all(np.isfinite(np.asarray(x, np.complex64)).all() for x in found):
                return args
        except Exception:  # whatever a function says of arguments that are none of its own
            continue
    return None


def on_arrays(name, args):
    """The function of those arguments that are arrays, or trees of them, and the trees."""
    given = [a for a in args if arrays_of(a)]

    def fn(*arrays):
        rest = iter(arrays)
        return function_of(name)(*(next(rest) if arrays_of(a) else a for a in args))

    return fn, given


def turned(x):
    return x[::-1] if x.ndim else x


def compare(fn, given, tolerance):
    compiled = dynacomp.jit(fn)
    for change in (0, 1, 2):
        args = jax.tree.map(turned, given) if change == 1 else given
        try:
            want = fn(*args)
        except Exception as error:  # other numbers, which the function refuses
            with pytest.raises(type(error)):
                compiled(*args)
            continue
        got = compiled(*args)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
            if isinstance(b, jax.Array):
                assert (a.dtype, a.shape, a.weak_type) == (b.dtype, b.shape, b.weak_type)
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance / 10)


def check(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # some write files
    args = arguments(name)
    if args is None:
        pytest.skip("it takes none of the arguments")
    dynacomp.reset()
    fn, given = on_arrays(name, args)
    compare(fn, given, 2e-4)
    floats = given and isinstance(given[0], jax.Array) and jnp.issubdtype(given[0].dtype, jnp.floating)
    total = lambda *xs: sum(x.sum() for x in arrays_of(fn(*xs)) if jnp.issubdtype(x.dtype, jnp.floating))
    try:
        slope = jax.grad(total)(*given) if floats else None
    except Exception:  # it has no gradient
        slope = None
    if slope is not None and np.isfinite(slope).all():
        compare(jax.grad(total), given, 2e-3)


QUICK = ("numpy.nanpercentile", "nn.gelu", "lax.rsqrt", "special.logsumexp")


@pytest.mark.parametrize("name", QUICK)
def test_a_sample(name, monkeypatch, tmp_path):
    check(name, monkeypatch, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_every_function(name, monkeypatch, tmp_path):
    check(name, monkeypatch, tmp_path)


@pytest.mark.slow
def test_most_have_arguments(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    without = [n for n in names() if arguments(n) is None]
    print(f"\n{len(names()) - len(without)} of {len(names())}; none fit: {' '.join(without)}")
    assert len(without) < 0.35 * len(names())
