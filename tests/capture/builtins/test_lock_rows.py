"""Locks: one graph break where one is taken; it is held until what it guards is done."""

import threading

import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.reconstruct import runtime


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


class Account:
    def __init__(self, lock):
        self.lock, self.total, self.log = lock, 0, []

    def add(self, n):
        with self.lock:
            self.total += n
            self.log.append(self.total)
        self.last = n


def paid(account, x):
    account.add(2)
    return x * account.total


def failing(account, x):
    try:
        with account.lock:
            account.total += 1
            raise ValueError("no")
    except ValueError as error:
        account.log.append(str(error))
    return x


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
@pytest.mark.parametrize("fn, breaks", [(paid, 2), (failing, 1)])  # the first in the caller too
def test_one_break(make, fn, breaks):
    compiled, account, plain = dynacomp.jit(fn, backend="eager"), Account(make()), Account(make())
    for _ in range(2):
        assert compiled(account, jnp.ones(2)).tolist() == fn(plain, jnp.ones(2)).tolist()
        assert account.log == plain.log and account.lock.acquire(blocking=False)
        account.lock.release()
    assert dynacomp.stats()["breaks"] == {"with": breaks}


def test_released_last(monkeypatch):
    account, seen = Account(threading.Lock()), []
    monkeypatch.setattr(runtime, "release", lambda args, kwargs: (seen.append(dict(vars(account))), args[0].release()))
    dynacomp.jit(paid, backend="eager")(account, jnp.ones(2))
    assert (seen[0]["total"], seen[0]["log"], seen[0]["last"], len(seen)) == (2, [2], 2, 1)


def test_threads_lose_no_update():
    account = Account(threading.Lock())
    compiled = dynacomp.jit(paid, backend="eager")
    compiled(account, jnp.ones(2))
    threads = [threading.Thread(target=lambda: [compiled(account, jnp.ones(2)) for _ in range(25)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert account.total == 2 * 101 and len(account.log) == 101
