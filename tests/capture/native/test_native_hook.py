"""The frame hook: who is captured, what runs instead, and that nothing else notices."""

import asyncio
import cProfile
import gc
import os
import subprocess
import sys
import threading
import traceback
import weakref

import pytest

from dynacomp.capture import _native as native

from .native_kit import active, direct, isolated  # noqa: F401

pytestmark = pytest.mark.usefixtures("isolated")


def double(x, y=2):
    return x * y


def caller(x):
    return double(x) + 1


def replaced(x, y):
    return ("replaced", x, y)


class Recorder:
    """An on_miss that notes what it is asked, and answers from a dict of function name → answer."""

    def __init__(self, **answers):
        self.answers, self.seen = answers, []

    def __call__(self, fn, code, locals):
        assert fn.__code__ is code and not native.is_active()
        self.seen.append((fn.__name__, locals))
        return self.answers.get(fn.__name__, True)

    @property
    def names(self):
        return [name for name, _ in self.seen]


def code_entry(fn, code, steps=()):
    entry = native.Entry(native.GuardProgram(steps), fn_code=code)
    native.add_entry(fn.__code__, entry)
    return entry


def test_nothing_is_asked_outside():
    native.set_callback(record := Recorder())
    assert caller(1) == 3
    native.set_callback(None)
    assert record.seen == []


def test_every_frame_is_offered_with_its_locals():
    record = Recorder()
    with active(record):
        assert caller(5) == 11
        assert (lambda *a, k=1, **kw: (a, k, kw))(1, 2, z=3) == ((1, 2), 1, {"z": 3})
    assert record.seen == [("caller", (5,)), ("double", (5, 2)), ("<lambda>", (1, (1, 2), {"z": 3}))]


def test_none_runs_a_frame_and_its_callees_plainly():
    record = Recorder(caller=None)
    with active(record):
        assert caller(5) == 11 and double(1) == 2
    assert record.names == ["caller", "double"]


def test_a_code_entry_replaces_the_frame():
    entry = code_entry(double, replaced.__code__, [("local", 0, 0), ("is_type", 0, int)])
    with active():
        for _ in range(100):
            assert double(3) == ("replaced", 3, 2)
        assert double("a") == "aa"
        with pytest.raises(TypeError):
            caller(3)
    assert double(3) == 6 and entry.hits == 101


def test_a_direct_entry_replaces_the_frame():
    direct(double, lambda x: x + 1000, [("local", 0, 0), ("is_type", 0, int)], inputs=(0,))
    with active(record := Recorder()):
        assert [caller(i) for i in range(50)] == [i + 1001 for i in range(50)]
    assert set(record.names) <= {"caller", "<listcomp>"}  # the program itself is not captured


def test_an_answer_runs_at_once():
    def compile(fn, code, locals):
        return native.Entry(native.GuardProgram([]), fn_code=replaced.__code__) if fn is double else True

    with active(compile):
        assert double(1) == ("replaced", 1, 2)
    assert native.entries(double.__code__) == []


def test_an_answer_that_does_not_hold_is_told_and_runs_plainly():
    wrong = native.Entry(native.GuardProgram([("local", 0, 0), ("eq", 0, 99)]), fn_code=replaced.__code__)
    with active(Recorder(double=wrong)), pytest.warns(RuntimeWarning, match="double.*guard 1"):
        assert double(1) == 2
    assert native.counters()["rejected"] == 1


def test_errors_of_the_callbacks_reach_the_caller():
    def broken(*args):
        raise LookupError("from the callback")

    for callbacks in [(broken, None), (None, broken), (lambda *a: 3, None)]:
        with pytest.raises((LookupError, TypeError)), active(*callbacks):
            double(1)


def test_what_the_recursion_limit_ends_is_asked_again():
    """Neither the filter nor the callback had room; the program had."""
    seen = []

    def too_deep(*args):
        seen.append(len(args))
        raise RecursionError

    with active(too_deep, lambda code: True):
        assert caller(1) == 3
    with active(too_deep, too_deep):
        assert (lambda x: x + double(x))(1) == 3  # `double` has been asked for
        assert (lambda x: x + 1)(1) == 2
    assert seen.count(3) >= 2 and seen.count(1) == 2
    with active(lambda fn, *args: fn is not caller or 1 / 0), pytest.raises(ZeroDivisionError):
        caller(1)


def test_the_filter_is_asked_once_per_code():
    asked = []

    def only_double(code):
        asked.append(code.co_name)
        return code.co_name == "double"

    with active(record := Recorder(), only_double):
        for _ in range(3):
            caller(1)
    assert asked == ["caller", "double"] and record.names == ["double"] * 3
    assert native.is_skipped(caller.__code__)


def test_skip_marks():
    native.mark_skip(caller.__code__)
    with active(record := Recorder()):
        caller(1)
    assert record.names == ["double"]
    native.mark_skip(caller.__code__, True)
    with active(record := Recorder()):
        caller(1)
        double(1)
    assert record.names == ["double"]
    assert native.counters()["skipped"] == 4  # the two calls, and `__exit__` twice


def test_run_eager():
    with active(record := Recorder()):
        assert native.run_eager(caller, (1,)) == 3 and native.run_eager(double, (2,), {"y": 5}) == 10
        assert native.is_active()
    assert record.seen == []
    with pytest.raises(ZeroDivisionError), active(record):
        native.run_eager(divmod, (1, 0))
    assert not native.is_active() and record.seen == []
    with pytest.raises(RuntimeError):
        native.leave()


def test_disabled_by_stance():
    direct(double, lambda: "compiled")
    assert native.set_enabled(False) is True
    try:
        with active():
            assert double(1) == 2
    finally:
        assert native.set_enabled(True) is False
    with active():
        assert double(1) == "compiled"


def test_generators_and_coroutines_run_as_ever():
    def numbers(n):
        for i in range(n):
            try:
                yield double(i)
            except ValueError:
                yield "caught"

    async def work(x):
        await asyncio.sleep(0)
        return double(x)

    async def stream():
        yield double(1)

    async def all_of_it():
        return [await work(3), [x async for x in stream()]]

    direct(double, lambda x: (x,), [("local", 0, 0)], inputs=(0,))
    with active():
        assert list(numbers(3)) == [(0,), (1,), (2,)]
        suspended = numbers(2)
        assert next(suspended) == (0,)
        assert suspended.throw(ValueError()) == "caught"
        assert asyncio.run(all_of_it()) == [(3,), [(1,)]]
    assert next(suspended) == 2  # the rest runs outside
    assert native.counters()["hits"] == 6  # of `double`, while the hook was in place


def test_exceptions_and_tracebacks():
    def failing(x, y):
        raise ValueError(x)

    code_entry(double, failing.__code__)
    with active():
        for _ in range(10):
            with pytest.raises(ValueError, match="7") as caught:
                caller(7)
    names = [frame.name for frame in traceback.extract_tb(caught.tb)]
    assert names[-2:] == ["caller", "failing"]


def test_recursion_is_limited_as_ever():
    def deep(n):
        return deep(n + 1)

    def again(n):
        return deep(n + 1)  # noqa: F821

    for entry in (None, deep):
        if entry:
            code = (lambda deep: lambda n: deep(n + 1))(deep).__code__
            native.add_entry(deep.__code__, native.Entry(native.GuardProgram([]), fn_code=code))
        with active(lambda *a: True), pytest.raises(RecursionError):
            deep(0)
    with active():
        assert double(2) == 4


def test_a_debugger_sees_plain_python():
    direct(double, lambda: "compiled")
    seen = []

    def trace(frame, event, arg):
        seen.append(frame.f_code.co_name)
        return trace

    before = sys.gettrace()
    with active():
        sys.settrace(trace)
        try:
            value = double(2)
        finally:
            sys.settrace(before)
    assert value == 4 and "double" in seen and native.counters()["traced"] >= 1


def test_a_profiler_does_not_disturb():
    direct(double, lambda: "compiled")
    with active(), cProfile.Profile():
        assert caller.__name__ and double(2) == "compiled"


def test_other_threads_are_left_alone():
    direct(double, lambda: "compiled")
    results, go, done = [], threading.Event(), threading.Event()

    def other():
        go.wait(10)
        results.append(double(4))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with active():
        go.set()
        assert done.wait(10) and double(4) == "compiled"
    thread.join()
    assert results == [8]


def test_many_threads_at_once():
    def work(x):
        return (double(x), x)

    direct(double, lambda x: -x, [("local", 0, 0), ("is_type", 0, int)], inputs=(0,))
    errors = []

    def run(seed):
        try:
            for i in range(300):
                with active_plain():
                    assert work(seed + i) == (-(seed + i), seed + i)
                assert work(seed + i) == (2 * (seed + i), seed + i)
                if i % 50 == seed:
                    native.clear(work.__code__)
        except BaseException as error:
            errors.append(error)

    class active_plain:
        def __enter__(self):
            native.enter()

        def __exit__(self, *exc):
            native.leave()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_forked_child_has_one_thread():
    direct(double, lambda: "compiled")
    ready, stop = threading.Event(), threading.Event()

    def hold():
        native.enter()
        ready.set()
        stop.wait(10)
        native.leave()

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait(10)
    child = os.fork()
    if child == 0:
        with active():
            inside = double(1)
        os._exit(0 if (inside, double(1)) == ("compiled", 2) else 1)
    _, status = os.waitpid(child, 0)
    stop.set()
    thread.join()
    assert status == 0


def test_arguments_are_released():
    class Thing:
        pass

    def take(thing, more=None):
        return 1

    alive = []
    for program in (None, lambda: 2):
        native.clear(take.__code__)
        if program:
            direct(take, program)
        with active():
            for _ in range(20):
                thing = Thing()
                alive.append(weakref.ref(thing))
                take(thing, more=thing)
                del thing
    gc.collect()
    assert all(ref() is None for ref in alive)


def test_class_bodies_and_exec_run_as_ever():
    with active(Recorder()):
        class Made:
            attribute = double(2)
        namespace = {}
        exec("y = [i for i in range(3)]", namespace)
        assert Made.attribute == 4 and namespace["y"] == [0, 1, 2]


def test_a_deep_stack_of_replaced_frames():
    """Frames that sit at the start of a chunk of CPython's frame stack are popped right."""
    def deep(n, *rest):
        a = b = c = d = n
        return n if n == 0 else (deep(n - 1, *range(30)) + double(a * 0 + b * 0 + c * 0 + d * 0))

    direct(double, lambda x: x, [("local", 0, 0)], inputs=(0,))
    limit = sys.getrecursionlimit()
    with active():
        for n in range(0, min(limit - 200, 700), 7):
            assert deep(n) == 0


def test_a_program_may_recurse_deeper_than_the_c_stack_allows():
    """As plain Python can, once its recursion limit is raised."""
    def deep(n):
        return 0 if n == 0 else 1 + deep(n - 1)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(60_000)
    try:
        for on_miss in (lambda *a: True, lambda *a: None):
            with active(on_miss):
                assert deep(50_000) == 50_000
        assert native.counters()["deep"] >= 2
        with active():
            assert double(2) == 4 and native.counters()["frames"]
    finally:
        sys.setrecursionlimit(limit)


OTHER_HOOK = """
import ctypes, os
from dynacomp.capture import _native as native

api = ctypes.pythonapi
interp, get, put = (api.PyInterpreterState_Get, api._PyInterpreterState_GetEvalFrameFunc,
                    api._PyInterpreterState_SetEvalFrameFunc)
interp.restype = get.restype = ctypes.c_void_p
get.argtypes, put.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_void_p]
plain = get(interp())
native.enter()
ours = get(interp())
native.leave()
assert get(interp()) == plain != ours
native.enter()
put(interp(), plain)  # somebody else takes over while we are active
native.leave()
assert get(interp()) == plain  # and keeps what it put there
put(interp(), ours)  # and then puts back what it found
assert (lambda: 5)() == 5
native.enter()
native.leave()
assert get(interp()) == plain

class Last:  # when the interpreter has ended, nobody is asked
    def __del__(self, plain=lambda write=os.write: write(1, b"plain"), end=lambda *call, leave=os._exit: leave(3),
                compiled=native.CompiledFunction):
        compiled(plain, end)()

last = Last()
"""


def test_other_hooks_are_respected():
    assert subprocess.run([sys.executable, "-c", OTHER_HOOK], check=True, stdout=subprocess.PIPE).stdout == b"plain"


TWO_HOOKS = """
import importlib.util, shutil, sys
from dynacomp.capture import _native as one

copy = shutil.copy(one.__file__, sys.argv[1])
spec = importlib.util.spec_from_file_location("other._native", copy)
two = importlib.util.module_from_spec(spec)
spec.loader.exec_module(two)

def frames():
    return one.counters()["frames"], two.counters()["frames"]

def double(x):
    return 2 * x

def check(*seen):  # does each of them see the frame of double?
    before = frames()
    assert double(2) == 4
    after = frames()
    # between the two readings: the frame of double, and that of frames()
    assert [a - b for a, b in zip(after, before)] == [2 * s for s in seen], (after, before)

one.enter()
check(1, 0)
two.enter()
check(1, 1)
one.leave()
check(0, 1)
one.enter()  # now each has the other underneath
check(1, 1)
two.leave()
check(1, 0)
one.leave()
check(0, 0)
"""


def test_two_hooks_hold_each_other(tmp_path):
    subprocess.run([sys.executable, "-c", TWO_HOOKS, str(tmp_path)], check=True)


def test_a_watcher_is_told_of_functions_until_it_declines():
    told = []

    def watcher(fn):
        told.append(fn.__name__)
        return fn is caller

    assert native.run_watched(lambda: [caller(n) for n in range(2)], watcher) == ([caller(0), caller(1)], True)
    caller(3)
    assert [name for name in told if name in ("caller", "double")] == ["caller", "double", "caller"]


def test_what_a_watcher_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        native.run_watched(lambda: caller(1), lambda fn: 1 / (fn is not caller))
    assert not native.is_active()
