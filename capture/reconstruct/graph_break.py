"""Graph breaks: the end of a replacement code object that stops in the middle of its frame.

`breaking` rebuilds what is alive, replays the side effects, runs the breaking instruction in Python
and goes on in a resume function, one for each way on: the next instruction, the target of a jump,
the handler of an exception. Where exceptions are being handled (a break in an `except` or `finally`
block), the instruction finds them handled here too, and they are handled again in the resume
function: `raise`, `sys.exception()` and the context of new exceptions are those of the program.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from bytecode import FreeVar, Instr, Label, TryBegin, TryEnd

from dynacomp.capture._native import Tail
from dynacomp.capture.bytecode.code import VERSION, Instruction
from dynacomp.capture.bytecode.control_flow_graph import EXIT, live, successors
from dynacomp.capture.bytecode.resume import (
    HANDLED,
    NULL,
    VALUE,
    Layout,
    fill_slot,
    instructions,
    late_cells,
    resume_code,
)
from dynacomp.capture.bytecode.stack_effects import operands
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.reconstruct.emit_sources import load_globals
from dynacomp.capture.reconstruct.output import Recipe, Writer
from dynacomp.capture.reconstruct.readers import reader
from dynacomp.capture.reconstruct.unchanged import effects
from dynacomp.capture.reconstruct.unnoticed import AtBreak, is_quiet
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.values.frames import HandlingV, is_null
from dynacomp.capture.values.value import Value


@dataclass(frozen=True)
class Slot:
    """A stack slot: what it holds (see resume.Layout), and the local of the replacement code with its
    content (for HANDLED: the exception that is handled from there on)."""

    kind: str
    name: str | None = None


def breaking(cap: Capture, frame: Frame) -> Recipe:
    """The entry of a frame that stops before `frame.instr`: run that in Python, then resume."""
    code, late = frame.code.code, late_cells(frame.code)
    w = Writer(cap, code)
    w.prepare(effects(cap))
    stack = [_saved(w, v) for v in frame.stack]
    needed = live(frame.code, frame.index)
    names = sorted(n for n in frame.locals if n in needed)
    saved = {n: w.save(frame.locals[n]) for n in names}
    used = frame.stack[len(frame.stack) - operands(frame.instr, len(frame.stack)):]
    here = AtBreak(w, is_quiet(used))
    kept = {n for n, v in frame.locals.items() if n not in read_anyhow(frame) and here.is_missed(v)}
    saved.update({n: w.save(frame.locals[n]) for n in sorted(kept.difference(saved))})
    saved.update({n: w.save(frame.cells[n]) for n in late if n in frame.cells})
    cells = tuple(w.save(frame.cells[n]) for n in (*code.co_cellvars, *code.co_freevars)
                  if n in frame.cells and n not in late)
    w.replay()
    Leaver(w, frame, stack, saved, cells, kept | set(late)).leave()
    return w.finish()


def read_anyhow(frame: Frame) -> frozenset[str]:
    """The locals that every way on from a break may read."""
    handler = frame.code.handler(frame.instr.offset)
    ways = [at for at in successors(frame.code, frame.index) if at != EXIT]
    ways += [frame.code.at[handler.target]] if handler is not None else []
    return frozenset.intersection(*(live(frame.code, at) for at in ways)) if ways else frozenset()


def _saved(w: Writer, value: Value) -> Slot:
    if is_null(value):
        return Slot(NULL)
    if isinstance(value, HandlingV):
        return Slot(HANDLED, w.save(value.error))
    return Slot(VALUE, w.save(value))


class Leaver:
    """Writes the breaking instruction and the calls of resume functions after it."""

    def __init__(self, w: Writer, frame: Frame, stack: list[Slot], saved: dict[str, str],
                 cells: tuple[str, ...], kept: set[str]) -> None:
        self.w, self.e, self.frame, self.instr = w, w.e, frame, frame.instr
        self.saved, self.cells, self.kept = dict(saved), cells, kept
        handled = [n for n, slot in enumerate(stack) if slot.kind == HANDLED]
        self.below = stack[:handled[-1] + 1 if handled else 0]  # lies on the real stack throughout
        used = max(len(stack) - operands(self.instr, len(stack)), len(self.below))
        self.rest, self.operands = stack[:used], stack[used:]

    def leave(self) -> None:
        """try: the instruction; on to its normal and jump targets; except: on to its handler."""
        handler = self.frame.code.handler(self.instr.offset)
        self._fill(self.below)
        caught = Label()
        lasti = handler is not None and handler.lasti
        begin = TryBegin(caught, lasti) if handler or self.below or _names(self.rest) else None
        if begin is not None:
            self.e.out.append(begin)
        exits = self._instruction()
        self._normal(exits, begin)
        if begin is not None:
            self.e.out.append(caught)
            self._handler(handler)

    def _fill(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            self.e.out += fill_slot(slot.kind, slot.name)

    def _clear_below(self) -> None:
        """Takes the lower slots off the real stack: what they handled is handled no more."""
        for slot in reversed(self.below):
            self.e.op("POP_EXCEPT" if slot.kind == HANDLED else "POP_TOP")

    def _instruction(self) -> tuple[Label | None, int, int]:
        """Runs the instruction on its operands; (jump label, values pushed, values pushed after a jump)."""
        i, e = self.instr, self.e
        for name in self.saved:
            e.op("LOAD_FAST", self.saved[name])
            e.op("STORE_FAST", name)
        needed = {*self.saved, *self.cells, *_names(self.rest)}
        self.w.forget(needed.union(_names(self.operands)))
        if i.name in TRUTHS:
            self._truth()
        else:
            self._fill(self.operands)
        self.w.forget(needed)
        used = len(self.operands)
        if i.name in SIMPLER:
            e.out.append(Instr(*SIMPLER[i.name](i), location=self._original().location))
            return None, 1, 0
        if i.name in ("CALL", "PRECALL"):
            self._call(i)
            return None, 1, 0
        if i.name in JUMPS:
            return None, 0, 0
        opcode = dis.opmap[i.name]
        arg = i.arg if opcode >= dis.HAVE_ARGUMENT else None
        after = used + dis.stack_effect(opcode, arg, jump=False)
        if "JUMP" in i.name or i.name in ("FOR_ITER", "SEND"):
            label = Label()
            e.out.append(Instr(i.name.replace("BACKWARD", "FORWARD"), label, location=self._original().location))
            jumped = 0 if i.name == "FOR_ITER" else used + dis.stack_effect(opcode, arg, jump=True)
            return label, after, jumped
        e.out.append(self._copy())
        return None, after, 0

    def _truth(self) -> None:
        """The truth of the operand: asked before the jump, since an array's can be read without asking its class."""
        first = len(self.e.out)
        self.e.begin_call(lambda: self.e.const(reader(bool)))
        self._fill(self.operands)
        self.e.end_call(1)
        for instr in self.e.out[first:]:
            if isinstance(instr, Instr):
                instr.location = self._original().location

    def _original(self) -> Instr:
        """The instruction as `bytecode` has it in the original code."""
        return instructions(self.frame.code)[self.instr.index]

    def _copy(self) -> Instr:
        found = self._original()
        arg = (_free(found.arg),) if found.require_arg() else ()
        return Instr(found.name, *arg, location=found.location)

    def _call(self, i: Instruction) -> None:
        if self.frame.kw_names:
            self.e.op("KW_NAMES", self.frame.kw_names)
        where = self._original().location
        if VERSION < (3, 12):
            self.e.out.append(Instr("PRECALL", i.arg, location=where))
        self.e.out.append(Instr("CALL", i.arg, location=where))

    def _normal(self, exits: tuple[Label | None, int, int], begin: TryBegin | None) -> None:
        label, pushed, jumped = exits
        if begin is not None:
            self.e.out.append(TryEnd(begin))
        i = self.instr
        if i.name in LEAVES:
            return
        after = self.frame.code.at[i.argval] if i.name in JUMPS else self.frame.index + 1
        self._go_on(after, pushed)
        if label is None:
            return
        self.e.out.append(label)
        target = self.frame.code.at[i.argval]
        if i.name == "FOR_ITER":
            for name in LOOP_END:
                self.e.op(name)
            target += len(LOOP_END)
        self._go_on(target, jumped)

    def _go_on(self, target: int, pushed: int) -> None:
        """On to `target` with the `pushed` values that the instruction left on the real stack."""
        taken = [self.e.store_temp("s") for _ in range(pushed)][::-1]
        self._clear_below()
        kinds = AFTER.get(self.instr.name, lambda i: None)(self.instr) or [VALUE] * pushed
        names = iter(taken)
        pushes = [Slot(kind, None if kind == NULL else next(names)) for kind in kinds]
        known = {*self.saved, *_stored_local(self.instr)} - _deleted(self.instr)
        self._resume(target, [*self.rest, *pushes], known)

    def _resume(self, target: int, stack: Sequence[Slot], known: set[str], lasti: int | None = None) -> None:
        """Ends with a call of the resume function at `target`, for the caller to make (see tail.c). A traceback or
        whoever looked may keep this frame: what the program lets go of later must not live on in it."""
        names = tuple(sorted(known & (live(self.frame.code, target) | self.kept)))
        layout = Layout(target, tuple(slot.kind for slot in stack), lasti, names)
        code = resume_code(self.frame.code, layout)
        self.w.resumes.append(code)
        arguments = [*(slot.name for slot in stack if slot.name is not None), *names]
        e = self.e
        e.begin_call(lambda: e.const(Tail))
        self._function(code)
        for name in arguments:
            e.op("LOAD_FAST", name)
        e.op("BUILD_TUPLE", len(arguments))
        e.end_call(2)
        self._lose((*arguments, *sorted(known), *self.cells, *_names(self.rest)))
        e.op("RETURN_VALUE")

    def _function(self, code: CodeType) -> None:
        e = self.e

        def closure() -> None:
            for name in self.cells:
                e.op("LOAD_FAST", name)
            e.op("BUILD_TUPLE", len(self.cells))

        held = runtime.Weak(code)  # see resume.py: its original owns it
        e.call(runtime.resume_function, lambda: e.const(held), lambda: load_globals(e, self.frame.globals), closure)

    def _handler(self, handler: Any) -> None:
        """An exception of the instruction goes on in the frame's own handler, or leaves the frame. Its traceback
        keeps this frame alive, which must not keep alive what the original's stack has lost by then."""
        e = self.e
        raised = e.store_temp("x")
        if handler is not None and handler.lasti:
            e.op("POP_TOP")
        self._clear_below()
        if handler is None:
            e.op("LOAD_FAST", raised)
            self._lose((*_names(self.rest), raised))
            e.op("RERAISE", 0)
            return
        stack = [*self.rest[:handler.depth], Slot(VALUE, raised)]
        lasti = self.instr.offset if handler.lasti else None
        self._resume(self.frame.code.at[handler.target], stack, set(self.saved), lasti)

    def _lose(self, names: Iterable[str]) -> None:
        """Deletes locals, bound or not."""
        for name in dict.fromkeys(names):
            self.e.const(None)
            self.e.op("STORE_FAST", name)
            self.e.op("DELETE_FAST", name)


def _names(slots: Sequence[Slot]) -> set[str]:
    return {slot.name for slot in slots if slot.name is not None}


def _free(arg: Any) -> Any:
    return FreeVar(str(arg)) if type(arg).__name__ == "CellVar" else arg


def _plain_attr(i: Instruction) -> tuple[str, Any]:
    return "LOAD_ATTR", (False, i.argval) if VERSION >= (3, 12) else i.argval


JUMPS = ("JUMP_BACKWARD", "JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT")
TRUTHS = tuple(f"POP_JUMP_{way}IF_{what}" for way in ("", "FORWARD_", "BACKWARD_") for what in ("TRUE", "FALSE"))
LEAVES = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
LOOP_END = {(3, 11): (), (3, 12): ("END_FOR",)}.get(VERSION, ("END_FOR", "POP_TOP"))
# Instructions that push a callee with NULL or self run as plain loads; AFTER says what the stack is then.
SIMPLER: dict[str, Any] = {
    "LOAD_METHOD": _plain_attr, "LOAD_ATTR": _plain_attr,
    "LOAD_SUPER_ATTR": lambda i: ("LOAD_SUPER_ATTR", (False, bool(i.arg & 2), i.argval))}  # 2: super has arguments
_PAIR = [VALUE, NULL] if VERSION >= (3, 13) else [NULL, VALUE]
AFTER: dict[str, Callable[[Instruction], list[str] | None]] = {
    "LOAD_METHOD": lambda i: _PAIR,
    "LOAD_ATTR": lambda i: _PAIR if VERSION >= (3, 12) and i.arg & 1 else None,
    "LOAD_SUPER_ATTR": lambda i: _PAIR if i.arg & 1 else None,
}


def _stored_local(i: Instruction) -> set[str]:
    if i.name in ("STORE_FAST", "STORE_FAST_LOAD_FAST"):
        return {i.argval if isinstance(i.argval, str) else i.argval[0]}
    return set(i.argval) if i.name == "STORE_FAST_STORE_FAST" else set()


def _deleted(i: Instruction) -> set[str]:
    return {i.argval} if i.name == "DELETE_FAST" else set()
