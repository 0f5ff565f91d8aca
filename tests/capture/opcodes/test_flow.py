"""Opcodes that move control: jumps, loops, calls, exceptions, `with`, generators, in one graph."""

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


def jumps(x):
    found = []
    for n in range(6):
        if n == 1:
            continue
        if n == 4:
            break
        found.append(n if n % 2 else -n)
    else:
        found.append("never")
    while len(found) < 5:
        found.append(None)
    else:
        found.append("always")
    return found, found[0] is None, x if found else 0, (lambda: 1 if found else 2)(), 1 if not found else 0 or "or"


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


def generators(x):
    def counted(n):
        try:
            for k in range(n):
                sent = yield k
                if sent is not None:
                    yield sent * 2
        finally:
            log.append("closed")
        return "end"

    def outer():
        result = yield from counted(2)
        yield result

    log = []
    running = counted(3)
    found = [next(running), running.send(x), next(running)]
    running.close()
    return list(outer()), found, log, sum(k for k in counted(4)), [*counted(2)]


def matched(x):
    def kind(value):
        match value:
            case [first, *_] if first == 1:
                return "starts with one"
            case {"k": inner, **rest}:
                return inner, rest
            case int(n) | float(n):
                return n + 1
            case Managed(log=[]):
                return "empty log"
            case None:
                return "none"
            case _:
                return "other"

    return [kind(v) for v in ([1, 2], [2], {"k": 1, "z": 2}, 4, 1.5, Managed([]), Managed([1]), None, "text")], x


@pytest.mark.parametrize("program", [jumps, exceptions, managers, generators, matched])
def test_one_graph(program):
    check_one_graph(program, (X,), (X + 1,))


def test_each_way_through_the_code_is_its_own_entry():
    def program(x, how):
        if how == "early":
            return how, x
        for n in range(3):
            if how == n:
                return x * n
        return x

    check_one_graph(program, (X, "early"), (X, 0), (X, 2), (X, "none"), captures=4)
