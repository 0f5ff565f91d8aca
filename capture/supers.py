"""`super()` without arguments, in code that runs in another frame than its own.

Up to Python 3.11 `super()` looks for the first argument of the function in the frame that calls it.
A resume function or a segment has other arguments: there it becomes `super(__class__, first)`, as
later versions compile it from the beginning.
"""

from __future__ import annotations

from types import CodeType

from bytecode import FreeVar, Instr

from dynacomp.capture.code import Decoded
from dynacomp.capture.machine import VERSION


def bare_supers(decoded: Decoded) -> frozenset[int]:
    """Where `super` is loaded to be called without arguments: the indices of those instructions."""
    code = decoded.code
    if VERSION >= (3, 12) or "__class__" not in code.co_freevars or not code.co_argcount:
        return frozenset()
    instrs = decoded.instrs
    return frozenset(i.index for i in instrs if i.name == "LOAD_GLOBAL" and i.argval == "super" and i.arg & 1
                     and (instrs[i.index + 1].name, instrs[i.index + 1].arg) == ("PRECALL", 0))


def explicit_super(code: CodeType, load: Instr) -> list[Instr]:
    """What replaces the load, PRECALL and CALL of a bare `super()`."""
    first, where = code.co_varnames[0], load.location
    return [load, Instr("LOAD_DEREF", FreeVar("__class__"), location=where),
            Instr("LOAD_DEREF", FreeVar(first), location=where) if first in code.co_cellvars
            else Instr("LOAD_FAST", first, location=where),
            Instr("PRECALL", 2, location=where), Instr("CALL", 2, location=where)]
