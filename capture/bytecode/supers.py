"""`super()` without arguments, in code that runs in another frame than its own.

`super()` looks for the first argument of the function in the frame that calls it. A resume function
or a segment has other arguments: there it becomes `super(__class__, first)`.

Up to Python 3.11 that is a load and a call without arguments; later versions have LOAD_SUPER_ATTR for
`super().name`, which is given both arguments anyhow, and told that they were not written out.
"""

from __future__ import annotations

from types import CodeType

from bytecode import FreeVar, Instr

from dynacomp.capture.bytecode.code import VERSION, Decoded

_CALL = ("PRECALL", "CALL") if VERSION < (3, 12) else ("CALL",)


def bare_supers(decoded: Decoded) -> frozenset[int]:
    """Where `super` is loaded to be called without arguments: the indices of those instructions."""
    code = decoded.code
    if "__class__" not in code.co_freevars or not code.co_argcount:
        return frozenset()
    instrs = decoded.instrs
    return frozenset(i.index for i in instrs if i.name == "LOAD_GLOBAL" and i.argval == "super" and i.arg & 1
                     and (instrs[i.index + 1].name, instrs[i.index + 1].arg) == (_CALL[0], 0))


def asking_supers(decoded: Decoded) -> frozenset[int]:
    """The same, and their calls: where the frame's first argument is asked for."""
    return frozenset(i + n for i in bare_supers(decoded) for n in range(len(_CALL) + 1))


def explicit(code: CodeType, supers: frozenset[int], index: int, item: Instr) -> list[Instr] | None:
    """What replaces instruction `index` (`item`); None where it has to do with no `super()`."""
    if index in supers:
        return _explicit_call(code, item)
    if any(index - n in supers for n in range(1, len(_CALL) + 1)):
        return []  # its call
    if item.name == "LOAD_SUPER_ATTR":
        method, _, name = item.arg  # type: ignore[misc, str-unpack]
        return [Instr(item.name, (method, True, name), location=item.location)]  # type: ignore[arg-type]
    return None


def _explicit_call(code: CodeType, load: Instr) -> list[Instr]:
    first, where = code.co_varnames[0], load.location
    return [load, Instr("LOAD_DEREF", FreeVar("__class__"), location=where),
            Instr("LOAD_DEREF", FreeVar(first), location=where) if first in code.co_cellvars
            else Instr("LOAD_FAST", first, location=where),
            *(Instr(name, 2, location=where) for name in _CALL)]
