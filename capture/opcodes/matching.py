"""Opcodes of `match` statements."""

from __future__ import annotations

from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.symbolic.machine import Capture, Frame, opcode
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.questions import is_dict, is_tuple
from dynacomp.capture.values.value import Value, as_python, type_of

NONE = Const(None)


SEQUENCE, MAPPING, MATCH_SELF = 1 << 5, 1 << 6, 1 << 22  # Py_TPFLAGS_*


@opcode("GET_LEN")
def _get_len(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(cap.call(Const(len), [f.stack[-1]]))


@opcode("MATCH_SEQUENCE")
def _match_sequence(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(Const(bool(type_of(f.stack[-1]).__flags__ & SEQUENCE)))


@opcode("MATCH_MAPPING")
def _match_mapping(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(Const(bool(type_of(f.stack[-1]).__flags__ & MAPPING)))


@opcode("MATCH_KEYS")
def _match_keys(cap: Capture, f: Frame, i: Instruction) -> None:
    keys, subject = as_python(f.stack[-1]), f.stack[-2]
    if not is_dict(subject):
        raise Break("opcode", "a match of a mapping that is not a dict")
    found = all(k in subject.items for k in keys)
    f.push(TupleV([cap.realize(subject.items[k]) for k in keys]) if found else NONE)


@opcode("MATCH_CLASS")
def _match_class(cap: Capture, f: Frame, i: Instruction) -> None:
    names = as_python(f.pop())
    subject, cls = f.popn(2)
    matched = cap.call(Const(isinstance), [subject, cls])
    if not as_python(matched):
        f.push(NONE)
        return
    first, positional = _positional(cap, cls, subject, i.arg) if i.arg else ([], ())
    if len({*positional, *names}) < len(positional) + len(names):
        raise Break("raises", "a class pattern that names an attribute twice")
    try:
        f.push(TupleV([*first, *(cap.getattr(subject, n) for n in (*positional, *names))]))
    except Raised as raised:
        if not issubclass(type_of(raised.value), AttributeError):
            raise
        f.push(NONE)


def _positional(cap: Capture, cls: Value, subject: Value, count: int) -> tuple[list[Value], tuple[str, ...]]:
    """What `count` positional sub-patterns of a class match: the subject itself, or the attributes of these names."""
    real = as_python(cls)
    if not hasattr(real, "__match_args__"):
        if count > 1 or not real.__flags__ & MATCH_SELF:
            raise Break("raises", f"{real.__qualname__} accepts fewer positional sub-patterns")
        return [subject], ()
    held = cap.getattr(cls, "__match_args__")
    names = tuple(map(as_python, cap.items(held)[:count] if is_tuple(held) else [held]))
    if type_of(held) is not tuple or len(names) < count or not all(type(n) is str for n in names):
        raise Break("raises", f"{real.__qualname__} accepts fewer positional sub-patterns")
    return [], names
