"""Opcodes of exceptions and `with`, in one graph."""

import contextlib

import jax.numpy as jnp
import pytest

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
