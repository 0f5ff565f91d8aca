"""What signal handlers raise while a first call is captured and compiled belongs to the program."""

import functools
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
import weakref
from contextlib import contextmanager

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture.base.interrupts import by_handler, interrupting, ours, suppressing, surfacing

X = np.linspace(-2, 2, 60, dtype=np.float32).reshape(6, 10)


class Late(Exception):
    """A class of the program's own."""


class Handler:
    def __call__(self, signum, frame):
        raise Late

    def method(self, signum, frame):
        raise Late


def plain(signum, frame):
    raise Late


def unregisters(signum, frame):
    signal.signal(signum, signal.SIG_DFL)
    raise Late


def any_arguments(*args):
    signal.signal(args[0], signal.SIG_DFL)
    raise Late


def forgets(signum, frame):
    del signum, frame
    raise Late


@contextmanager
def handled_by(handler):
    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("handler", [
    plain, unregisters, any_arguments, forgets, Handler(), Handler().method, functools.partial(plain),
    lambda *args: plain(*args)], ids=range(8))
def test_a_handlers_exception_is_known(handler):
    with handled_by(handler), pytest.raises(Late):
        try:
            signal.raise_signal(signal.SIGALRM)
        except ours(Exception):
            pytest.fail("taken for our own")


def test_what_a_library_made_of_it_is_the_programs_too():
    with handled_by(plain), pytest.raises(RuntimeError):
        try:
            try:
                signal.raise_signal(signal.SIGALRM)
            except Late as error:
                raise RuntimeError("cannot compile") from error
        except ours(Exception):
            pytest.fail("taken for our own")


def test_other_exceptions_are_ours():
    def takes(number, frame):
        raise Late

    with handled_by(plain):
        for call in (lambda: takes(3, None), lambda: takes(-1, sys._getframe()), lambda: int("x")):
            try:
                call()
            except ours(Exception) as error:
                assert not by_handler(error)


def test_an_exception_that_ours_has_looked_at_holds_nothing():
    def looks(one, two):
        held = Handler()
        try:
            raise Late
        except Late as error:
            by_handler(error)
        return weakref.ref(held)

    gc.disable()
    try:
        assert types.FunctionType(looks.__code__, {**globals(), "__name__": "dynacomp.looks"})(1, 2)() is None
    finally:
        gc.enable()


class Callback:
    """Something that Python calls while it collects garbage."""

    def __call__(self, phase, info):
        signal.raise_signal(signal.SIGALRM)


def test_what_is_raised_while_garbage_is_collected_surfaces():
    callback = Callback()
    with handled_by(plain), pytest.raises(Late), surfacing():
        gc.callbacks.append(callback)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(callback)


KEPT = ("", ".so", ".o", ".record")  # what the cache has; what is being written has other names


def test_what_is_suppressed_is_ours_alone():
    with suppressing(OSError, ValueError):
        raise TimeoutError
    with suppressing(OSError), suppressing(ValueError):
        raise OSError
    with handled_by(plain), pytest.raises(Late), suppressing(Exception):
        signal.raise_signal(signal.SIGALRM)


def test_an_error_in_the_place_of_a_handlers_gives_way_to_it():
    def fails():
        try:
            signal.raise_signal(signal.SIGALRM)
        finally:
            {}["cleared already"]

    with handled_by(plain):
        try:
            fails()
        except KeyError as error:
            assert type(interrupting(error, None)) is Late
        try:
            signal.raise_signal(signal.SIGALRM)
        except Late as handled:  # the program's, and over
            try:
                {}["an error of its own"]
            except KeyError as error:
                assert interrupting(error, handled) is error


def first_call(folder, numbers):
    """A function that is captured anew, with a break and a loop, and built in an empty cache."""
    def f(x, scale):
        total = x * scale
        for k in range(5):
            total = jnp.where(total > k, jnp.sin(total), total + numbers[k % 3])
        dynacomp.graph_break()
        return jnp.cumsum(total, axis=1) / (1 + jnp.max(total))

    return f, dynacomp.jit(f, options={"cache_dir": folder})


def running_compilers():
    """The compilers that processes of this session run."""
    found = subprocess.run(["ps", "-o", "pid=,args=", "--sid", str(os.getsid(0))], capture_output=True, text=True)
    return [line for line in found.stdout.splitlines() if "kernel.cc" in line]


def raise_late(signum, frame):
    raise TimeoutError("the program's own limit")


def interrupted(compiled, delay):
    """Whether the alarm rang during a call; its exception must then come out of it."""
    rang = []

    def handler(signum, frame):
        rang.append(signum)
        raise_late(signum, frame)

    with handled_by(handler):
        signal.setitimer(signal.ITIMER_REAL, delay)
        try:
            compiled(jnp.asarray(X), 2.0)
        except TimeoutError:
            assert rang
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert not rang, "the exception was swallowed"
        return False


def seconds_of_a_first_call(folder):
    compiled = first_call(folder, (1.0, 2.0, 3.0))[1]
    dynacomp.reset()
    start = time.perf_counter()
    compiled(jnp.asarray(X), 2.0)
    return time.perf_counter() - start


@pytest.mark.slow
def test_a_timeout_comes_out_of_a_first_call_whenever_it_rings(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # of the compiler
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first_call(tmp_path / "warm", (1.0, 2.0, 3.0))[1](jnp.asarray(X), 2.0)
    whole = min(seconds_of_a_first_call(tmp_path / f"timed{k}") for k in range(3))
    rang = 0
    for k in range(24):
        plainly, compiled = first_call(tmp_path / f"cache{k}", (1.0, 2.0, 3.0))
        dynacomp.reset()
        rang += interrupted(compiled, whole * (k + 0.5) / 24)
        assert not running_compilers()
        assert not [p for p in tmp_path.rglob("*") if p.name.startswith("dynacomp-") or p.suffix not in KEPT]
        dynacomp.reset()
        np.testing.assert_allclose(compiled(jnp.asarray(X), 2.0), plainly(jnp.asarray(X), 2.0), rtol=1e-5, atol=1e-6)
        stats = dynacomp.stats()
        assert stats["frames_captured"] == 2 and not stats["frames_eager"] and stats["regions"] == {"cpp": 2}, stats
    assert rang >= 12
