"""Generators, coroutines and async generators that live on their own: Python runs them, in segments."""

from __future__ import annotations

import asyncio
import contextlib
import types

import jax.numpy as jnp

from tests.corpus.kit import ANY, program


def powers(x, n):
    y = x
    for k in range(n):
        got = yield y, k
        y = y * x if got is None else got


@program(breaks={"effect": 1})
def half_consumed_over_a_print(x):
    made = powers(x, 4)
    first = next(made)
    print("between")
    return first, made.send(x + 10), list(made)


@program(breaks={"effect": 1}, hits=False)
def interleaved(x):
    a, b = powers(x, 3), powers(x + 1, 3)
    print(type(a).__name__, a.__name__)
    return [p + q for (p, _), (q, _) in zip(a, b)]


def guarded(log, x):
    try:
        yield x
        yield x * 2
    except KeyError as error:
        log.append(("caught", str(error)))
        yield x * 3
    else:
        log.append("else")
    finally:
        log.append("finally")


@program(breaks={"effect": 2})
def thrown_in_after_a_print(x):
    log = []
    made = guarded(log, x)
    first = next(made)
    print(len(log))
    second = made.throw(KeyError("k"))
    print(len(log))
    return first, second, next(made, "end"), log


@program(breaks={"effect": 1})
def closed_early(x):
    log = []
    made = guarded(log, x)
    first = next(made)
    print(len(log))
    made.close()
    return first, log, list(made)


@program(breaks={"effect": 1}, eager=("raises",))
def dropped_early(x):
    log = []
    made = guarded(log, x)
    first = next(made)
    print(len(log))
    del made
    return first, log


def failing(x):
    yield x
    raise ValueError("inside")


@program(breaks={"effect": 1}, eager=("raises",))
def raises_through(x):
    made = failing(x)
    print(next(made).shape)
    return list(made)


def tree(x, depth):
    if depth:
        yield from tree(x * 2, depth - 1)
        yield x
        yield from tree(x * 3, depth - 1)
    return depth


def outermost(x):
    found = yield from tree(x, 3)
    yield found


@program(breaks={"effect": 1})
def recursive_delegation(x):
    made = outermost(x)
    print(made.gi_yieldfrom)
    return list(made)


@contextlib.contextmanager
def scaled(log, x):
    log.append("enter")
    try:
        yield x * 2
    except ValueError as error:
        log.append(str(error))
    finally:
        log.append("exit")


@program(breaks={"effect": 2})
def context_manager_around_a_print(x):
    log = []
    with scaled(log, x) as y:
        print("inside")
        y = y + 1
    with scaled(log, x) as z:
        print("inside again")
        raise ValueError("left")
    return y, z, log


def batches(x, size):
    for at in range(0, len(x), size):
        yield jnp.stack([x[at:at + size]] * 2)


@program(breaks={"effect": 3})
def data_loader(x):
    total, seen = 0.0, []
    for batch in batches(x, 2):
        total = total + batch.sum()
        seen.append(float(total))
        print(batch.shape)
    return total, seen


def bounded(x):
    if x.shape[0] > 3:
        y = x
    yield 1
    with contextlib.suppress(UnboundLocalError):
        yield z  # noqa: F821
    z = y
    yield z


@program(breaks={"effect": 1})
def locals_without_values(x):
    made = bounded(x)
    print(next(made))
    return list(made)


def counted():
    total = 0

    def add(v):
        nonlocal total
        total = total + v
        return total

    while True:
        add((yield add(0)))


@program(breaks={"effect": 1}, hits=False)
def cells_of_a_generator(x):
    made = counted()
    next(made)
    print("started")
    return [made.send(x), made.send(x * 2), made.send(1)]


async def double(x):
    await asyncio.sleep(0)
    return x * 2


async def several(x):
    return await asyncio.gather(*(double(x + n) for n in range(3)))


@program(breaks=ANY)
def gathered(x):
    return asyncio.run(several(x))


class Resource:
    def __init__(self, log):
        self.log = log

    async def __aenter__(self):
        self.log.append("enter")
        return await double(3)

    async def __aexit__(self, *raised):
        self.log.append(raised[0] and raised[0].__name__)
        return raised[0] is KeyError


async def stream(x, n, log):
    try:
        for k in range(n):
            yield await double(x + k)
    finally:
        log.append("closed")


async def consume(x, log):
    total = x
    async with Resource(log) as factor:
        async for y in stream(x, 3, log):
            total = total + y * factor
        raise KeyError
    doubled = [y + await double(x) async for y in stream(x, 2, log)]
    early = stream(x, 5, log)
    async for y in early:
        break
    await early.aclose()
    return total, doubled, y


@program(breaks=ANY, eager=("raises",), hits=False)
def async_with_and_for(x):
    log = []
    return asyncio.run(consume(x, log)), log


@types.coroutine
def switch(x):
    got = yield x
    return x + got


async def switching(x):
    return await switch(x) + await switch(x * 2)


@program
def driven_by_hand(x):
    coroutine = switching(x)
    seen = [coroutine.send(None), coroutine.send(x), coroutine.cr_await is not None]
    try:
        coroutine.send(1)
    except StopIteration as stop:
        seen.append(stop.value)
    return seen


async def impatient(x, log):
    try:
        await asyncio.wait_for(asyncio.sleep(30), 0.01)
    except TimeoutError:
        log.append("timeout")
    task = asyncio.ensure_future(asyncio.sleep(30))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        log.append("cancelled")
    return x + 1


@program(breaks=ANY)
def cancelled(x):
    log = []
    return asyncio.run(impatient(x, log)), log
