"""`wrapping.spelled_sizes`: whole numbers of NumPy's are sizes where a call has to know them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.capture.numbers.test_host_functions import SIZES, compiled_like_plain

OF_SIZES = {
    "a product": lambda x: jnp.tile(x[:, None], (1, 2)).reshape(np.prod((x.shape[0], 2))),
    "a maximum": lambda x: jnp.zeros(np.maximum(x.shape[0], 3)),
    "a type": lambda x: jax.random.normal(jax.random.key(0), (np.int64(x.shape[0]),)),
    "a method": lambda x: jnp.zeros(np.ceil(x.shape[0] / 2).astype(int)),
    "its dtype": lambda x: jnp.arange(np.int32(x.shape[0])),
    "an array": lambda x: jnp.zeros(np.array(x.shape) // 2),
    "a longer one": lambda x: jnp.broadcast_to(x, np.concatenate([[2], x.shape])),
    "places": lambda x: jnp.split(jnp.zeros(x.shape[0] * 3), np.cumsum([x.shape[0], x.shape[0]])),
    "widths": lambda x: jnp.pad(x, np.array([0, x.shape[0]])),
    "one number": lambda x: jnp.eye(2, np.array(x.shape[0])),
    "an element": lambda x: jnp.zeros(np.array(x.shape)[0].item()),
    "a list": lambda x: jnp.zeros(np.array([x.shape, x.shape]).tolist()[1]),
    "in turn": lambda x: [jnp.zeros(d) for d in np.array(x.shape)],
    "a tuple": lambda x: jnp.zeros(tuple(np.array(x.shape) + 1)),
    "a slice": lambda x: (x[:np.int64(x.shape[0] // 2)], x[-np.int8(2):]),
    "rounds": lambda x: jax.lax.scan(lambda c, _: (c + 1.0, None), 0.0, None, length=np.int64(x.shape[0])),
}
OF_NUMBERS = {
    "shape": lambda x, k: jnp.zeros((k, 3)) + x[0],
    "slice": lambda x, k: (x[:k], x[-k:], x.at[:k].set(0)),
    "both": lambda x, k: jnp.zeros(k) * k,
    "largest": lambda x, k: jax.lax.top_k(x, k),
    "gradient": lambda x, k: jax.grad(lambda y: jnp.sum(y[:k] ** 2))(x),
    "vmap": lambda x, k: jax.vmap(lambda y: jnp.zeros(k) + y)(x),
    "loop": lambda x, k: jax.lax.fori_loop(0, k, lambda i, c: c + x[i], 0.0),
    "range": lambda x, k: x[0] + jnp.array(list(range(k - k + 3))),
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_of_sizes(name):
    compiled_like_plain(OF_SIZES[name], [(jnp.arange(n * 1.0),) for n in SIZES], 2)


@pytest.mark.parametrize("kind", [np.int64, np.int32])
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_of_numbers(name, kind):
    compiled_like_plain(OF_NUMBERS[name], [(jnp.arange(24.0), kind(n)) for n in SIZES], 2)


@pytest.mark.parametrize("use", [lambda x: jnp.arange(np.uint8(x.shape[0])),
                                 lambda x: jnp.full(np.int64(x.shape[0]), np.int64(x.shape[0])),
                                 lambda x: jnp.full(np.int64(x.shape[0]), 1) * jnp.full((), np.int64(x.shape[0]))])
def test_dtypes_stay(use):
    """An unsigned number, and one that is an element too, have a dtype that Python's ints have not."""
    made = dynacomp.jit(use)
    for n in (5, 6, 7, 8):
        want, got = use(jnp.ones(n)), made(jnp.ones(n))
        assert (want.dtype, want.weak_type) == (got.dtype, got.weak_type) and (want == got).all()


def test_exceptions_stay():
    """Where no size is possible the call raises what it raises in plain JAX."""
    def program(x, k):
        try:
            return jnp.zeros(k - 10) + x
        except (TypeError, ValueError) as error:
            return type(error).__name__

    made = dynacomp.jit(program)
    for n in (11, 12, 13, 4, 14):
        want, got = program(jnp.ones(()), np.int64(n)), made(jnp.ones(()), np.int64(n))
        assert np.array_equal(want, got), n
