"""Generators: `send`, `throw` and `close` on suspended symbolic frames.

A `GeneratorV` keeps the frame of a generator that the captured code made. Resuming it runs that
frame to its next `yield`; an exception thrown in is raised where the frame is suspended, after the
generator that it delegates to (`yield from`) had its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynacomp.capture.effects import mutating
from dynacomp.capture.errors import Raised
from dynacomp.capture.machine import OPERATIONS, VERSION, Capture, Frame, execute, unwind
from dynacomp.capture.suspensions import may_catch
from dynacomp.capture.values import Const, GeneratorV, ObjectV, TupleV, Value, type_of

NONE = Const(None)


def resume(cap: Capture, gen: GeneratorV, sent: Value) -> Value | None:
    """Runs a generator to its next yield; None at its end (`frame.result` is its return value)."""
    if gen.done:
        return None
    started = gen.started
    return _run(cap, gen, lambda frame: frame.push(sent) if started else None)


def _run(cap: Capture, gen: GeneratorV, enter: Callable[[Frame], None]) -> Value | None:
    """Resumes the frame after `enter` has put it into the state to go on from."""
    mutating(cap, gen)
    if gen.running:
        raise Raised(Const(ValueError("generator already executing")))
    frame = gen.frame
    gen.started, gen.running = True, True
    frame.parent = cap.current
    frame.yielded = None
    try:
        enter(frame)
        execute(cap, frame)
    except Raised as raised:
        gen.done = True
        raise _not_stop(cap, raised) from None
    finally:
        gen.running = False
        cap.pending.pop(id(gen), None)
    if frame.result is not None:
        gen.done = True
        return None
    note_pending(cap, gen)
    return frame.yielded


def note_pending(cap: Capture, gen: GeneratorV) -> None:
    """Notes whether code of a generator that stands still runs when it is dropped (see dropping.py)."""
    frame = gen.frame
    inner = delegate(frame)
    at = frame.code.instrs[frame.index - 1]
    if may_catch(frame.code, at) or id(inner) in cap.pending:
        cap.pending[id(gen)] = gen


def _not_stop(cap: Capture, raised: Raised) -> Raised:
    """StopIteration may not leave a generator (later versions do this in bytecode)."""
    if VERSION >= (3, 12) or not issubclass(type_of(raised.value), StopIteration):
        return raised
    return Raised(stop_error(cap, raised.value), fresh=False)


def stop_error(cap: Capture, stop: Value) -> Value:
    """The RuntimeError that a StopIteration becomes when it leaves a generator."""
    text = "generator raised StopIteration"
    made = ObjectV(RuntimeError, ctor=(Const(text),), attrs={"args": TupleV([Const(text)])})
    made.attrs.update(__cause__=stop, __context__=stop, __suppress_context__=Const(True))
    return made


def delegate(frame: Frame) -> Value | None:
    """What a suspended frame is in a `yield from` of."""
    nxt = frame.instr
    return frame.stack[-1] if nxt.name == "RESUME" and nxt.arg & 3 == 2 else None


def throw(cap: Capture, gen: GeneratorV, error: Value) -> Value | None:
    """`gen.throw(error)`: the value that it yields next, None when it returned."""
    if gen.done or not gen.started:
        mutating(cap, gen)
        gen.done = True
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
        failed = OPERATIONS["as_exception"](cap, raised.value)
    else:
        failed = error if closing else None
    finally:
        gen.running = False
    if failed is None and item is None:
        assert isinstance(inner, GeneratorV)
        return _end_delegation(cap, gen, inner.frame.result or NONE)
    if failed is None:
        return item
    if issubclass(type_of(failed), StopIteration) and not closing:
        return _end_delegation(cap, gen, cap.getattr(failed, "value"))
    return _raise_inside(cap, gen, failed)


def _throw_into(cap: Capture, inner: Value, error: Value) -> Value | None:
    if isinstance(inner, GeneratorV):
        return throw(cap, inner, error)
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
    if isinstance(inner, GeneratorV):
        close(cap, inner)
        return
    method = _found(cap, inner, "close")
    if method is not None:
        cap.call(method, [])


def close(cap: Capture, gen: GeneratorV) -> Value:
    """`gen.close()`."""
    if gen.done or not gen.started:
        mutating(cap, gen)
        gen.done = True
        return NONE
    try:
        item = throw(cap, gen, OPERATIONS["as_exception"](cap, Const(GeneratorExit())))
    except Raised as raised:
        if issubclass(type_of(raised.value), (GeneratorExit, StopIteration)):
            return NONE
        raise
    if item is not None:
        raise Raised(Const(RuntimeError("generator ignored GeneratorExit")))
    return (gen.frame.result or NONE) if VERSION >= (3, 13) else NONE
