"""Threads: the same and other functions, recompiles, resets, exceptions and forks at once; never a wrong answer.

`DYNACOMP_TEST_SECONDS` makes each round of the stress test longer than its few seconds.
"""

import functools
import gc
import os
import random
import signal
import sys
import threading
import time
import weakref

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

jit = functools.partial(dynacomp.jit, backend="eager")
SECONDS = float(os.environ.get("DYNACOMP_TEST_SECONDS", 2))
SCALE = 2.0


class Refused(Exception):
    pass


class Model:
    def __init__(self, k):
        self.k, self.w = k, jnp.full(3, float(k))

    def __call__(self, a):
        return a.sum() * self.w + self.k


def whole(a, n):
    return jnp.abs(a) * n + a.sum()


def broken(a, n):
    b = a + n
    random.random()
    return b * float(b[0]) if n % 2 else b


def raising(a, n):
    if n % 3 == 0:
        raise Refused(n)
    return a * SCALE


def looping(a, n):
    total = a * 0
    for i in range(n % 4):
        total = total + a * i
        str(total.shape)
    return total


def recursive(a, n):
    if n <= 0:
        return a
    float(a[0])
    return RECURSIVE(a + 1, n - 1)


def with_model(a, n):
    return Model(n)(a)


def generating(a, n):
    return list(a + i for i in range(n % 3))  # noqa: C400


RECURSIVE = jit(recursive)
SHARED = {fn: jit(fn) for fn in (whole, broken, raising, looping, with_model, generating)} | {recursive: RECURSIVE}


def outcome(fn, *args):
    try:
        result = fn(*args)
        return [np.asarray(x).tolist() for x in result] if isinstance(result, list) else np.asarray(result).tolist()
    except Refused as error:
        return error.args


def expected(fn, a, n):
    return outcome(lambda a, n: a + n if fn is recursive else fn(a, n), a, n)


class Workers:
    """Eight threads that compare compiled calls with plain ones until time is up."""

    def __init__(self, seconds, own=True):
        self.end, self.own, self.calls, self.wrong = time.monotonic() + seconds, own, 0, []
        self.threads = [threading.Thread(target=self.work, args=(k,), daemon=True) for k in range(8)]

    def work(self, k):
        luck = random.Random(k)
        mine = {fn: jit(fn) for fn in SHARED} if self.own and k % 2 else {}
        try:
            while time.monotonic() < self.end:
                fn = luck.choice(list(SHARED))
                a, n = jnp.arange(1.0, 1 + luck.randrange(1, 6)), luck.randrange(6)
                got, want = outcome(luck.choice([mine, SHARED]).get(fn, SHARED[fn]), a, n), expected(fn, a, n)
                self.calls += 1
                if got != want:
                    self.wrong.append((fn.__name__, a.tolist(), n, got, want))
        except BaseException as error:
            self.wrong.append((type(error).__name__, str(error)))
            raise

    def run(self, *meanwhile):
        """Starts the threads, calls `meanwhile` over and over, and judges."""
        for t in self.threads:
            t.start()
        while time.monotonic() < self.end:
            for act in meanwhile:
                act()
            time.sleep(0.02)
        for t in self.threads:
            t.join(120)
        assert not any(t.is_alive() for t in self.threads), "a thread hangs"
        assert not self.wrong and self.calls > 8


@pytest.fixture(autouse=True)
def switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    dynacomp.reset()
    yield
    sys.setswitchinterval(before)


MEANWHILE = {"alone": (), "reset": (dynacomp.reset,), "collections": (gc.collect,),
             "all": (dynacomp.stats, dynacomp.reset, gc.collect)}


@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE)
def test_eight_threads(meanwhile):
    Workers(SECONDS).run(*meanwhile)


def test_stances_change_meanwhile():
    def act():
        with dynacomp.set_stance(random.choice(["eager", "eager_on_recompile", "default"])):
            time.sleep(0.01)

    Workers(SECONDS).run(act)


@pytest.mark.filterwarnings("ignore")
def test_forks_while_others_capture():
    """XLA itself does not outlive a fork: the child captures a function that needs none of it."""
    compiled = jit(lambda a, n: [len(a) + k for k in range(n)])

    def act():
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if compiled(np.ones(3), 2)[0] == 3 and dynacomp.stats() else 1)
        assert os.waitpid(child, 0)[1] == 0

    Workers(SECONDS).run(act)


def test_collections_inside_guards():
    """Every allocation collects, and what dies calls back into compiled code and forgets entries."""
    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            assert listing(3) == [0, 1, 2]
            if random.random() < 0.1:
                dynacomp.reset()

    listing = jit(lambda n: list(range(n)))  # JAX itself may not be called while JAX compiles
    threshold = gc.get_threshold()
    gc.set_threshold(20)
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            Cycle()
            n = random.randrange(6)
            a = jnp.ones(n + 1)
            for fn in (whole, with_model, broken):
                assert outcome(SHARED[fn], a, n) == expected(fn, a, n)
    finally:
        gc.set_threshold(*threshold)
        gc.collect()


def test_what_guards_hold_dies_while_the_entry_runs():
    """The model is dropped by another thread between its guards and the launch of its entry."""
    holder = [Model(1)]
    fn = jit(lambda a: holder[0](a))
    stop = time.monotonic() + SECONDS
    failures = []

    def replace():
        while time.monotonic() < stop:
            holder[0] = Model(random.randrange(3))
            gc.collect(0)

    def call():
        a = jnp.ones(3)
        while time.monotonic() < stop:
            got = float(fn(a)[0])
            if got not in (0.0, 4.0, 8.0):
                failures.append(got)

    threads = [threading.Thread(target=replace), *(threading.Thread(target=call) for _ in range(3))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not failures
    gone = weakref.ref(holder[0])
    holder.clear()
    gc.collect()
    assert gone() is None


def test_ctrl_c_in_captures():
    """Interrupts at any moment of a capture leave a function that can be captured again."""
    handled = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for delay in (0.001, 0.003, 0.01, 0.03, 0.1):
            dynacomp.reset()
            try:
                signal.setitimer(signal.ITIMER_REAL, delay)
                for n in range(1, 40):
                    outcome(SHARED[looping], jnp.ones(n), n)
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            a = jnp.arange(4.0)
            for fn in SHARED:
                assert outcome(SHARED[fn], a, 2) == expected(fn, a, 2)
    finally:
        signal.signal(signal.SIGALRM, handled)
