"""Graph breaks while exceptions are handled: in `except`, `finally` and the exits of `with`."""

import contextlib
import gc
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp

SEEN: list = []


@pytest.fixture(autouse=True)
def fresh():
    dynacomp.reset()
    SEEN.clear()


def shown(error):
    """An exception and its chain, as data."""
    if error is None:
        return None
    return (type(error).__name__, repr(error.args), shown(error.__cause__), shown(error.__context__),
            error.__suppress_context__)


def now():
    """What is being handled here; a call that breaks the graph."""
    dynacomp.graph_break()
    SEEN.append(shown(sys.exception()))


def outcome(fn, x):
    SEEN.clear()
    try:
        result, raised = jax.tree.map(np.asarray, fn(x)), None
    except Exception as error:
        result, raised = None, shown(error)
    return result, raised, list(SEEN), shown(sys.exception())


def same(fn, x=None, graphs=None):
    """Runs `fn` plainly, compiled and compiled again; every frame must be captured."""
    x = jnp.arange(3.0) if x is None else x
    want = outcome(fn, x)
    compiled = dynacomp.jit(fn, backend="eager")
    for _ in range(2):
        got = outcome(compiled, x)
        assert got[1:] == want[1:]
        np.testing.assert_equal(got[0], want[0])
    stats = dynacomp.stats()
    assert not set(stats["frames_eager"]) - {"raises"}, stats["frames_eager"]
    assert graphs is None or stats["graphs"] == graphs
    return stats


def in_except(x):
    y = x + 1
    try:
        raise ValueError("first")
    except ValueError as error:
        z = y * 2
        now()
        return z - 1, error.args


def in_nested(x):
    try:
        raise ValueError("outer")
    except ValueError:
        x = x + 1
        try:
            raise KeyError("inner")
        except KeyError:
            x = x * 2
            now()
            x = x - 1
        now()
        x = x * 3
    now()
    return x


def in_finally(x):
    try:
        x = x + 1
        raise ValueError("bad")
    finally:
        now()
        SEEN.append(float(x.sum()))


def finally_returns(x):
    try:
        raise ValueError("bad")
    finally:
        now()
        return x + 1  # noqa: B012


def finally_breaks(x):
    for n in range(3):
        try:
            raise ValueError(n)
        finally:
            now()
            x = x + n
            if n == 1:
                break  # noqa: B012
            continue  # noqa: B012
    return x


def reraised(x):
    try:
        try:
            raise ValueError("again")
        except ValueError:
            x = x + 1
            now()
            raise
    except ValueError as error:
        now()
        return x * 2, shown(error)


def raised_in_handler(x):
    try:
        try:
            raise ValueError("first")
        except ValueError:
            now()
            raise KeyError("second")  # noqa: B904
    except KeyError as error:
        return x + 1, shown(error)


def fails():
    dynacomp.graph_break()
    raise IndexError("from a callee")


def callee_raises_in_handler(x):
    try:
        try:
            raise ValueError("first")
        except ValueError:
            x = x + 1
            fails()
    except IndexError as error:
        now()
        return x * 2, shown(error)


def raised_by_the_breaking_call(x):
    y = x + 1
    try:
        fails()
    except IndexError:
        now()
        return y * 2


class Suppressing:
    def __enter__(self):
        now()
        return self

    def __exit__(self, kind, error, traceback):
        SEEN.append((kind, shown(error), traceback is None))
        now()
        return True


def with_body(x):
    with Suppressing():
        x = x + 1
        now()
        x = x * 2
    return x - 1


def with_exit(x):
    with Suppressing():
        x = x + 1
        raise ValueError("suppressed")
    return x - 1


@contextlib.contextmanager
def managed():
    try:
        yield 3
    except ValueError:
        now()
    finally:
        now()


def with_generator(x):
    with managed() as n:
        x = x + n
        now()
        raise ValueError("bad")
    return x - 1


def loop(x):
    for n in range(4):
        try:
            x = x + n
            raise ValueError(n)
        except ValueError as error:
            now()
            x = x * len(error.args)
    return x


def unhandled(x):
    try:
        raise ValueError("first")
    except ValueError:
        x = x + 1
        fails()


PROGRAMS = [in_except, in_nested, in_finally, finally_returns, finally_breaks, reraised, raised_in_handler,
            callee_raises_in_handler, raised_by_the_breaking_call, with_body, with_exit, with_generator, loop,
            unhandled]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_a_break_while_handling(fn):
    same(fn)


def called_in_handler(x):
    try:
        raise ValueError("outer")
    except ValueError:
        try:
            return inner(x)
        except KeyError as error:
            return shown(error)


def inner(x):
    dynacomp.graph_break()
    x = x + 1
    raise KeyError("inner")


def test_what_callers_handle_is_the_context_of_what_callees_raise():
    same(called_in_handler)


def test_both_parts_are_compiled():
    assert same(in_except, graphs=2)["breaks"] == {"user": 2}


class Dying:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("dies")


def suspended(log, k):
    log.append(k)
    try:
        yield k
    finally:
        log.append(-k)


def read_on_one_side(x, n):
    log = []
    held = Dying(log)
    if float(x.sum()) > n:
        held.log.append("large")
    log.append("before")
    held = None
    log.append("behind")
    return x * 2, log


def closed_on_one_side(x, n):
    log = []
    gen = suspended(log, 5)
    next(gen)
    if x.sum() > n:
        gen.close()
    log.append("before")
    gen = None
    log.append("behind")
    return x * 2, log


def made_on_one_side(x, n):
    log = []
    for i in range(4):
        if x.sum() > i - 2:
            gen = suspended(log, i + 1)
            next(gen)
            x = x + 1
        else:
            x = x - 1
    log.append("before")
    gen = None
    return x, log


@pytest.mark.parametrize("fn", [read_on_one_side, closed_on_one_side, made_on_one_side])
def test_what_only_one_way_on_reads_lives_as_long_as_in_python(fn):
    """No garbage is collected meanwhile: what a capture in vain has seen dies at its time, too."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    gc.disable()
    try:
        for n in (100, -100, 50, -50, 100):
            assert compiled(jnp.ones(3), n)[1] == fn(jnp.ones(3), n)[1]
    finally:
        gc.enable()
