"""Resume functions: the rest of a frame after a graph break, as a code object of its own.

The resume function of instruction N is the original code with a new beginning: its parameters are
the values that were on the stack and the live locals; it pushes the former and jumps to N. Cells
of the original frame become free variables. Resume codes are shared by all breaks that leave the
frame in the same state (same place, same stack layout, same locals).
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from bytecode import Bytecode, CellVar, FreeVar, Instr, Label

from dynacomp.capture._native import entries
from dynacomp.capture.base.errors import GiveUp
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bytecode.code import VERSION, Decoded, decode, per_code
from dynacomp.capture.bytecode.line_tables import to_code
from dynacomp.capture.bytecode.supers import bare_supers, explicit

# What a stack slot holds: a value; NULL; what was handled before the exception that is handled now
# (PUSH_EXC_INFO put it there: the resume function is given that exception, and handles it again).
VALUE, NULL, HANDLED = "value", "null", "handled"


@dataclass(frozen=True)
class Layout:
    """The state in which a frame resumes: `target` instruction, what each stack slot holds (VALUE,
    NULL or HANDLED), a constant `lasti` pushed last or None, and the live locals by name.
    `segment`: the resume function of a generator, which its driver calls (see segments.py)."""

    target: int
    stack: tuple[str, ...]
    lasti: int | None
    locals: tuple[str, ...]
    segment: bool = False


@dataclass(frozen=True)
class Made:
    """A resume code: its original, where each of its instructions stands there (None: nowhere), and the state in
    which it goes on."""

    original: weakref.ref[CodeType]
    origin: tuple[int | None, ...]
    layout: Layout


# A resume code belongs to its original, and dies with it; replacement code and entries refer to it weakly. They
# hang on code objects, which take no part in garbage collection, and those of a loop lead back to themselves.
_OWNED: dict[int, dict[Layout, CodeType]] = {}  # by the original's id
_MADE: dict[int, Made] = {}  # by the resume code's id


LOOKS = {"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"}


def looks_at_frame(code: CodeType) -> bool:
    """Whether `code` may ask for its own local variables (see frame_rows)."""
    return not LOOKS.isdisjoint(code.co_names)


def resume_code(decoded: Decoded, layout: Layout) -> CodeType:
    """The code object that continues `decoded.code` from `layout`.

    A resume function of a resume function is one of the original code: loops that break come back
    to the same few code objects, and so to their cache entries.
    """
    resumed = _MADE.get(id(decoded.code))
    if resumed is not None:
        original, target = resumed.original(), resumed.origin[layout.target]
        if original is None or target is None:
            raise GiveUp("resume", "the function was deleted while it runs, or stopped inside super()")
        return resume_code(decode(original), replace(layout, target=target))
    owned = _owned(decoded.code)
    return owned.get(layout) or owned.setdefault(layout, _made(decoded, layout))


def _owned(code: CodeType) -> dict[Layout, CodeType]:
    if id(code) not in _OWNED:
        weakref.finalize(code, _OWNED.pop, id(code), None).atexit = False
    return _OWNED.setdefault(id(code), {})


def _made(decoded: Decoded, layout: Layout) -> CodeType:
    made, origin = _build(decoded, layout)
    _MADE[id(made)] = Made(weakref.ref(decoded.code), origin, layout)
    weakref.finalize(made, _MADE.pop, id(made), None).atexit = False
    return made


@per_code
def assembled(decoded: Decoded) -> Bytecode:
    """The code as `bytecode` has it, parsed once: not to be changed."""
    return Bytecode.from_code(decoded.code, conserve_exception_block_stackdepth=True)


@per_code
def instructions(decoded: Decoded) -> tuple[Instr, ...]:
    """Those that `decoded.instrs` are."""
    return tuple(of_class(Instr, assembled(decoded)))


def numbered(items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """What code is assembled of, each instruction with its index, labels and the like with -1."""
    count = itertools.count()
    return ((next(count) if isinstance(item, Instr) else -1, item) for item in items)


def _build(decoded: Decoded, layout: Layout) -> tuple[CodeType, tuple[int | None, ...]]:
    """The resume code, and where its instructions stand in the original."""
    code = decoded.code
    bc = assembled(decoded).copy()
    if len(instructions(decoded)) != len(decoded.instrs):
        raise GiveUp("resume", "the code object has instructions that cannot be mapped")
    late = late_cells(decoded)
    cells = tuple(c for c in code.co_cellvars if c not in late)
    entry = Label()
    body, origin = _body(decoded, bc, cells, layout.target, entry)
    params = [f"$s{n}" for n, held in enumerate(layout.stack) if held != NULL]
    bc.argcount, bc.posonlyargcount, bc.kwonlyargcount = len(params) + len(layout.locals), 0, 0
    bc.argnames = [*params, *layout.locals]
    bc.freevars = [*cells, *code.co_freevars]
    bc.cellvars = late
    prologue = _prologue(len(bc.freevars), layout, entry)
    bc[:] = [*prologue, *body]
    bc.flags &= ~(0x04 | 0x08)
    bc.name = code.co_name
    made = to_code(bc, code.co_stacksize + len(layout.stack) + 4)
    return made, (*[None] * len(prologue), *origin)


def _body(decoded: Decoded, bc: Bytecode, cells: tuple[str, ...], target: int,
          entry: Label) -> tuple[list[Any], list[int | None]]:
    """The original's instructions, with a label at `target`; and their indices there."""
    body: list[Any] = []
    origin: list[int | None] = []
    supers = bare_supers(decoded)
    for index, item in numbered(bc):
        if index == target:
            body.append(entry)
        replaced = explicit(decoded.code, supers, index, item) if index >= 0 else None
        made = with_free_cells(item, cells) if replaced is None else replaced
        body += made
        if index >= 0:
            origin += [index, *[None] * (len(made) - 1)][:len(made)]
    return body, origin


def _prologue(free: int, layout: Layout, entry: Label) -> list[Any]:
    out: list[Any] = []
    if free:
        out.append(Instr("COPY_FREE_VARS", free))
    out.append(Instr("RESUME", 0))
    for n, held in enumerate(layout.stack):
        if layout.lasti is not None and n == len(layout.stack) - 1:
            out.append(Instr("LOAD_CONST", layout.lasti))
        out += fill_slot(held, f"$s{n}")
        if held != NULL:
            out.append(Instr("DELETE_FAST", f"$s{n}"))  # the stack's reference is the only one
    out.append(Instr("JUMP_FORWARD", entry))
    return out


def fill_slot(held: str, name: str | None) -> list[Instr]:
    """Fills a stack slot from the local `name`."""
    if held == NULL:
        return [Instr("PUSH_NULL")]
    handle = [Instr("PUSH_EXC_INFO"), Instr("POP_TOP")] if held == HANDLED else []
    assert name is not None
    return [Instr("LOAD_FAST", name), *handle]


def with_free_cells(item: Any, cells: tuple[str, ...]) -> list[Any]:
    """The `cells` of the original frame are free variables of its resume functions."""
    return [_with_free_cell(part, cells) for part in _unfused(item)]


def _unfused(item: Any) -> list[Any]:
    """Pairs of variables that one instruction moves: they must be among a frame's first 16, where those of a
    resume function need not be."""
    if not (isinstance(item, Instr) and item.name in FUSED):
        return [item]
    pair: Any = item.arg
    return [Instr(name, arg, location=item.location) for name, arg in zip(FUSED[item.name], pair)]


FUSED = {"LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"), "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
         "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST")}


def _with_free_cell(item: Any, cells: tuple[str, ...]) -> Any:
    if not isinstance(item, Instr):
        return item
    if item.name == "COPY_FREE_VARS" or (item.name == "MAKE_CELL" and str(item.arg) in cells):
        return Instr("NOP", location=item.location)
    if str(item.arg) in cells and (isinstance(item.arg, CellVar) or _loads_cell(item)):
        return Instr(item.name, FreeVar(str(item.arg)), location=item.location)
    return item


def _loads_cell(item: Instr) -> bool:
    """Python 3.13 loads a cell like a local; that of a parameter bears the parameter's name."""
    return VERSION >= (3, 13) and item.name.startswith("LOAD_FAST") and isinstance(item.arg, str)


def late_cells(decoded: Decoded) -> list[str]:
    """Cells whose slot a comprehension shares that 3.12 and later inline: for a while it holds another cell,
    or a plain value. They stay cells of the resume functions, which get what is in the slot as an argument."""
    shared = [i.argval for i in decoded.instrs if i.name == "LOAD_FAST_AND_CLEAR"]
    return [name for name in decoded.code.co_cellvars if name in shared]


def is_resume(code: CodeType) -> bool:
    """Whether `code` was made here."""
    return id(code) in _MADE


def goes_on_behind(code: CodeType, index: int) -> bool:
    """Whether `code` was made to go on behind its instruction `index`, which has just run in Python."""
    made = _MADE.get(id(code))
    at = made.origin[index] if made is not None else None
    return made is not None and at is not None and made.layout.target == at + 1


def original_of(code: CodeType) -> CodeType:
    """The code that a resume function goes on with; any other code itself."""
    made = _MADE.get(id(code))
    return code if made is None else made.original() or code


def layout_of(code: CodeType) -> Layout | None:
    """Where in its original, and in what state, a resume function goes on; None of other code."""
    made = _MADE.get(id(code))
    return None if made is None else made.layout


def place_in(code: CodeType, resumed: CodeType) -> tuple[int, Layout] | None:
    """Where in `code`, and in what state, its resume function `resumed` (or that of what `code` resumes) goes on."""
    made, own = _MADE.get(id(resumed)), _MADE.get(id(code))
    if made is None or made.original() is not (code if own is None else own.original()):
        return None
    target = made.layout.target
    if own is None:
        return target, made.layout
    return (own.origin.index(target), made.layout) if target in own.origin else None


def own_cells(code: CodeType) -> tuple[str, ...]:
    """The local variables in cells of a function, or of the one that a resume function goes on with."""
    made = _MADE.get(id(code))
    while made is not None:
        original = made.original()
        assert original is not None
        code, made = original, _MADE.get(id(original))
    return code.co_cellvars


def returns_tail(code: CodeType) -> bool:
    """Whether replacement code calls `code`, and sees to what comes after it when it breaks in turn."""
    return is_resume(code) and not _MADE[id(code)].layout.segment


def living(codes: Iterable[CodeType]) -> Callable[[], Iterator[CodeType]]:
    """What gives those of `codes` that are still there, and keeps none of them."""
    refs = tuple(map(weakref.ref, codes))
    return lambda: (code for ref in refs if (code := ref()) is not None)


def reachable(codes: Iterable[CodeType], seen: set[int] | None = None) -> Iterator[tuple[CodeType, Any]]:
    """(code, what is known of an entry) of each of `codes` and of the resume functions that they go on in, in
    order of execution."""
    seen = set() if seen is None else seen
    for code in codes:
        if id(code) not in seen:
            seen.add(id(code))
            for entry in entries(code):
                info = entry.info
                if info is not None:  # else what it guards has died
                    yield code, info
                    yield from reachable(info.resumes(), seen)
