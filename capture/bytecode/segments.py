"""Generators cut into plain functions: a *flat* code object, and the segments that enter it.

The flat code of a generator (coroutine, async generator) is an ordinary function. Where the original
suspends, it packs what its frame holds and returns an *event*:

    (key, value, state)    key > 0: suspended at a Point; `value` is what is yielded or awaited
    (FINISHED, value, ())  the original returned `value`

A segment goes on from an event: `segment(*state, sent)` is a resume function of the flat code, which
unpacks and returns the next event. `key` finds the segment that goes on with a value, `-key` the one
that raises `sent` there, START the first. Segments are plain functions: they are captured, guarded and
broken like any other. The flat code is one for all of them, so what follows a break is shared too.

Locals without a value travel as UNBOUND, exceptions being handled as themselves; cells of the original
frame are free variables here, made by the driver (see drivers.py).
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import CodeType
from typing import Any

from bytecode import CompilerFlags, Instr, Label, TryBegin, TryEnd

from dynacomp.capture._native import mark_skip, rethrow, throw
from dynacomp.capture.base.errors import GiveUp
from dynacomp.capture.base.identity_table import IdentityTable
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bytecode.code import VERSION, Decoded, decode
from dynacomp.capture.bytecode.line_tables import to_code
from dynacomp.capture.bytecode.resume import (
    HANDLED,
    NULL,
    Layout,
    assembled,
    late_cells,
    numbered,
    resume_code,
    with_free_cells,
)
from dynacomp.capture.bytecode.supers import bare_supers, explicit
from dynacomp.capture.bytecode.suspensions import (
    ASYNC_GEN_WRAP,
    MAYBE,
    STOPITERATION_ERROR,
    SUSPENDS,
    WAIT,
    YIELD,
    Point,
    suspensions,
)

START = FINISHED = 0
MOVED = 1  # the driver goes on from an event that compiled code has left for it (see suspended.py)
KINDS = 8  # a key is KINDS * (number of the Point, from 1) + how the driver goes on
SENT = "$sent"  # what is yielded, sent or thrown


class Unbound:
    """The value of a local that has none, while its frame is suspended."""

    def __repr__(self) -> str:
        return "<unbound>"


UNBOUND = Unbound()


_GENERATORS = IdentityTable()  # flat code → that of the generator function


def generator_of(flat: CodeType) -> CodeType | None:
    """The code of which this is the flat one; None where it is no flat code."""
    known = _GENERATORS.get(flat)
    return None if known is None else known()  # type: ignore[no-any-return]


class Flat:
    """A generator's flat code and how to enter it.

    `code(key)` is the code of a segment; `handled[key]` whether the program may catch what is thrown."""

    def __init__(self, code: CodeType) -> None:
        decoded = decode(code)
        points = suspensions(decoded)
        self.points = {KINDS * n + p.kind: p for n, p in enumerate(points, 1)}
        self.keys = {p.index: key for key, p in self.points.items()}  # of the instruction that suspends
        writer = FlatWriter(decoded, {p.index: (key, p) for key, p in self.points.items()})
        self.flat = writer.finish()
        self.entries = writer.entries(self.flat)
        self.codes: dict[int, CodeType] = {START: self.flat}
        _GENERATORS[self.flat] = weakref.ref(code)

    def code(self, key: int) -> CodeType:
        found = self.codes.get(key)
        if found is None:
            point = self.points[abs(key)]
            layout = Layout(self.entries[key], (), None, (*point.locals, *slots(point), SENT), segment=True)
            found = self.codes[key] = resume_code(decode(self.flat), layout)
        return found


def slots(point: Point) -> list[str]:
    """The names under which the stack below a suspension travels: from the bottom, but last what is being handled."""
    held = [n for n, kind in enumerate(point.stack) if kind != NULL]
    innermost = max((n for n in held if point.stack[n] == HANDLED), default=None)
    return [f"$stack{n}" for n in sorted(held, key=lambda n: (n == innermost, n))]


def begun(awaited: Any) -> tuple[bool, Any]:
    """Called before a coroutine waits: (False, what to wait for). Captured code may have run that to its end on the
    symbolic machine (see coroutines.py): (True, the result)."""
    return False, awaited


mark_skip(begun.__code__, False, True)


class FlatWriter:
    """Writes the flat code: the original's instructions, with other ones where it suspends or returns."""

    def __init__(self, decoded: Decoded, points: dict[int, tuple[int, Point]]) -> None:
        self.decoded, self.points = decoded, points
        self.bc = assembled(decoded).copy()
        self.out: list[Any] = []
        self.supers = bare_supers(decoded)
        self.late = late_cells(decoded)
        self.cells = tuple(c for c in decoded.code.co_cellvars if c not in self.late)
        self.marks: dict[int, Label] = {}  # key → where that segment enters
        self.open: TryBegin | None = None
        self.location: Any = None

    def finish(self) -> CodeType:
        code, bc = self.decoded.code, self.bc
        items = list(bc)
        real = [*of_class(Instr, items)]
        if len(real) != len(self.decoded.instrs):
            raise GiveUp("resume", "the code object has instructions that cannot be mapped")
        stops = {id(item) for item in items if isinstance(item, TryBegin) and stop_handler(items, item.target)}
        free = len(self.cells) + len(code.co_freevars)
        self.out = [Instr("COPY_FREE_VARS", free, lineno=code.co_firstlineno)] if free else []
        for index, item in numbered(items):
            self._item(item, index, stops)
        return self._assemble()

    def _assemble(self) -> CodeType:
        code, bc = self.decoded.code, self.bc
        bc[:] = self.out
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        bc.argnames = [*(n for n in code.co_varnames[:count] if n not in self.cells), SENT]
        bc.argcount, bc.posonlyargcount, bc.kwonlyargcount = len(bc.argnames), 0, 0
        bc.freevars, bc.cellvars = [*self.cells, *code.co_freevars], self.late
        bc.flags = CompilerFlags(code.co_flags & ~(SUSPENDS | 0x04 | 0x08))
        width = max((len(p.locals) + len(p.stack) for _, p in self.points.values()), default=0)
        return to_code(bc, code.co_stacksize + width + 6)

    def entries(self, flat: CodeType) -> dict[int, int]:
        """Where each segment enters the flat code: key → index of an instruction."""
        found, index = {}, 0
        keys = {id(label): key for key, label in self.marks.items()}
        for item in self.out:
            if id(item) in keys:
                found[keys[id(item)]] = index
            index += isinstance(item, Instr)
        if index != len(decode(flat).instrs):
            raise GiveUp("resume", "the flat code has instructions that cannot be mapped")
        return found

    # --- one item of the original

    def _item(self, item: Any, index: int, stops: set[int]) -> None:
        if isinstance(item, TryBegin):
            self.open = None if id(item) in stops else self._begin(item)
        elif isinstance(item, TryEnd):
            self._end()
        elif index < 0:
            self.out.append(item)
        else:
            self.location = item.location
            self._instruction(item, index)

    def _begin(self, region: TryBegin) -> TryBegin:
        copy = TryBegin(region.target, region.push_lasti, region.stack_depth)
        self.out.append(copy)
        return copy

    def _end(self) -> None:
        if self.open is not None:
            self.out.append(TryEnd(self.open))
        self.open = None

    def _instruction(self, item: Instr, index: int) -> None:
        i = self.decoded.instrs[index]
        if index in self.points:
            self._suspend(*self.points[index])
        elif item.name == "RETURN_VALUE":
            self._return()
        elif item.name == "RETURN_CONST":
            self.op("LOAD_CONST", item.arg)
            self._return()
        elif item.name == "GET_ANEXT":
            self._next_awaitable(item)
        elif item.name in GONE or self._belongs_to_suspension(index) or (
                item.name == "CALL_INTRINSIC_1" and i.arg == ASYNC_GEN_WRAP):
            self.op("NOP")
        else:
            replaced = explicit(self.decoded.code, self.supers, index, item)
            self.out += with_free_cells(item, self.cells) if replaced is None else replaced

    def _belongs_to_suspension(self, index: int) -> bool:
        """Instructions that the driver does: the start of a wait, the loop of a SEND, RETURN_GENERATOR's POP_TOP."""
        instrs = self.decoded.instrs
        return ((index + 2 in self.points and bool(self.points[index + 2][1].kind & WAIT))
                or (instrs[index].name == "POP_TOP" and instrs[index - 1].name == "RETURN_GENERATOR"))

    # --- what is written instead

    def op(self, name: str, *arg: Any) -> None:
        self.out.append(Instr(name, *arg, location=self.location))

    def call(self, fn: Any, *names: str) -> None:
        """Calls a constant with locals, which it moves out of the frame."""
        order = ["PUSH_NULL", "LOAD_CONST"] if VERSION < (3, 13) else ["LOAD_CONST", "PUSH_NULL"]
        for name in order:
            self.op(name, *([fn] if name == "LOAD_CONST" else []))
        for name in names:
            self.move(name)
        if VERSION < (3, 12):
            self.op("PRECALL", len(names))
        self.op("CALL", len(names))

    def move(self, name: str) -> None:
        """Loads a local and forgets it: no reference stays behind."""
        self.op("LOAD_FAST", name)
        self.op("DELETE_FAST", name)

    def _next_awaitable(self, item: Instr) -> None:
        """Asks a copy of the iterator, so that it is on the stack when that raises, whoever runs it."""
        self.op("COPY", 1)
        self.out.append(item)
        self.op("SWAP", 2)
        self.op("POP_TOP")

    def _return(self) -> None:
        self.op("LOAD_CONST", FINISHED)
        self.op("SWAP", 2)
        self.op("LOAD_CONST", ())
        self.op("BUILD_TUPLE", 3)
        self.op("RETURN_VALUE")

    def _suspend(self, key: int, point: Point) -> None:
        region = self.open
        if point.kind != YIELD:
            self._wait(point)
        self._end()
        self._pack(key, point)
        self._enter(-key, point)
        if region is not None:
            self.open = self._begin(region)
        self.call(throw if point.kind == YIELD else rethrow, SENT)
        if region is not None:
            self._end()
        self._enter(key, point)
        if point.kind == YIELD:
            self.move(SENT)
            self.open = None if region is None else self._begin(region)
            return
        self._goes_on(point)
        self.open = None if region is None else self._begin(region)

    def _target(self, point: Point) -> Any:
        """Where a SEND goes at the end of its iterator."""
        real = [*of_class(Instr, self.bc)]
        return real[point.index].arg

    def _wait(self, point: Point) -> None:
        """Leaves on the stack what the driver waits for; what has ended already is not waited for."""
        self.op("POP_TOP")
        if not self.decoded.code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
            return
        self.op("STORE_FAST", SENT)
        self.call(begun, SENT)
        self.op("UNPACK_SEQUENCE", 2)
        waiting = Label()
        self.op("POP_JUMP_FORWARD_IF_FALSE" if VERSION < (3, 12) else "POP_JUMP_IF_FALSE", waiting)
        self.op("STORE_FAST", SENT)
        self._goes_on(point)
        self.out.append(waiting)

    def _goes_on(self, point: Point) -> None:
        """Behind a wait, whose result is SENT."""
        if VERSION >= (3, 12):
            self.op("LOAD_CONST", None)  # where END_SEND expects the iterator
        self.move(SENT)
        self.op("JUMP_FORWARD", self._target(point))

    def _pack(self, key: int, point: Point) -> None:
        """Off the stack, in a tuple, to the caller."""
        self.op("STORE_FAST", SENT)
        for n in reversed(range(len(point.stack))):
            self._spill(point.stack[n], f"$stack{n}")
        for name in maybe_empty(point):
            self._fill(name)
        self.op("LOAD_CONST", key)
        self.op("LOAD_FAST", SENT)
        names = [*point.locals, *slots(point)]
        for name in names:
            self.op("LOAD_FAST", name)
        self.op("BUILD_TUPLE", len(names))
        self.op("BUILD_TUPLE", 3)
        self.op("RETURN_VALUE")

    def _spill(self, kind: str, name: str) -> None:
        if kind == HANDLED:
            self.call(sys.exception)
        self.op("STORE_FAST", name)  # also of a NULL: it leaves the local without a value
        if kind == HANDLED:
            self.op("POP_EXCEPT")

    def _fill(self, name: str) -> None:
        """A local that may have no value gets UNBOUND then."""
        missing, done = Label(), Label()
        begin = TryBegin(missing, False, 0)
        self.out.append(begin)
        self.op("LOAD_FAST" if VERSION < (3, 12) else "LOAD_FAST_CHECK", name)
        self.out.append(TryEnd(begin))
        self.op("POP_TOP")
        self.op("JUMP_FORWARD", done)
        self.out.append(missing)
        self.op("POP_TOP")
        self.op("LOAD_CONST", UNBOUND)
        self.op("STORE_FAST", name)
        self.out.append(done)

    def _enter(self, key: int, point: Point) -> None:
        """The beginning of a segment: locals without a value lose it, the stack is as it was."""
        label = self.marks[key] = Label()
        self.out.append(label)
        for name in sorted(point.unsure):
            bound = self._if_unbound(name)
            self.op("DELETE_FAST", name)
            self.out.append(bound)
        for n, kind in enumerate(point.stack):
            self._unspill(kind, f"$stack{n}")

    def _if_unbound(self, name: str) -> Label:
        otherwise = Label()
        self.op("LOAD_FAST", name)
        self.op("LOAD_CONST", UNBOUND)
        self.op("IS_OP", 0)
        self.op("POP_JUMP_FORWARD_IF_FALSE" if VERSION < (3, 12) else "POP_JUMP_IF_FALSE", otherwise)
        return otherwise

    def _unspill(self, kind: str, name: str) -> None:
        if kind == NULL:
            self.op("PUSH_NULL")
        elif kind == MAYBE:
            bound, done = self._if_unbound(name), Label()
            self.op("DELETE_FAST", name)
            self.op("PUSH_NULL")
            self.op("JUMP_FORWARD", done)
            self.out.append(bound)
            self.move(name)
            self.out.append(done)
        else:
            self.move(name)
            if kind == HANDLED:
                self.op("PUSH_EXC_INFO")
                self.op("POP_TOP")


GONE = ("RETURN_GENERATOR", "ASYNC_GEN_WRAP", "YIELD_VALUE")


def maybe_empty(point: Point) -> Iterator[str]:
    yield from (f"$stack{n}" for n, kind in enumerate(point.stack) if kind == MAYBE)
    yield from sorted(point.unsure)


def stop_handler(items: list[Any], target: Any) -> bool:
    """The handler that turns StopIteration to RuntimeError: the driver has its own."""
    first = next(of_class(Instr, items[items.index(target):]))
    return first.name == "CALL_INTRINSIC_1" and first.arg == STOPITERATION_ERROR
