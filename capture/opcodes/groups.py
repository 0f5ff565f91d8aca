"""Exception groups: `except*`, and the methods of groups. CPython's C code, as the Python of `groups_py`.

A group that captured code makes is an `ObjectV` whose `ctor` holds the message and the tuple of its
exceptions. While a clause of `except*` runs, what it took is the exception that is being handled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynacomp.capture.arithmetic.identity import is_same
from dynacomp.capture.base import groups_py
from dynacomp.capture.base.errors import Raised
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.symbolic.machine import Capture, Frame, opcode
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.value import Value, as_python

NONE = Const(None)


@opcode("CHECK_EG_MATCH")
def _check_eg_match(cap: Capture, f: Frame, i: Instruction) -> None:
    error, kinds = f.stack[-2:]
    taken, rest = cap.items(cap.call(Const(groups_py.match), [error, kinds]))
    f.stack[-2:] = [rest, taken]
    if not is_same(taken, NONE):
        f.handling[-1].error = taken


@opcode("PREP_RERAISE_STAR")
def prepare_reraise(cap: Capture, f: Frame, i: Instruction) -> None:
    original, errors = f.popn(2)
    f.push(cap.call(Const(groups_py.to_raise), [original, errors]))


def new(cap: Capture, cls: Value, *args: Value) -> Value:
    """`BaseExceptionGroup.__new__`."""
    if len(args) != 2:
        wrong = TypeError(f"BaseExceptionGroup.__new__() takes exactly 2 arguments ({len(args)} given)")
        raise Raised(Const(wrong))
    found, errors = cap.items(cap.call(Const(groups_py.checked), [cls, *args]))
    return ObjectV(as_python(found), ctor=(args[0], errors), attrs={"args": TupleV(list(args))})


def _method(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda cap, *args: cap.call(Const(fn), list(args))


BUILTINS[BaseExceptionGroup.__new__] = new
BUILTINS[BaseExceptionGroup.split] = _method(groups_py.split)
BUILTINS[BaseExceptionGroup.subgroup] = _method(groups_py.subgroup)
BUILTINS[BaseExceptionGroup.derive] = _method(groups_py.derive)
