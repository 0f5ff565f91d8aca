"""The launcher: inputs it refuses or converts, threads, fork, Ctrl-C, donation, how long memory lives."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import SingleDeviceSharding

from dynacomp.codegen import program as program_module
from dynacomp.codegen.cpp import backend
from tests.codegen.cpp_kit import CACHE, compiled, softmax_schedule


@pytest.fixture(scope="module")
def softmax():
    plan = softmax_schedule()
    return backend.compile(plan, plan.output_avals, {"threads": 2, "cache_dir": CACHE})


X = jax.random.normal(jax.random.key(0), (300, 200))


def test_deleted_input_raises_what_jax_raises(softmax):
    x = X + 0
    x.delete()
    with pytest.raises(RuntimeError) as theirs:
        jax.jit(lambda x: x + 1)(x)
    with pytest.raises(RuntimeError) as ours:
        softmax(x)
    assert "deleted" in str(ours.value) and type(ours.value) is type(theirs.value)
    used = X + 0
    softmax(used)
    used.delete()  # of which nothing is new but that it was deleted: JAX crashes when it is asked for the layout
    with pytest.raises(RuntimeError, match="Array has been deleted with shape="):
        softmax(used)


def test_wrong_inputs(softmax):
    with pytest.raises(TypeError, match="takes 1 positional arguments, got 2"):
        softmax(X, X)
    with pytest.raises(TypeError, match="takes 1 positional"):
        softmax(x=X)
    with pytest.raises(TypeError, match=r"input 0 \(x\) is int32\[300, 200\].*float32\[n, d\]"):
        softmax(X.astype(jnp.int32))
    with pytest.raises(TypeError, match="compiled for"):
        softmax(X[0])
    with pytest.raises(TypeError, match="must be an array or a scalar, not str"):
        softmax("no")
    np.testing.assert_allclose(softmax(X)[0], jax.nn.softmax(X), rtol=1e-5)


def test_sizes_that_do_not_agree():
    plan = softmax_schedule()
    buffers = {**plan.buffers, "y": plan.buffers["x"]}
    both = replace(plan, buffers=buffers, inputs=("x", "y"))
    program = backend.compile(both, both.output_avals, {"cache_dir": CACHE})
    assert program(X, X)[0].shape == X.shape
    with pytest.raises(TypeError, match="dimension 1 of input 1"):
        program(X, X[:, :5])


def test_numpy_and_python_inputs():
    program = compiled(lambda x, s: x * s, jnp.ones(7), 2.0)
    np.testing.assert_array_equal(program(np.arange(7, dtype=np.float32), 3.0)[0], np.arange(7) * 3.0)
    np.testing.assert_array_equal(program(np.arange(14.0)[::2], np.float64(0.5))[0], np.arange(7))
    turned = compiled(lambda x, z: (x * z).imag, jnp.ones(7), 2j)
    np.testing.assert_array_equal(turned(np.arange(7, dtype=np.float32), 3 + 4j)[0], np.arange(7) * 4.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.bool_])
def test_python_numbers_are_read_as_they_are(dtype, monkeypatch):
    """After the first one nobody in Python is asked; what does not fit NumPy judges each time."""
    asked, convert = [], program_module._Checks.convert
    monkeypatch.setattr(program_module._Checks, "convert", lambda self, i, x: asked.append(x) or convert(self, i, x))
    with jax.enable_x64(True):
        pick = compiled(lambda flag, n: jnp.where(flag, n, jnp.array([n, n], dtype)), True, dtype(1))
        kind = {np.bool_: bool}.get(dtype, float if dtype in (np.float32, np.float64) else int)
        for n in map(kind, (1, 0, -7, 3, 2**31 - 1, -2**31)):
            got, = pick(False, n)
            assert got.dtype == dtype and got.tolist() == [np.asarray(n, dtype)] * 2 and not got.committed
        assert len(asked) == 2
        if kind is int:
            for n in (True, 2**31 if dtype is np.int32 else 2**63):
                with pytest.raises(OverflowError) if n is not True else contextlib.nullcontext():
                    assert pick(False, n)[0].tolist() == [1, 1]
        if kind is float:
            for n in (1e300, float("nan"), float("-inf"), -0.0, 1e-40, 0.1, 5):
                with np.errstate(over="ignore"):
                    want = np.full(2, n, dtype)
                    assert pick(True, n)[0].tobytes() == want.tobytes()
        assert pick(jnp.array(False), jnp.array(kind(1), dtype))[0].tolist() == [1, 1]
        assert pick(False, kind(0))[0].tolist() == [0, 0]


def test_unready_inputs_are_awaited():
    slow = jax.jit(lambda a: a @ a @ a)
    big = jnp.full((1200, 1200), 1e-3)
    program = compiled(lambda x: x + 1, big)
    expected = np.asarray(slow(big)) + 1
    np.testing.assert_array_equal(program(slow(big))[0], expected)


def test_outputs_outlive_everything(softmax):
    first = softmax(X)[0]
    kept = np.asarray(first).copy()
    for _ in range(20):
        softmax(X * 2)
    gc.collect()
    np.testing.assert_array_equal(first, kept)
    again = np.asarray(first)
    del first
    gc.collect()
    softmax(X * 3)
    np.testing.assert_array_equal(again, kept)


def test_committed_follows_the_inputs(softmax):
    assert not softmax(X)[0].committed
    assert softmax(jax.device_put(X, jax.devices()[0]))[0].committed


def test_donated_inputs_are_deleted():
    program = compiled(lambda x, y: x + y, X, X, donate=(0,))
    a, b = X + 0, X + 1
    (out,) = program(a, b)
    np.testing.assert_array_equal(out, X + (X + 1))
    assert a.is_deleted() and not b.is_deleted()


def test_eight_threads_call_one_program(softmax):
    shapes = [(3, 5), (64, 100), (400, 64), (1000, 33)] * 2
    failures = []

    def work(shape):
        x = jax.random.normal(jax.random.key(shape[0]), shape)
        want = np.asarray(jax.nn.softmax(x))
        for _ in range(50):
            if not np.allclose(softmax(x)[0], want, rtol=1e-5, atol=1e-7):
                failures.append(shape)

    threads = [threading.Thread(target=work, args=(s,)) for s in shapes]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_temporaries_are_each_calls_own():
    def fn(x):
        y = jnp.sort(jnp.tanh(x) @ x.T, axis=-1)
        return (y * 2) @ x

    x = jax.random.normal(jax.random.key(3), (90, 90))
    program = compiled(fn, x)
    want = np.asarray(fn(x))
    results = []
    threads = [threading.Thread(target=lambda: results.append(np.asarray(program(x)[0]))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4 and all(np.allclose(r, want, rtol=1e-3, atol=1e-3) for r in results)


CHILD = f"""
import sys
sys.path.insert(0, {os.getcwd()!r})
"""


def python(script, **kwargs):
    command = [sys.executable, "-W", "ignore", "-c", CHILD + script]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **kwargs)


def test_fork_after_use():
    done = python("""
import os
import numpy as np
from jax.experimental.layout import Format, Layout

from dynacomp.codegen.cpp import backend as cpp
from tests.codegen.cpp_kit import CACHE, softmax_schedule
plan = softmax_schedule()
program = cpp.compile(plan, plan.output_avals, {"threads": 2, "cache_dir": CACHE})
import jax.numpy as jnp
x = jnp.ones((2000, 100))
want = np.asarray(program(x)[0])
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(np.asarray(program(x)[0]), want) else 1)
assert os.waitpid(child, 0)[1] == 0
assert np.array_equal(np.asarray(program(x)[0]), want)
print("fine")
""")
    assert done.stdout.strip() == "fine", done.stderr


def test_interrupt_in_a_native_call():
    done = python("""
import os, signal, threading
import jax.numpy as jnp
from tests.codegen.cpp_kit import compiled
x = jnp.ones((3000, 3000))
program = compiled(lambda x: jnp.sin(jnp.cos(jnp.sin(jnp.cos(x)))), x)
program(x)
caught = 0
for _ in range(5):
    timer = threading.Timer(0.005, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()  # under load it fires before this returns
        while True:
            program(x)
    except KeyboardInterrupt:
        caught += 1
    timer.join()
assert float(program(x)[0][0, 0]) > 0
print("caught", caught)
""")
    assert done.stdout.strip() == "caught 5", done.stderr
    assert signal.SIGINT == 2


def test_no_leaks(softmax):
    softmax(X)
    x = X[:50]
    counts = sys.getrefcount(x), sys.getrefcount(softmax)
    for _ in range(100):
        (y,) = softmax(x)
    assert (sys.getrefcount(x), sys.getrefcount(softmax)) == counts
    alive = weakref.ref(softmax)
    assert alive() is softmax
    y.block_until_ready()


def test_a_program_is_freed():
    program = compiled(lambda x: x - 1, jnp.ones(3))
    program(jnp.ones(3))
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None


def test_inputs_of_other_layouts(softmax):
    """An array may lie in memory in another order than its dimensions': it is laid out again."""
    sharding = X.sharding
    turned = jax.device_put(X, Format(Layout((1, 0)), sharding))
    for x in (X, turned, turned, X):
        np.testing.assert_array_equal(softmax(x)[0], softmax(X)[0])
    assert not turned.is_deleted() and turned.format.layout.major_to_minor == (1, 0)


def test_inputs_of_other_layouts_and_sizes(softmax):
    """What is known of one size's layout is known of the others'."""
    turned = Format(Layout((1, 0)), X.sharding)
    for n, m in ((3, 5), (4, 5), (3, 5), (7, 2)):
        for x in (X[:n, :m], jax.device_put(X[:n, :m], turned), X[:n, :m]):
            np.testing.assert_allclose(softmax(x)[0], jax.nn.softmax(X[:n, :m]), rtol=1e-5)


def test_sizes_that_change_are_read_without_python(monkeypatch):
    """Dtype and dimensions are compared here; what does not fit is Python's to say, and spoils nothing."""
    asked, check = [], program_module._Checks.check
    monkeypatch.setattr(program_module._Checks, "check", lambda self, i, x: asked.append(x) or check(self, i, x))
    plan = softmax_schedule()
    program = backend.compile(plan, plan.output_avals, {"cache_dir": CACHE})
    for n in (3, 8, 5, 3, 1, 9):
        np.testing.assert_allclose(program(X[:n, :4])[0], jax.nn.softmax(X[:n, :4]), rtol=1e-5)
    assert not asked
    for wrong in (X[0], X[None], X.astype(jnp.int32)):
        with pytest.raises(TypeError, match="compiled for"):
            program(wrong)
        np.testing.assert_allclose(program(X[:5, :4])[0], jax.nn.softmax(X[:5, :4]), rtol=1e-5)
    assert len(asked) == 3


def test_arrays_without_elements_say_sizes_and_are_not_read():
    program = compiled(lambda x, empty: x + empty.sum(), jnp.ones(3), jnp.ones((4, 0)))
    np.testing.assert_array_equal(program(jnp.ones(3), jnp.ones((4, 0)))[0], np.ones(3))
    with pytest.raises(TypeError, match=r"input 1 .*float32\[4, 1\]"):
        program(jnp.ones(3), jnp.ones((4, 1)))
    deleted = jnp.ones((4, 0))
    deleted.delete()
    with pytest.raises(RuntimeError, match="Array has been deleted with shape="):
        program(jnp.ones(3), deleted)


def test_arrays_of_many_operations_are_asked_once_where_they_lie(monkeypatch):
    """Each operation gives its arrays a sharding object of its own: as many as there are parameters in a model."""
    asked = []
    accept = program_module._Checks.accept
    monkeypatch.setattr(program_module._Checks, "accept", lambda self, x: asked.append(x) or accept(self, x))
    program = compiled(lambda *xs: sum(xs), *[jnp.ones(3)] * 20)
    device = jax.devices()[0]
    xs = [jax.device_put(jnp.full(3, i, jnp.float32), SingleDeviceSharding(device)) for i in range(20)]
    assert len({id(x.sharding) for x in xs}) > 8
    for _ in range(5):
        np.testing.assert_array_equal(program(*xs)[0], np.full(3, 190, np.float32))
    assert not asked  # it is plain that all lie here
