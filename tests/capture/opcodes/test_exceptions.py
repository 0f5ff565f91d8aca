"""Opcodes of exceptions and `with`, in one graph."""

import contextlib
import math

import jax
import jax.numpy as jnp
import pytest

import dynacomp
from tests.capture.program_kit import check_one_graph

X = jnp.arange(3.0)


class Managed:
    def __init__(self, log, swallows=()):
        self.log, self.swallows = log, swallows

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append("out" if kind is None else kind.__name__)
        return kind in self.swallows


def exceptions(x):
    log = []

    def risky(n):
        try:
            if n == 0:
                raise ValueError("zero", n)
            if n == 1:
                return {}["missing"]
            if n == 2:
                raise AssertionError("two")
            log.append("fine")
            return n
        except (KeyError, ValueError) as error:
            log.append((type(error).__name__, error.args))
            return "caught"
        finally:
            log.append(f"finally {n}")

    found = [risky(0), risky(1), risky(3)]
    try:
        risky(2)
    except AssertionError as error:
        try:
            raise RuntimeError("again") from error
        except RuntimeError as outer:
            log.append((str(outer), str(outer.__cause__), outer.__cause__ is error))
    try:
        try:
            raise KeyError
        finally:
            raise IndexError("in finally")
    except IndexError as error:
        log.append(type(error.__context__).__name__)
    return found, log, x + 1


def managers(x):
    log = []
    with Managed(log) as one, Managed(log, (ZeroDivisionError,)):
        log.append(one.log is log)
        1 // 0  # noqa: B018
    with contextlib.suppress(KeyError):
        {}["k"]
    for n in range(3):
        with Managed(log):
            if n == 1:
                break
    with contextlib.ExitStack() as stack:
        stack.enter_context(Managed(log))
        stack.callback(log.append, "called")
    return log, x


@pytest.mark.parametrize("program", [exceptions, managers])
def test_one_graph(program):
    check_one_graph(program, (X,), (X + 1,))


def chain(error):
    """An exception and all that it was raised from, or while handling."""
    return error and (type(error), str(error)[:25], error.__suppress_context__, chain(error.__cause__),
                      chain(error.__context__), len(getattr(error, "__notes__", ())))


def of_jax_while_handling(x, s):
    try:
        math.sqrt(-1)
    except ValueError:
        try:
            jnp.sum(s)
        except TypeError as error:
            return x + 1, chain(error)


def of_jax_twice(x, s):
    try:
        try:
            [].pop()
        except IndexError:
            jnp.sum(s)
    except TypeError as first:
        try:
            jax.grad(lambda q: jnp.sum(q) + jnp.sum(s))(x)
        except TypeError as second:
            return x + 1, chain(first), chain(second)


def of_jax_and_out(x, s):
    try:
        {}["missing"]
    except KeyError:
        return jnp.sum(s) + x


@pytest.mark.parametrize("fn", [of_jax_while_handling, of_jax_twice, of_jax_and_out], ids=lambda f: f.__name__)
def test_what_jax_raises_keeps_what_it_was_raised_from(fn):
    def outcome(f, n):
        try:
            return f(jnp.ones(n), "ab")[1:]
        except TypeError as error:
            return chain(error)

    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend="eager")
    for n in (3, 3, 4, 5):
        assert outcome(compiled, n) == outcome(fn, n)
    assert fn is of_jax_and_out or dynacomp.stats()["graphs"] >= 1
