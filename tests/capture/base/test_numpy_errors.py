"""`base.numpy_errors`: NumPy's way with floating-point errors is the program's again, whatever ends a call."""

import signal
import time

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.base.numpy_errors import ignoring, raising


def test_raises_or_ignores_and_leaves_nothing_behind():
    before = np.geterr()
    with pytest.raises(FloatingPointError):
        raising(np.divide, 1.0, 0.0)
    assert ignoring(np.divide, 1.0, 0.0) == np.inf
    assert np.geterr() == before


def test_an_alarm_in_a_guard_leaves_no_state_of_numpys_behind():
    """With `np.errstate` in the guards, one of 60 alarms left "raise" behind. They ring in the guards, which take most
    of such a call, and not in JAX, whose own state some would spoil."""
    compiled = dynacomp.jit(lambda w, rows: w * np.sort(rows, 0)[0] + rows.sum(0)[0], backend="eager",
                            options={"measure": False})
    given = [(jnp.ones(3), np.ones((n, 3), np.float32)) for n in (9000, 9001, 9002)]
    for args in given:
        compiled(*args)
    started = time.perf_counter()
    np.sort(given[0][1], 0)
    guards, came, state = time.perf_counter() - started, 0, np.geterr()

    def ring(signum, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    try:
        for k in range(800):
            try:
                signal.setitimer(signal.ITIMER_REAL, guards * (k % 400 + 1) / 400)
                compiled(*given[k % 3])
                signal.setitimer(signal.ITIMER_REAL, 0)
            except TimeoutError:
                came += 1
            assert np.geterr() == state
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert came > 100
