"""Generators: `send`, `throw` and `close` on suspended symbolic frames.

A `GeneratorV` keeps the frame of a generator that the captured code made. Resuming it runs that
frame to its next `yield`; an exception thrown in is raised where the frame is suspended, after the
generator that it delegates to (`yield from`) had its turn.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from types import CodeType
from typing import Any, cast

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bytecode.code import VERSION
from dynacomp.capture.bytecode.suspensions import may_catch
from dynacomp.capture.symbolic.machine import Capture, Frame, execute, unwind
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.iterators import GeneratorV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.value import Value, type_of

NONE = Const(None)


def new_generator(cap: Capture, frame: Frame) -> GeneratorV:
    """The Value of a call of a function whose frame would suspend."""
    made = GeneratorV(frame, maker=cap.caller())
    if type_of(made) is types.CoroutineType:
        if sys.get_coroutine_origin_tracking_depth():
            raise Break("call", f"coroutine {frame.code.code.co_qualname}, of which Python notes where it is made")
        cap.guards.add("origins_untracked", None)
        cap.dropping.pending[id(made)] = made  # Python warns where it is dropped before it is awaited
    return made


def resume(cap: Capture, gen: GeneratorV, sent: Value) -> Value | None:
    """Runs a generator to its next yield; None at its end (`frame.result` is its return value, told once)."""
    _not_reused(gen)
    if gen.done:
        gen.frame.result = NONE  # no change to undo: who resumed it to its end has asked for the result at once
        return None
    started = gen.started
    return _run(cap, gen, lambda frame: frame.push(sent) if started else None)


def _not_reused(gen: GeneratorV) -> None:
    if gen.done and type_of(gen) is types.CoroutineType:
        raise Raised(Const(RuntimeError("cannot reuse already awaited coroutine")))


def _run(cap: Capture, gen: GeneratorV, enter: Callable[[Frame], None]) -> Value | None:
    """Resumes the frame after `enter` has put it into the state to go on from."""
    mutating(cap, gen)
    if gen.running:
        raise Raised(Const(ValueError(f"{type_name(gen.frame.code.code)} already executing")))
    frame = gen.frame
    gen.started, gen.running = True, True
    frame.parent = cap.current
    frame.yielded = None
    try:
        enter(frame)
        execute(cap, frame)
    except Raised as raised:
        gen.done = True
        raise _not_stop(cap, gen, raised) from None
    finally:
        gen.running = False
        cap.dropping.pending.pop(id(gen), None)
    if frame.result is not None:
        gen.done = True
        return None
    note_pending(cap, gen)
    return frame.yielded


def note_pending(cap: Capture, gen: GeneratorV) -> None:
    """Notes whether code of a generator that stands still runs when it is dropped (see generator_finalization.py)."""
    frame = gen.frame
    inner = delegate(frame)
    at = frame.code.instrs[frame.index - 1]
    if may_catch(frame.code, at) or id(inner) in cap.dropping.pending:
        cap.dropping.pending[id(gen)] = gen


def _not_stop(cap: Capture, gen: GeneratorV, raised: Raised) -> Raised:
    """StopIteration may not leave a generator (later versions do this in bytecode)."""
    code = gen.frame.code.code
    if VERSION >= (3, 12) or not issubclass(type_of(raised.value), stopping(code)):
        return raised
    return Raised(stop_error(raised.value, type_name(code)), fresh=False)


def stopping(code: CodeType) -> tuple[type, ...]:
    """The exceptions that may not leave the frame of a generator with this code."""
    return (StopIteration, StopAsyncIteration) if code.co_flags & inspect.CO_ASYNC_GENERATOR else (StopIteration,)


def type_name(code: CodeType) -> str:
    """What errors call a generator, coroutine or asynchronous generator with this code."""
    flags = code.co_flags
    return "coroutine" if flags & inspect.CO_COROUTINE else "async generator" if (
        flags & inspect.CO_ASYNC_GENERATOR) else "generator"


def stop_error(stop: Value, kind: str) -> Value:
    """The RuntimeError that a StopIteration becomes when it leaves a generator."""
    text = f"{kind} raised {type_of(stop).__name__}"
    made = ObjectV(RuntimeError, ctor=(Const(text),), attrs={"args": TupleV([Const(text)])})
    made.attrs.update(__cause__=stop, __context__=stop, __suppress_context__=Const(True))
    return made


def delegate(frame: Frame) -> Value | None:
    """What a suspended frame is in a `yield from` or `await` of."""
    nxt = frame.instr
    return frame.stack[-1] if nxt.name == "RESUME" and nxt.arg & 3 in (2, 3) else None


def throw(cap: Capture, gen: GeneratorV, error: Value) -> Value | None:
    """`gen.throw(error)`: the value that it yields next, None when it returned."""
    _not_reused(gen)
    if gen.done or not gen.started:
        _never_started(cap, gen)
        raise Raised(error)
    if not gen.running:
        inner = delegate(gen.frame)
        if inner is not None:
            return _throw_inside(cap, gen, inner, error)
    return _raise_inside(cap, gen, error)


def _raise_inside(cap: Capture, gen: GeneratorV, error: Value) -> Value | None:
    """Its context becomes what the generator itself is handling, never what its caller is."""
    def enter(frame: Frame) -> None:
        unwind(cap, frame, frame.code.instrs[frame.index - 1], Raised(error, fresh=bool(frame.handling)))

    return _run(cap, gen, enter)


def _throw_inside(cap: Capture, gen: GeneratorV, inner: Value, error: Value) -> Value | None:
    """The generator delegates: the inner iterator gets the exception first."""
    closing = issubclass(type_of(error), GeneratorExit)
    gen.running = True
    try:
        item = _throw_into(cap, inner, error) if not closing else None
        if closing:
            _close_inner(cap, inner)
    except Raised as raised:
        failed: Value | None = OPERATIONS.as_exception(cap, raised.value)
    else:
        failed = error if closing else None
    finally:
        gen.running = False
    if failed is None and item is None:
        return _end_delegation(cap, gen, cast(GeneratorV, inner).frame.result or NONE)
    if failed is None:
        return item
    if issubclass(type_of(failed), StopIteration) and not closing:
        return _end_delegation(cap, gen, cap.getattr(failed, "value"))
    return _raise_inside(cap, gen, failed)


def _throw_into(cap: Capture, inner: Value, error: Value) -> Value | None:
    row = kind(inner).throw
    if row is not None:
        return row(cap, inner, error)
    method = _found(cap, inner, "throw")
    if method is None:
        raise Raised(error)
    return cap.call(method, [error])


def _found(cap: Capture, inner: Value, name: str) -> Value | None:
    """A method that an iterator may have or not."""
    try:
        return cap.getattr(inner, name)
    except Raised as raised:
        if issubclass(type_of(raised.value), AttributeError):
            return None
        raise


def _end_delegation(cap: Capture, gen: GeneratorV, result: Value) -> Value | None:
    """The inner iterator is at its end: `yield from` has the value `result`."""
    def enter(frame: Frame) -> None:
        instrs = frame.code.instrs
        send: Any = instrs[frame.code.at[instrs[frame.index + 1].argval]]
        if VERSION < (3, 12):
            frame.pop()
        frame.push(result)
        frame.index = frame.code.at[send.argval]

    return _run(cap, gen, enter)


def _close_inner(cap: Capture, inner: Value) -> None:
    row = kind(inner).close
    if row is not None:
        row(cap, inner)
        return
    method = _found(cap, inner, "close")
    if method is not None:
        cap.call(method, [])


def _never_started(cap: Capture, gen: GeneratorV) -> None:
    if not gen.done:
        mutating(cap, gen)
        cap.dropping.pending.pop(id(gen), None)
        gen.done = True


def close(cap: Capture, gen: GeneratorV) -> Value:
    """`gen.close()`."""
    if gen.done or not gen.started:
        _never_started(cap, gen)
        return NONE
    try:
        item = throw(cap, gen, OPERATIONS.as_exception(cap, Const(GeneratorExit())))
    except Raised as raised:
        if issubclass(type_of(raised.value), (GeneratorExit, StopIteration)):
            return NONE
        raise
    if item is not None:
        kind = type_of(gen).__name__.replace("_", " ")
        raise Raised(Const(RuntimeError(f"{kind} ignored GeneratorExit")))
    return (gen.frame.result or NONE) if VERSION >= (3, 13) else NONE


define(GeneratorV, Kind(throw=throw, close=close))
