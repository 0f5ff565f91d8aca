"""Woven stores that do the same to neighbours in memory."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.codegen.cpp import backend
from dynacomp.lowering.fuse.fusion import schedule
from dynacomp.lowering.primitives.translate import lower_function

MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


def image(*shape, dtype=np.uint8):
    return jnp.asarray(np.arange(np.prod(shape)).reshape(shape) * 7 % 251, dtype)


def normalised(x):
    return (x / 255 - MEAN) / STD, x.astype(jnp.float32) * STD


PROGRAMS = [
    (normalised, image(3, 37, 3)),
    (normalised, image(2, 5, 67, 3, dtype=np.int16)),
    (lambda x: (x * jnp.array([1, -2], jnp.bfloat16), x + 1), image(131, 2, dtype=jnp.bfloat16)),
    (lambda x: jnp.where(x > jnp.array([3, 4, 5, 6]), x, x * 2), image(77, 4, dtype=np.int32)),
    (lambda x: (x + jnp.array([1, 2j, 3j]), x - x.conj()), image(65, 3, dtype=np.complex64)),
    (lambda x: (x * MEAN).sum() + (x * STD), image(123, 3, dtype=np.float32)),
]


@pytest.mark.parametrize("fn, x", PROGRAMS)
def test_as_eager(fn, x):
    got, expected = dynacomp.jit(fn)(x), fn(x)
    for g, e in zip(got, expected) if isinstance(expected, tuple) else [(got, expected)]:
        assert g.dtype == e.dtype
        np.testing.assert_allclose(np.asarray(g).astype(complex), np.asarray(e).astype(complex), rtol=3e-6, atol=1e-6)


def test_no_lane_is_shuffled(tmp_path):
    plan = schedule(lower_function(normalised, image(64, 64, 3)))
    text = "".join(backend.compile(plan, plan.output_avals, {"cache_dir": str(tmp_path)}).source.values())
    assert text.count("zip_run<3>") == 2 and "strided<" not in text and "zip(" not in text
