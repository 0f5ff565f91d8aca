"""Tracebacks of exceptions that were raised and caught inside captured code.

A traceback entry names a frame, and the frames of inlined functions never exist. `TracebackV` notes
code, globals and instruction of each frame that an exception went through; when the exception is
built for real, `traceback` makes an entry with a frame of a stand-in: the same names, file and line
table, but code that only returns its own frame, where the original ended. `traceback.print_exc()` shows
what it would have shown; the locals of such a frame are not there.
"""

from __future__ import annotations

import dis
import inspect
import sys
import types
from typing import Any

from bytecode import Bytecode, Instr

from dynacomp.capture import _native
from dynacomp.capture.bytecode.code import VERSION, Instruction
from dynacomp.capture.bytecode.line_tables import to_code
from dynacomp.capture.symbolic.machine import Capture, Frame, left_at
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.frames import TracebackV
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import wrap


def of(cap: Capture, error: Any) -> Value:
    """`error.__traceback__` of an exception that the machine looks into."""
    if "__traceback__" not in error.attrs:
        real = None if error.real is None else error.real.__traceback__
        source = S.Get(error.source, "__traceback__") if error.source is not None else None
        error.attrs["__traceback__"] = Const(None) if source is None else wrap(cap, real, source)
    return error.attrs["__traceback__"]


def entry(frame: Frame, instr: Instruction, inner: Value) -> TracebackV:
    """The entry of `frame`, where `instr` raised or passed an exception with the traceback `inner` on."""
    return TracebackV(frame.code.code, frame.globals, instr.offset, instr.line, inner, instr.offset)


def raised_again(cap: Capture, frame: Frame, instr: Instruction, error: Value) -> None:
    """`instr` raises an exception again that came to `frame` before: it leaves the frame there."""
    top = of(cap, error)
    if isinstance(top, TracebackV) and top.code is frame.code.code:
        top.last = left_at(frame, instr)


def _calls_getframe() -> types.CodeType:
    null = [Instr("PUSH_NULL")]
    load = [Instr("LOAD_CONST", sys._getframe)]  # type: ignore[arg-type]
    call = [*([Instr("PRECALL", 0)] if VERSION < (3, 12) else []), Instr("CALL", 0), Instr("RETURN_VALUE")]
    return to_code(Bytecode([Instr("RESUME", 0), *(load + null if VERSION >= (3, 13) else null + load), *call]))


_GETFRAME = _calls_getframe()
UNIT = 2  # bytes of an instruction
NOP = bytes((dis.opmap["NOP"], 0))
NO_LINE = bytes((0x80 | 15 << 3,))  # in a table of lines: one instruction that has none


def _ending_at(place: int) -> bytes:
    """Bytecode that returns its frame by its instruction number `place` (2 for those before)."""
    whole = _GETFRAME.co_code
    begin, call, end = whole[:UNIT], whole[UNIT:-UNIT], whole[-UNIT:]
    room = place - len(begin + call) // UNIT
    if room >= 0:
        return begin + call + NOP * room + end
    place = max(place, 2)
    there = bytes((dis.opmap["JUMP_FORWARD"], place - 1))
    back = bytes((dis.opmap["JUMP_BACKWARD_NO_INTERRUPT"], len(call) // UNIT + 2))
    return begin + there + NOP * (place - 2) + end + call + back


def stand_in(code: types.CodeType, last: int) -> types.CodeType:
    """Code with the face of `code` (names, file, lines) that returns its frame at byte `last`; it is never captured.

    It is as long as its table of lines says: CPython does not look whether the table goes beyond the end."""
    runs = _ending_at(last // UNIT)
    missing = (len(runs) - len(code.co_code)) // UNIT
    made = code.replace(
        co_code=runs + NOP * -missing, co_linetable=code.co_linetable + NO_LINE * missing,
        co_consts=_GETFRAME.co_consts, co_names=(), co_stacksize=_GETFRAME.co_stacksize,
        co_exceptiontable=b"", co_argcount=0, co_posonlyargcount=0, co_kwonlyargcount=0, co_freevars=(),
        co_cellvars=(), co_flags=inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS)
    return left_alone(made)


def left_alone(code: types.CodeType) -> types.CodeType:
    """Code that was just made, or read from the disk: a stand-in is marked, so that nobody captures it."""
    if any(held is sys._getframe for held in code.co_consts):
        _native.mark_skip(code, False, True)
    return code


def function(code: types.CodeType, globals_: Any) -> types.FunctionType:
    """What returns a frame with the face of a stand-in. The replacement code itself calls it: the frame's `f_back` is
    then the program's, with nothing of ours, whose locals would keep the traceback's objects alive, in between."""
    return types.FunctionType(code, _native.unhold(globals_))
