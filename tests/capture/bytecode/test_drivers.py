"""Drivers: generators around hand-written segments, and that nothing of the driver shows."""

import asyncio
import gc
import inspect
import sys
import traceback
import types
import weakref

import pytest

from dynacomp.capture.bytecode.drivers import TEMPLATES, driver, slots_of, with_last, without_driver
from dynacomp.capture.bytecode.segments import START

END, NEXT = 0, 8  # keys of events: the end, a value that is yielded


def model(a, b=2, *rest, c=3, **more):
    """Whose parameters the driver takes."""
    yield a


async def coroutine_model(a):
    return a


async def async_model(a):
    yield a


def around(fn, make):
    """A function whose driver runs the segments that `make(globals, closure)` gives."""
    code = driver(fn.__code__, make)
    return types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


def counting(globals_, closure):
    """Yields what it was called with, then what is sent, until 3 is sent."""
    def start(first, *rest):
        return NEXT, first, (first,)

    def again(first, sent):
        return (END, "done", None) if sent == 3 else (NEXT, sent, (first,))

    def thrown(first, error):
        raise error

    return {START: start, NEXT: again, -NEXT: thrown}


def test_a_driver_is_a_generator_of_the_same_name_and_parameters():
    made = around(model, counting)
    code = made.__code__
    assert (code.co_name, code.co_filename, code.co_firstlineno) == (
        "model", model.__code__.co_filename, model.__code__.co_firstlineno)
    assert code.co_flags & inspect.CO_GENERATOR and set(TEMPLATES) == {
        inspect.CO_GENERATOR, inspect.CO_COROUTINE, inspect.CO_ASYNC_GENERATOR}
    assert code.co_varnames[:5] == ("a", "b", "c", "rest", "more"), "stars are arguments like others"
    gen = made(7, 2, (), 3, {})
    assert isinstance(gen, types.GeneratorType) and next(gen) == 7


def test_values_are_sent_and_the_result_is_its_own():
    gen = around(model, counting)(7, 2, 3, (), {})
    assert [next(gen), gen.send(5), gen.send(6)] == [7, 5, 6]
    with pytest.raises(StopIteration) as stopped:
        gen.send(3)
    assert stopped.value.value == "done"


def test_what_is_thrown_in_reaches_a_segment_and_tracebacks_show_no_driver():
    gen = around(model, counting)(7, 2, 3, (), {})
    next(gen)
    try:
        gen.throw(KeyError("x"))
    except KeyError as error:
        assert [f.name for f in traceback.extract_tb(error.__traceback__)][1:] == ["thrown"]
    gen = around(model, counting)(7, 2, 3, (), {})
    next(gen)
    gen.close()
    assert gen.gi_frame is None


def test_a_variable_that_was_read_is_forgotten():
    """A suspended driver keeps nothing of what it has yielded."""
    class Held:
        pass

    def given(globals_, closure):
        return {START: lambda *state: (NEXT, Held(), ()), NEXT: lambda sent: (END, None, None),
                -NEXT: lambda error: (_ for _ in ()).throw(error)}

    gen = around(model, given)(1, 2, 3, (), {})
    gone = weakref.ref(next(gen))
    gc.collect()
    assert gone() is None
    assert sys.getrefcount(gen) < 5


def test_cells_are_given_to_the_segments():
    seen = []

    def outer():
        x = 5

        def inner():
            yield x

        return inner

    def noting(globals_, closure):
        seen.append((globals_ is globals(), [c.cell_contents for c in closure]))
        return {START: lambda *state: (END, None, None)}

    assert list(around(outer(), noting)()) == [] and seen == [(True, [5])]


def test_coroutines_and_async_generators():
    async def ran():
        made = around(async_model, counting)(7)
        return [await made.__anext__(), await made.asend(5)]

    def once(globals_, closure):
        return {START: lambda a, sent: (END, a + 1, None)}

    assert asyncio.run(around(coroutine_model, once)(4)) == 5
    assert asyncio.run(ran()) == [7, 5]


def test_slots_and_small_helpers():
    code = driver(model.__code__, counting)
    slots = slots_of(code)
    assert sorted(slots.values()) == list(range(len(slots))) and {"$key", "$segments"} <= slots.keys()
    assert with_last((1, 2)) == ((1, 2), 2)
    try:
        raise ValueError
    except ValueError as error:
        here = error.__traceback__
        assert without_driver(error).__traceback__ is here.tb_next
