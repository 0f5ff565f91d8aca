"""Coroutines and asynchronous generators that are awaited by captured code: they run in its graph."""

from __future__ import annotations

import asyncio
import contextlib
import types
import warnings

from tests.corpus.kit import program


async def double(x):
    return x * 2


async def twice(x):
    a = await double(x)
    b = await double(a + 1)
    return a + b


@types.coroutine
def switch(x):
    got = yield "a"
    yield got
    return x


async def suspending(x):
    y = await double(x)
    z = await switch(y)
    return await double(z)


async def nested(x):
    try:
        found = await suspending(x)
    finally:
        print("finally")
    return found + await suspending(x)


def driven(coroutine):
    out = []
    try:
        while True:
            out.append(coroutine.send(None))
    except StopIteration as stop:
        return out, stop.value


@program
def run_to_its_end(x):
    return driven(twice(x))


@program(breaks={"effect": 3}, hits=False)
def suspended_inside_each_other(x):
    return driven(nested(x))


@program(breaks={"effect": 6}, hits=False)
def gone_on_with_after_prints(x):
    coroutine = nested(x)
    out = [coroutine.send(None)]
    print("one", coroutine.cr_await is not None)
    out.append(coroutine.send(None))
    print("two")
    try:
        while True:
            out.append(coroutine.send(0))
            print("more")
    except StopIteration as stop:
        out.append(stop.value)
    return out


async def catching(x):
    try:
        await switch(x)
    except ValueError as error:
        return x, str(error)


@program(breaks={"effect": 1})
def thrown_in_after_a_print(x):
    coroutine = catching(x)
    first = coroutine.send(None)
    print("suspended")
    try:
        coroutine.throw(ValueError("v"))
    except StopIteration as stop:
        return first, stop.value


async def numbers(x, n, log):
    for k in range(n):
        log.append((yield await double(x + k)))


async def asking(x, log):
    out = [y + await double(x) async for y in numbers(x, 3, log)]
    made = numbers(x, 2, log)
    out += [await made.__anext__(), await made.asend(5)]
    try:
        await made.asend(7)
    except StopAsyncIteration:
        log.append("ended")
    return out


@program
def asynchronous_generators(x):
    log = []
    return driven(asking(x, log)), log


class Countdown:
    def __init__(self, n, x):
        self.n, self.x = n, x

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.n:
            raise StopAsyncIteration
        self.n -= 1
        return self.x * self.n


async def counting(x):
    out = []
    async for y in Countdown(3, x):
        out.append(y)
    else:
        out.append("else")
    return out


@program
def asynchronous_iterators(x):
    return driven(counting(x))


@contextlib.asynccontextmanager
async def scaled(log, x):
    log.append("enter")
    try:
        yield x * 2
    finally:
        log.append("exit")


async def inside(log, x):
    async with scaled(log, x) as y:
        log.append("inside")
        z = await double(y)
    async with scaled(log, x) as y:
        await asyncio.sleep(0)
    return z + y


@program
def asynchronous_contexts(x):
    log = []
    return driven(inside(log, x)), log


@program(breaks={"effect": 2})
def never_awaited(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        coroutine = twice(x)
        del coroutine
        twice(x)
    return [str(w.message) for w in seen]


@program
def not_to_be_used_so(x):
    ended, out = twice(x), []
    driven(ended)
    for use in (lambda: ended.send(None), lambda: ended.throw(KeyError()), lambda: next(ended), lambda: iter(ended)):
        try:
            use()
        except (RuntimeError, TypeError) as error:
            out.append((type(error).__name__, str(error)))
    early = twice(x)
    try:
        early.send(1)
    except TypeError as error:
        out.append(str(error))
    early.close()
    return out


async def stopping():
    raise StopIteration(3)


async def stopping_numbers():
    yield 1
    raise StopAsyncIteration


async def all_of_them():
    return [v async for v in stopping_numbers()]


@program
def stop_iteration_may_not_leave(x):
    out = []
    for make in (stopping, all_of_them):
        try:
            driven(make())
        except RuntimeError as error:
            out.append((str(error), type(error.__cause__).__name__))
    return out
