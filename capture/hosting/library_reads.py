"""What the program's own code reads when a library runs it: guarded, for no bytecode of it was captured.

`hearing` has heard which functions these were (a linen module's `__call__`, a function under `hk.transform`, the vector
field of a solver); `guard_reads` guards the globals, the cells and, through them and the arguments, the attributes and
elements that this code may have read. An object's attribute counts as read when any of the functions names it. An
object that the program makes anew in each call (a module, what `hk.transform` has made) is guarded by all that it holds
instead: see `Whole`.

    class Scaled(nn.Module):
        def __call__(self, x):
            return x * SCALE          # guard: G['SCALE'] == 2.0
"""

from __future__ import annotations

import contextlib
import contextvars
import enum
import functools
import logging
import os
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.classes import has_dict, module_name, mro, own_dict, slots
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.hosting.code_names import globals_in, names_in, nested_codes
from dynacomp.capture.hosting.host_contexts import guard_contexts
from dynacomp.capture.hosting.made_anew import is_modules_own
from dynacomp.capture.symbolic.libraries import is_host, is_steady_module, module_of, tokens_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import changed
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
ENVIRONMENT: Any = vars(os)["environ"]  # the program's: guarded, nothing depends on it here


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


def _keeps_its_own(cls: type) -> bool:
    """Whether what its objects hold is left unguarded where a library runs the program's code: not of the standard
    library's, which keep what the program gives them (`argparse.Namespace`)."""
    module = str(module_name(cls))
    return is_steady_module(module) and module.partition(".")[0] not in sys.stdlib_module_names


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
            if _keeps_its_own(type(obj)) or not is_plain_instance(obj):
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
        for name in self.names & vars(fn).keys():
            self.value(vars(fn)[name], S.Key(S.DictOf(source), name))

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
                self.value(raw, S.Attr(class_source(self.cap, owner), name))

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
            super().value(obj, source)
            if issubclass(type(obj), (type, types.ModuleType)):
                self._note(obj, source)

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
        self.cap.guards.add("keys", S.DictOf(source), tuple(vars(fn)))
        for name in vars(fn):
            if not name.startswith("__"):  # as `__wrapped__`, which `functools.wraps` leaves for who inspects it
                self.value(vars(fn)[name], S.Key(S.DictOf(source), name))
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
