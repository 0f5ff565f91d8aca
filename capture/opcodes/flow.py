"""Opcodes that move control: jumps, loops, calls, returns, exceptions, `with`, generators, imports."""

from __future__ import annotations

import importlib.util
import inspect
import operator
import sys
import types

from dynacomp.capture.arithmetic.identity import is_same
from dynacomp.capture.arithmetic.operators import truth, unary
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.bytecode.code import VERSION, Instruction
from dynacomp.capture.bytecode.control_flow_graph import LOOP_ENDS
from dynacomp.capture.calls.calls import BUILTINS, call
from dynacomp.capture.control_flow import conditions, openings, rolled_loops
from dynacomp.capture.control_flow.python_loops import watch_rounds
from dynacomp.capture.kinds import generator_loops
from dynacomp.capture.kinds.attrs import NAMING, do_nothing
from dynacomp.capture.kinds.exceptions import as_exception, handled, instance_of, set_cause
from dynacomp.capture.kinds.iteration import advance, get_iter, iterate
from dynacomp.capture.kinds.keys import pairs
from dynacomp.capture.opcodes.coroutines import Wrapped
from dynacomp.capture.opcodes.groups import prepare_reraise
from dynacomp.capture.opcodes.names import CALLEE_FIRST, load_global
from dynacomp.capture.reconstruct import tracebacks
from dynacomp.capture.symbolic import sources as S
from dynacomp.capture.symbolic.frame_values import HandlingV, is_null
from dynacomp.capture.symbolic.generator_finalization import dropped
from dynacomp.capture.symbolic.generators import stop_error, stopping, type_name
from dynacomp.capture.symbolic.iterator_values import CountIterV, GeneratorV, counters, is_sized
from dynacomp.capture.symbolic.kind import Kind, define, kind
from dynacomp.capture.symbolic.machine import Capture, Frame, opcode, unsupported
from dynacomp.capture.symbolic.questions import is_dict, is_graph_number, is_tuple
from dynacomp.capture.symbolic.standing_values import LaterV
from dynacomp.capture.symbolic.values import (
    Const,
    LibraryV,
    OpaqueV,
    TupleV,
    Value,
    as_python,
    holds,
    is_const,
    node_of,
    object_of,
    type_of,
)
from dynacomp.capture.wrapping.builder import wrap
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.ndarrays import is_numpy

NONE = Const(None)


# --- jumps


@opcode("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump(cap: Capture, f: Frame, i: Instruction) -> int:
    return i.argval


def is_computed(value: Value) -> bool:
    """Whether only the Graph knows its truth."""
    return isinstance(value, LaterV) or node_of(value) is not None and not is_numpy(value)


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
    try:
        kwargs = dict(pairs(cap, f.pop())) if i.arg & 1 else {}
        args = list(iterate(cap, f.pop()))
    except Raised as raised:  # perhaps no iterable or mapping: CPython's text names the callee
        raise Break("raises", type_of(raised.value).__name__) from None
    if not all(isinstance(name, str) for name in kwargs):
        raise Break("raises", "TypeError")
    callee, bound = _callee(f) if CALLEE_FIRST else (f.pop(), [])
    if not CALLEE_FIRST:
        f.pop()
    f.push(cap.call(callee, [*bound, *args], kwargs))
    if cap.dropping.pending:
        dropped(cap, [callee, args, kwargs])


@opcode("RETURN_VALUE")
def _return(cap: Capture, f: Frame, i: Instruction) -> None:
    f.result = f.pop()


@opcode("RETURN_CONST")
def _return_const(cap: Capture, f: Frame, i: Instruction) -> None:
    f.result = from_python(cap, i.argval)


# --- exceptions


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


def _naming(cap: Capture, v: LibraryV) -> tuple[Value, Value]:
    """Names in what a compiler writes: nothing to do."""
    if v.make not in NAMING:
        raise _no_manager(v)
    return Const(do_nothing), Const(do_nothing)


define(LibraryV, Kind(manager=_naming))


@opcode("WITH_EXCEPT_START")
def _with_except_start(cap: Capture, f: Frame, i: Instruction) -> None:
    exit_fn, raised = f.stack[-4], f.stack[-1]
    f.push(cap.call(exit_fn, [Const(type_of(raised)), raised, tracebacks.of(cap, raised)]))


# --- generators


@opcode("RETURN_GENERATOR")
def _return_generator(cap: Capture, f: Frame, i: Instruction) -> None:
    f.push(NONE)  # what the POP_TOP after it drops; the generator itself was made by the call


@opcode("YIELD_VALUE")
def _yield(cap: Capture, f: Frame, i: Instruction) -> None:
    f.yielded = f.pop()


@opcode("GEN_START", "GET_YIELD_FROM_ITER")
def _get_yield_from_iter(cap: Capture, f: Frame, i: Instruction) -> None:
    v = f.stack[-1]
    if not isinstance(v, (GeneratorV, OpaqueV)) or type_of(v) is not types.CoroutineType:
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
            value = stop_error(cap, value, type_name(f.code.code))
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


# --- imports


@opcode("IMPORT_NAME")
def _import_name(cap: Capture, f: Frame, i: Instruction) -> None:
    level, names = f.popn(2)
    name, wanted = _absolute(cap, f, i.argval, as_python(level)), as_python(names) or ()
    found = sys.modules.get(name)
    if type(found) is not types.ModuleType:
        raise Break("import", f"import of {name}, which is not loaded")
    late = [n for n in wanted if n not in vars(found)]
    if late and "__path__" in vars(found):
        raise Break("import", f"import of {name}.{late[0]}, which is not loaded")
    for known in (name, name if wanted else name.partition(".")[0]):
        module = wrap(cap, sys.modules[known], S.Key(S.Root(sys.modules, "sys.modules"), known))
    f.push(module)


def _absolute(cap: Capture, f: Frame, name: str, level: int) -> str:
    """The whole name of a module: `from ..a import b` counts from the package that the frame's module is in."""
    if level == 0:
        return name
    package = load_global(cap, f, "__package__")
    if not holds(package, str):
        raise Break("import", f"import of {'.' * level}{name} in a module that does not say its package")
    try:
        return importlib.util.resolve_name("." * level + name, package.value)
    except ImportError:
        raise Break("raises", "ImportError") from None


@opcode("IMPORT_FROM")
def _import_from(cap: Capture, f: Frame, i: Instruction) -> None:
    try:
        f.push(cap.getattr(f.stack[-1], i.argval))
    except Raised:
        raise Break("raises", "ImportError") from None


# --- pattern matching

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


if VERSION < (3, 12):
    unsupported("no code of ours throws into an iterator", "CLEANUP_THROW")
unsupported("made by the interpreter, never found in code", "INSTRUMENTED_LINE", "ENTER_EXECUTOR", "EXIT_INIT_CHECK")
