"""Tracebacks of exceptions that were raised and caught inside captured code.

A traceback entry names a frame, and the frames of inlined functions never exist. `TracebackV` notes
code, globals and instruction of each frame that an exception went through; when the exception is
built for real, `traceback` makes an entry with a frame of a stand-in: the same names, file and line
table, but code that only returns its own frame. `traceback.print_exc()` shows what it would have
shown; the locals of such a frame are not there.
"""

from __future__ import annotations

import dis
import inspect
import sys
import types
from typing import Any

from bytecode import Bytecode, Instr

from dynacomp.capture import _native, remake
from dynacomp.capture import sources as S
from dynacomp.capture.code import Instr as Op
from dynacomp.capture.machine import VERSION, Capture, Frame
from dynacomp.capture.values import Const, ObjectV, TracebackV, Value
from dynacomp.capture.wrap import wrap


def of(cap: Capture, error: Value) -> Value:
    """`error.__traceback__`."""
    assert isinstance(error, ObjectV)
    if "__traceback__" not in error.attrs:
        real = None if error.real is None else error.real.__traceback__
        source = S.Get(error.source, "__traceback__") if error.source is not None else None
        error.attrs["__traceback__"] = Const(None) if source is None else wrap(cap, real, source)
    return error.attrs["__traceback__"]


def entry(frame: Frame, instr: Op, inner: Value) -> TracebackV:
    """The entry of `frame`, where `instr` raised or passed an exception with the traceback `inner` on."""
    return TracebackV(frame.code.code, frame.globals, instr.offset, instr.line, inner)


def _calls_getframe() -> types.CodeType:
    null = [Instr("PUSH_NULL")]
    load = [Instr("LOAD_CONST", sys._getframe)]  # type: ignore[arg-type]
    call = [*([Instr("PRECALL", 0)] if VERSION < (3, 12) else []), Instr("CALL", 0), Instr("RETURN_VALUE")]
    return Bytecode([Instr("RESUME", 0), *(load + null if VERSION >= (3, 13) else null + load), *call]).to_code()


_GETFRAME = _calls_getframe()
UNIT = 2  # bytes of an instruction
NOP = bytes((dis.opmap["NOP"], 0))
NO_LINE = bytes((0x80 | 15 << 3,))  # in a table of lines: one instruction that has none


def stand_in(code: types.CodeType) -> types.CodeType:
    """Code with the face of `code` (names, file, lines) that returns its frame; it is never captured.

    It is as long as its table of lines says: CPython does not look whether the table goes beyond the end."""
    missing = (len(_GETFRAME.co_code) - len(code.co_code)) // UNIT
    made = code.replace(
        co_code=_GETFRAME.co_code + NOP * -missing, co_linetable=code.co_linetable + NO_LINE * missing,
        co_consts=_GETFRAME.co_consts, co_names=(), co_stacksize=_GETFRAME.co_stacksize,
        co_exceptiontable=b"", co_argcount=0, co_posonlyargcount=0, co_kwonlyargcount=0, co_freevars=(),
        co_cellvars=(), co_flags=inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS)
    _native.mark_skip(made, False, True)
    return made


def traceback(code: types.CodeType, globals_: Any, at: tuple[int, int], inner: Any) -> types.TracebackType:
    """A real traceback entry: `code` is a stand-in, `at` the offset of the instruction and its line."""
    frame = types.FunctionType(code, remake.unhold(globals_))()
    return types.TracebackType(inner, frame, *at)
