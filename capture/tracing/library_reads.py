"""What the program's own code reads when a library runs it: guarded, for no bytecode of it was captured.

A linen module's `__call__`, a function under `hk.transform`, the vector field of a solver: the library calls
them while JAX traces the call, as Python does. `overhearing` is told by the frame hook of each function that
starts meanwhile; `guard_reads` then guards the globals, the cells and, through them and the arguments, the
attributes and elements that this code may have read. It looks at names, not at paths: an object's attribute
counts as read when any of the functions names it. An object that the program makes anew in each call (a module, what
`hk.transform` has made) is guarded by all that it holds instead: see `Whole`.

    class Scaled(nn.Module):
        def __call__(self, x):
            return x * SCALE          # guard: G['SCALE'] == 2.0
"""

from __future__ import annotations

import contextlib
import contextvars
import dis
import enum
import functools
import gc
import logging
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax._src import api_util, tree_util
from jax._src.core import Tracer
from jax._src.linear_util import DebugInfo

from dynacomp.capture import _native
from dynacomp.capture.base.classes import has_dict, module_name, mro, own_dict, slots
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import by_handler, handlers
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.bodies.outside import Outside
from dynacomp.capture.graph.avals import ARRAY_TYPE
from dynacomp.capture.symbolic.libraries import (
    is_host,
    is_host_module,
    is_pure_module,
    is_steady_module,
    module_of,
    tokens_of,
)
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.outward import globals_in, is_asked_outside, is_showing, opens_files, refuse_effects
from dynacomp.capture.symbolic.side_effects import changed
from dynacomp.capture.tracing.failures import TextWanted
from dynacomp.capture.tracing.host_contexts import Contexts, guard_contexts
from dynacomp.capture.tracing.library_effects import forget_traces
from dynacomp.capture.tracing.made_anew import is_modules_own
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.callables import MethodV, PartialV
from dynacomp.capture.values.constant import is_const, is_open, peek
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_object, is_value
from dynacomp.capture.values.value import Value, children, existing
from dynacomp.capture.wrapping.builder import is_made_anew, is_plain_instance, own_source
from dynacomp.capture.wrapping.builtin_subclasses import BASES, SCALARS, payload_base
from dynacomp.capture.wrapping.class_attrs import MISSING, class_source, lookup
from dynacomp.capture.wrapping.class_prototypes import is_made

MAX_READ = 4096  # objects that are guarded for one call
MAX_WHOLE = 256  # the same of those made anew
MAX_CONTENT = 1 << 20  # bytes of a NumPy array that a guard compares
COMPILED_FILES = "jax._src.compilation_cache"
FLAT_TREES: Any = sys.modules.get("jax._src.flattree", tree_util)  # JAX 0.12 has moved them
NAMES = (api_util.debug_info.__code__, DebugInfo.set_result_paths.__code__,  # what JAX's messages call leaves
         FLAT_TREES.FlatTree.paths.func.__code__)
ASKING = frozenset({"isinstance", "issubclass", "type"})
TYPES = frozenset({  # what they may name that tells a number of Python's from an array
    "bool", "int", "float", "complex", "Number", "Complex", "Real", "Rational", "Integral", "Array", "ndarray",
    "generic", "number", "integer", "floating", "inexact", "__name__", "__qualname__"})
ARRAYS_HAVE = frozenset({"shape", "dtype", "ndim", "size"})  # which `hasattr` or `getattr` may ask for
ENVIRONMENT: Any = vars(os)["environ"]  # the program's: guarded, nothing depends on it here
DISPATCHING = functools.singledispatch(print).__code__  # type: ignore[attr-defined]
DISPATCH = functools.singledispatch(print).dispatch.__code__  # type: ignore[attr-defined]
TEXT = Tracer.__repr__.__code__
UNSAID = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError,  # what JAX says of no tracer
          jax.errors.TracerIntegerConversionError, jax.errors.NonConcreteBooleanIndexError)
REFUSALS = frozenset(error.__init__.__code__ for error in (*UNSAID, jax.errors.TracerBoolConversionError))


class Hearing:
    """Hears which of the program's functions start while a library runs, and what they would change."""

    def __init__(self, cap: Capture) -> None:
        self.heard = cap.libraries.overheard
        self.kept: set[types.FunctionType] = set()  # what these may change is watched
        self.refused: list[Exception] = []  # Breaks, but for `TextWanted`
        self.outside, self.contexts = Outside(), Contexts()
        self.context = contextvars.copy_context()  # what is set in it is gone again
        self.concrete = False  # whether JAX has refused to say what a tracer holds
        self.handlers = handlers()  # once: JAX and a library start a hundred thousand functions for one model
        self.silent: dict[tuple[int, int], Any] = {}  # code with its globals, by identity (hashes are slow): unasked

    def hear(self, fn: types.FunctionType) -> bool:
        """Whether what `fn` calls is to be heard, too."""
        if fn.__code__ is TEXT:
            self.refuse_text(sys._getframe(1))
            return True
        if fn.__code__ in REFUSALS:
            self.concrete = self.concrete or may_catch(sys._getframe(1))
            return True
        if fn.__code__ is DISPATCH:
            self.refuse_dispatch(fn, sys._getframe(1))
            return True
        place = id(fn.__code__), id(fn.__globals__)
        if place in self.silent:
            return False
        module = module_of(fn)
        if is_showing(fn):
            self.refuse_showing(fn, sys._getframe(1))
            return True
        steady = is_steady_module(module) and not opens_files(fn)
        if steady and not is_host_module(module):  # nearly all
            self.silent[place] = fn.__code__, fn.__globals__
            return False
        if fn.__code__ in collecting() or fn.__name__ == "__del__":
            return False
        if fn.__code__ in self.handlers:
            return True
        host = self.contexts.hear(module)
        if steady:
            return host
        if not interrupted() and fn not in self.kept:
            self.collect(fn)
        return True

    def collect(self, fn: types.FunctionType) -> None:
        try:
            own = fn.__code__ in nested_codes(self.heard)
            refuse_effects(fn, own)
            self.outside.keep(reached(fn, own), names_in(fn.__code__))
        except Break as refusal:
            self.refused.append(refusal)  # the library may catch it
            raise
        self.kept.add(fn)
        if not names_arguments():
            self.heard[fn] = None

    def refuse_text(self, asking: types.FrameType) -> None:
        if wants_text(asking):
            self.refused.append(TextWanted("the text of an array"))
            raise self.refused[-1]

    def refuse_dispatch(self, dispatch: Any, asking: types.FrameType) -> None:
        """Of a `functools.singledispatch` function that would take a tracer for something else than what it is: an
        array, or a number that the program has."""
        given = asking.f_locals.get("args")
        if asking.f_code is DISPATCHING and given and issubclass(type(given[0]), Tracer) and any(
                dispatch(cls) is not dispatch(type(given[0])) for cls in (ARRAY_TYPE, int, float)):
            self.refused.append(Break("tracer", "what a tracer is, is asked by code that a library runs"))
            raise self.refused[-1]

    def refuse_showing(self, fn: types.FunctionType, asking: types.FrameType) -> None:
        if is_asked_outside(fn, asking) and not interrupted():
            self.refused.append(Break("effect", f"{module_of(fn)}.{fn.__name__}, which code that a library runs calls"))
            raise self.refused[-1]

    def end(self) -> None:
        """Puts back what was changed."""
        if self.outside.restore(bool(self.refused)):
            self.refused.append(Break("effect", "something outside is changed in place by code that a library runs"))
        if self.contexts.restore():
            self.refused.append(Break("effect", "a library changes the context that it runs the program's code in"))
        if not same_context(self.context):
            self.refused.append(Break("effect", "a context variable is set by code that a library runs"))
        if self.concrete:
            self.refused.append(Break("tracer", "code that a library runs catches what JAX raises of tracers"))
        if self.refused:
            forget_traces()


def overhearing(cap: Capture, run: Callable[[], Any]) -> Any:
    """`run()`, while `cap.libraries.overheard` collects the program's functions that start."""
    if cap.libraries.overhears or cap.libraries.promised:
        return run()
    hearing, programs = Hearing(cap), False
    cap.libraries.overhears = True
    try:
        result, heard_all = hearing.context.run(_native.run_watched, run, hearing.hear)
    except BaseException as error:
        programs = by_handler(error)
        hearing.concrete = hearing.concrete and not issubclass(type(error), UNSAID)
        raise
    finally:
        cap.libraries.overhears = False
        hearing.end()
        cap.libraries.hosts |= hearing.contexts.ran
        if hearing.refused and not programs:
            raise hearing.refused[0]
    if not heard_all:
        raise Break("depth", "a library's call so deep in the stack that what it reads is not known")
    return result


def may_catch(frame: types.FrameType | None) -> bool:
    """Whether code of the program's, which a library runs, has handlers for what is raised in what it calls."""
    while frame is not None and frame.f_code is not overhearing.__code__:
        if has_handlers(frame.f_code) and not is_steady_module(frame.f_globals.get("__name__")):
            return True
        frame = frame.f_back
    return False


@remembered
def has_handlers(code: types.CodeType) -> bool:
    ops = [i.opname for i in dis.get_instructions(code)]
    bare = any(pair == ("PUSH_EXC_INFO", "POP_TOP") for pair in zip(ops, ops[1:]))
    return bare or "CHECK_EXC_MATCH" in ops or "suppress" in code.co_names


def same_context(context: contextvars.Context) -> bool:
    """Whether context variables have in it what they have here."""
    here, missing = contextvars.copy_context(), object()
    return len(here) == len(context) and all(here.get(var, missing) is held for var, held in context.items())


def collecting() -> set[types.CodeType]:
    """The code that garbage collection calls, whatever runs."""
    called = (getattr(f, "__func__", f) for f in gc.callbacks)
    return {f.__code__ for f in called if isinstance(f, types.FunctionType)}


def interrupted() -> bool:
    """Whether what starts now was called, directly or not, by a garbage collection, a finalizer, a signal handler, or
    by JAX where it keeps compiled code in files."""
    codes = {id(code) for code in collecting() | handlers()}  # our replacement code may hold what has no hash
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not (id(frame.f_code) in codes or frame.f_code.co_name == "__del__"
                                     or frame.f_globals.get("__name__") == COMPILED_FILES):
        frame = frame.f_back
    return frame is not None


def wants_text(asking: types.FrameType | None) -> bool:
    """Whether the program's code makes a text of a tracer, where eager JAX has an array, itself or by way of Python's
    library. JAX's own messages are not the program's."""
    while asking is not None and not is_pure_module(asking.f_globals.get("__name__")):
        if not is_steady_module(asking.f_globals.get("__name__")):
            return True
        asking = asking.f_back
    return False


def names_arguments() -> bool:
    """Whether what starts now says how JAX's messages call the leaves of arguments: no result depends on it."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not any(frame.f_code is code for code in NAMES):
        frame = frame.f_back
    return frame is not None


def guard_reads(cap: Capture, values: Iterable[Value]) -> None:
    """Guards what the functions that `overhearing` collected may have read; `values`: what the call was given."""
    cap.libraries.given.extend(values)
    if cap.libraries.overhears:
        return
    guard_contexts(cap, cap.libraries.hosts)
    cap.libraries.hosts.clear()
    if not cap.libraries.overheard:
        return
    functions = [fn for fn in cap.libraries.overheard if not is_made(cap, fn)]
    cap.libraries.overheard.clear()
    nested = nested_codes(functions)
    names = frozenset(n for fn in functions for n in names_in(fn.__code__))
    reads = Reads(cap, names, frozenset(id(v.real) for v in changed(cap)))  # type: ignore[attr-defined]
    for value in cap.libraries.given:
        reads.given(value)
    cap.libraries.given.clear()
    for _, obj in list(cap.libraries.whole.values()):
        reads.named_in(obj)
    for fn in functions:
        reads.globals_of(fn)
        # else the call has made it, of what it found elsewhere, or all that it holds is guarded
        if fn.__code__ not in nested and id(fn) not in cap.libraries.whole:
            reads.inside(fn, S.Root(fn, fn.__qualname__))


def by_content(cap: Capture, obj: Any, source: S.Source | None) -> bool:
    """Guards an object that a library is given as it is, once it was seen to be made anew: by all that it holds, in
    place of its identity. Whether that was done."""
    if source is None or id(obj) not in cap.libraries.whole and not (
            _is_made_of_parts(obj) and is_made_anew(cap, obj, source)):
        return False
    Whole(cap, frozenset(), frozenset(id(v.real) for v in changed(cap))).value(obj, source)  # type: ignore[attr-defined]
    _apart(cap)
    return True


def _apart(cap: Capture) -> None:
    """Two of a class that are equal are two: a library may share what one object stands for in two places."""
    alike: dict[type, list[S.Source]] = {}
    for source, obj in cap.libraries.whole.values():
        alike.setdefault(type(obj), []).append(source)
    for sources in alike.values():
        if len(sources) > 1:
            cap.guards.add("all_distinct", None, tuple(sources), ())


def hosted_by_content(cap: Capture, fn: Value) -> bool:
    """The same of a function of a library that runs the program's in a context of its own."""
    return is_open(fn) and is_host(peek(fn)) and by_content(cap, peek(fn), fn.source)  # type: ignore[arg-type]


def _is_made_of_parts(obj: Any) -> bool:
    """Whether all that tells an object from another one can be read: a function, an instance of a Python class."""
    if type(obj) in _ROWS or issubclass(type(obj), (type, types.ModuleType, enum.Enum, jax.Array)):
        return type(obj) in (types.FunctionType, types.MethodType, functools.partial)
    return is_plain_instance(obj)


# --- what code names


@remembered
def names_in(code: types.CodeType) -> tuple[str, ...]:
    """Attributes, globals, and strings that may name an attribute."""
    return (*code.co_names, *(c for c in code.co_consts if type(c) is str and c.isidentifier()))


def asks_for_types(fn: types.FunctionType) -> bool:
    """Whether a function may ask what its arguments are: where one stands for another type, the answer is wrong."""
    return names_types(fn.__code__) or any(
        type(found) is types.FunctionType and found.__code__ is DISPATCHING
        for found in map(fn.__globals__.get, globals_in(fn.__code__)))


@remembered
def names_types(code: types.CodeType) -> bool:
    if not {"hasattr", "getattr"}.isdisjoint(code.co_names) and not ARRAYS_HAVE.isdisjoint(code.co_consts):
        return True
    return not TYPES.isdisjoint(code.co_names) and (not ASKING.isdisjoint(code.co_names) or matches_classes(code))


@remembered
def matches_classes(code: types.CodeType) -> bool:
    """Whether code has a `case int():`."""
    return any(instr.opname == "MATCH_CLASS" for instr in dis.get_instructions(code))


@remembered
def asks_for_class(code: types.CodeType) -> bool:
    """Whether code may ask for a size's class by `type`, which gives that of a Size: of anything but `self`."""
    instrs = [i for i in dis.get_instructions(code) if i.opname not in ("PRECALL", "CACHE")]
    return not TYPES.isdisjoint(code.co_names) and any(
        i.argval == "type" and not (given.opname == "LOAD_FAST" and given.argval == "self" and call.opname == "CALL")
        for i, given, call in zip(instrs, instrs[1:], instrs[2:]))


def nested_codes(functions: Iterable[types.FunctionType]) -> set[types.CodeType]:
    """The code of the functions and classes that `functions` make."""
    return {c for fn in functions for c in fn.__code__.co_consts if isinstance(c, types.CodeType)}


def reached(fn: types.FunctionType, is_nested: bool) -> Iterator[Any]:
    """What `fn` can change: what stands in its cells, unless the call has made it, and the globals that it names."""
    for cell in () if is_nested else fn.__closure__ or ():
        with contextlib.suppress(ValueError):  # still empty
            yield cell.cell_contents
    for name in globals_in(fn.__code__):
        yield fn.__globals__.get(name)


# --- guards


def _stale(what: str) -> Break:
    return Break("effect", f"{what} has changed, which code that a library runs may read")


@dataclass
class Reads:
    """The walk over what may have been read. names: of all functions together. changed: ids of objects that are as they
    were while the library runs, and the program has changed. seen: by identity."""

    cap: Capture
    names: frozenset[str]
    changed: frozenset[int]
    seen: dict[int, Any] = field(default_factory=dict)

    def globals_of(self, fn: types.FunctionType) -> None:
        table = fn.__globals__
        at = self.cap.globals_source(table)
        for name in globals_in(fn.__code__):
            if (id(table), name) in self.cap.effects.globals:
                raise _stale(name)
            if name in table:
                self.value(table[name], S.Global(name) if at is None else S.Key(at, name))
                if table[name] is os and any(n == "environ" or n.endswith("env") for n in fn.__code__.co_names):
                    self._environment(ENVIRONMENT, S.Attr(S.Root(os, "os"), "environ"))
            elif at is None:
                self.cap.guards.add("missing_global", None, name)
            else:
                self.cap.guards.add("missing_key", at, name)

    def named_in(self, obj: Any) -> None:
        """What may have been read of an object that is known by all that it holds: of its class."""
        if issubclass(type(obj), types.ModuleType):
            self._module(obj)
        else:
            self._class(obj if issubclass(type(obj), type) else type(obj))

    def given(self, value: Value) -> None:
        """An argument of the call: the objects in it that existed before."""
        for item in children(value):
            if is_value(item):  # others have not been looked at
                self.given(item)
        binds = kind(value).binds
        if binds is not None:
            for item in binds(value):
                self.given(item)
        elif is_object(value) or is_const(value):
            obj = existing(value)
            if is_steady_module(module_name(type(obj))) or not is_plain_instance(obj):
                return
            if jax.tree_util.all_leaves([obj]):  # the leaves of a tree are arguments
                self.value(obj, value.source or S.Root(obj, type(obj).__qualname__))

    def value(self, obj: Any, source: S.Source) -> None:
        """Guards `obj` at `source`, and what may have been read of it."""
        guards = self.cap.guards
        if id(obj) in self.changed:
            raise _stale(f"an object of {type(obj).__qualname__}")
        if is_literal(obj) or issubclass(type(obj), (np.generic, np.dtype)):
            guards.add("eq", source, obj)
            return
        row = _ROWS.get(payload_base(type(obj)) or type(obj))
        if row is not Reads._elements and by_content(self.cap, obj, source):
            return
        guards.add(*("is_type", source, type(obj)) if row is Reads._elements else ("is", source, obj))
        if id(obj) in self.seen:
            return
        self.seen[id(obj)] = obj
        if len(self.seen) > MAX_READ:
            raise Break("opaque", f"more than {MAX_READ} objects that code in a library's call may read")
        if row is not None:
            row(self, obj, source)
        elif issubclass(type(obj), type):
            self._class(obj)
        elif issubclass(type(obj), types.ModuleType):
            self._module(obj)
        elif not issubclass(type(obj), jax.Array) and is_plain_instance(obj):
            self._instance(obj, source)

    def _elements(self, obj: Any, source: S.Source) -> None:
        base: Any = payload_base(type(obj)) or type(obj)
        if issubclass(base, dict):
            keys = tuple(base.__iter__(obj))
            self.cap.guards.add("keys", source, keys)
            found: list[tuple[Any, S.Source]] = [(base.__getitem__(obj, k), S.Key(source, k)) for k in keys]
        elif issubclass(base, (set, frozenset)):
            self.cap.guards.add("set", source, tuple(base.__iter__(obj)))
            found = []
        else:
            items = tuple(base.__iter__(obj))
            self.cap.guards.add("len", source, len(items))
            found = [(x, S.Item(source, i)) for i, x in enumerate(items)]
        for item, at in found:
            self.value(item, at)

    def inside(self, fn: types.FunctionType, source: S.Source) -> None:
        """A function's cells and defaults."""
        if is_steady_module(module_of(fn)):
            return
        self.seen[id(fn)] = fn
        for i, cell in enumerate(fn.__closure__ or ()):
            if id(cell) in self.changed:
                raise _stale(fn.__code__.co_freevars[i])
            with contextlib.suppress(ValueError):  # still empty
                self.value(cell.cell_contents, S.Get(S.Item(S.Get(source, "__closure__"), i), "cell_contents"))
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(fn, name) is not None:
                self.value(getattr(fn, name), S.Get(source, name))

    def _method(self, obj: types.MethodType, source: S.Source) -> None:
        self.value(obj.__self__, S.Get(source, "__self__"))

    def _bound(self, obj: types.MethodType, source: S.Source) -> None:
        self._method(obj, source)
        self.value(obj.__func__, S.Get(source, "__func__"))

    def _partial(self, obj: Any, source: S.Source) -> None:
        for name, attribute in (("func", obj.func), ("args", obj.args), ("keywords", obj.keywords)):
            self.value(attribute, S.Get(source, name))

    def _array(self, obj: np.ndarray, source: S.Source) -> None:
        """Its content is in the Graph: NumPy's arrays change in place."""
        if obj.dtype.hasobject or obj.nbytes > MAX_CONTENT or not obj.flags.c_contiguous:
            raise Break("leaves", f"a NumPy array of {obj.nbytes} bytes that code in a library's call may read")
        self.cap.guards.add("ndarray", source, obj.shape, obj.dtype, True)
        self.cap.guards.add("content", source, obj.tobytes())

    def _environment(self, obj: Any, source: S.Source) -> None:
        """All that the environment says."""
        self._elements(own_dict(obj)["_data"], S.Attr(source, "_data"))

    def _variable(self, obj: contextvars.ContextVar[Any], source: S.Source) -> None:
        """What a context variable has, unless the program has set it meanwhile: that happens later."""
        if any(token.variable.obj is obj for token in self.cap.effects.tokens):
            raise _stale("a context variable")
        found, at = obj.get(contextvars.Token.MISSING), S.Contextual(source)
        if found is contextvars.Token.MISSING:
            self.cap.guards.add("is", at, found)
        else:
            self.value(found, at)

    def _class(self, cls: type) -> None:
        if is_steady_module(module_name(cls)):
            return
        for name in self.names:
            if any((id(c), name) in self.cap.effects.classes for c in mro(cls)):
                raise _stale(f"{cls.__qualname__}.{name}")
            owner, raw = lookup(cls, name)
            if owner is None or is_steady_module(module_name(owner)):
                continue
            self.cap.rely(cls, name, raw)
            if not isinstance(raw, (types.FunctionType, property, classmethod, staticmethod)) and not is_literal(raw):
                self.value(raw, S.Attr(class_source(owner), name))

    def _module(self, module: types.ModuleType) -> None:
        if module is logging:
            self._logger(logging.root, S.Root(logging.root, "logging.root"))
        if is_steady_module(module.__name__):
            return
        for name in self.names & vars(module).keys():
            self.value(vars(module)[name], S.Attr(S.Root(module, module.__name__), name))

    def _logger(self, log: logging.Logger, source: S.Source) -> None:
        """What decides that it logs nothing, as it did while the library ran: else the call would be Python's."""
        manager = log.manager
        self.cap.guards.add("eq", S.Attr(S.Root(manager, "logging.root.manager"), "_disable"), manager.disable)
        self.cap.guards.add("eq", S.Attr(source, "disabled"), log.disabled)
        at: logging.Logger | None = log
        while at is not None:
            self.cap.guards.add("eq", S.Attr(source, "level"), at.level)
            at, source = at.parent, S.Attr(source, "parent")

    def _instance(self, obj: Any, source: S.Source) -> None:
        table = own_dict(obj)
        if issubclass(type(obj), logging.Logger):
            self._logger(obj, source)
        if not is_steady_module(module_name(type(obj))):
            self._class(type(obj))
        for name in self.names:
            if name in table:
                self.value(table[name], own_source(obj, source, name))
                continue
            _, raw = lookup(type(obj), name)
            if isinstance(raw, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # unset
                    self.value(raw.__get__(obj), S.Slot(source, name, raw))
            elif raw is not MISSING and type(obj).__dictoffset__:
                self.cap.guards.add("missing", source, name)


class Whole(Reads):
    """The walk over all that objects hold which are made anew in each call. What they are made of may be anew, too:
    functions are known by their code, instances by their class and each of their attributes."""

    def value(self, obj: Any, source: S.Source) -> None:
        known = self.cap.libraries.whole.get(id(obj))
        if known is not None:
            if known[0] != source:
                self.cap.guards.add("same", known[0], source)
        elif _is_made_of_parts(obj) and (not is_modules_own(obj) or is_made_anew(self.cap, obj, source)):
            if id(obj) in self.changed:
                raise _stale(f"an object of {type(obj).__qualname__}")
            self._note(obj, source)
            self.cap.guards.add("is_type", source, type(obj))
            (_ROWS_OF_PARTS.get(type(obj)) or Whole._all_fields)(self, obj, source)
        else:
            if issubclass(type(obj), (type, types.ModuleType)):
                self._note(obj, source)
            super().value(obj, source)

    def _note(self, obj: Any, source: S.Source) -> None:
        whole = self.cap.libraries.whole
        whole[id(obj)] = source, obj
        if len(whole) > MAX_WHOLE:
            raise Break("opaque", f"more than {MAX_WHOLE} objects made anew that a library's call may read")

    def _function(self, fn: types.FunctionType, source: S.Source) -> None:
        for name in ("__code__", "__globals__"):
            self.cap.guards.add("is", S.Get(source, name), getattr(fn, name))
        for name in ("__defaults__", "__kwdefaults__"):
            self.value(getattr(fn, name), S.Get(source, name))
        for i, cell in enumerate(fn.__closure__ or ()):
            at = S.Item(S.Get(source, "__closure__"), i)
            if id(cell) in self.changed:
                raise _stale(fn.__code__.co_freevars[i])
            self.cap.guards.add("is_type", at, types.CellType)
            try:
                content = cell.cell_contents
            except ValueError:
                self.cap.guards.add("empty", at)
            else:
                self.value(content, S.Get(at, "cell_contents"))

    def _all_fields(self, obj: Any, source: S.Source) -> None:
        table, tokens = own_dict(obj), tokens_of(type(obj))
        if has_dict(type(obj)):
            self.cap.guards.add("keys", S.DictOf(source), tuple(table))
        for name, held in table.items():
            if name not in tokens:
                self.value(held, own_source(obj, source, name))
        for name, member in slots(type(obj)):
            try:
                self.value(member.__get__(obj), S.Slot(source, name, member))
            except AttributeError:
                self.cap.guards.add("empty_slot", source, member)


_ROWS_OF_PARTS: dict[Any, Any] = {
    types.FunctionType: Whole._function, types.MethodType: Reads._bound, functools.partial: Reads._partial}
_ROWS: dict[Any, Any] = {
    **dict.fromkeys(set(BASES) - set(SCALARS), Reads._elements),
    types.FunctionType: Reads.inside,
    types.MethodType: Reads._method,
    functools.partial: Reads._partial,
    np.ndarray: Reads._array,
    type(ENVIRONMENT): Reads._environment,
    contextvars.ContextVar: Reads._variable,
}


define(MethodV, Kind(binds=lambda v: (v.obj,)))
define(PartialV, Kind(binds=lambda v: (v.func, *v.args, *v.kwargs.values())))
