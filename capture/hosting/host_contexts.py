"""The contexts that a library runs the program's code in: thread-local objects of its modules, which it reads whatever
it is given. `nn.intercept_methods(fn)` puts a function on such a stack, which every module's method then calls.

While code of such a library runs on tracers, what the contexts hold is watched: it is put back where the call has
changed it. Afterwards what they hold is guarded, and the graph breaks where that is no constant.

    with nn.intercept_methods(twice):
        y = step(params, x)     # guard: len(vars(flax.linen.module._global_interceptor_stack)['_storage']) == 1
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Collection, Iterator
from typing import Any

import jax
import numpy as np

from dynacomp.capture.base.classes import module_name, own_dict
from dynacomp.capture.base.errors import Break, Restart
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.marks import Mark
from dynacomp.capture.hosting.library_effects import Given
from dynacomp.capture.hosting.made_anew import is_modules_own
from dynacomp.capture.symbolic.libraries import is_host_module, is_pure_module
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.wrapping.builder import is_plain_instance, own_source
from dynacomp.capture.wrapping.builtin_subclasses import BASES, SETS, TABLES, payload_base

MAX_HELD = 256  # objects in a library's contexts


class Contexts:
    """Of which libraries code has run during a call, and what the contexts held before the first of it."""

    def __init__(self) -> None:
        self.ran: set[str] = set()  # the libraries' packages
        self.given: Given | None = None

    def hear(self, module: str | None) -> bool:
        """Whether a function of this module is one of such a library. It is about to run."""
        if not is_host_module(module):
            return False
        if self.given is None:
            self.given = Given((), [vars(local) for _, local in found()], notes=True)
        self.ran.add(package(str(module)))
        return True

    def restore(self) -> bool:
        """Puts everything back; whether anything had changed. Where dicts were only added to, that stays: memos."""
        noted = {} if self.given is None else self.given.noted()
        if self.given is not None and self.given.restore():
            return True
        _MEMOS.update(noted)
        return False


_MEMOS: dict[int, Any] = {}  # the dicts in contexts to which calls have added, by their ids: kept, for ids are reused
_LOOKED: list[Any] = [0, []]  # how many modules there were, and the contexts of those


def package(module: str) -> str:
    return module.partition(".")[0]


def found() -> list[tuple[S.Root, threading.local]]:
    """The thread-local objects of the libraries that run the program's code in contexts of their own."""
    if _LOOKED[0] != len(sys.modules):
        modules = [m for name, m in list(sys.modules.items()) if is_host_module(name) and type(m) is types.ModuleType]
        known = {id(v): (S.Root(v, f"{m.__name__}.{name}"), v) for m in modules for name, v in list(vars(m).items())
                 if issubclass(type(v), threading.local) and is_host_module(module_name(type(v)))}
        _LOOKED[:] = len(sys.modules), list(known.values())
    return _LOOKED[1]


def guard_contexts(cap: Capture, ran: Collection[str]) -> None:
    """Guards what the contexts of these packages hold in this thread."""
    held = _Held(cap)
    for root, local in found() if ran else ():
        if package(root.name) in ran:
            for name, value in vars(local).items():
                held.value(value, S.Key(S.ThreadDict(root), name))


class _Held:
    """The walk over what contexts hold."""

    def __init__(self, cap: Capture) -> None:
        self.cap, self.seen = cap, 0

    def value(self, obj: Any, source: S.Source) -> None:
        cls = type(obj)
        self.seen += 1
        if self.seen > MAX_HELD or issubclass(cls, (jax.Array, np.ndarray)):
            raise Break("opaque", f"{source} holds arrays, or much else, which a library's call may read")
        if is_literal(obj):
            self.cap.guards.add("eq", source, obj)
        elif (payload_base(cls) or cls) in BASES:
            if id(obj) not in _MEMOS:
                self._container(obj, source)
            elif self.cap.guards.holds("is_type", source, cls):  # an earlier call of this attempt had added nothing
                self.cap.lessons.memos.add(source)
                raise Restart
        elif is_pure_module(module_name(cls)) and is_plain_instance(obj):
            self.cap.guards.add("is_type", source, cls)
            for name, part in own_dict(obj).items():
                self.value(part, own_source(obj, source, name))
        else:
            self._object(obj, source)

    def _container(self, obj: Any, source: S.Source) -> None:
        self.cap.guards.add("is_type", source, type(obj))
        for item, at in self._items(obj, payload_base(type(obj)) or type(obj), source):
            self.value(item, at)

    def _items(self, obj: Any, base: Any, source: S.Source) -> Iterator[tuple[Any, S.Source]]:
        held = tuple(base.__iter__(obj))
        if base in TABLES:
            self.cap.guards.add("keys", source, held)
            yield from ((base.__getitem__(obj, k), S.Key(source, k)) for k in held)
        elif base in SETS:
            self.cap.guards.add("set", source, held)
        else:
            self.cap.guards.add("len", source, len(held))
            yield from ((x, S.Item(source, i)) for i, x in enumerate(held))

    def _object(self, obj: Any, source: S.Source) -> None:
        """One that is known by its identity; Break where it was seen to be another, which was made meanwhile."""
        if not issubclass(type(obj), type) and not is_modules_own(obj):
            mark = Mark(obj)
            if self.cap.root.policy.scalar(source, mark):
                raise Break("opaque", f"{source} is another object in each call, which a library's call may read")
            self.cap.numbers.scalars[source] = mark
        self.cap.guards.add("is", source, obj)
