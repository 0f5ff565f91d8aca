"""`with` statements: classes, generators, suppression, stacks, nesting."""

from __future__ import annotations

import contextlib

from tests.corpus.kit import program

LOG: list = []


class Manager:
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        LOG.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, tb):
        LOG.append(("exit", self.name, kind and kind.__name__, str(value)))
        return self.swallow


@program
def plain_manager(x):
    with Manager("a") as m:
        y = x + 1
    return y, m.name


@program
def two_managers(x):
    with Manager("a") as a, Manager("b") as b:
        y = x * 2
    return y, a.name + b.name


@program
def swallowed(x):
    with Manager("a", swallow=True):
        raise ValueError("gone")
    return x + 1


@program
def not_swallowed(x):
    try:
        with Manager("a"):
            raise ValueError("stays")
    except ValueError as error:
        return x, str(error)


@program(eager=("raises",))
def escapes_with(x):
    with Manager("a"):
        LOG.append("inside")
        raise ValueError("out")


def _early(x):
    with Manager("r"):
        return x + 3


@program
def return_inside(x):
    return _early(x)


@program
def break_inside(x):
    for n in range(5):
        with Manager(n):
            if n == 2:
                break
    return x, n


@contextlib.contextmanager
def managed(log, name):
    log.append("open " + name)
    try:
        yield name.upper()
    except KeyError as error:
        log.append(("caught", error.args))
    finally:
        log.append("close " + name)


@program
def generator_manager(x):
    log = []
    with managed(log, "g") as g:
        y = x + len(g)
    return y, g, log


@program
def generator_manager_catches(x):
    log = []
    with managed(log, "g"):
        raise KeyError("k")
    return x, log


@program
def generator_manager_passes_on(x):
    log = []
    try:
        with managed(log, "g"):
            raise ValueError("v")
    except ValueError as error:
        log.append(str(error))
    return x, log


@program
def suppress(x):
    with contextlib.suppress(KeyError, IndexError):
        {}["a"]
    with contextlib.suppress(KeyError):
        pass
    return x - 2


@program
def nullcontext(x):
    with contextlib.nullcontext(x * 2) as y:
        return y + 1


class ClosingThing:
    closed = False

    def close(self):
        self.closed = True


@program
def closing(x):
    with contextlib.closing(ClosingThing()) as thing:
        y = x
    return y, thing.closed


@program
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        a = stack.enter_context(managed(log, "a"))
        stack.callback(log.append, "callback")
        y = x * len(a)
    return y, log


@program
def as_decorator(x):
    log = []

    @managed(log, "d")
    def inner(v):
        log.append("body")
        return v * 3

    return inner(x), log


@program
def nested_exceptions(x):
    log = []
    try:
        with Manager("outer"):
            with Manager("inner", swallow=True):
                raise KeyError("one")
            raise IndexError("two")
    except IndexError as error:
        log.append(str(error))
    return x, log


@program
def exit_on_class_only(x):
    m = Manager("a")
    m.__exit__ = None
    with m:
        y = x + 1
    return y
