"""Stretches: code that runs as it is, in Python, as far as the places where compiled code is to go on.

A frame that computes nothing with arrays before its graph break (a loop that pads rows, bookkeeping before a model is
called) would need an entry for each content of what it reads. Its stretch needs none: the same bytecode, but where it
arrives at the place of one of the given resume functions, it leaves off and that function goes on (`Tail`). On ways
that pass none of these places it runs to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from bytecode import CellVar, CompilerFlags, FreeVar, Instr, Label, TryBegin, TryEnd

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bytecode.code import VERSION, argument_count, decode
from dynacomp.capture.bytecode.line_tables import to_code
from dynacomp.capture.bytecode.resume import (
    HANDLED,
    NULL,
    Layout,
    assembled,
    fill_slot,
    instructions,
    late_cells,
    looks_at_frame,
    numbered,
    place_in,
)

Places = dict[int, list[tuple[Layout, CodeType]]]
NOTHING: Any = None
ARGUMENTS, CLOSURE = "$arguments", "$closure"


def stretch(code: CodeType, resumes: Iterable[CodeType], leave: Callable[[CodeType], Any]) -> CodeType | None:
    """`code` up to `resumes`; None where it cannot be left at one of them. `leave(resumed)` is the constant that
    makes, of a closure and arguments, what the stretch then returns."""
    decoded, places = decode(code), places_of(code, resumes)
    if not places or late_cells(decoded) or looks_at_frame(code) or len(instructions(decoded)) != len(decoded.instrs):
        return None
    bc = assembled(decoded).copy()
    body: list[Any] = []
    ways_out: list[Any] = []
    methods = any(NULL in layout.stack for found in places.values() for layout, _ in found)
    for index, item in numbered(bc):
        if index in places:
            out, back = Label(), Label()
            body += [Instr("JUMP_FORWARD", out, location=item.location), back]
            ways_out += [out, *way_out(code, places[index], back, leave, item.location)]
        body += bound(item) if methods else [item]
    bc[:] = [*body, *ways_out]
    bc.argcount, bc.posonlyargcount, bc.kwonlyargcount = argument_count(code), 0, 0
    bc.argnames = list(code.co_varnames[:bc.argcount])
    bc.flags = CompilerFlags(code.co_flags & ~(0x04 | 0x08))
    width = max((len(layout.stack) + len(layout.locals) for found in places.values() for layout, _ in found), default=0)
    return to_code(bc, code.co_stacksize + width + 6)


def bound(item: Any) -> list[Any]:
    """An instruction that pushes a method beside its object, as resume functions have it: bound, beside a NULL."""
    arg: Any = item.arg if isinstance(item, Instr) else None
    name = item.name if isinstance(item, Instr) else ""
    if name == "LOAD_METHOD":
        plain = Instr("LOAD_ATTR", (False, arg) if VERSION >= (3, 12) else arg)
    elif name in ("LOAD_ATTR", "LOAD_SUPER_ATTR") and VERSION >= (3, 12) and arg[0]:
        plain = Instr(name, (False, *arg[1:]))
    else:
        return [item]
    return located([plain, Instr("PUSH_NULL"), *([Instr("SWAP", 2)] if VERSION < (3, 13) else [])], item.location)


def places_of(code: CodeType, resumes: Iterable[CodeType]) -> Places:
    """The instructions of `code` where resume functions go on; none where it cannot be left at one of them."""
    places: Places = {}
    for resumed in resumes:
        found = place_in(code, resumed)
        if found is None or not can_leave(found[1]):
            return {}
        places.setdefault(found[0], []).append((found[1], resumed))
    return places


def can_leave(layout: Layout) -> bool:
    """Whether a frame in this state may end: nothing is being handled."""
    return HANDLED not in layout.stack and layout.lasti is None and not layout.segment


def way_out(code: CodeType, found: list[tuple[Layout, CodeType]], back: Label, leave: Any, location: Any) -> list[Any]:
    """Leaves the frame for the first of the resume functions whose locals are all bound; back where none is."""
    out: list[Any] = []
    stack = found[0][0].stack
    kept = [f"$p{n}" for n in range(len(stack))]
    out += [Instr("STORE_FAST", name, location=location) for name in reversed(kept)]  # a NULL leaves it without a value
    for layout, resumed in sorted(found, key=lambda pair: -len(pair[0].locals)):
        arguments = [*(name for name, held in zip(kept, stack) if held != NULL), *layout.locals]
        unbound = Label()
        out += packed(arguments, unbound, location)
        out += left(code, leave(resumed), [*arguments, *kept], location)
        out += [unbound, Instr("POP_TOP", location=location)]
    for name, held in zip(kept, stack):
        out += [*fill_slot(held, name), *([] if held == NULL else [Instr("DELETE_FAST", name)])]
    return located([*out, Instr("JUMP_BACKWARD", back)], location)


def packed(arguments: list[str], unbound: Label, location: Any) -> list[Any]:
    """The arguments as a tuple in a local; to `unbound` where one has no value."""
    begin = TryBegin(unbound, False, 0)
    load = "LOAD_FAST" if VERSION < (3, 12) else "LOAD_FAST_CHECK"
    return located([begin, *(Instr(load, name) for name in arguments), Instr("BUILD_TUPLE", len(arguments)),
                    Instr("STORE_FAST", ARGUMENTS), TryEnd(begin)], location)


def left(code: CodeType, leave: Any, names: list[str], location: Any) -> list[Any]:
    """Returns `leave(closure, arguments)`. Whoever keeps this frame does not keep what was handed on."""
    load = "LOAD_CLOSURE" if VERSION < (3, 13) else "LOAD_FAST"
    variables: list[Any] = [*map(CellVar, code.co_cellvars), *map(FreeVar, code.co_freevars)]
    callee = [Instr("PUSH_NULL"), Instr("LOAD_CONST", leave)]
    return located([
        *(Instr(load, cell) for cell in variables), Instr("BUILD_TUPLE", len(variables)), Instr("STORE_FAST", CLOSURE),
        *(callee if VERSION < (3, 13) else callee[::-1]), Instr("LOAD_FAST", CLOSURE), Instr("LOAD_FAST", ARGUMENTS),
        *([Instr("PRECALL", 2)] if VERSION < (3, 12) else []), Instr("CALL", 2),
        *(part for name in (*dict.fromkeys(names), ARGUMENTS)
          for part in (Instr("LOAD_CONST", NOTHING), Instr("STORE_FAST", name), Instr("DELETE_FAST", name))),
        Instr("RETURN_VALUE")], location)


def located(items: list[Any], location: Any) -> list[Any]:
    """The instructions, on the line of the place that is left."""
    for item in of_class(Instr, items):
        item.location = location
    return items
