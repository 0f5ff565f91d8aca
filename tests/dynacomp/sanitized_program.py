"""Runs what the extensions do, many times, in one process: for test_sanitized.py, under the sanitizers.

    python sanitized_program.py FOLDER      fails unless `dynacomp` comes from FOLDER; prints "done"

10,000 calls and 1,000 recompiles; hits and misses, exceptions in guards, in the program and in templates, graph
breaks, generators closed half-way and thrown into, coroutines, donation, native launches, numbers of Python, code that
may have no more entries, threads, tracing.
"""

import gc
import itertools
import os
import sys
import threading
from contextlib import suppress

os.environ.pop("LD_PRELOAD", None)  # compilers that run from here need no sanitizer
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import dynacomp  # noqa: E402

X = jnp.arange(4.0)


class Model:
    __slots__ = ("k", "w")

    def __init__(self, k):
        self.k, self.w = k, X * k

    @property
    def half(self):
        return self.k / 2

    @classmethod
    def like(cls, other):
        return cls(other.k)

    def __call__(self, a):
        return {"y": a * self.w + self.half, "x": a, "m": self}


def compiled(fn, **options):
    return dynacomp.jit(fn, backend="eager", **options)


def calls():
    model = Model(2)
    f = compiled(lambda a, *rest, k=1, **more: (model(a)["y"] * k, rest, more, model))
    for n in range(10_000):
        assert f(X, n % 2, z=X)[3] is model


TEXTS = ("def f(a): return (print(end=''), a + {k})[1] * 2",
         "def f(a):\n for i in range(2):\n  print(end='')\n  a = a + {k}\n return a",
         "def f(a, k={k}): return (lambda v: v + k)(a)",
         "n = {k}\ndef f(a):\n global n\n n += 1\n return a * n",
         "class C:\n p = property(lambda s: {k})\ndef f(a): return a + C().p",
         "def f(a): return sum([a + i for i in range(3)]) + {k}",
         "def f(a):\n try: raise KeyError({k})\n except KeyError as e: return a + e.args[0]")


def recompiles():
    for k in range(1_000):
        namespace = {}
        exec(TEXTS[k % len(TEXTS)].format(k=k), namespace)
        compiled(namespace["f"])(X)


def shapes():
    f = compiled(lambda a, k: a * k + len(a))
    for n in range(200):
        assert f(jnp.ones(n % 9), n % 5).shape == (n % 9,)
        if n % 40 == 39:
            dynacomp.reset()


def generating(a, n):
    try:
        for i in range(n):
            try:
                sent = yield a * i
                a = a + (0 if sent is None else sent)
            except KeyError as error:
                print(end="")
                a = a + len(error.args)
                yield a
    finally:
        a = a * 2


def suspended():
    f = compiled(generating)
    for n in range(150):
        g = f(X, n % 4)
        with suppress(StopIteration, ZeroDivisionError):
            next(g)
            g.send(1.0)
            g.throw(KeyError(n))
            g.throw(ZeroDivisionError) if n % 2 else g.close()
        del g
        with suppress(ValueError):
            list(itertools.islice(f(X, 3), n % 5))


async def waiting(a, n):
    async for b in numbers(a, n):
        a = a + b
    print(end="")
    return a


async def numbers(a, n):
    for i in range(n):
        yield a * i


def coroutines():
    f = compiled(waiting)
    for n in range(100):
        c = f(X, n % 3)
        if n % 4:
            with suppress(StopIteration):
                c.send(None)
        c.close()


def failing(a, n):
    b = a + 1
    return [b][n], {"a": b}[str(n)]


def failures():
    f = compiled(failing)
    for n in range(300):
        with suppress(LookupError, TypeError):
            f(X, n % 3 - 1, *[0] * (n % 7 == 0))


def launches():
    """Native code: many outputs, donated inputs, sizes that change."""
    f = dynacomp.jit(lambda a, b: (jnp.exp(a) + b, (a * b).sum(), b), donate_argnums=1)
    for n in range(300):
        size = n % 5 + 2
        y, total, _ = f(jnp.ones(size), jnp.full(size, 2.0))
        assert np.asarray(y).shape == (size,) and float(total) == 2 * size


NUMBERS = (0.5, 7, True, -1.5, 1 << 40, float("inf"), 1e300, -3, False, 2.0, float("nan"), -(1 << 40))


def given_numbers():
    """Numbers of Python, which a native program is given as bytes, or which do not fit its dtype."""
    f = dynacomp.jit(lambda a, k, n: a * k + jnp.asarray(n, a.dtype))
    for n in range(300):
        with suppress(OverflowError):
            f(X, NUMBERS[n % 12], NUMBERS[n % 7])
        f(X, n * 0.5, n)


def full():
    """Code that may have no more entries, whose calls Python makes after a few questions."""
    f = compiled(lambda a, k: (print(end=""), a + len(k))[1], dynamic=False, options={"recompile_limit": 3})
    for n in range(400):
        f(X, "k" * (n % 40))
        if n % 150 == 149:
            dynacomp.reset()


def traced():
    f = compiled(lambda a: (print(end=""), list(generating(a, 2)))[1])
    for install in (sys.setprofile, sys.settrace):
        for _ in range(50):
            install(lambda *event: None)
            f(X)
            install(None)
            f(X)


def threads():
    shared = [compiled(fn) for fn in (failing, generating)]
    failed = []

    def work(k):
        try:
            for n in range(60):
                with suppress(LookupError):
                    shared[0](jnp.ones(n % 3 + 1), n % 2)
                list(shared[1](jnp.ones(k % 3 + 1), n % 3)) if n % 5 else dynacomp.reset()
        except Exception as error:
            failed.append(error)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]


def main():
    assert dynacomp.__file__.startswith(sys.argv[1]), dynacomp.__file__
    for part in (calls, recompiles, shapes, suspended, coroutines, failures, launches, given_numbers, full,
                 traced, threads):
        part()
        gc.collect()
        print(part.__name__, flush=True)
    print("done")


if __name__ == "__main__":
    main()
