"""Generators: sent values, thrown exceptions, delegation, laziness, clean-up."""

from __future__ import annotations

from tests.corpus.kit import program


def count(n):
    k = 0
    while k < n:
        yield k
        k += 1


@program
def simple(x):
    return x + sum(count(5)), list(count(3))


@program
def arrays_from_a_generator(x):
    def scaled():
        for k in range(3):
            yield x * k

    total = 0
    for y in scaled():
        total = total + y
    return total


@program
def send(x):
    def running():
        total = 0
        while True:
            got = yield total
            if got is None:
                return total
            total += got

    g = running()
    seen = [next(g), g.send(3), g.send(4)]
    try:
        g.send(None)
    except StopIteration as stop:
        seen.append(stop.value)
    return x, seen


@program
def throw(x):
    def patient():
        seen = []
        while len(seen) < 2:
            try:
                yield len(seen)
            except ValueError as error:
                seen.append(str(error))
        yield seen

    g = patient()
    next(g)
    a = g.throw(ValueError("one"))
    b = g.throw(ValueError("two"))
    return x, a, b


@program
def throw_escapes(x):
    g = count(3)
    next(g)
    try:
        g.throw(KeyError("k"))
    except KeyError as error:
        return x, str(error), list(g)


@program
def close(x):
    log = []

    def careful():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    g = careful()
    next(g)
    g.close()
    g.close()
    unstarted = careful()
    unstarted.close()
    return x, log, list(g)


@program
def yield_from(x):
    def inner():
        got = yield 1
        yield got
        return "done"

    def outer():
        result = yield from inner()
        yield result
        yield from [7, 8]
        yield from count(2)

    g = outer()
    seen = [next(g), g.send("sent")]
    seen.extend(g)
    return x, seen


@program
def yield_from_throw(x):
    def inner():
        try:
            yield 1
        except ValueError:
            yield "handled"

    def outer():
        yield from inner()
        yield "after"

    g = outer()
    next(g)
    return x, g.throw(ValueError()), next(g)


@program
def generator_expression(x):
    squares = (k * k for k in range(5) if k % 2 == 0)
    first = next(squares)
    return x + first, list(squares), sum(k for k in (1, 2, 3))


@program
def lazy(x):
    log = []

    def noisy():
        for k in range(5):
            log.append(k)
            yield k

    found = any(k > 1 for k in noisy())
    return x, found, log


@program
def default_of_next(x):
    g = count(1)
    return x, next(g, "d"), next(g, "d"), next(iter([]), 3)


@program
def recursive(x):
    def walk(tree):
        if isinstance(tree, list):
            for t in tree:
                yield from walk(t)
        else:
            yield tree

    return x, list(walk([1, [2, [3, 4]], [[5]]]))


@program
def unpacked(x):
    a, b, c = count(3)
    first, *rest = count(4)
    return x + a + b + c, first, rest, [*count(2), *count(2)]


@program(hits=False)
def returned_unstarted(x):
    return x, count(3)


@program
def two_in_step(x):
    a, b = count(3), count(5)
    return x, list(zip(a, b)), list(b)


@program
def generator_raises(x):
    def bad():
        yield 1
        raise RuntimeError("bad")

    seen = []
    try:
        for k in bad():
            seen.append(k)
    except RuntimeError as error:
        seen.append(str(error))
    return x, seen


@program
def stop_iteration_inside(x):
    def bad():
        yield 1
        raise StopIteration("no")

    try:
        list(bad())
    except RuntimeError as error:
        return x, str(error), type(error.__cause__).__name__


class Down:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


@program
def class_iterator(x):
    d = Down(3)
    return x, next(d), list(d), [*Down(2)]


@program
def iter_with_sentinel(x):
    values = iter([1, 2, 3, 0, 4])
    return x, list(iter(lambda: next(values), 0)), next(values)


class Old:
    def __getitem__(self, i):
        if i > 2:
            raise IndexError(i)
        return i * 10


@program
def by_getitem(x):
    return x, list(Old()), 20 in Old(), [a for a in Old()]


@program
def half_consumed_argument(x):
    it = iter([1, 2, 3])
    next(it)
    return x, sum(it), list(it)


@program(args=lambda: (__import__("jax.numpy").numpy.arange(3.0), iter([1, 2, 3])))
def iterator_given(x, it):
    return x + next(it)


@program
def generator_methods(x):
    g = count(2)
    return x, iter(g) is g, hasattr(g, "send"), g.__next__(), g.__name__
