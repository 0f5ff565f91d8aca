"""Opcodes of coroutines: `await`, `async with`, `async for`, asynchronous generators.

A coroutine of the captured code is a GeneratorV, awaited on the symbolic machine. What only an event loop can
wait for (a Future, a coroutine that began elsewhere) is left to the driver of the outermost coroutine: `begun` is
what a segment calls before it suspends (see segments.py), and where it has run a coroutine to its end the segment
just goes on.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, TypeGuard

from dynacomp.capture.base.errors import Break, Raised, Restart
from dynacomp.capture.builtins.builtin_rows import row
from dynacomp.capture.bytecode.code import VERSION, Instruction
from dynacomp.capture.bytecode.segments import begun
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.symbolic.generators import delegate, resume
from dynacomp.capture.symbolic.machine import Capture, Frame, opcode, unsupported
from dynacomp.capture.values.computed import ArrayV, LibraryV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.iterators import ASendV, GeneratorV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV, OpaqueV
from dynacomp.capture.values.questions import is_suspended
from dynacomp.capture.values.value import Value, type_of
from dynacomp.capture.wrapping.class_attrs import name_in_errors

NONE = Const(None)


@opcode("GET_AWAITABLE")
def _get_awaitable(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(awaitable(cap, f.pop(), REFUSALS[i.arg]))


REFUSALS = ("object {} can't be used in 'await' expression",
            "'async with' received an object from __aenter__ that does not implement __await__: {}",
            "'async with' received an object from __aexit__ that does not implement __await__: {}")


def awaitable(cap: Capture, v: Value, refusal: str) -> Value:
    """What `await v` sends to."""
    row = kind(v).awaited
    found = None if row is None else row(cap, v)
    if found is not None:
        return found  # type: ignore[no-any-return]
    if hasattr(type_of(v), "__await__"):
        raise _left_to_python(v)
    raise Raised(Const(TypeError(refusal.format(name_in_errors(type_of(v))))))


def _iterator(found: Value) -> Value:
    kind = type_of(found)
    if kind is types.CoroutineType:
        raise Raised(Const(TypeError("__await__() returned a coroutine")))
    if not hasattr(kind, "__next__"):
        raise Raised(Const(TypeError(f"__await__() returned non-iterator of type {name_in_errors(kind)!r}")))
    return found


def _left_to_python(v: Value) -> Break:
    return Break("call", f"await of a {type_of(v).__qualname__}")


def _by_python(cap: Capture, v: Value) -> Value:
    raise _left_to_python(v)


def _refused(cap: Capture, v: Value) -> Value:
    raise Break("raises", "TypeError")  # whose text names the class as only C knows it


def _coroutine(cap: Capture, v: GeneratorV) -> Value | None:
    if not _is_coroutine(v):
        return None
    if type_of(v) is types.CoroutineType and v.started and not v.done and (v.running or delegate(v.frame) is not None):
        raise Raised(Const(RuntimeError("coroutine is being awaited already")))
    return v


def _is_coroutine(v: GeneratorV) -> bool:
    return bool(v.frame.code.code.co_flags & AWAITABLE)


def _of_instance(cap: Capture, v: ObjectV) -> Value | None:
    method = cap.special(v, "__await__")
    return None if method is None else _iterator(cap.call(method, []))


AWAITABLE = 0x80 | 0x100  # CO_COROUTINE, CO_ITERABLE_COROUTINE


# --- context managers


def manager(cap: Capture, v: ObjectV, a: str = "") -> tuple[Value, Value]:
    """What leaves a context manager, and what enters it; a: "a" of an asynchronous one."""
    enter, leave = cap.special(v, f"__{a}enter__"), cap.special(v, f"__{a}exit__")
    if enter is None or leave is None:
        protocol = "asynchronous context" if a else "context"
        missed = "" if enter is None else f" (missed __{a}exit__ method)"
        raise Raised(Const(TypeError(
            f"{v.cls.__qualname__!r} object does not support the {protocol} manager protocol{missed}")))
    return leave, enter


@opcode("BEFORE_ASYNC_WITH")
def _before_async_with(cap: Capture, f: Frame, i: Instruction) -> None:
    v = f.pop()
    row = kind(v).amanager
    if row is None:
        raise Break("with", f"an asynchronous context manager of type {type_of(v).__qualname__}")
    leave, enter = row(cap, v)
    f.push(leave)
    f.push(cap.call(enter, []))


@opcode("GET_AITER")
def _get_aiter(cap: Capture, f: Frame, i: Instruction) -> None:
    v = f.pop()
    f.push(_aiter(cap, v))


@row(aiter)
def _aiter_of(cap: Capture, v: Value) -> Value:
    if kind(v).aiter is not None and cap.own(v, "__aiter__") is None:
        raise Break("raises", "TypeError")
    return _aiter(cap, v)


def _aiter(cap: Capture, v: Value) -> Value:
    """What `async for` goes through."""
    if type_of(v) is types.AsyncGeneratorType:
        return v
    row = kind(v).aiter
    if row is None:
        raise Break("iterator", f"asynchronous iteration over a {type_of(v).__qualname__}")
    return row(cap, v)  # type: ignore[no-any-return]


def _aiter_of_instance(cap: Capture, v: ObjectV) -> Value:
    method = cap.special(v, "__aiter__")
    if method is None:
        raise Raised(Const(TypeError("'async for' requires an object with __aiter__ method, got "
                                     f"{name_in_errors(v.cls)}")))
    found = cap.call(method, [])
    if not hasattr(type_of(found), "__anext__"):
        raise Raised(Const(TypeError("'async for' received an object from __aiter__ that does not implement "
                                     f"__anext__: {name_in_errors(type_of(found))}")))
    return found


@opcode("GET_ANEXT")
def _get_anext(cap: Capture, f: Frame, i: Instruction) -> None:
    v = f.stack[-1]
    given = _anext(cap, v)
    if isinstance(given, ASendV):
        f.push(given)
        return
    try:
        f.push(awaitable(cap, given, "{}"))
    except Raised:  # which becomes the cause of another
        raise Break("raises", "TypeError") from None


@row(anext)
def _anext(cap: Capture, v: Value, *default: Value) -> Value:
    """What is to be awaited for the next item of an asynchronous iterator."""
    if default:
        raise Break("call", "anext() with a default")
    if type_of(v) is types.AsyncGeneratorType:
        return ASendV(v, NONE)
    method = cap.own(v, "__anext__")
    if method is None:
        raise Break("iterator", f"asynchronous iteration over a {type_of(v).__qualname__}")
    return cap.call(method, [])


@opcode("ASYNC_GEN_WRAP")
def _async_gen_wrap(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(Wrapped(f.pop()))


class Wrapped(Value):
    """What an asynchronous generator yields, told from what it only awaits."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


@opcode("CLEANUP_THROW", since=(3, 12))
def _cleanup_throw(cap: Capture, f: Frame, i: Instruction) -> None:
    """An exception that left what was awaited: StopIteration is its result."""
    error = f.stack[-1]
    if not issubclass(type_of(error), StopIteration):
        raise Raised(error, fresh=False, traced=True)
    del f.stack[-3:]
    f.push(NONE)
    f.push(cap.getattr(error, "value"))


if VERSION < (3, 12):
    unsupported("no code of ours throws into an iterator", "CLEANUP_THROW")


# --- what is sent to an asynchronous generator


def send_to_generator(cap: Capture, it: ASendV, sent: Value) -> tuple[bool, Value]:
    """(True, what `await` gives), or (False, what is passed on to whoever drives all of it)."""
    gen = it.gen
    if not _is_captured(gen) or it.used:
        raise Break("call", "an asynchronous generator that the event loop drives")
    if not gen.started:
        _check_hooks()
    value, it.value = (sent if it.value is None else it.value), None
    item = resume(cap, gen, value)
    if item is None:
        raise Raised(Const(StopAsyncIteration()))
    it.used = isinstance(item, Wrapped)
    return it.used, item.value if it.used else item  # type: ignore[attr-defined]


def _check_hooks() -> None:
    """An event loop is told of generators that begin, lest they outlive it; others may do anything with them."""
    first = sys.get_asyncgen_hooks().firstiter
    if first is not None and getattr(first, "__module__", "") != "asyncio.base_events":
        raise Break("call", "a hook that is told of asynchronous generators")


# --- the segments of a coroutine


def _begun(cap: Capture, awaited: Value) -> Value:
    """The row of `segments.begun`: (True, result) of a coroutine that ends at once, else (False, what to wait for)."""
    assert cap.current is not None
    place = cap.current.code.code, cap.current.index
    if not _may_begin(cap, awaited, place):
        return TupleV([Const(False), awaited])
    try:
        ended, item = kind(awaited).send(cap, awaited, NONE)  # type: ignore[misc]
        if not ended:
            _ahead(awaited, item)
    except Break:
        cap.lessons.waits.add((id(place[0]), place[1]))
        raise Restart from None
    return TupleV([Const(ended), item if ended else awaited])


def _may_begin(cap: Capture, v: Value, place: Any) -> bool:
    if (id(place[0]), place[1]) in cap.lessons.waits or cap.bodies:
        return False
    row = kind(v).may_begin
    return row is not None and row(v)


def send_to_frame(cap: Capture, v: GeneratorV, sent: Value) -> tuple[bool, Value]:
    """The same of a generator or coroutine."""
    item = resume(cap, v, sent)
    return (True, v.frame.result or NONE) if item is None else (False, item)


def _is_captured(v: Value) -> TypeGuard[GeneratorV]:
    """Whether the captured code has made this generator, and drives it."""
    return is_suspended(v) and v.real is None


def _ahead(v: Value, item: Value) -> None:
    """Notes that `v`, and what it waits for, has yielded `item`, which its driver is still to yield."""
    while v is not None:
        if not _is_captured(v):
            raise Break("iterator", "an iterator that a coroutine waits for")
        v.ahead, v = item, delegate(v.frame)  # type: ignore[assignment]


BUILTINS[begun] = _begun
define(ObjectV, Kind(awaited=_of_instance, aiter=_aiter_of_instance, manager=manager,
                     amanager=functools.partial(manager, a="a")))
define(GeneratorV, Kind(awaited=_coroutine, send=send_to_frame,
                        may_begin=lambda v: _is_coroutine(v) and v.real is None and not v.started))
define(ASendV, Kind(awaited=lambda cap, v: v, send=send_to_generator,
                    may_begin=lambda v: _is_captured(v.gen)))
define(OpaqueV, Kind(awaited=_by_python))
define(LibraryV, Kind(awaited=_by_python))
define(ArrayV, Kind(awaited=_refused))
