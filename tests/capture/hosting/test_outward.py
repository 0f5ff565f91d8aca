"""Code that a library runs and that is seen outside: it happens at each call, as often and as it does in eager JAX."""

import datetime
import io
import logging
import os
import pathlib
import pprint
import random
import subprocess
import sys
import time
import traceback
from sys import stderr
from time import perf_counter

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.hosting.outward import is_outward, is_showing

linen = pytest.importorskip("flax.linen")
LOG = logging.getLogger(__name__)
SEEN: list[str] = []


class Seeing(logging.Handler):
    def emit(self, record):
        SEEN.append(record.getMessage())


class Stream(io.StringIO):
    def write(self, text):
        SEEN.append(text)
        return len(text)


STREAM = Stream()


def logged(x):
    LOG.info("of %d", len(x))


def logged_by_whom_it_has(x, log=LOG):
    log.getChild("child").warning("an array: %s", x)


def logged_at_the_root(x):
    logging.error("mean %s", x.mean())


def written(x):
    sys.stdout.write("called")


def written_to_an_imported_stream(x):
    stderr.write("called")


def written_to_a_stream_of_its_own(x):
    STREAM.write(f"{len(x)}")


def shown(x):
    pprint.pprint({"n": len(x)}, stream=STREAM)


def traced_back(x):
    traceback.print_stack(file=STREAM)


def listed(x):
    SEEN.append(len(os.listdir("/")))


def looked_up(x, path=pathlib.Path("/")):
    SEEN.append(path.exists())


def run(x):
    SEEN.append(subprocess.run(["true"]).returncode)


@pytest.mark.parametrize("what", [
    logged, logged_by_whom_it_has, logged_at_the_root, written, written_to_an_imported_stream,
    written_to_a_stream_of_its_own, shown, traced_back, listed, looked_up, run])
def test_it_is_seen_at_each_call(what, capfd):
    class Watched(linen.Module):
        def __call__(self, x):
            what(x)
            return x * 2

    def seen(called, x):
        SEEN.clear()
        assert jnp.allclose(called(x), x * 2 + 1)
        return [*SEEN] if what is not traced_back else bool(SEEN), capfd.readouterr().out

    def program(x):
        return Watched().apply({}, x) + 1

    dynacomp.reset()
    compiled, handler = dynacomp.jit(program, backend="eager"), Seeing()
    logging.root.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        for n in (2, 3, 4, 2, 5):
            ours, (eager, out) = seen(compiled, jnp.arange(float(n))), seen(program, jnp.arange(float(n)))
            notices = [t for t in ours[0] if "dynacomp: " not in str(t)] if type(ours[0]) is list else ours[0]
            assert (notices, ours[1]) == (eager, out) and (eager or out or what is written_to_an_imported_stream)
    finally:
        logging.root.removeHandler(handler)
        LOG.setLevel(logging.NOTSET)
    assert dynacomp.stats()["frames_captured"] <= 4 and set(dynacomp.stats()["breaks"]) == {"effect"}


@pytest.mark.parametrize("asked", [
    lambda: perf_counter(), lambda: time.monotonic(), lambda: random.random(),
    lambda: datetime.datetime.now().timestamp()])
def test_clocks_are_asked_at_each_call(asked):
    class Clocked(linen.Module):
        def __call__(self, x):
            return x * 0 + asked() % 1000

    compiled = dynacomp.jit(lambda x: Clocked().apply({}, x) + 1, backend="eager")
    assert len({float(compiled(jnp.ones(2))[0]) for _ in range(6)}) > 3


def test_what_a_level_lets_through_from_some_call_on():
    class Debugged(linen.Module):
        def __call__(self, x):
            LOG.debug("of %d", len(x))
            return x * 2

    dynacomp.reset()
    compiled, handler = dynacomp.jit(lambda x: Debugged().apply({}, x) + 1, backend="eager"), Seeing()
    LOG.addHandler(handler)
    counts = []
    try:
        for level in (logging.INFO, logging.INFO, logging.DEBUG, logging.DEBUG, logging.INFO):
            LOG.setLevel(level)
            SEEN.clear()
            compiled(jnp.ones(3))
            counts.append((len(SEEN), dynacomp.stats()["frames_captured"]))
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(logging.NOTSET)
    assert [seen for seen, _ in counts] == [0, 0, 1, 1, 0]
    assert counts[0][1] == counts[1][1] == 1 and not dynacomp.stats()["frames_eager"].get("recompile_limit")


def test_a_log_of_jaxs_own_costs_nothing():
    log, handler = logging.getLogger("jax"), Seeing()
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.DEBUG)

    class Plain(linen.Module):
        def __call__(self, x):
            return x * 2

    try:
        dynacomp.reset()
        assert jnp.allclose(dynacomp.jit(lambda x: Plain().apply({}, x) + 1, backend="eager")(jnp.ones(3)), 3.0)
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    assert not dynacomp.stats()["breaks"]


def test_what_is_outward():
    assert is_outward(sys, "sys", ("stdout",)) and not is_outward(sys, "sys", ("maxsize",))
    assert is_outward(os, "os", ("remove",)) and not is_outward(os, "os", ("path", "environ"))
    assert is_outward(time, "time", ()) and is_outward(print, "print", ()) and not is_outward(len, "len", ())
    assert is_showing(pprint.pprint) and not is_showing(pprint.pformat)
