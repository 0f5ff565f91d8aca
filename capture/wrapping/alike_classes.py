"""Classes that a program makes anew in each call: by a class statement in a function, or by `make_dataclass`.

An instance's class is guarded by its identity until another one comes from the same place. From then on it is known by
what it says: the classes in its MRO, the names in it, the code of its functions and properties. What those close over,
their defaults and the data beside them are found through the class of the call at hand (`cap.known.anew` says where),
as those of functions made anew are.

    >>> def make(k):
    ...     class Scaled:
    ...         def __call__(self, x):
    ...             return k * x
    ...     return Scaled
    >>> said(make(2.0)) == said(make(3.0)), said(make(2.0)) == said(int)
    (True, False)
"""

from __future__ import annotations

import collections
import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jax._src.tree_util import _registry as REGISTRY

from dynacomp.capture.base.classes import entries, module_name, mro
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.base.marks import Mark
from dynacomp.capture.symbolic.libraries import rows_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values import sources as S
from dynacomp.capture.wrapping.class_prototypes import reached

WRAPPED = "__wrapped__"
SLOT = types.MemberDescriptorType


def guard_type(cap: Capture, cls: type, source: S.Source) -> None:
    """Guards that the object at `source` is of this class."""
    if not by_content(cap, cls, S.TypeOf(source)):
        cap.guards.add("is_type", source, cls)


def by_content(cap: Capture, cls: type, at: S.Source) -> bool:
    """Guards the class at `at` by what it says, if others have come from there."""
    known = cap.known.anew.get(id(cls))
    if known is not None:
        cap.guards.add("same", at, known)
        return True
    if not S.belongs_to_call(at) or at in cap.lessons.fixed or not may_be_anew(cls) or not _was_another(cap, cls, at):
        tell_apart(cap, cls)
        return False
    for other in cap.known.anew_classes:
        cap.guards.add("distinct", at, cap.known.anew[id(other)])
    for other in type.__subclasses__(mro(cls)[1]):
        if other is not cls and cap.guards.knows(other):
            cap.guards.add("is_not", at, other)
    cap.guards.add("alike", at, said(cls), says)
    note(cap, cls, at)
    return True


def _was_another(cap: Capture, cls: type, at: S.Source) -> bool:
    mark = Mark(cls)
    cap.numbers.scalars.setdefault(at, mark)
    return cap.root.policy.scalar(at, mark)


def tell_apart(cap: Capture, cls: type) -> None:
    """A class known by its identity is none of those that are known by what they say."""
    for other in cap.known.anew_classes:
        if mro(other)[1] in mro(cls):
            cap.guards.add("is_not", cap.known.anew[id(other)], cls)


def note(cap: Capture, cls: type, at: S.Source) -> None:
    """Notes where each call has its own of what belongs to the class."""
    for place, base in enumerate(mro(cls)):
        if is_local(base):
            where = at if not place else S.Item(S.Get(at, "__mro__"), place)
            cap.known.anew[id(base)] = where
            cap.known.anew_classes.append(base)
            for name, raw in entries(base).items():
                for obj, source in parts(raw, S.Attr(where, name)):
                    cap.known.anew[id(obj)] = source
                    cap.known.keep.append(obj)


def parts(raw: Any, source: S.Source) -> Iterator[tuple[Any, S.Source]]:
    """A function, or what holds some, and where these are found."""
    if type(raw) in FUNCTIONS:
        yield raw, source
    for name in FUNCTIONS.get(type(raw), ()):
        part = getattr(raw, name, None)
        if type(part) is types.FunctionType:
            yield from parts(part, S.Attr(source, name) if type(raw) is functools.cached_property else S.Get(
                source, name))


FUNCTIONS: dict[type, tuple[str, ...]] = {
    types.FunctionType: (WRAPPED,), property: ("fget", "fset", "fdel"), staticmethod: ("__func__",),
    classmethod: ("__func__",), functools.cached_property: ("func",),
}


def leaks(cap: Capture, roots: Iterable[Any]) -> bool:
    """Whether other calls would be given a class of the call at hand, or what belongs to it: an object of it that was
    computed while capturing, say."""
    return bool(cap.known.anew) and any(
        id(at) in cap.known.anew or id(type(at)) in cap.known.anew for at in reached(roots))


def is_local(cls: type) -> bool:
    """Whether a function has made the class, so that no module has it under its name."""
    return type(cls) is type and bool(cls.__flags__ & HEAP) and (
        "<locals>" in cls.__qualname__
        or "." not in cls.__qualname__ and vars(sys.modules.get(module_name(cls), types)).get(cls.__name__) is not cls)


HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def may_be_anew(cls: type) -> bool:
    """Whether `said` tells all that there is to a class. JAX's structures of trees hold the class itself, libraries
    may look into theirs, and keys of a namespace that are no names are the program's to compare."""
    return is_local(cls) and not any(
        rows_of(module_name(base)) or is_local(base) and (base in REGISTRY or _is_special(base)) for base in mro(cls))


def _is_special(cls: type) -> bool:
    try:
        return any(type(raw) is SLOT for raw in entries(cls).values())
    except Break:
        return True


def says(known: Any, cls: Any) -> bool:
    """Whether a class of another call says what the one of the capture has said."""
    return issubclass(type(cls), type) and may_be_anew(cls) and said(cls) == known


def said(cls: type) -> tuple[Any, ...]:
    """What a class says beside the data in it; equal of two that code cannot tell apart but by their identities."""
    return tuple(_class(base) if is_local(base) else Mark(base) for base in mro(cls))


def _class(cls: type) -> tuple[Any, ...]:
    return (cls.__name__, cls.__qualname__, module_name(cls), cls.__basicsize__, cls.__dictoffset__,
            *((name, _entry(name, raw)) for name, raw in entries(cls).items()))


def _entry(name: str, raw: Any) -> Any:
    cls = type(raw)
    if cls in SAID:
        return cls, SAID[cls](raw)
    if is_literal(raw):
        return (cls, repr(raw)) if name.startswith("_") and name != "__doc__" else cls  # defaults may be told there
    return cls, Mark(raw) if hasattr(cls, "__get__") or issubclass(cls, type) else Mark(cls)


def _function(fn: types.FunctionType) -> tuple[Any, ...]:
    code, space = fn.__code__, fn.__globals__
    return (code if code.co_filename.startswith("<") else Mark(code), _namespace(space), fn.__name__, fn.__qualname__,
            len(fn.__closure__ or ()), fn.__defaults__ is None, fn.__kwdefaults__ is None,
            tuple((name, _thing(held) if name == WRAPPED else Mark(held)) for name, held in vars(fn).items()))


def _namespace(space: dict[str, Any]) -> Any:
    """Which globals a function has; `namedtuple` makes new ones for each class."""
    return id(space) if len(space) > SMALL else tuple((name, _thing(held)) for name, held in space.items())


SMALL = 3


def _thing(obj: Any) -> Any:
    if type(obj) is types.FunctionType:
        return _function(obj)
    return repr(obj) if is_literal(obj) else _namespace(obj) if type(obj) is dict else Mark(obj)


def _held(raw: Any) -> Any:
    return tuple(_thing(getattr(raw, name)) for name in FUNCTIONS[type(raw)])


TUPLE_GETTER: Any = type(vars(collections.namedtuple("Pair", "one"))["one"])
SAID: dict[type, Callable[[Any], Any]] = {
    types.FunctionType: _function, **dict.fromkeys((property, staticmethod, classmethod), _held),
    functools.cached_property: lambda raw: (raw.attrname, *_held(raw)),
    TUPLE_GETTER: lambda raw: raw.__reduce__()[1],
    types.GetSetDescriptorType: lambda raw: raw.__name__,
}
