"""What a callback inside a compiled region raises comes out as eager JAX has it, with the same side effects."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp import notices
from dynacomp.capture._native import RunPlainly
from dynacomp.driver.calling_back import giving_up

SCALES = (1.0, -1.0, 2.0, -3.0, 3.0)


def outcome(fn, *args):
    """The result, or the type of the exception."""
    try:
        return np.asarray(fn(*args)).tolist()
    except Exception as error:
        return type(error), "negative" in str(error)


def check(fn, breaks=0, captures=1):
    dynacomp.reset()
    compiled = dynacomp.jit(fn)
    for n in (3, 3, 4, 5):
        for scale in SCALES:
            assert outcome(compiled, jnp.ones(n) * scale) == outcome(fn, jnp.ones(n) * scale)
    stats = dynacomp.stats()
    assert stats["frames_captured"] <= 2 * captures and len(stats["breaks"]) == breaks, stats
    assert stats["regions"].keys() == {"cpp"} and not stats["frames_eager"]


def test_a_check_of_equinox():
    def fn(x):
        return eqx.error_if(x, jnp.any(x < 0), "negative") * 2

    check(fn)
    with pytest.raises(RuntimeError, match="negative") as raised:
        dynacomp.jit(fn)(-jnp.ones(3))
    assert type(raised.value).__name__ == "EquinoxRuntimeError"


def test_a_callback_of_the_programs():
    def positive(x):
        if (x < 0).any():
            raise ArithmeticError("negative")
        return np.sqrt(x)

    check(lambda x: jax.pure_callback(positive, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1)


def test_side_effects_happen_once():
    seen = []

    def fn(x):
        seen.append(len(seen))
        return eqx.error_if(x + 1, jnp.any(x < 0), "negative")

    compiled = dynacomp.jit(fn)
    for scale in SCALES:
        outcome(compiled, jnp.ones(3) * scale)
    assert seen == list(range(len(SCALES)))


def test_a_handler_in_the_program(capsys):
    def checked(x):
        return eqx.error_if(x, jnp.any(x < 0), "negative")

    def fn(x):
        y = x * 2
        print("before")
        try:
            y = checked(y) + 1
        except RuntimeError as error:
            return y * 0 if "negative" in str(error) else y
        return y

    check(fn, breaks=1, captures=3)


def test_interrupts_are_no_reason_to_start_again():
    def stop(*arrays):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        giving_up(stop, "file", 1)(jnp.ones(2))


def test_what_a_program_says_never_reaches_the_caller():
    assert not issubclass(RunPlainly, RuntimeError)
    compiled = dynacomp.jit(lambda x: eqx.error_if(x, x[0] < 0, "negative"))
    assert outcome(compiled, -jnp.ones(2))[0] is not RunPlainly
    assert outcome(lambda x: jnp.sum(compiled(x)), -jnp.ones(2))[0] is not RunPlainly


def test_what_no_callback_raised_is_told():
    dynacomp.reset()
    for error, told in ((RuntimeError("out of memory"), 1), (RuntimeError("CpuCallback error: negative"), 0)):
        def broken(*arrays, error=error):
            raise error

        with pytest.raises(RunPlainly):
            giving_up(broken, __file__, 1 + told)(jnp.ones(2))
        assert sum(n.line == 1 + told and "plain Python" in n.reason for n in notices.told()) == told
