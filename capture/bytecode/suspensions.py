"""Where a generator, coroutine or async generator suspends, and what its frame holds there.

`suspensions(decoded)` follows the code along all its paths (a data-flow analysis, before anything
runs) and finds for each `yield`, `await` and `yield from` the stack below it, slot by slot, and which
locals have a value there: always, on some paths, or never. Segments are cut with that knowledge.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from dataclasses import dataclass

from dynacomp.capture.base.errors import GiveUp
from dynacomp.capture.bytecode.code import VERSION, Decoded, Instruction
from dynacomp.capture.bytecode.resume import HANDLED, NULL, VALUE, Layout, late_cells

SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

MAYBE = "maybe"  # a stack slot that holds a value or NULL: only the run will show

# How the driver of a Point goes on: yield the value; await or `yield from` it; drive it as it is. The code
# that it waits for sees which exception is being handled (HANDLING).
YIELD, WAIT, DRIVE, HANDLING = 0, 1, 2, 4


@dataclass(frozen=True)
class State:
    """A frame before an instruction: its stack's slots, the locals that have a value on every path
    (`bound`) and on some path (`maybe`, which includes them)."""

    stack: tuple[str, ...]
    bound: frozenset[str]
    maybe: frozenset[str]


@dataclass(frozen=True)
class Point:
    """A suspension: the instruction `index`, how the driver goes on, and what must be kept: the
    `stack` below the value, `locals` in order, of which those in `unsure` may have no value.
    `handled`: an exception thrown in here may be caught by the code itself."""

    index: int
    kind: int
    stack: tuple[str, ...]
    locals: tuple[str, ...]
    unsure: frozenset[str]
    handled: bool


def suspensions(decoded: Decoded) -> tuple[Point, ...]:
    """The Points of `decoded.code`, in the order of its instructions; those never reached are left out."""
    known = states(decoded)
    found = ((i, known[i.index]) for i in decoded.instrs if i.index in known and suspends(decoded, i))
    return tuple(_point(decoded, i, state) for i, state in found)


def suspends(decoded: Decoded, i: Instruction) -> bool:
    """A SEND stands for its whole loop, with the YIELD_VALUE inside."""
    return i.name == "SEND" or (i.name == "YIELD_VALUE" and decoded.instrs[i.index - 1].name != "SEND")


def _point(decoded: Decoded, i: Instruction, state: State) -> Point:
    cells = set(decoded.code.co_cellvars).difference(late_cells(decoded))
    names = [n for n in decoded.code.co_varnames if n in state.maybe and n not in cells]
    taken = 1 if i.name == "YIELD_VALUE" else 2
    stack = state.stack[:len(state.stack) - taken]
    return Point(i.index, _kind(decoded, i, stack), stack, tuple(names),
                 frozenset(names) - state.bound, may_catch(decoded, i))


def _kind(decoded: Decoded, i: Instruction, stack: tuple[str, ...]) -> int:
    if i.name == "YIELD_VALUE":
        return YIELD
    return (WAIT if is_wait(decoded.instrs[i.index - 2]) else DRIVE) | (HANDLING if HANDLED in stack else 0)


def is_wait(i: Instruction) -> bool:
    """The first instruction of an `await` or `yield from` that a driver can do by itself."""
    return i.name == "GET_YIELD_FROM_ITER" or (i.name == "GET_AWAITABLE" and i.arg == 0)


def may_catch(decoded: Decoded, i: Instruction) -> bool:
    handler = decoded.handler(i.offset)
    if handler is None:
        return False
    first = decoded.instrs[decoded.at[handler.target]]
    if first.name == "CLEANUP_THROW":  # of a `yield from` or `await`: it looks for the iterator's result
        return may_catch(decoded, first)
    return not guards_stop_iteration(decoded, handler.target)


def guards_stop_iteration(decoded: Decoded, target: int) -> bool:
    """The handler around a whole generator that turns StopIteration to RuntimeError (3.12 and later)."""
    first = decoded.instrs[decoded.at[target]]
    return first.name == "CALL_INTRINSIC_1" and first.arg == STOPITERATION_ERROR


STOPITERATION_ERROR, ASYNC_GEN_WRAP = 3, 4


# --- the flow


def states(decoded: Decoded, begun: Layout | None = None) -> dict[int, State]:
    """How the frame is before each instruction that is ever reached, of one that goes on with `begun` from there on."""
    code = decoded.code
    arguments = frozenset(code.co_varnames[:code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)
                                           + bool(code.co_flags & 8)] if begun is None else begun.locals)
    found: dict[int, State] = {}
    todo = [(begun.target, State(begun.stack, arguments, arguments)) if begun else (0, State((), arguments, arguments))]
    while todo:
        at, state = todo.pop()
        merged = _join(found[at], state) if at in found else state
        if found.get(at) != merged:
            found[at] = merged
            todo += _successors(decoded, decoded.instrs[at], merged)
    return found


def _join(a: State, b: State) -> State:
    if len(a.stack) != len(b.stack):
        raise GiveUp("resume", "the stack has no fixed depth")
    slots = tuple(x if x == y else MAYBE for x, y in zip(a.stack, b.stack))
    return State(slots, a.bound & b.bound, a.maybe | b.maybe)


def _successors(decoded: Decoded, i: Instruction, state: State) -> list[tuple[int, State]]:
    out: list[tuple[int, State]] = []
    after = _locals_after(i, state)
    if i.name not in ENDS:
        out.append((i.index + 1, State(_stack_after(i, state.stack, False), after.bound, after.maybe)))
    if i.name in JUMPS:
        out.append((decoded.at[i.argval], State(_stack_after(i, state.stack, True), after.bound, after.maybe)))
    handler = decoded.handler(i.offset)
    if handler is not None:
        slots = (*state.stack[:handler.depth], *[VALUE] * (1 + handler.lasti))
        out.append((decoded.at[handler.target], State(slots, state.bound & after.bound, state.maybe | after.maybe)))
    return out


ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT")
JUMPS = {dis.opname[op] for op in (*dis.hasjrel, *dis.hasjabs) if op < 256}


# --- locals


def _locals_after(i: Instruction, state: State) -> State:
    names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
    if i.name in ("DELETE_FAST", "LOAD_FAST_AND_CLEAR"):
        return State(state.stack, state.bound.difference(names), state.maybe.difference(names))
    if "_FAST" in i.name or i.name == "MAKE_CELL":  # a cell takes the place of the local whose name it bears
        stored = names[:i.name.count("STORE_FAST")]
        unsure = {n for n, slot in zip(stored, reversed(state.stack)) if slot == MAYBE}
        return State(state.stack, state.bound.union(names) - unsure, state.maybe.union(names))
    return state


# --- the stack


def _stack_after(i: Instruction, stack: tuple[str, ...], jump: bool) -> tuple[str, ...]:
    row = _ROWS.get(i.name)
    if row is not None:
        return row(i, stack)
    opcode = dis.opmap[i.name]
    change = dis.stack_effect(opcode, i.arg if opcode >= dis.HAVE_ARGUMENT else None, jump=jump)
    if change > 0:
        return (*stack, *[VALUE] * change)
    kept = stack[:len(stack) + change]
    return kept if not kept or i.name.startswith(SILENT) else (*kept[:-1], VALUE)


# Instructions (by the beginning of their name) that push nothing.
SILENT = ("POP_", "STORE_", "DELETE_", "JUMP_", "NOP", "RESUME", "END_FOR", "END_ASYNC_FOR", "KW_NAMES", "PRECALL",
          "MAKE_CELL", "COPY_FREE_VARS", "LIST_APPEND", "LIST_EXTEND", "SET_ADD", "SET_UPDATE", "MAP_ADD",
          "DICT_UPDATE", "DICT_MERGE", "FOR_ITER", "EXTENDED_ARG", "SETUP_ANNOTATIONS")

Row = Callable[[Instruction, tuple[str, ...]], tuple[str, ...]]


def _paired(kind: str) -> tuple[str, ...]:
    """A callee and the slot of its self, in the order of this Python."""
    return (kind, VALUE) if VERSION < (3, 13) else (VALUE, kind)


def _load_global(i: Instruction, stack: tuple[str, ...]) -> tuple[str, ...]:
    return (*stack, *_paired(NULL)) if i.arg & 1 else (*stack, VALUE)


def _load_attr(i: Instruction, stack: tuple[str, ...]) -> tuple[str, ...]:
    return (*stack[:-1], *_paired(MAYBE)) if VERSION >= (3, 12) and i.arg & 1 else (*stack[:-1], VALUE)


def _load_super_attr(i: Instruction, stack: tuple[str, ...]) -> tuple[str, ...]:
    return (*stack[:-3], *_paired(MAYBE)) if i.arg & 1 else (*stack[:-3], VALUE)


def _swap(i: Instruction, stack: tuple[str, ...]) -> tuple[str, ...]:
    slots = list(stack)
    slots[-1], slots[-i.arg] = slots[-i.arg], slots[-1]
    return tuple(slots)


_ROWS: dict[str, Row] = {
    "PUSH_NULL": lambda i, s: (*s, NULL),
    "LOAD_FAST_AND_CLEAR": lambda i, s: (*s, MAYBE),
    "LOAD_GLOBAL": _load_global,
    "LOAD_METHOD": lambda i, s: (*s[:-1], *_paired(MAYBE)),
    "LOAD_ATTR": _load_attr,
    "LOAD_SUPER_ATTR": _load_super_attr,
    "SWAP": _swap,
    "COPY": lambda i, s: (*s, s[-i.arg]),
    "PUSH_EXC_INFO": lambda i, s: (*s[:-1], HANDLED, VALUE),
    "RETURN_GENERATOR": lambda i, s: (*s, VALUE),
}
