"""Lazy iterators of `itertools` as Python generators, which the machine enters like any other.

The C classes cannot be looked into half-way; these do the same element by element.
"""

from __future__ import annotations

import inspect
import itertools
import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any


def zip_longest(*iterables: Iterable, fillvalue: Any = None) -> Iterator[tuple]:
    iterators = [iter(it) for it in iterables]
    left = len(iterators)
    while left:
        found = []
        for n, it in enumerate(iterators):
            try:
                item = next(it)
            except StopIteration:
                left -= 1
                if not left:
                    return
                iterators[n] = itertools.repeat(fillvalue)
                item = fillvalue
            found.append(item)
        yield tuple(found)


def starmap(function: Callable, iterable: Iterable) -> Iterator:
    for args in iterable:
        yield function(*args)


def compress(data: Iterable, selectors: Iterable) -> Iterator:
    for item, wanted in zip(data, selectors):
        if wanted:
            yield item


def takewhile(predicate: Callable, iterable: Iterable) -> Iterator:
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Callable, iterable: Iterable) -> Iterator:
    dropping = True
    for item in iterable:
        if dropping and predicate(item):
            continue
        dropping = False
        yield item


def filterfalse(function: Callable | None, iterable: Iterable) -> Iterator:
    for item in iterable:
        if not (item if function is None else function(item)):
            yield item


def from_iterable(iterable: Iterable[Iterable]) -> Iterator:
    for inner in iterable:
        yield from inner


def cycle(iterable: Iterable) -> Iterator:
    seen = []
    for item in iterable:
        yield item
        seen.append(item)
    while seen:
        yield from seen


def accumulate(iterable: Iterable, func: Callable | None = None, *, initial: Any = None) -> Iterator:
    it, end = iter(iterable), object()
    total = next(it, end) if initial is None else initial
    if total is end:
        return
    yield total
    for item in it:
        total = (operator.add if func is None else func)(total, item)
        yield total


def groupby(iterable: Iterable, key: Callable | None = None) -> Iterator[tuple]:
    it, end = iter(iterable), object()
    item = at = target = end
    latest = 0  # the groups before it get no more items

    def advance() -> bool:
        nonlocal item, at
        item = next(it, end)
        if item is not end:
            at = item if key is None else key(item)
        return item is not end

    def group(number: int, target: Any) -> Iterator:
        nonlocal item
        while number == latest and (item is not end or advance()) and (target is at or target == at):
            found, item = item, end
            yield found

    while True:
        latest += 1
        while at is target or target == at:
            if not advance():
                return
        target = at
        yield target, group(latest, target)


def tee(iterable: Iterable, n: int = 2) -> tuple:
    if n < 0:
        raise ValueError("n must be >= 0")
    it = iter(iterable)
    queues: list[deque] = [deque() for _ in range(n)]

    def branch(mine: deque) -> Iterator:
        end = object()
        while True:
            if not mine:
                item = next(it, end)
                if item is end:
                    return
                for queue in queues:
                    queue.append(item)
            yield mine.popleft()

    return tuple([branch(queue) for queue in queues])


EQUIVALENTS: dict[Any, Callable] = {
    itertools.zip_longest: zip_longest, itertools.starmap: starmap, itertools.compress: compress,
    itertools.takewhile: takewhile, itertools.dropwhile: dropwhile, itertools.filterfalse: filterfalse,
    itertools.chain.from_iterable: from_iterable, itertools.cycle: cycle, itertools.accumulate: accumulate,
    itertools.groupby: groupby, itertools.tee: tee,
}


def _inside(fn: Callable) -> CodeType:
    """The code of the generator that `fn` defines."""
    return next(c for c in fn.__code__.co_consts if isinstance(c, CodeType) and c.co_flags & inspect.CO_GENERATOR)


# What the class of each is, by its code.
CLASSES: dict[CodeType, type] = {
    **{fn.__code__: real if isinstance(real, type) else itertools.chain for real, fn in EQUIVALENTS.items()},
    _inside(tee): type(itertools.tee(())[0]), _inside(groupby): type(next(itertools.groupby((1,)))[1])}
