"""Settings of JAX that a stack, a generator or the program's own hand enters, and managers that were made before.
Locks: one graph break where one is taken; it is held until what it guards is done."""

import contextlib
import threading

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from dynacomp.capture.graph.interpreter import run
from dynacomp.capture.reconstruct import runtime
from tests.capture.program_kit import captured, check_one_graph

X = jnp.arange(4.0)
INPUTS = [(jnp.arange(4.0) / n,) for n in range(1, 6)]


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()


@contextlib.contextmanager
def precision(name):
    with jax.default_matmul_precision(name):
        yield name


def now():
    return jax.config.jax_default_matmul_precision


def test_what_a_generator_or_a_stack_enters_is_part_of_the_graph():
    def program(x):
        seen = []
        with contextlib.ExitStack() as stack:
            stack.enter_context(jax.default_matmul_precision("float32"))
            stack.enter_context(jax.numpy_rank_promotion("raise"))
            with jax.default_matmul_precision("bfloat16"):
                seen.append(now())
                with precision("highest") as name:
                    seen += [now(), name]
                seen.append(now())
            seen += [now(), x @ x]
        explicit = jax.default_matmul_precision("highest")
        explicit.__enter__()
        try:
            return seen, now(), jnp.outer(x, x) @ x
        finally:
            explicit.__exit__(None, None, None)

    check_one_graph(program, *INPUTS)
    graph = captured(program, X).graph
    jaxpr = str(jax.make_jaxpr(lambda x: run(graph, x))(X))
    assert jaxpr.count("HIGHEST, Precision.HIGHEST") == 2
    assert now() is None


def test_exceptions_leave_what_a_generator_enters():
    def program(x, n):
        try:
            with precision("float32"):
                if n % 2:
                    raise KeyError(now())
        except KeyError as error:
            return x + 1, str(error), now()
        return x @ x, now()

    check_one_graph(program, *[(x, n) for n, (x,) in enumerate(INPUTS)], captures=3)


@pytest.mark.parametrize("entered", [lambda s: s.enter_context(jax.default_matmul_precision("float32")),
                                     lambda s: s.enter_context(precision("float32"))])
def test_python_enters_a_stack_where_the_graph_breaks_inside(entered):
    def program(x):
        with contextlib.ExitStack() as stack:
            entered(stack)
            y = x @ x
            dynacomp.graph_break()
            seen = now()
            y = y + x @ x
        return y * 2, seen, now()

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for (x,) in INPUTS * 2:
        assert repr(compiled(x)) == repr(program(x))
    assert dynacomp.stats()["frames_captured"] <= 5


def test_those_left_in_another_order_are_left_to_python():
    def rows(name):
        with jax.default_matmul_precision(name):
            yield now()
            yield now()

    def program(x):
        one, other = rows("float32"), rows("bfloat16")
        seen = [next(one), next(other), next(one), now(), list(other), now(), list(one), now(), x @ x]
        one, other = rows("float32"), rows("bfloat16")
        next(one), next(other)
        one.close()
        seen.append(now())
        other.close()
        jax.config.update("jax_default_matmul_precision", None)
        return seen

    def apart(x):
        with jax.default_matmul_precision(None):
            return program(x)

    compiled = dynacomp.jit(apart, backend="eager")
    for (x,) in INPUTS:
        assert repr(compiled(x)) == repr(apart(x))
    assert now() is None


@pytest.mark.parametrize("made", [lambda: jax.enable_x64(True), lambda: jax.threefry_partitionable(False)])
def test_those_made_in_each_call_are_known_by_what_they_bring(made):
    def program(x):
        with made():
            y = jax.random.normal(jax.random.PRNGKey(0), (3,)) + jnp.arange(3.0)
        return x + 1, y

    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for (x,) in INPUTS * 2:
        assert repr(compiled(x)) == repr(program(x))
    assert dynacomp.stats()["frames_captured"] == 3


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
