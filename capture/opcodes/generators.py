"""Opcodes of generators: `yield`, `yield from`; and what Python 3.12 calls intrinsics, most of which are theirs."""

from __future__ import annotations

import inspect
import operator
import types

from dynacomp.capture.arithmetic.identity import is_same
from dynacomp.capture.arithmetic.operators import unary
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bytecode.code import VERSION, Instruction
from dynacomp.capture.kinds.iteration import advance, get_iter
from dynacomp.capture.opcodes.coroutines import Wrapped
from dynacomp.capture.opcodes.groups import prepare_reraise
from dynacomp.capture.symbolic.generators import stop_error, stopping, type_name
from dynacomp.capture.symbolic.machine import Capture, Frame, opcode
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.questions import is_opaque, is_suspended
from dynacomp.capture.values.value import Value, type_of

NONE = Const(None)


@opcode("RETURN_GENERATOR")
def _return_generator(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(NONE)  # what the POP_TOP after it drops; the generator itself was made by the call


@opcode("YIELD_VALUE")
def _yield(cap: Capture, f: Frame, i: Instruction) -> None:
    f.yielded = f.gave = f.pop()


@opcode("GEN_START", "GET_YIELD_FROM_ITER")
def _get_yield_from_iter(cap: Capture, f: Frame, i: Instruction) -> None:
    v = f.stack[-1]
    if not (is_suspended(v) or is_opaque(v)) or type_of(v) is not types.CoroutineType:
        f.push(get_iter(cap, f.pop()))
    elif not f.code.code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE):
        raise Raised(Const(TypeError("cannot 'yield from' a coroutine object in a non-coroutine generator")))


@opcode("SEND")
def _send(cap: Capture, f: Frame, i: Instruction) -> int | None:
    sent = f.pop()
    receiver = f.stack[-1]
    row = kind(receiver).send
    if row is not None:
        ended, item = row(cap, receiver, sent)
    else:
        item = advance(cap, receiver) if is_same(sent, NONE) else cap.call(cap.getattr(receiver, "send"), [sent])
        ended = item is None
    if ended:
        return _sent(f, i, item)
    f.push(item)
    return None


def _sent(f: Frame, i: Instruction, result: Value | None) -> int:
    """Goes on with the result of what was sent to."""
    if VERSION < (3, 12):
        f.pop()
    f.push(result or NONE)
    return i.argval


@opcode("END_SEND")
def _end_send(cap: Capture, f: Frame, i: Instruction) -> None:
    value = f.pop()
    f.pop()
    f.push(value)


# --- intrinsics (3.12+)


@opcode("CALL_INTRINSIC_1")
def _intrinsic_1(cap: Capture, f: Frame, i: Instruction) -> None:
    name = _INTRINSICS.get(i.arg)
    if name == "STOPITERATION_ERROR":
        value = f.pop()
        if issubclass(type_of(value), stopping(f.code.code)):
            value = stop_error(value, type_name(f.code.code))
        f.push(value)
    elif name == "UNARY_POSITIVE":
        f.push(unary(cap, operator.pos, f.pop()))
    elif name == "ASYNC_GEN_WRAP":
        f.push(Wrapped(f.pop()))
    elif name == "LIST_TO_TUPLE":
        f.push(TupleV(cap.items(f.pop())))
    else:
        raise Break("opcode", f"CALL_INTRINSIC_1 {name or i.arg}")


@opcode("CALL_INTRINSIC_2")
def _intrinsic_2(cap: Capture, f: Frame, i: Instruction) -> None:
    if i.arg != PREPARE_RERAISE:
        raise Break("opcode", "type parameters")
    prepare_reraise(cap, f, i)


PREPARE_RERAISE = 1
_INTRINSICS = {3: "STOPITERATION_ERROR", 4: "ASYNC_GEN_WRAP", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}
