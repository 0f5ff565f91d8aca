"""Opcodes of exceptions: `raise`, the tables of `except` and `finally`, `with`."""

from __future__ import annotations

from dynacomp.capture.arithmetic.identity import is_same
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.bytecode.suspensions import SUSPENDS
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.kinds.attrs import NAMING, do_nothing
from dynacomp.capture.kinds.exceptions import as_exception, handled, instance_of, set_cause
from dynacomp.capture.reconstruct import runtime, tracebacks
from dynacomp.capture.symbolic.machine import Capture, Frame, opcode
from dynacomp.capture.tracing.failures import enter_class
from dynacomp.capture.tracing.settings import ENTER, EXIT, MANAGER, setting_of
from dynacomp.capture.values.callables import MethodV, SettingV
from dynacomp.capture.values.computed import LibraryV
from dynacomp.capture.values.constant import Const, is_const, object_of
from dynacomp.capture.values.frames import HandlingV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.value import Value, as_python, type_of
from dynacomp.capture.wrapping.builder import WRAPPERS, opaque

NONE = Const(None)


def exception_instance(cap: Capture, value: Value,
                       otherwise: str = "exceptions must derive from BaseException") -> Value:
    """What `raise value` raises: classes are instantiated."""
    cls = object_of(value)
    if isinstance(cls, type) and BaseException in cls.__mro__:
        made = instance_of(cap, cls, [], {})
        if BaseException not in type_of(made).__mro__:
            raise Raised(Const(TypeError(f"calling {type.__repr__(cls)} should have returned an instance of "
                                         f"BaseException, not {type.__repr__(type_of(made))}")))
        return made
    if not issubclass(type_of(value), BaseException):
        raise Raised(Const(TypeError(otherwise)))
    return as_exception(cap, value)


@opcode("RAISE_VARARGS")
def _raise(cap: Capture, f: Frame, i: Instruction) -> None:
    if i.arg == 0:
        active = handled(cap, f)
        if active is None:
            raise Raised(Const(RuntimeError("No active exception to reraise")))
        raise Raised(active, fresh=False, traced=True)
    cause = f.pop() if i.arg == 2 else None
    raised = exception_instance(cap, f.pop())
    if cause is not None:
        _set_cause(cap, raised, cause)
    raise Raised(raised)


def _set_cause(cap: Capture, raised: Value, cause: Value) -> None:
    if not is_same(cause, NONE):
        cause = exception_instance(cap, cause, "exception causes must derive from BaseException")
    set_cause(cap, raised, cause)


@opcode("PUSH_EXC_INFO")
def _push_exc_info(cap: Capture, f: Frame, i: Instruction) -> None:
    """The slot below the exception stands for what was handled before: POP_EXCEPT goes back to it."""
    value = f.pop()
    f.handling.append(HandlingV(value))
    f.stack += [f.handling[-1], value]


@opcode("POP_EXCEPT")
def _pop_except(cap: Capture, f: Frame, i: Instruction) -> None:
    f.pop()
    f.handling.pop()


@opcode("CHECK_EXC_MATCH")
def _check_exc_match(cap: Capture, f: Frame, i: Instruction) -> None:
    kinds = as_python(f.pop())
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    for cls in kinds:
        if not (isinstance(cls, type) and BaseException in cls.__mro__):
            raise Raised(Const(TypeError("catching classes that do not inherit from BaseException is not allowed")))
    f.push(Const(any(base is cls for base in type_of(f.stack[-1]).__mro__ for cls in kinds)))


@opcode("RERAISE")
def _reraise(cap: Capture, f: Frame, i: Instruction) -> None:
    raise Raised(f.pop(), fresh=False, traced=True)


@opcode("END_ASYNC_FOR")
def _end_async_for(cap: Capture, f: Frame, i: Instruction) -> None:
    _, error = f.popn(2)
    if not issubclass(type_of(error), StopAsyncIteration):
        raise Raised(error, fresh=False, traced=True)


@opcode("LOAD_ASSERTION_ERROR")
def _load_assertion_error(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(Const(AssertionError))


# --- with


BUILTINS[do_nothing] = lambda cap, *raised: Const(None)


@opcode("BEFORE_WITH")
def _before_with(cap: Capture, f: Frame, i: Instruction) -> None:
    manager = f.pop()
    row = kind(manager).manager
    if row is None:
        raise _no_manager(manager)
    leave, enter = row(cap, manager)
    f.push(leave)
    f.push(cap.call(enter, []))


def _no_manager(v: Value) -> Break:
    return Break("with", f"a context manager of type {type(v.value).__qualname__ if is_const(v) else type(v).__name__}")


def _of_library(cap: Capture, v: LibraryV) -> tuple[Value, Value]:
    """Names in what a compiler writes: nothing to do. A setting of JAX holds while what leaves it lies on the stack;
    in a generator's frame, beside which others run, until it is left. Other classes of libraries are entered by the
    next attempt."""
    if v.make in NAMING:
        return Const(do_nothing), Const(do_nothing)
    setting = setting_of(cap, v)
    assert cap.current is not None
    if setting is None:
        if type(v.real) is not MANAGER:
            enter_class(cap, v.make)
        raise _no_manager(v)
    if cap.current.code.code.co_flags & SUSPENDS:
        return MethodV(Const(EXIT), v), MethodV(Const(ENTER), v)
    cap.libraries.sets = True
    return SettingV(setting, v), Const(do_nothing)


define(LibraryV, Kind(manager=_of_library))
define(SettingV, Kind(call=lambda cap, v, args, kwargs: Const(None)))
WRAPPERS[runtime.Leaving] = opaque


@opcode("WITH_EXCEPT_START")
def _with_except_start(cap: Capture, f: Frame, i: Instruction) -> None:
    exit_fn, raised = f.stack[-4], f.stack[-1]
    f.push(cap.call(exit_fn, [Const(type_of(raised)), raised, tracebacks.of(cap, raised)]))
