"""Exceptions as Values: what they hold, how they are chained, what they say.

An exception that the captured code raises or makes is an `ObjectV` whose `attrs` hold `args`,
`__cause__`, `__context__` and what the program stored. `caught` is called for every frame that an
exception reaches: the frame enters its traceback, and where it was raised it gets its context, as
CPython does it.
"""

from __future__ import annotations

import types
from typing import Any

from dynacomp.capture.base.classes import mro
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.bytecode.code import Instruction
from dynacomp.capture.kinds import stores
from dynacomp.capture.kinds.iteration import iterate
from dynacomp.capture.reconstruct import tracebacks
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.constant import Const, holds, is_const, object_of, stands_for
from dynacomp.capture.values.containers import ListV, TupleV
from dynacomp.capture.values.objects import ObjectV
from dynacomp.capture.values.questions import is_library_object
from dynacomp.capture.values.value import Value, as_python, is_constant, type_of
from dynacomp.capture.wrapping import class_attrs
from dynacomp.capture.wrapping.builder import remember, wrap
from dynacomp.capture.wrapping.builtin_subclasses import built_in_base
from dynacomp.capture.wrapping.constants import from_python
from dynacomp.capture.wrapping.object_attrs import is_exception

NONE = Const(None)
HEAP = 1 << 9
TEXT_OF_FIELDS = (OSError, UnicodeEncodeError, UnicodeDecodeError, UnicodeTranslateError, SyntaxError)
CHAIN = ("__cause__", "__context__")


def as_exception(cap: Capture, value: Value) -> Value:
    """An exception as an `ObjectV`: real ones that the machine itself met are taken apart, once."""
    if is_library_object(value):
        raise Break("raises", f"a {type_of(value).__qualname__} that a library has made")
    if not holds(value, BaseException):
        return value
    error = value.value
    if id(error) not in cap.known.objects:
        remember(cap, error, _taken_apart(cap, error))
    return cap.known.objects[id(error)]


def _taken_apart(cap: Capture, error: BaseException) -> ObjectV:
    args = tuple(from_python(cap, a) for a in error.args)
    made = ObjectV(type(error), ctor=args, attrs={"args": TupleV(list(args))})
    for name, held in vars(error).items():
        made.attrs[name] = from_python(cap, held)
    _copy_members(cap, made, error)
    return made


@remembered
def members(cls: type) -> tuple[str, ...]:
    """What built-in exceptions keep in C besides what all have: `StopIteration.value`, `OSError.errno`, ..."""
    if issubclass(cls, BaseExceptionGroup):
        return ()
    bases = [b for b in mro(cls) if not b.__flags__ & HEAP and b is not BaseException]
    return tuple(n for b in bases for n, d in vars(b).items() if isinstance(d, types.MemberDescriptorType))


def _copy_members(cap: Capture, made: ObjectV, error: BaseException) -> None:
    found = {n: getattr(error, n) for n in members(type(error))}
    made.attrs.update({n: from_python(cap, v) for n, v in found.items() if v is not None})


FIRST = {StopIteration: "value", SystemExit: "code", ImportError: "msg"}  # members that are the only argument


def _set_members(cap: Capture, made: ObjectV) -> None:
    """What the built-in `__init__` makes of the arguments `made.ctor`."""
    if not members(made.cls):
        return
    if all(map(is_constant, made.ctor)):
        try:
            _copy_members(cap, made, _stand_in(made))
        except ours(Exception) as bad:
            raise Raised(Const(bad)) from None
        return
    name = next((n for c, n in FIRST.items() if issubclass(made.cls, c)), None)
    if name is None or len(made.ctor) != 1:
        raise Break("call", f"{made.cls.__qualname__} with values that only exist at run time")
    made.attrs[name] = made.ctor[0]


def instance_of(cap: Capture, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`cls(*args, **kwargs)` for an exception class."""
    (owner, new), (_, init) = class_attrs.resolve(cap, cls, "__new__"), class_attrs.resolve(cap, cls, "__init__")
    if owner is not None and owner.__flags__ & HEAP and not isinstance(new, staticmethod):
        raise Break("call", f"{cls.__qualname__}, whose __new__ is a {type(new).__name__}")
    if not isinstance(init, (types.FunctionType, types.WrapperDescriptorType)):
        raise Break("call", f"{cls.__qualname__}, whose __init__ is a {type(init).__name__}")
    if isinstance(new, staticmethod):
        made = cap.call(class_attrs.static_method(cap, new, owner, "__new__"), [Const(cls), *args], kwargs)
    elif issubclass(cls, BaseExceptionGroup):
        made = cap.call(Const(BaseExceptionGroup.__new__), [Const(cls), *args], kwargs)
    elif not isinstance(init, types.FunctionType):
        return _by_type(cap, cls, args, kwargs)
    else:
        made = ObjectV(cls, ctor=tuple(args), attrs={"args": TupleV(list(args))})
    if isinstance(init, types.FunctionType) and is_exception(made):
        cap.call(Const(init), [made, *args], kwargs)
    return made


def _by_type(cap: Capture, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """No Python code of the class runs: with constants, CPython itself says what comes of it."""
    if not all(map(is_constant, (*args, *kwargs.values()))):
        if kwargs:
            raise Break("call", f"{cls.__qualname__} with keyword arguments")
        made = ObjectV(cls, ctor=tuple(args), attrs={"args": TupleV(list(args))})
        _set_members(cap, made)
        return made
    try:
        error: BaseException = cls(*map(as_python, args), **{k: as_python(v) for k, v in kwargs.items()})
    except ours(Exception) as bad:
        raise Raised(Const(bad)) from None
    made = _taken_apart(cap, error)
    made.ctor = tuple(args)
    if len(error.args) == len(args):
        made.attrs["args"] = TupleV(list(args))
    return made


# --- chaining


def handled(cap: Capture, frame: Frame | None) -> Value | None:
    """The exception that is being handled here, in this frame or in one that called it."""
    while frame is not None:
        if frame.handling:
            return frame.handling[-1].error
        frame = frame.parent
    outside = wrap(cap, cap.root.handled, S.Handled())
    return outside if is_exception(outside) else None


def caught(cap: Capture, frame: Frame, instr: Instruction, raised: Raised) -> Value:
    """The exception that arrived in `frame` at `instr`; where it was raised, it gets its context."""
    if raised.chained and holds(raised.value, BaseException):
        raised.value, raised.fresh = _of_library(cap, raised.value.value, handled(cap, frame)), False
    value = raised.value = as_exception(cap, raised.value)
    if is_exception(value):
        if raised.traced:
            tracebacks.raised_again(cap, frame, instr, value)
        else:
            _write(cap, value, "__traceback__", tracebacks.entry(frame, instr, tracebacks.of(cap, value)))
        if raised.fresh:
            _set_context(cap, value, handled(cap, frame))
    raised.fresh = raised.traced = False
    return value


def _of_library(cap: Capture, error: BaseException, outside: Value | None) -> Value:
    """What a library's call has raised, with all that it was raised from, and while handling, of which the first was
    raised while the program handled `outside`."""
    if id(error) in cap.known.objects:
        return cap.known.objects[id(error)]
    made = as_exception(cap, Const(error))
    if not is_exception(made):
        return made
    for link in CHAIN:
        inner = getattr(error, link)
        if inner is not None:
            _write(cap, made, link, _of_library(cap, inner, outside))
    if error.__suppress_context__:
        _write(cap, made, "__suppress_context__", Const(True))
    if error.__context__ is None:
        _set_context(cap, made, outside)
    return made


def _write(cap: Capture, value: ObjectV, name: str, new: Value) -> None:
    mutating(cap, value)
    value.attrs[name] = new
    value.written.add(name)


def _set_context(cap: Capture, value: ObjectV, context: Value | None) -> None:
    if context is None or context is value:
        return
    at: Any = context
    seen = [at]  # programs make cycles
    while is_exception(at) and is_exception(inner := attribute(cap, at, "__context__")):
        if inner is value:
            _write(cap, at, "__context__", NONE)
        if inner is value or inner in seen:
            break
        seen.append(at := inner)
    _write(cap, value, "__context__", context)


def set_cause(cap: Capture, raised: Value, cause: Value) -> None:
    """`raise raised from cause`."""
    if is_exception(raised):
        store(cap, raised, "__cause__", cause)


# --- attributes


def say_where(cap: Capture, raised: Raised, obj: Value, name: str) -> None:
    """An AttributeError that knows nothing yet is told which attribute of which object was missed."""
    if AttributeError not in type_of(raised.value).__mro__:
        return
    ours = is_const(raised.value)
    error = raised.value = as_exception(cap, raised.value)
    if is_exception(error) and (ours or all(
            _is_none(attribute(cap, error, part)) for part in ("name", "obj"))):
        _write(cap, error, "name", Const(name))
        _write(cap, error, "obj", obj)


def _is_none(value: Value) -> bool:
    return stands_for(value, None)


def attribute(cap: Capture, value: ObjectV, name: str) -> Value:
    """An attribute that exceptions keep in C."""
    if name in value.attrs:
        return value.attrs[name]
    if name == "__traceback__":
        return tracebacks.of(cap, value)
    if value.real is not None:
        value.attrs[name] = wrap(cap, *_real_attribute(value, name))
        return value.attrs[name]
    row = _DEFAULTS.get(name)
    if row is not None:
        return row(cap, value)
    if name in members(value.cls):
        return NONE
    if value.real is None and all(map(is_constant, value.ctor)):
        try:
            return from_python(cap, getattr(_stand_in(value), name))
        except AttributeError as missing:
            raise Raised(Const(missing)) from None
    raise Break("attribute", f"{name!r} of an exception")


def _real_attribute(value: ObjectV, name: str) -> tuple[Any, S.Source]:
    """What an existing exception keeps in C under `name`, and where."""
    member = class_attrs.lookup(value.cls, name)[1]
    assert value.source is not None
    if isinstance(member, types.MemberDescriptorType):
        return member.__get__(value.real), S.Slot(value.source, name, member)
    if name not in (*CHAIN, "args", "__suppress_context__"):
        raise Break("attribute", f"{name!r} of an exception")
    return getattr(value.real, name), S.Get(value.source, name)


_DEFAULTS: dict[str, Any] = {
    "__cause__": lambda cap, v: NONE,
    "__context__": lambda cap, v: NONE,
    "__suppress_context__": lambda cap, v: Const(False),
    "message": lambda cap, v: v.ctor[0],
    "exceptions": lambda cap, v: v.ctor[1],
}


def _stand_in(value: ObjectV) -> BaseException:
    """A real exception of the nearest built-in class with the same arguments."""
    return built_in_base(value.cls)(*map(as_python, value.ctor))


# What the attributes that exceptions keep in C take, and how they refuse others.
TAKEN: dict[str, tuple[Any, str]] = {
    "__traceback__": ((types.TracebackType, type(None)), "__traceback__ must be a traceback or None"),
    "__suppress_context__": (bool, "attribute value type must be bool"),
    **{f"__{link}__": ((BaseException, type(None)), f"exception {link} must be None or derive from BaseException")
       for link in ("cause", "context")},
}


def store(cap: Capture, value: ObjectV, name: str, new: Value) -> None:
    """A store to an attribute that exceptions keep in C."""
    mutating(cap, value)
    wanted, refusal = TAKEN.get(name, (object, ""))
    if not issubclass(type_of(new), wanted):
        raise Raised(Const(TypeError(refusal)))
    if name == "args":
        new = TupleV(list(iterate(cap, new)))
    if name in CHAIN and object_of(new) is not None:
        new = as_exception(cap, new)
    value.attrs[name] = new
    value.written.add(name)
    if name == "__cause__":
        store(cap, value, "__suppress_context__", Const(True))


# --- text


def _args(cap: Capture, value: ObjectV) -> list[Value]:
    return cap.items(attribute(cap, value, "args"))


def text(cap: Capture, value: ObjectV) -> Value:
    """`BaseException.__str__` and those of its built-in subclasses."""
    args = _args(cap, value)
    owner, _ = class_attrs.lookup(value.cls, "__str__")
    if owner is KeyError:
        return cap.call(Const(repr), [args[0]]) if len(args) == 1 else _plain(cap, args)
    if owner is BaseExceptionGroup:
        n = len(cap.items(attribute(cap, value, "exceptions")))
        return cap.call(Const(str.format), [Const("{} ({} sub-exception{})"), args[0], Const(n), Const("s"[:n > 1])])
    if owner not in TEXT_OF_FIELDS:
        return _plain(cap, args)
    if value.real is not None or not all(map(is_constant, value.ctor)):
        raise Break("leaves", f"the text of a {value.cls.__qualname__}")
    return Const(str(_stand_in(value)))


def _plain(cap: Capture, args: list[Value]) -> Value:
    if not args:
        return Const("")
    return cap.call(Const(str), [args[0] if len(args) == 1 else TupleV(list(args))])


def representation(cap: Capture, value: ObjectV) -> Value:
    """`BaseException.__repr__`."""
    shown = [as_python(cap.call(Const(repr), [a])) for a in _args(cap, value)]
    return Const(f"{value.cls.__name__}({', '.join(shown)})")


# --- methods


def initialise(cap: Capture, obj: ObjectV, *args: Value, **kwargs: Value) -> None:
    """`BaseException.__init__`."""
    if kwargs or obj.real is not None and members(obj.cls):
        raise Break("call", f"{obj.cls.__qualname__}.__init__ " + (
            "with keyword arguments" if kwargs else "of an exception that exists already"))
    store(cap, obj, "args", TupleV(list(args)))
    if not issubclass(obj.cls, BaseExceptionGroup):  # whose message and exceptions `__new__` has set
        obj.ctor = tuple(args)
        _set_members(cap, obj)


def add_note(cap: Capture, obj: ObjectV, note: Value) -> Value:
    if type_of(note) is not str:
        raise Raised(Const(TypeError(f"note must be a str, not {type_of(note).__name__!r}")))
    notes = cap.instance_attribute(obj, "__notes__")
    if notes is None:
        stores.object_setattr(cap, obj, "__notes__", ListV([note]))
    elif issubclass(type_of(notes), list):
        cap.call(cap.getattr(notes, "append"), [note])
    else:
        raise Raised(Const(TypeError("Cannot add note: __notes__ is not a list")))
    return NONE


def with_traceback(cap: Capture, obj: ObjectV, tb: Value) -> Value:
    store(cap, obj, "__traceback__", tb)
    return obj


METHODS: dict[str, Any] = {"add_note": add_note, "with_traceback": with_traceback}

OPERATIONS.as_exception = as_exception
OPERATIONS.caught = caught
OPERATIONS.exception_attribute = attribute
OPERATIONS.exception_store = store
