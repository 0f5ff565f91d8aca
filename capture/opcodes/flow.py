"""Opcodes that move control: jumps, loops, calls, returns."""

from __future__ import annotations

from dynacomp.capture.arithmetic.identity import is_same
from dynacomp.capture.arithmetic.operators import truth
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.bytecode.control_flow_graph import LOOP_ENDS
from dynacomp.capture.calls.calls import call
from dynacomp.capture.control_flow import conditions, openings, rolled_loops
from dynacomp.capture.control_flow.python_loops import watch_rounds
from dynacomp.capture.kinds import generator_loops
from dynacomp.capture.kinds.iteration import advance, get_iter, iterate
from dynacomp.capture.kinds.keys import pairs
from dynacomp.capture.opcodes.names import CALLEE_FIRST
from dynacomp.capture.rows import alike_items
from dynacomp.capture.symbolic.generator_finalization import dropped
from dynacomp.capture.symbolic.machine import Capture, Frame, opcode, unsupported
from dynacomp.capture.values.constant import Const, stands_for
from dynacomp.capture.values.frames import is_null
from dynacomp.capture.values.iterators import CountIterV, counters, is_sized
from dynacomp.capture.values.questions import is_graph_number
from dynacomp.capture.values.standing import is_later
from dynacomp.capture.values.value import Value, as_python, node_of, type_of
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.keyed_tables import as_constant
from dynacomp.capture.wrapping.ndarrays import is_numpy

NONE = Const(None)


# --- jumps


@opcode("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump(cap: Capture, f: Frame, i: Instruction) -> int:
    return i.argval


def is_computed(value: Value) -> bool:
    """Whether only the Graph knows its truth."""
    return is_later(value) or node_of(value) is not None and not is_numpy(value)


def _jump_if(wanted: bool, *names: str) -> None:
    @opcode(*names)
    def handler(cap: Capture, f: Frame, i: Instruction) -> int | None:
        value = f.pop()
        if is_computed(value):
            return conditions.jump(cap, f, i, value, wanted)
        if openings.may_open(cap, f, value):
            return openings.jump(cap, f, i, value, wanted)
        asked = truth(cap, value)
        left = conditions.known(cap, f, i, asked, wanted)
        return left if left is not None else i.argval if asked == wanted else None


_jump_if(True, "POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE")
_jump_if(False, "POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE")


def _jump_none(wanted: bool, *names: str) -> None:
    @opcode(*names)
    def handler(cap: Capture, f: Frame, i: Instruction) -> int | None:
        return i.argval if is_same(f.pop(), NONE) == wanted else None


_jump_none(True, "POP_JUMP_IF_NONE", "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE")
_jump_none(False, "POP_JUMP_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE")


@opcode("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _jump_or_pop(cap: Capture, f: Frame, i: Instruction) -> int | None:
    wanted = i.name == "JUMP_IF_TRUE_OR_POP"
    if is_computed(f.stack[-1]):
        return conditions.jump_or_pop(cap, f, i, f.stack[-1], wanted)
    if truth(cap, f.stack[-1]) == wanted:
        return i.argval
    f.pop()
    return None


# --- loops


@opcode("GET_ITER")
def _get_iter(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(generator_loops.as_map(cap, f, get_iter(cap, f.pop())))


@opcode("FOR_ITER")
def _for_iter(cap: Capture, f: Frame, i: Instruction) -> int | None:
    it = f.stack[-1]
    if isinstance(it, CountIterV) and is_graph_number(it.current) and not is_same(it.stop or NONE, NONE):
        return conditions.next_of_range(cap, f, i, it)
    counts = counters(it)
    if counts and (cap.lessons.rolled or is_sized(counts)):
        rolled_loops.roll(cap, f, i, it, counts)
    watch_rounds(cap, f, i, it)
    item = advance(cap, it)
    if item is not None:
        f.push(item)
        return None
    f.pop()
    after = f.code.at[i.argval] + LOOP_ENDS
    return f.code.instrs[after].offset


@opcode("END_FOR")
def _end_for(cap: Capture, f: Frame, i: Instruction) -> None:
    raise Break("opcode", "a jump into the end of a loop")


# --- calls


@opcode("KW_NAMES")
def _kw_names(cap: Capture, f: Frame, i: Instruction) -> None:
    f.kw_names = f.code.code.co_consts[i.arg]


def _callee(f: Frame) -> tuple[Value, list[Value]]:
    """The callee and, when a method was loaded unbound, its self."""
    first, second = f.popn(2)
    if CALLEE_FIRST:
        return first, [] if is_null(second) else [second]
    return (second, []) if is_null(first) else (first, [second])


@opcode("CALL")
def _call(cap: Capture, f: Frame, i: Instruction) -> None:
    args = f.popn(i.arg)
    names, f.kw_names = f.kw_names, ()
    _do_call(cap, f, args, names)


@opcode("CALL_KW")
def _call_kw(cap: Capture, f: Frame, i: Instruction) -> None:
    names = as_python(f.pop())
    _do_call(cap, f, f.popn(i.arg), names)


def _do_call(cap: Capture, f: Frame, args: list[Value], names: tuple[str, ...]) -> None:
    callee, bound = _callee(f)
    split = len(args) - len(names)
    f.stack.append(call(cap, callee, [*bound, *args[:split]], dict(zip(names, args[split:]))))
    if cap.dropping.pending:
        dropped(cap, [callee, bound, args])


@opcode("CALL_FUNCTION_EX")
def _call_ex(cap: Capture, f: Frame, i: Instruction) -> None:
    named = f.pop() if i.arg & 1 else None
    given = f.pop()
    callee, bound = _callee(f) if CALLEE_FIRST else (f.pop(), [])
    if not CALLEE_FIRST:
        f.pop()
    made = alike_items.transposed(cap, given) if stands_for(callee, zip) and named is None and not bound else None
    if made is not None:
        f.push(made)
        return
    try:
        kwargs = {} if named is None else {as_constant(key): value for key, value in pairs(cap, named)}
        args = list(iterate(cap, given))
    except Raised as raised:  # perhaps no iterable or mapping: CPython's text names the callee
        raise Break("raises", type_of(raised.value).__name__) from None
    if not all(isinstance(name, str) for name in kwargs):
        raise Break("raises", "TypeError")
    f.push(cap.call(callee, [*bound, *args], kwargs))
    if cap.dropping.pending:
        dropped(cap, [callee, args, kwargs])


@opcode("RETURN_VALUE")
def _return(cap: Capture, f: Frame, i: Instruction) -> None:
    f.result = f.pop()


@opcode("RETURN_CONST")
def _return_const(cap: Capture, f: Frame, i: Instruction) -> None:
    f.result = from_python(cap, i.argval)


unsupported("made by the interpreter, never found in code", "INSTRUMENTED_LINE", "ENTER_EXECUTOR", "EXIT_INIT_CHECK")
