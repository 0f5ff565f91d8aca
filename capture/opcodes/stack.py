"""Opcodes that compute on the stack: attributes, operators, subscripts."""

from __future__ import annotations

from dynacomp.capture.arithmetic.identity import same_object
from dynacomp.capture.arithmetic.operators import BINARY, COMPARE, UNARY, as_bool, binary, negation, unary
from dynacomp.capture.arithmetic.subscripts import subscript
from dynacomp.capture.bytecode.code import VERSION, Instruction
from dynacomp.capture.kinds import containers
from dynacomp.capture.kinds.stores import delattr_value, setattr_value
from dynacomp.capture.opcodes.names import let_go, push_callable
from dynacomp.capture.symbolic.generator_finalization import dropped
from dynacomp.capture.symbolic.machine import Capture, Frame, opcode
from dynacomp.capture.values.constant import Const, stands_for
from dynacomp.capture.values.containers import SliceV
from dynacomp.capture.values.frames import NULL
from dynacomp.capture.values.value import Value, is_changing, node_of

METHOD_ATTR = VERSION >= (3, 12)  # LOAD_ATTR's low bit asks for a method call's pair
BOOL_COMPARE = VERSION >= (3, 13)  # COMPARE_OP's bit 4 asks for a bool


@opcode("NOP", "RESUME", "CACHE", "PRECALL", "COPY_FREE_VARS", "EXTENDED_ARG",
        "INTERPRETER_EXIT", "RESERVED", "END_SEND_NOOP")
def _nothing(cap: Capture, f: Frame, i: Instruction) -> None:
    pass


# --- attributes


@opcode("LOAD_ATTR", "LOAD_METHOD")
def _load_attr(cap: Capture, f: Frame, i: Instruction) -> None:
    value = cap.getattr(f.pop(), i.argval)
    if i.name == "LOAD_METHOD" or (i.arg & 1 and METHOD_ATTR):
        push_callable(f, value, NULL)
    else:
        f.push(value)


@opcode("LOAD_SUPER_ATTR")
def _load_super_attr(cap: Capture, f: Frame, i: Instruction) -> None:
    maker, cls, obj = f.popn(3)
    given = i.arg & 2 or stands_for(maker, super)  # another gets what is written
    found = cap.getattr(cap.call(maker, [cls, obj] if given else []), i.argval)
    if i.arg & 1:
        push_callable(f, found, NULL)
    else:
        f.push(found)


@opcode("STORE_ATTR")
def _store_attr(cap: Capture, f: Frame, i: Instruction) -> None:
    value, obj = f.popn(2)
    setattr_value(cap, obj, i.argval, value)


@opcode("DELETE_ATTR")
def _delete_attr(cap: Capture, f: Frame, i: Instruction) -> None:
    delattr_value(cap, f.pop(), i.argval)


# --- operators


@opcode("BINARY_OP")
def _binary_op(cap: Capture, f: Frame, i: Instruction) -> None:
    a, b = f.popn(2)
    f.push(binary(cap, BINARY[i.arg], a, b))


@opcode("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE")
def _unary(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(unary(cap, UNARY[i.name], f.pop()))


@opcode("UNARY_NOT")
def _not(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(negation(cap, f.pop()))


@opcode("TO_BOOL")
def _to_bool(cap: Capture, f: Frame, i: Instruction) -> None:
    value = f.pop()
    f.push(value if stays(cap, f, i, value) else as_bool(cap, value))


def stays(cap: Capture, f: Frame, i: Instruction, value: Value) -> bool:
    """Whether the truth of an array, or of a number that changes where conditions are left open, is asked for by the
    jump that follows, which may become a `cond`."""
    computed = node_of(value) is not None or cap.lessons.opens and is_changing(value)
    return computed and f.code.instrs[i.index + 1].name.startswith("POP_JUMP_IF")


@opcode("COMPARE_OP")
def _compare(cap: Capture, f: Frame, i: Instruction) -> None:
    a, b = f.popn(2)
    text = i.argval.removeprefix("bool(").removesuffix(")") if isinstance(i.argval, str) else i.argval
    result = binary(cap, COMPARE[text], a, b)
    asked = i.arg & 16 and BOOL_COMPARE and not stays(cap, f, i, result)
    f.push(as_bool(cap, result) if asked else result)


@opcode("IS_OP")
def _is(cap: Capture, f: Frame, i: Instruction) -> None:
    a, b = f.popn(2)
    f.push(Const(same_object(cap, a, b) != bool(i.arg)))


@opcode("CONTAINS_OP")
def _contains(cap: Capture, f: Frame, i: Instruction) -> None:
    item, container = f.popn(2)
    found = containers.is_in(cap, container, item)
    f.push(found if not i.arg else negation(cap, found))


@opcode("BINARY_SUBSCR")
def _subscript(cap: Capture, f: Frame, i: Instruction) -> None:
    obj, key = f.popn(2)
    f.push(subscript(cap, obj, key))


@opcode("BINARY_SLICE")
def _binary_slice(cap: Capture, f: Frame, i: Instruction) -> None:
    obj, start, stop = f.popn(3)
    f.push(subscript(cap, obj, SliceV(start, stop, Const(None))))


@opcode("STORE_SUBSCR")
def _store_subscript(cap: Capture, f: Frame, i: Instruction) -> None:
    value, obj, key = f.popn(3)
    containers.setitem(cap, obj, key, value)


@opcode("STORE_SLICE")
def _store_slice(cap: Capture, f: Frame, i: Instruction) -> None:
    value, obj, start, stop = f.popn(4)
    containers.setitem(cap, obj, SliceV(start, stop, Const(None)), value)


@opcode("DELETE_SUBSCR")
def _delete_subscript(cap: Capture, f: Frame, i: Instruction) -> None:
    obj, key = f.popn(2)
    containers.delitem(cap, obj, key)


# --- stack


@opcode("POP_TOP")
def _pop_top(cap: Capture, f: Frame, i: Instruction) -> None:
    value = let_go(cap, f, f.pop())
    if cap.dropping.pending:
        dropped(cap, [value])


@opcode("SWAP")
def _swap(cap: Capture, f: Frame, i: Instruction) -> None:
    f.stack[-1], f.stack[-i.arg] = f.stack[-i.arg], f.stack[-1]


@opcode("COPY")
def _copy(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(f.stack[-i.arg])


@opcode("PUSH_NULL")
def _push_null(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(NULL)
