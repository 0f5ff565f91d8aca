"""The world changes around a compiled function: globals, classes, configuration, threads, forks, signals."""

import functools
import gc
import os
import signal
import sys
import threading
import time
import warnings
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from tests.dynacomp.hostile_kit import outcome, same

X = jnp.arange(4.0)
jit = functools.partial(dynacomp.jit, backend="eager")
SCALE = 2.0


class Model:
    def __init__(self):
        self.k, self.w, self.parts = 1.0, jnp.ones(4), [1, 2]

    def __call__(self, a):
        return self.helper(self.w * a * self.k) + len(self.parts)

    def helper(self, a):
        return a + 1


def scaled(a):
    return a * SCALE


# How often each test's function is captured, with no graph break.
CAPTURES = {"test_globals": 4, "test_a_global_that_shadows_a_builtin": 2, "test_closures_defaults_and_code": 5,
            "test_attributes_and_methods_are_patched": 6, "test_libraries_are_patched": 2,
            "test_classes_of_libraries_are_patched": 2, "test_new_names_in_a_library_are_no_recompilation": 1,
            "test_functions_are_redefined": 12, "test_entries_die_with_what_they_guard": 1, "test_x64_is_toggled": 2,
            "test_debugging_settings": 1, "test_matmul_precision": 3, "test_a_debugger_sees_the_lines": 1}


@pytest.fixture(autouse=True)
def counted(request):
    dynacomp.reset()
    yield
    stats, captures = dynacomp.stats(), CAPTURES.get(request.function.__name__)
    assert captures is None or (stats["frames_captured"], stats["breaks"]) == (captures, {})


def agree(compiled, *args):
    assert outcome(compiled, args) == outcome(compiled.__wrapped__, args)


def test_globals(monkeypatch):
    f = jit(scaled)
    agree(f, X)
    for value in (3.0, 4, jnp.ones(4) * 7, "s", None):
        monkeypatch.setitem(globals(), "SCALE", value)
        agree(f, X)
    monkeypatch.delitem(globals(), "SCALE")
    agree(f, X)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    agree(f, X)


def test_a_global_that_shadows_a_builtin(monkeypatch):
    f = jit(lambda a: a * len([1, 2]))
    agree(f, X)
    monkeypatch.setitem(globals(), "len", lambda items: 10)
    agree(f, X)
    monkeypatch.delitem(globals(), "len")
    agree(f, X)


def test_closures_defaults_and_code():
    k = 1.0

    def f(a, b=1):
        return a * k + b

    def g(a, b=1):
        return a - b

    compiled = jit(f)
    agree(compiled, X)
    k = 2.0
    agree(compiled, X)
    k = jnp.ones(4)
    agree(compiled, X)
    f.__defaults__ = (5,)
    agree(compiled, X)
    f.__code__, k = (lambda a, b=1: (k, a)[1] - b).__code__, 3.0
    agree(compiled, X)


def test_attributes_and_methods_are_patched(monkeypatch):
    m = Model()
    f = jit(m)
    changes = [lambda: setattr(m, "k", 5.0), lambda: m.parts.append(3), lambda: setattr(m, "w", m.w * 2),
               lambda: monkeypatch.setattr(Model, "helper", lambda self, a: a + 100),
               lambda: setattr(m, "helper", lambda a: a + 1000), lambda: delattr(m, "helper"),
               lambda: monkeypatch.setattr(Model, "__call__", lambda self, a: a * 0)]
    agree(f, X)
    for change in changes:
        change()
        agree(f, X)


def activated(a):
    return jax.nn.relu(jnp.sin(a)) + jnp.pi


@pytest.mark.parametrize("module, name, value", [
    (jnp, "sin", lambda a: a * 10), (jax.nn, "relu", jnp.cos), (jnp, "pi", 3), (jax, "nn", jax.numpy)])
def test_libraries_are_patched(monkeypatch, module, name, value):
    monkeypatch.setattr(jnp, "relu", jnp.tanh, raising=False)
    f = jit(activated)
    agree(f, X)
    monkeypatch.setattr(module, name, value)
    agree(f, X)
    monkeypatch.undo()
    agree(f, X)


def test_classes_of_libraries_are_patched(monkeypatch):
    layer = eqx.nn.Linear(4, 4, key=jax.random.key(0))
    f = jit(lambda a: layer(a))
    agree(f, X)
    monkeypatch.setattr(eqx.nn.Linear, "__call__", lambda self, a: a * 2)
    agree(f, X)


def test_new_names_in_a_library_are_no_recompilation(monkeypatch):
    f = jit(activated)
    f(X)
    monkeypatch.setattr(jnp, "newcomer", 1, raising=False)
    with dynacomp.set_stance("fail_on_recompile"):
        agree(f, X)


def test_functions_are_redefined():
    for n in range(12):
        scope = {}
        exec(f"def f(a): return a + {n}", scope)
        agree(jit(scope["f"]), X)


def test_entries_die_with_what_they_guard():
    m = Model()
    f = jit(lambda a, m: m(a))
    f(X, m)
    gone = weakref.ref(m), weakref.ref(m.w)
    del m
    gc.collect()
    assert [r() for r in gone] == [None, None]
    assert f(X, Model())[3] == 6


def test_x64_is_toggled():
    f = jit(lambda a: (jnp.abs(a) + jnp.ones(3) * np.pi, jnp.arange(3)))
    for on in (False, True, False, True):
        with jax.enable_x64(on):
            agree(f, np.arange(3.0))


@pytest.mark.parametrize("setting", ["debug_nans", "debug_infs", "disable_jit", "no_execution"])
def test_debugging_settings(setting):
    f = dynacomp.jit(lambda a: jnp.log(a) / a, backend="eager")
    for a in (jnp.array([-1.0]), jnp.array([0.0]), jnp.array([1.0])):
        agree(f, a)
        with getattr(jax, setting)(True):
            agree(f, a)
        agree(f, a)


def test_keys_that_are_used_twice_are_looked_for():
    key = jax.random.key(0)
    f = dynacomp.jit(lambda: jax.random.uniform(key) + 1, backend="eager")
    assert f() == f()
    with jax.debug_key_reuse(True):
        f()
        with pytest.raises(jax.errors.KeyReuseError):
            f()
    assert f() == f()


def test_leaks_are_looked_for():
    """JAX takes the tracers that a capture holds for leaked ones, and takes its time to say so."""
    kept = []

    compiled = dynacomp.jit(lambda x: jax.vmap(lambda v: jnp.sin(v) * 2)(x), backend="eager")
    leaky = dynacomp.jit(lambda x: jax.vmap(lambda v: kept.append(v) or v)(x), backend="eager")
    for _ in range(2):
        compiled(X), leaky(X)
        kept.clear()
        with jax.checking_leaks():
            assert (compiled(X) == jax.vmap(lambda v: jnp.sin(v) * 2)(X)).all()
            with pytest.raises(Exception, match="Leaked trace"):
                leaky(X)
        kept.clear()
    assert dynacomp.stats()["frames_eager"]["config"] == 4


def test_matmul_precision():
    f = jit(lambda a: a @ a)
    for precision in (None, "bfloat16", "highest"):
        with jax.default_matmul_precision(precision):
            agree(f, jnp.full((4, 4), 1.1))


def test_a_tracer_that_leaks():
    box = []

    def f(a):
        def g(v):
            box.append(v)
            return v.sum()
        return jax.grad(g)(a)

    same(f, (X,), (X,), backend="cpp")
    assert {type(v).__name__.endswith("Tracer") for v in box} == {True}


def test_a_debugger_sees_the_lines():
    lines = []

    def f(a):
        b = a + 1
        return b * 2

    def trace(frame, event, arg):
        if frame.f_code is f.__code__:
            lines.append(event)
        return trace

    compiled = jit(f)
    compiled(X)
    sys.settrace(trace)
    try:
        got = compiled(X)
    finally:
        sys.settrace(None)
    assert got[3] == 8 and lines == ["call", "line", "line", "return"]


def test_warnings_as_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jit(lambda a: a + 1)(X)[0] == 1
        same(lambda a: a.astype(jnp.float64), (X,), (X,), backend="eager")


def test_recursion():
    def down(n, a):
        return a if n == 0 else down(n - 1, a + 1)

    def for_ever(a):
        return for_ever(a + 1)

    same(down, (5, X), (50, X), (7, X), backend="eager")
    compiled = jit(for_ever)
    for _ in range(2):
        with pytest.raises(RecursionError):
            compiled(X)
    assert jit(down)(3, X)[0] == 3


def test_a_first_call_near_the_recursion_limit():
    """Capture's frames may be too many there: the call is a plain one, and a later one is captured whole."""
    def down(n):
        return compiled(X) if n == 0 else down(n - 1)

    def room():
        frame, depth = sys._getframe(), 0
        while frame:
            frame, depth = frame.f_back, depth + 1
        return sys.getrecursionlimit() - depth

    for left in (60, 90):
        compiled = jit(eval("lambda a: [jnp.sin(a).sum() + k for k in range(2)]"))
        dynacomp.reset()
        for _ in range(2):
            assert down(room() - left)[1] == jnp.sin(X).sum() + 1
        stats = dynacomp.stats()
        assert set(stats["frames_eager"]) <= {"depth"} and not stats["breaks"]
        assert compiled(X)[1] == jnp.sin(X).sum() + 1
        stats = dynacomp.stats()
        assert (stats["frames_captured"], stats["breaks"]) == (1, {})


def test_eight_threads_compile_and_call_the_same_and_other_functions():
    dynacomp.reset()
    shared = jit(lambda a: jnp.abs(a) * 2 + a.sum())
    others = [jit(eval(f"lambda a: a * {k} + a.shape[0]")) for k in range(4)]
    gate, results = threading.Barrier(8), []

    def work(i):
        gate.wait()
        for n in range(2, 6):
            a = jnp.arange(float(n + i % 3))
            for f in (shared, others[(n + i) % 4]):
                results.append(bool(jnp.array_equal(f(a), f.__wrapped__(a))))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not any(t.is_alive() for t in threads)
    assert results == [True] * 64 and dynacomp.stats()["frames_eager"] == {}


@pytest.mark.filterwarnings("ignore")
def test_a_fork_after_use():
    f = dynacomp.jit(lambda a: jnp.abs(a) * 2)
    big = jnp.ones(1 << 18)
    f(big)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.asarray(f(big))[5] == 2 else 1)
    for _ in range(300):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert status == 0


def test_ctrl_c_in_a_compiled_call():
    f = dynacomp.jit(lambda a: jnp.sin(jnp.sin(a) + jnp.cos(a)).sum())
    big = jnp.ones(1 << 22)
    f(big)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            f(big)
    timer.join()
    assert float(f(jnp.zeros(1))) == pytest.approx(float(jnp.sin(jnp.cos(0.0))))


def test_ctrl_c_while_compiling(monkeypatch):
    real = dynacomp.misses.compile_graph
    monkeypatch.setattr(dynacomp.misses, "compile_graph", lambda *a: signal.raise_signal(signal.SIGINT) or real(*a))
    f = jit(lambda a: a + 1)
    with pytest.raises(KeyboardInterrupt):
        f(X)
    monkeypatch.undo()
    assert f(X)[0] == 1


def test_two_devices_and_shards():
    """The CPU split into two devices needs a process of its own."""
    program = """
import jax, jax.numpy as jnp, numpy as np, dynacomp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = jax.devices()
f = lambda a, b: jnp.abs(a) * 2 + b.sum()
j = dynacomp.jit(f)
x, y = jnp.arange(8.0), jnp.arange(8.0)
spread = NamedSharding(Mesh(np.array(devices), ("d",)), P("d"))
for a, b in [(x, y), (jax.device_put(x, devices[1]), y), (jax.device_put(x, spread), y),
             (jax.device_put(x, devices[1]), jax.device_put(y, devices[0])), (x, y)]:
    def run(fn):
        try:
            r = fn(a, b)
            return r.tolist(), str(r.sharding)
        except Exception as e:
            return type(e).__name__, str(e)[:60]
    assert run(f) == run(j), (run(f), run(j))
"""
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    pid = __import__("subprocess").run([sys.executable, "-c", program], env=env, capture_output=True, text=True,
                                       timeout=200)
    assert pid.returncode == 0, pid.stderr
