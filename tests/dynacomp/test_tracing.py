"""Profilers, debuggers and measurers of coverage beside compiled code: they see it all, and change nothing."""

import cProfile
import faulthandler
import sys
import threading

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

X = jnp.arange(3.0)


def whole(a):
    return a * 2 + 1


def broken(a):
    b = a + 1
    print(end="")
    return whole(b)


def looping(a):
    for i in range(3):
        print(end="")
        a = whole(a) + i
    return a


def generating(a):
    for i in range(3):
        print(end="")
        yield a + i


def catching(a):
    try:
        raise KeyError(len(a))
    except KeyError as error:
        print(end="")
        return a + error.args[0]


def running(a):
    return list(generating(a))


PROGRAMS = (whole, broken, looping, catching, running)
CODES = {fn.__code__ for fn in (*PROGRAMS, generating)}


def same(compiled, plain):
    for got, want in zip(compiled if isinstance(compiled, list) else [compiled],
                         plain if isinstance(plain, list) else [plain], strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.fixture(params=PROGRAMS, ids=lambda fn: fn.__name__)
def pair(request):
    dynacomp.reset()
    return request.param, dynacomp.jit(request.param, backend="eager")


def test_under_a_profiler(pair):
    """From the first call on, and around calls that are compiled already."""
    plain, compiled = pair
    with cProfile.Profile():
        same(compiled(X), plain(X))
        same(compiled(X), plain(X))
    with cProfile.Profile():
        same(compiled(X), plain(X))
        same(compiled(jnp.ones(5)), plain(jnp.ones(5)))
    stats = dynacomp.stats()
    assert stats["graphs"] >= 2 and not stats["frames_eager"] and set(stats["breaks"]) <= {"effect"}


def test_a_profiler_that_calls_compiled_code(pair):
    plain, compiled = pair
    other = dynacomp.jit(whole, backend="eager")
    inside = []

    def look(frame, event, arg):
        if frame.f_code in CODES and not inside:
            inside.append(event)
            same(other(X), X * 2 + 1)
            inside.clear()

    want = plain(X)
    sys.setprofile(look)
    try:
        got = [compiled(X) for _ in range(3)]
    finally:
        sys.setprofile(None)
    for one in got:
        same(one, want)


def events(fn, *args):
    """What a tracer sees of the code of this file, line by line."""
    seen = []

    def trace(frame, event, arg):
        if frame.f_code in CODES:
            seen.append((frame.f_code.co_name, frame.f_lineno, event))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = fn(*args)
    finally:
        sys.settrace(before)
    return result, seen


def test_under_a_debugger(pair):
    """It sees every line, as it does without us, whether there are entries or not."""
    plain, compiled = pair
    want = events(plain, X)
    for _ in range(2):
        got = events(compiled, X)
        same(got[0], want[0])
        assert got[1] == want[1]
        compiled(X)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in Python 3.12")
@pytest.mark.parametrize("everywhere", [True, False], ids=["all code", "this code"])
def test_under_monitoring(pair, everywhere):
    """What measures coverage by `sys.monitoring` sees the lines too."""
    plain, compiled = pair
    tool, lines = sys.monitoring, []

    def line(code, number):
        lines.append(number) if code in CODES else None

    def watched(fn):
        lines.clear()
        tool.use_tool_id(tool.COVERAGE_ID, "test")
        tool.register_callback(tool.COVERAGE_ID, tool.events.LINE, line)
        if everywhere:
            tool.set_events(tool.COVERAGE_ID, tool.events.LINE)
        else:
            for code in CODES:
                tool.set_local_events(tool.COVERAGE_ID, code, tool.events.LINE)
        try:
            return fn(X), lines.copy()
        finally:
            tool.set_events(tool.COVERAGE_ID, 0)
            for code in CODES:
                tool.set_local_events(tool.COVERAGE_ID, code, 0)
            tool.free_tool_id(tool.COVERAGE_ID)

    want, shown = watched(plain)
    compiled(X)
    got, seen = watched(compiled)
    same(got, want)
    assert seen == shown and seen
    same(compiled(X), want)


def test_tracing_starts_and_ends_in_the_middle():
    """A tracer that the compiled code itself sets."""
    def f(a, hook, install):
        b = a + 1
        install(hook)
        c = whole(b)
        install(None)
        return c * b

    compiled = dynacomp.jit(f, backend="eager")
    for install in (sys.setprofile, sys.settrace) * 2:
        same(compiled(X, lambda *event: None, install), f(X, lambda *event: None, install))


def test_a_tracer_that_raises():
    def trace(frame, event, arg):
        if frame.f_code is broken.__code__ and event == "line":
            raise RuntimeError("no further")
        return trace

    compiled = dynacomp.jit(broken, backend="eager")
    for _ in range(3):
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with pytest.raises(RuntimeError, match="no further"):
                compiled(X)
        finally:
            sys.settrace(before)
        same(compiled(X), broken(X))


@pytest.mark.slow
def test_threads_under_a_profiler_and_stacks_shown_meanwhile(tmp_path):
    compiled = [dynacomp.jit(fn, backend="eager") for fn in PROGRAMS]
    wrong, ended = [], threading.Event()

    def work():
        try:
            for n in range(30):
                fn = n % len(PROGRAMS)
                same(compiled[fn](jnp.ones(n % 4 + 1)), PROGRAMS[fn](jnp.ones(n % 4 + 1)))
        except BaseException as error:
            wrong.append(error)

    threading.setprofile(lambda *event: None)
    threads = [threading.Thread(target=work) for _ in range(4)]
    with open(tmp_path / "stacks", "w") as file:
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            faulthandler.dump_traceback(file, all_threads=False)
            assert sys._current_frames()
            ended.wait(0.005)
    threading.setprofile(None)
    assert not wrong
