# ruff: noqa: B904, B007, F841, F821 - programs that fail, as their authors write them
"""Tracebacks of compiled functions are those of plain Python: files, lines, marks and names, callees and causes.

Each program raises (or ends) somewhere: in a callee, a loop, a `with`, an `except`, after a graph break."""

import contextlib
import re
import traceback

import jax
import jax.numpy as jnp
import pytest

import dynacomp

X = jnp.ones(3)


def boom(a):
    raise ValueError("no")


def callee(a):
    b = a + 1
    return boom(b)


def loop(a):
    for i in range(3):
        a = a + i
        if i == 2:
            raise KeyError(i)


def in_with(a):
    with contextlib.nullcontext():
        a = a + 1
        boom(a)


def in_except(a):
    try:
        boom(a)
    except ValueError:
        raise KeyError("x")


def raise_from(a):
    try:
        boom(a)
    except ValueError as e:
        raise RuntimeError("y") from e


def in_finally(a):
    try:
        boom(a)
    finally:
        a = a + 1


def fin_raises(a):
    try:
        a = a + 1
    finally:
        boom(a)


def after_break(a):
    b = a + 1
    print(end="")
    c = b * 2
    raise ValueError("after")


def break_loop(a):
    for i in range(3):
        print(end="")
        a = a + [1, 2][i]


def comp(a):
    return [
        a + [1][i]
        for i in range(3)]


def genexpr(a):
    return sum(
        a + [1][i]
        for i in range(3))


def gen(a):
    yield a
    a = a + 1
    boom(a)


def gen_user(a):
    for x in gen(a):
        print(end="")


def index(a):
    return a + {}["k"]


def attr(a):
    b = a + 1
    return b.nothing


def div(a):
    n = 0
    return (a +
            1 // n)


def shape(a):
    b = a + 1
    return b + jnp.ones(4)


def reraise(a):
    try:
        boom(a)
    except ValueError:
        print(end="")
        raise


def call_args(a):
    return boom(
        a
        + 1)


def asserting(a):
    b = a + 1
    assert len(b) == 2, "len"
    return b


def unpack(a):
    x, y = (a,)


class C:
    def m(self, a): return self.n(a)

    def n(self, a):
        raise TypeError("m")


def method(a):
    return C().m(a + 1)


def nested(a):
    def g(b):
        return boom(b)

    return g(a)


def lam(a):
    return (lambda b: boom(b))(a)


def named(a):
    try:
        boom(a)
    except ValueError as e:
        e.add_note("hi")
        raise


def with_exit(a):
    class E:
        def __enter__(self):
            pass

        def __exit__(self, *x):
            raise OSError("exit")

    with E():
        a = a + 1


def unbound(a):
    if len(a) == 2:
        q = 1
    return a + q


def glob(a):
    return a + undefined_name


def group(a):
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* KeyError:
        a = a + 1


def while_(a):
    n = 3
    while True:
        n -= 1
        a = a + 1 // n


def deep(a, n=3):
    if n == 0:
        boom(a)
    return deep(a + 1, n - 1)


PROGRAMS = (
    callee, loop, in_with, in_except, raise_from, in_finally, fin_raises, after_break, break_loop, comp,
    genexpr, gen_user, index, attr, div, shape, reraise, call_args, asserting, unpack, method, nested,
    lam, named, with_exit, unbound, glob, group, while_, deep, gen,
)


def shown(fn):
    """The text of the traceback, line by line; how the program ends without one."""
    try:
        result = fn(X)
        if hasattr(result, "send"):
            list(result)
    except Exception as error:
        return traceback.format_exception(error)
    return ["no exception"]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_tracebacks_are_those_of_plain_python(fn):
    want, compiled = shown(fn), dynacomp.jit(fn, backend="eager")
    assert [shown(compiled) for _ in range(3)] == [want] * 3


def ends(fn, a):
    """Where the frames of the traceback ended, which is elsewhere than they raised if they raised again."""
    found = []
    try:
        fn(a)
    except Exception as error:
        entry = error.__traceback__.tb_next
        while entry is not None:
            frame = entry.tb_frame
            found.append((frame.f_code.co_name, entry.tb_lineno, frame.f_lineno))
            entry = entry.tb_next
    return found


@pytest.mark.parametrize("fn", [callee, loop, in_with, in_except, raise_from, in_finally, fin_raises, named,
                                with_exit, unbound, nested], ids=lambda fn: fn.__name__)
def test_frames_of_inlined_calls_end_where_they_ended(fn):
    assert dynacomp.jit(ends, backend="eager")(fn, X) == ends(fn, X) != []


def decided(z):
    y = z + 1
    if jnp.sum(y) > 0:
        return y
    return z


def converted(z):
    y = jnp.sum(z * 2)
    print(end="")
    w = y + 1
    return float(w)


@pytest.mark.parametrize("fn", [decided, converted], ids=lambda fn: fn.__name__)
def test_tracers_are_said_to_come_from_the_line_of_the_operation(fn):
    def line(fn):
        with pytest.raises(TypeError) as raised:
            jax.vmap(fn)(jnp.ones((2, 3)))
        return re.findall(r"test_tracebacks.py:(\d+):", str(raised.value))

    assert line(dynacomp.jit(fn, backend="eager")) == line(fn) != []
