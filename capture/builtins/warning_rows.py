"""Warnings: given as Python's C code gives them, by the filters as the captured code has them.

`warnings.catch_warnings`, `simplefilter` and the like are Python code that is entered: it changes lists and names
of module `warnings`, which is replayed like any other change. What it calls in C, `_filters_mutated`, makes every
registry of warnings that were given before void. From then on the capture knows them all, and a `warn` is decided
while capturing: dropped, raised, or shown by the functions that module `warnings` has for that (one of them
collects what is recorded). Before that a warning is given by Python once the Graph has run; the filters, which
are guarded, say that it will not raise.

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # no graph break, here or where the body warns
        y = model(x)
"""

from __future__ import annotations

import contextlib
import inspect
import re
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from dynacomp.capture.base.errors import Break, Raised, Restart
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.graph.silence import Place, Said, giving, nothing_hidden, noting
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.side_effects import changing_outside, heard_outside, write_global
from dynacomp.capture.tracing.traces import CONTROL
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.containers import TupleV
from dynacomp.capture.values.questions import is_list, is_object, own_class
from dynacomp.capture.values.value import NotConstant, Value, as_python

MODULE, TABLE = Const(warnings), vars(warnings)
NONE = Const(None)
STATE = ("filters", "showwarning", "_showwarnmsg_impl")  # names of the module that its functions bind
WAYS = {name: getattr(warnings, name) for name in ("showwarning", "_showwarnmsg_impl")}  # how one is shown
FORMAT = warnings.formatwarning


def warn(cap: Capture, message: Value, category: Value = NONE, stacklevel: Value = Const(1),
         source: Value = NONE) -> Value:
    level = as_python(stacklevel)
    if source is not NONE or type(level) is not int or any(b.is_side for b in cap.bodies):
        raise Break("effect", "warnings.warn()")
    kind, text = _kind_and_text(cap, message, category)
    place = _place(cap, level)
    if cap.effects.warned is not None:
        _decide(cap, message, kind, text, place)
        return NONE
    if is_object(message) or place is None and not _has_caller(cap):
        raise Break("effect", "warnings.warn()")
    if action(cap, kind, text, place) != "ignore":
        heard_outside(cap, "a warning")
    _leave(cap, "warnings.warn()", kind, text, place, level)
    return NONE


def _leave(cap: Capture, name: str, kind: type, text: str, place: Place | None, level: int) -> None:
    """Leaves a warning to Python, once the Graph has run."""
    log = record_of(warnings)
    if action(cap, kind, text, place) == "error" or not (
            shown_as_usual(cap) if log is None else not cap.lessons.reads_record):
        raise Break("effect", f"{name}, where a warning is recorded or raised")
    cap.effects.records += [] if log is None else [log]
    if cap.bodies and not said_first(cap, text):
        return
    if place is None:
        cap.effects.call(runtime.warn_above, [*map(Const, (text, kind, level - _depth(cap)))])
    else:
        file, line, module, table = place
        cap.effects.call(runtime.warn, [*map(Const, (text, kind, file, line, module))], table=table)


def give(cap: Capture, name: str, said: list[Said]) -> None:
    """What a library's call `name` has warned of is given in each call of the compiled code, as it would be there."""
    for body in cap.bodies:
        body.said.update(one.text for one in said)
    for one in said:
        if any(b.is_side for b in cap.bodies):
            raise Break("effect", f"{name} has a warning to give")
        level = one.above + 1
        place = one.place or _place(cap, level)
        if place is None and not _has_caller(cap):  # in a body: what has called that
            level = _depth(cap)
            place = _place(cap, level)
        if action(cap, one.kind, one.text, place) == "error":
            raise Break("raises", one.kind.__name__)
        _leave(cap, name, one.kind, one.text, place, level)


def _depth(cap: Capture) -> int:
    """How many captured frames there are, from the one at hand outwards."""
    frame, found = cap.current, 0
    while frame is not None:
        frame, found = frame.parent, found + 1
    return found


def _has_caller(cap: Capture) -> bool:
    """Whether replacement code stands where the outermost frame would, seen from its callers."""
    return not cap.bodies and not cap.root.code.co_flags & SUSPENDED


SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _kind_and_text(cap: Capture, message: Value, category: Value) -> tuple[type, str]:
    own = own_class(message)
    if own is not None and issubclass(own, Warning):
        kind, text = own, as_python(cap.call(Const(str), [message]))
    else:
        kind, text = as_python(category) or UserWarning, as_python(message)
    if type(text) is not str or not (isinstance(kind, type) and issubclass(kind, Warning)):
        raise Break("effect", "warnings.warn() of something else")
    return kind, text


def _place(cap: Capture, level: int) -> Place | None:
    """What a warning is about; None where that is not one of the captured frames."""
    frame = cap.current
    for _ in range(level - 1):
        frame = frame.parent if frame is not None else None
    if frame is None:
        return None
    return frame.code.code.co_filename, frame.instr.line, frame.globals.get("__name__") or "<string>", frame.globals


def said_first(cap: Capture, text: str = "") -> bool:
    """Whether this place is reached for the first time: a body may be captured more than once."""
    place: list[Any] = [text]
    frame: Frame | None = cap.current
    while frame is not None:
        place.append((frame.code.code, frame.index))
        frame = frame.parent
    found = tuple(place) not in cap.effects.said
    cap.effects.said.add(tuple(place))
    return found


def record_of(module: Any) -> Any:
    """The list that `warnings.catch_warnings(record=True)` fills now, outside of what is captured; else None."""
    log = getattr(module._showwarnmsg_impl, "__self__", None)
    return log if type(log) is list and module.showwarning is module._showwarning_orig else None


def hold_records(cap: Capture) -> None:
    """Restart where the captured code looks at a list in which a warning that it leaves to Python will be recorded:
    Python gives it at its place then. No other of its lists will be one."""
    known = {id(v.real) for v in cap.known.objects.values() if is_list(v)} if cap.effects.records else ()
    if any(id(log) in known for log in cap.effects.records):
        cap.lessons.reads_record = True
        raise Restart
    for name in STATE[1:] if known else ():
        cap.rely(TABLE, name, getattr(warnings, name))


def shown_as_usual(cap: Capture) -> bool:
    for name, usual in WAYS.items():
        cap.rely(TABLE, name, usual)
    return all(getattr(warnings, name) is usual and (id(TABLE), name) not in cap.effects.globals
               for name, usual in WAYS.items())


# --- what the filters say


def action(cap: Capture, kind: type, text: str, place: Place | None) -> str:
    """What the first filter that fits says; Break where that depends on a place that is not known."""
    with nothing_hidden():
        filters = cap.getattr(MODULE, "filters")
        if not is_list(filters):
            raise Break("effect", "filters of warnings that are no list")
        items = [cap.realize(item) for item in cap.items(filters)]
    for item in items:
        does, said, category, module, line = _fields(cap, item)
        if not (issubclass(kind, category) and _fits(said, text)):
            continue
        if place is None and (module is not None or line):
            raise Break("effect", "a warning about a caller of the captured code, whose filter asks where that is")
        if place is None or _fits(module, place[2]) and line in (0, place[1]):
            return does
    return as_python(cap.getattr(MODULE, "defaultaction"))


def _fields(cap: Capture, item: Value) -> Any:
    try:
        found = as_python(TupleV(list(cap.items(item))))
    except (NotConstant, AttributeError):
        raise Break("effect", "a filter of warnings that is no tuple of constants") from None
    if len(found) != 5:
        raise Break("effect", "a filter of warnings that has not five parts")
    return found


def _fits(pattern: Any, text: str) -> bool:
    if pattern is None or type(pattern) is str:
        return pattern is None or pattern == text
    return bool(pattern.match(text))


def _decide(cap: Capture, message: Value, kind: type, text: str, place: Place | None) -> None:
    """Gives a warning, every registry being known."""
    if not is_object(message):
        message = cap.call(Const(kind), [Const(text)])
    registry = cap.effects.warned.setdefault(id(place[3]) if place else 0, set())  # type: ignore[union-attr]
    key = text, kind, place[1] if place else -1
    if place is not None and key in registry:
        return
    does = action(cap, kind, text, place)
    if does == "error":
        raise Raised(message)
    if does == "ignore":
        return
    if place is None or does not in ("default", "always", "all", "once", "module"):
        raise Break("effect", "a warning about a caller of the captured code")
    if does not in ("always", "all"):
        registry.add(key)
    if does in ("once", "module"):
        if (text, kind) in registry:
            return
        registry.add((text, kind))
    if cap.bodies and not said_first(cap):
        return
    shown = cap.call(cap.getattr(MODULE, "WarningMessage"), [
        message, *map(Const, (kind, place[0], place[1], None, None, None))])
    cap.call(cap.getattr(MODULE, "_showwarnmsg"), [shown])


# --- what module `warnings` does in C, and what writes to a file


def filters_mutated(cap: Capture) -> Value:
    """Makes all registries void. From here on the machine alone says what the module's names are bound to: the
    capture changes them for real where it lets a library run, see `hearing`."""
    if any(b.is_side for b in cap.bodies):
        raise Break("effect_in_body", "a change of the filters of warnings that may not happen")
    changing_outside(cap, "a change of the filters of warnings")
    for name in STATE:
        if (id(TABLE), name) not in cap.effects.globals:
            write_global(cap, TABLE, None, name, cap.getattr(MODULE, name))
    cap.effects.warned = {}
    cap.effects.call(runtime.call_only, [Const(MUTATED)])
    return NONE


MUTATED: Any = getattr(warnings, "_filters_mutated_lock_held", None) or warnings._filters_mutated  # type: ignore


def show(cap: Capture, shown: Value) -> Value:
    """`warnings._showwarnmsg_impl`, which writes to `sys.stderr`: done once the Graph has run."""
    parts = [cap.getattr(shown, name) for name in ("message", "category", "filename", "lineno", "file", "line")]
    file, line = map(as_python, parts[4:])
    cap.rely(TABLE, "formatwarning", FORMAT)
    usual = warnings.formatwarning is FORMAT and (id(TABLE), "formatwarning") not in cap.effects.globals
    if not usual or file is not None or line is not None or not all(map(is_const, parts[1:4])):
        raise Break("effect", "a warning that is written to a file")
    cap.effects.call(runtime.show_warning, [cap.call(Const(str), parts[:1]), *parts[1:4]])
    return NONE


@contextlib.contextmanager
def hearing(cap: Capture, name: str) -> Iterator[None]:
    """Notes what a library's call `name` warns of. Break after one that has given a warning which the captured code's
    filters let pass, where that has others than it found."""
    if cap.effects.warned is None:
        noted: list[Said] = []
        with noting(noted):
            yield
        cap.libraries.said = noted
        return
    with giving(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            yield
        except CONTROL:
            raise
        except ours(Exception):
            _refuse(cap, name, said)
            raise
    _refuse(cap, name, said)


@contextlib.contextmanager
def folding(cap: Capture, name: str, *places: dict[str, Any]) -> Iterator[None]:
    """`hearing` of what is computed in Python while capturing, by the modules with the globals `places`: a warning
    would name those as the place, and what has been computed (a regular expression is kept) would give it once."""
    said: list[Any] = []
    refused = False
    try:
        with hearing(cap, name) if cap.effects.warned is not None else _shown_to(said, places):
            yield
    except ours(Exception) as error:
        refused = isinstance(error, Break)
        if not refused and not said:
            raise
    if refused or said:
        re.purge()
        raise Break("effect", f"{name} has a warning to give")


_LISTENS = threading.Lock()


@contextlib.contextmanager
def _shown_to(said: list[Any], places: tuple[dict[str, Any], ...]) -> Iterator[None]:
    """What this thread would show of warnings goes to `said`, if no other thread is listening: none waits here."""
    if not _LISTENS.acquire(blocking=False):
        yield
        return
    show, me = warnings._showwarnmsg, threading.get_ident()  # type: ignore[attr-defined]
    for place in places:
        place.pop("__warningregistry__", None)  # by which one is shown once
    try:
        warnings._showwarnmsg = (  # type: ignore[attr-defined]
            lambda message: said.append(message) if threading.get_ident() == me else show(message))
        yield
    finally:
        warnings._showwarnmsg = show  # type: ignore[attr-defined]
        _LISTENS.release()


def _refuse(cap: Capture, name: str, said: list[Any]) -> None:
    if any(action(cap, one.category, str(one.message), None) != "ignore" for one in said):
        raise Break("effect", f"{name} has a warning to give")


BUILTINS[warnings.warn] = warn
BUILTINS[warnings._showwarnmsg_impl] = show  # type: ignore[attr-defined]
BUILTINS[MUTATED] = filters_mutated
OPERATIONS.hearing = hearing
OPERATIONS.give = give
OPERATIONS.folding = folding
