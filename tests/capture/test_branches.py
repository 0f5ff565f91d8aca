"""`if` on arrays: a `cond` node where that is sound, a graph break everywhere else."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture import frame


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setattr(frame, "strict_errors", True)
    dynacomp.reset()


def both_sides(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y + 1


def both_return(x):
    if jnp.any(x > 2):
        return x * 2, x.sum()
    return x - 1, x.sum() * 0


def nested(x):
    if x[0] > 1:
        if x[1] > 2:
            r = x * 10
        else:
            r = x * 5
    else:
        r = -x
    return r * 1


def effect(x, log):
    if x.sum() > 0:
        log.append(1)
        return x * 1
    log.append(2)
    return -x


def other_types(x):
    if x.sum() > 0:
        y = 1
    else:
        y = x * 1
    return y


def other_weak_type(x):
    if x.sum() > 0:
        y = jnp.asarray(1.0)
    else:
        y = x.sum()
    return y * jnp.ones((), jnp.bfloat16)


def raising(x):
    if x.sum() > 0:
        raise ValueError("positive")
    return x * 2


INPUTS = [jnp.array([3.0, 1.0]), jnp.array([3.0, 5.0]), jnp.array([-3.0, 1.0])]


def compare(fn, x, *rest):
    got = dynacomp.jit(fn, backend="xla")(x, *rest)
    want = fn(x, *rest)
    for a, b in zip(got if isinstance(got, tuple) else [got], want if isinstance(want, tuple) else [want]):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b)
        if not isinstance(a, int):
            assert (a.dtype, a.weak_type) == (b.dtype, b.weak_type)


@pytest.mark.parametrize("fn", [both_sides, both_return, nested])
def test_pure_sides_become_a_cond(fn):
    for x in INPUTS:
        compare(fn, x)
    stats = dynacomp.stats()
    assert stats["breaks"] == {} and stats["recompiles"] == 0


@pytest.mark.parametrize("fn", [other_types, other_weak_type])
def test_sides_of_other_kinds_break(fn):
    for x in INPUTS:
        compare(fn, x)
    assert dynacomp.stats()["breaks"]["branch"] >= 1


def test_side_effects_break():
    for x in INPUTS:
        ours, theirs = [], []
        np.testing.assert_allclose(dynacomp.jit(effect, backend="xla")(x, ours), effect(x, theirs))
        assert ours == theirs
    assert dynacomp.stats()["breaks"]["branch"] >= 1


def test_a_side_that_raises():
    compiled = dynacomp.jit(raising, backend="xla")
    with pytest.raises(ValueError, match="positive"):
        compiled(INPUTS[0])
    np.testing.assert_allclose(compiled(INPUTS[2]), INPUTS[2] * 2)


def test_an_input_that_is_returned_stays_itself():
    @dynacomp.jit
    def maybe(x):
        if x.sum() > 0:
            x = x * 2
        return x

    assert maybe(INPUTS[2]) is INPUTS[2]
    assert maybe(INPUTS[0]) is not INPUTS[0]
