"""Segments and drivers: each program runs plainly, cut into segments without capture, and compiled."""

import asyncio
import gc
import sys
import traceback
import types
import warnings
import weakref

import jax.numpy as jnp
import numpy as np
import pytest

import dynacomp
from dynacomp.capture import _native as native
from dynacomp.capture.bytecode.generator_plan import Plan


def cut(fn):
    """The function as its driver, whose segments run as plain Python."""
    code = Plan(fn.__code__, lambda segment: segment).driver()
    made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__qualname__ = fn.__qualname__
    return made


WAYS = pytest.mark.parametrize("way", [cut, dynacomp.jit], ids=["cut", "jit"])


def shown(value):
    if isinstance(value, BaseException):
        return repr(value)
    return value.tolist() if hasattr(value, "tolist") else value


def described(error):
    lines = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)[1:]]
    chain = error.__cause__ or error.__context__
    return type(error), str(error), lines, type(chain)


def drive(generator, *operations):
    """What a generator gives for each operation: a value to send, or an exception to throw in."""
    out = []
    for op in operations:
        try:
            thrown = isinstance(op, BaseException)
            out.append(shown(generator.throw(type(op)(*op.args)) if thrown else generator.send(op)))
        except BaseException as error:
            out.append(described(error))
    return out


def same(way, fn, *operations, args=()):
    plain = drive(fn(*args), *operations)
    assert drive(way(fn)(*args), *operations) == plain
    return plain


# --- generators


def sends_and_handlers(n):
    try:
        for i in range(n):
            z = max((yield i), str.format("{}", (yield -i)))
            yield z
    except KeyError as e:
        r = yield "caught", e.args, sys.exception() is e
        try:
            yield r
            raise
        finally:
            yield "finally"
    return 99


@WAYS
@pytest.mark.parametrize("operations", [
    (None, "a", "b", None, "c", "d", KeyError("x"), "s", "t", "u", "v"), (None, ValueError("out"), None),
    (ValueError("at once"), None), (None, "a", KeyError(1), KeyError(2), KeyError(3), KeyError(4)), (1,)])
def test_send_and_throw(way, operations):
    same(way, sends_and_handlers, *operations, args=(3,))


def inner():
    try:
        x = yield 1
        y = yield x
        assert y
    except ValueError:
        yield "inner"
    return 5


class Letters:
    asked = 0

    def __iter__(self):
        Letters.asked += 1
        return iter("ab")


def delegates(n):
    got = yield from inner()
    yield got
    yield from [1, 2]
    try:
        yield from 5
    except TypeError as e:
        yield str(e)
    yield from Letters()
    w = n
    add = lambda: w + n  # noqa: E731
    w = yield add()
    yield add()
    raise StopIteration(3)


@WAYS
@pytest.mark.parametrize("operations", [
    (None, "a", ValueError("x"), *[None] * 9, 4, None, None), (None, "a", "b", None), (None, KeyError("x"), None),
    (None, "a", 0, None), (*[None] * 4, AttributeError("no throw in lists"))])
def test_delegation(way, operations):
    same(way, delegates, *operations, args=(3,))
    asked = Letters.asked
    drive(way(delegates)(3), None, "a", ValueError("x"), *[None] * 7)
    assert Letters.asked == asked + 1


@WAYS
def test_yield_from_iterator_shows(way):
    def outer(it):
        yield from it

    it = iter([1, 2])
    generator = way(outer)(it)
    next(generator)
    assert generator.gi_yieldfrom is it
    next(generator)
    assert list(generator) == [] and generator.gi_yieldfrom is None


def unbound(flag):
    if flag:
        x = jnp.ones(2)
    yield 1
    try:
        yield x.sum()
    except UnboundLocalError as e:
        yield str(e)
    x = 1
    del x
    yield 2
    yield x  # noqa: F821


@WAYS
@pytest.mark.parametrize("flag", [True, False])
def test_locals_without_a_value(way, flag):
    same(way, unbound, *[None] * 5, args=(flag,))


def callees_on_the_stack(words):
    return words.index((yield 1), *(yield 2)), (yield 3)


@WAYS
def test_calls_suspended_between_callee_and_arguments(way):
    same(way, callees_on_the_stack, None, "b", (0,), 7, args=(["a", "b"],))


def handled_inside(n):
    try:
        raise ValueError("first")
    except ValueError:
        yield sys.exception()
        try:
            yield 1 // n
        except ZeroDivisionError as e:
            yield e.__context__
            yield sys.exception()
        yield sys.exception()
        raise
    finally:
        yield "finally"


@WAYS
def test_exceptions_being_handled_at_a_yield(way):
    same(way, handled_inside, *[None] * 8, args=(0,))
    same(way, handled_inside, None, None, KeyError("while handling"), None, None, args=(1,))
    try:
        raise ValueError("of the caller")
    except ValueError:
        same(way, inner, None, KeyError("from outside"))


@WAYS
def test_close_and_garbage(way):
    log = []

    def opened(name):
        try:
            yield name
            yield name
        finally:
            log.append(name)

    def stubborn():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    a, b, c, d = way(opened)("a"), way(opened)("b"), way(opened)("never started"), way(stubborn)()
    next(a), next(b), next(d)
    a.close()
    assert log == ["a"] and list(a) == []
    del b
    gc.collect()
    c.close()
    assert log == ["a", "b"]
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        d.close()
    d.close()


class Token:
    pass


@WAYS
def test_what_is_held(way):
    """A suspended generator keeps its locals alive, and nothing else."""
    def keeps(token):
        kept = weakref.ref(token)
        yield kept
        yield None

    def yields():
        yield Token()
        yield None

    generator = way(keeps)(Token())
    ref = next(generator)
    gc.collect()
    assert ref() is not None
    next(generator)
    assert ref() is not None
    generator.close()
    gc.collect()
    assert ref() is None
    generator = way(yields)()
    ref = weakref.ref(next(generator))
    gc.collect()
    assert ref() is None


@WAYS
def test_what_is_deleted_is_gone(way):
    def deletes(token):
        ref = weakref.ref(token)
        yield
        del token
        gc.collect()
        yield ref() is None

    @dynacomp.jit
    def run(generator):
        return list(generator)

    found = run(way(deletes)(Token()))  # an assert would keep the token
    assert found == [None, True]


@WAYS
def test_names(way):
    def numbers():
        yield

    async def work():
        pass

    async def stream():
        yield

    for fn in (numbers, work, stream):
        fn.__name__, fn.__qualname__ = "renamed", "made.renamed"
    generator, coroutine, items = [way(fn)() for fn in (numbers, work, stream)]
    for made in (generator, coroutine, items):
        assert (made.__name__, made.__qualname__) == ("renamed", "made.renamed")
    assert isinstance(generator, types.GeneratorType) and isinstance(coroutine, types.CoroutineType)
    assert isinstance(items, types.AsyncGeneratorType)
    coroutine.close()


@WAYS
def test_running_and_exhausted(way):
    def itself():
        yield next(generator)

    generator = way(itself)()
    with pytest.raises(ValueError, match="already executing"):
        next(generator)
    assert list(generator) == []


class Base:
    def scale(self, x):
        return x + 1


class Derived(Base):
    def scale(self, x):
        yield 1
        yield super().scale(x)

    def captured(self, x):
        yield 1
        me = lambda: self  # noqa: E731
        yield super().scale(x), me() is self, super().__self__ is self


@WAYS
def test_super(way):
    for fn in (Derived.scale, Derived.captured):
        assert list(way(fn)(Derived(), 2)) == list(fn(Derived(), 2))


def keywords(a, /, b=2, *rest, c, d=4, **more):
    yield a, b, rest, c, d, more
    more = 0
    yield a, b, rest, c, d, more


def test_all_kinds_of_parameters():
    calls = [((1,), {"c": 3}), ((1, 5, 6, 7), {"c": 3, "d": 8, "e": 9})]
    compiled = dynacomp.jit(keywords)
    for args, kwargs in calls:
        assert list(compiled(*args, **kwargs)) == list(keywords(*args, **kwargs))
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument"):
        compiled(1)


# --- coroutines and async generators


class Managed:
    async def __aenter__(self):
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *raised):
        await asyncio.sleep(0)
        return raised[0] is KeyError

    def __aiter__(self):
        self.n = 0
        return self

    async def __anext__(self):
        self.n += 1
        if self.n > 3:
            raise StopAsyncIteration
        return self.n


async def stream(n, log):
    try:
        for i in range(n):
            await asyncio.sleep(0)
            log.append((yield i))
    finally:
        await asyncio.sleep(0)
        log.append("closed")


async def everything(stream, log):
    async with Managed() as items:
        async for x in items:
            log.append(x)
        async for x in stream(3, log):
            log.append(x)
        log.append([x async for x in stream(2, log)])
        log.append([await asyncio.sleep(0, x) for x in range(2)])
        some = stream(4, log)
        log.append(await some.asend(None))
        log.append(await some.asend("sent"))
        await some.aclose()
        thrown = stream(4, log)
        log.append(await thrown.asend(None))
        try:
            await thrown.athrow(ValueError("in"))
        except ValueError as e:
            log.append(str(e))
        raise KeyError
    try:
        await 5
    except TypeError as e:
        log.append(str(e))
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.01)
    except TimeoutError:
        log.append("too late")
    return await asyncio.gather(*[asyncio.sleep(0, i) for i in range(3)])


@WAYS
def test_async(way):
    plain, made = [], []
    result = asyncio.run(everything(stream, plain))
    assert asyncio.run(way(everything)(way(stream), made)) == result and made == plain


@WAYS
def test_stop_iteration_in_a_coroutine(way):
    async def stops():
        raise StopIteration

    async def ends():
        yield 1
        raise StopAsyncIteration

    with pytest.raises(RuntimeError, match="coroutine raised StopIteration"):
        way(stops)().send(None)
    items = way(ends)()
    with pytest.raises(StopIteration):
        items.asend(None).send(None)
    with pytest.raises(RuntimeError, match="async generator raised StopAsyncIteration"):
        items.asend(None).send(None)


@WAYS
def test_generator_based_coroutines(way):
    @types.coroutine
    def old():
        return (yield from asyncio.sleep(0, 4))

    async def new(old):
        return await old()

    assert asyncio.run(new(way(old))) == 4


def test_never_awaited():
    async def work():
        pass

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dynacomp.jit(work)()
        gc.collect()
    assert "work' was never awaited" in str(caught[0].message)


@WAYS
def test_what_is_awaited_sees_what_is_being_handled(way):
    async def looks(log):
        log.append(repr(sys.exception()))
        await asyncio.sleep(0)
        log.append(repr(sys.exception()))
        try:
            raise KeyError("inner")
        except KeyError as e:
            log.append(repr(e.__context__))
            raise IndexError from None

    async def handles(looks, log):
        try:
            raise ValueError("outer")
        except ValueError:
            try:
                await looks(log)
            except IndexError as e:
                log.append(repr(e.__context__))
                log.append([f.name for f in traceback.extract_tb(e.__context__.__traceback__)])
            log.append(repr(sys.exception()))
        log.append(sys.exception())

    plain, made = [], []
    asyncio.run(handles(looks, plain))
    asyncio.run(way(handles)(way(looks), made))
    assert made == plain


# --- what is compiled


def steps(x, n):
    for _ in range(n):
        x = jnp.tanh(x) * 2 + 1
        yield x


def test_entries_do_not_grow_with_items():
    x = jnp.ones(8)
    for got, wanted in zip(dynacomp.jit(steps)(x, 3), steps(x, 3), strict=True):
        assert jnp.allclose(got, wanted, rtol=1e-6)
    list(dynacomp.jit(steps)(x, 20))
    before = dynacomp.stats()
    for _ in range(3):
        list(dynacomp.jit(steps)(x, 20))
    after = dynacomp.stats()
    assert after["frames_captured"] == before["frames_captured"] and after["graphs"] == before["graphs"] > 0
    assert after["cache_hits"] > before["cache_hits"] + 60


def test_generators_below_a_compiled_function():
    def totals(rows, print_to):
        made = batches(rows)
        print_to.append(type(made))
        return [row.sum() for row in made]

    def batches(rows):
        for n in range(rows.shape[0]):
            yield rows[n] * 2

    rows, seen = jnp.arange(6.0).reshape(3, 2), []
    assert dynacomp.jit(totals)(rows, seen) == [2.0, 10.0, 18.0] and seen == [types.GeneratorType]


def test_training_loop_with_a_generator_as_loader():
    def loader(xs, ys, size):
        for at in range(0, len(xs), size):
            yield xs[at:at + size], ys[at:at + size] * 2.0

    def train(w, xs, ys, log):
        for x, y in loader(xs, ys, 2):
            error = x @ w - y
            w = w - 0.1 * (x.T @ error) / len(x)
            log.append(float((error ** 2).sum()))
        return w

    xs, ys, w = jnp.arange(12.0).reshape(6, 2) / 10, jnp.arange(6.0), jnp.zeros(2)
    plain, made = [], []
    expected = train(w, xs, ys, plain)
    assert jnp.allclose(dynacomp.jit(train)(w, xs, ys, made), expected, rtol=1e-5)
    assert made == pytest.approx(plain, rel=1e-5)


async def serve(w, requests, answers):
    while (x := await requests.get()) is not None:
        y = jnp.tanh(x @ w)
        await answers.put(y.sum() if y.ndim else y)
    return "done"


def test_coroutines_under_asyncio():
    async def main(serve):
        requests, answers = asyncio.Queue(), asyncio.Queue()
        for item in [*(jnp.full(3, float(i)) for i in range(6)), None, None]:
            requests.put_nowait(item)
        ends = await asyncio.gather(serve(jnp.eye(3), requests, answers), serve(jnp.eye(3), requests, answers))
        return ends, sorted(float(answers.get_nowait()) for _ in range(6))

    plain, made = asyncio.run(main(serve)), asyncio.run(main(dynacomp.jit(serve)))
    assert made[0] == plain[0] == ["done", "done"] and made[1] == pytest.approx(plain[1], rel=1e-6)


def test_generators_without_arrays_are_left_alone():
    def numbers(n):
        for k in range(n):
            yield k * k

    @dynacomp.jit
    def total(x, n):
        print(end="")
        made = numbers(n)
        print(end="")
        return x + int(np.fromiter(made, int).sum())

    assert total(1, 200) == sum(k * k for k in range(200)) + 1
    assert native.is_skipped(numbers.__code__)
    assert total(1, 10) == 286


def test_generators_with_arrays_stay():
    def rows(x, n):
        for k in range(n):
            yield (x * k).sum()

    @dynacomp.jit
    def total(x, n):
        print(end="")
        made = rows(x, n)
        print(end="")
        return list(np.fromiter(made, object))

    assert total(jnp.ones(2), 100)[-1] == 198
    assert not native.is_skipped(rows.__code__) and native.entries(rows.__code__)


def shares_with_a_comprehension(x, rows):
    found = [lambda: x + n for x in rows]  # noqa: B023, F821
    n = 1
    yield found[-1](), x
    n = yield [sum(v * y for v in rows) for y in rows]
    del n
    y = [lambda: y for y in rows][0]  # noqa: B023
    yield y(), x
    yield found[0]()


async def awaits_in_a_shared_comprehension(rows):
    made = [(lambda: x, await asyncio.sleep(0, x)) for x in rows]  # noqa: B023
    return [f() for f, _ in made]


@WAYS
def test_comprehensions_that_share_a_variable_with_a_closure(way):
    same(way, shares_with_a_comprehension, *[None] * 4, args=(7, [1, 2, 3]))
    assert asyncio.run(dynacomp.jit(awaits_in_a_shared_comprehension)([1, 2])) == [2, 2]
