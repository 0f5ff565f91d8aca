"""Objects without a name, by the way to them from an object that a guard's register holds: through tuples, attributes,
cells, the namespaces of generated functions.

    finder = Finder()
    finder.add("fn", fn)
    finder.path(fn.__closure__[0].cell_contents)    # ("fn", (("cell", 0),))
    follow(fn, (("cell", 0),))
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jax._src.tree_util import _registry as REGISTRY  # how JAX takes objects apart

from dynacomp.capture._native import CompiledFunction
from dynacomp.capture.base.literals import is_literal
from dynacomp.capture.portable.homes import module_of
from dynacomp.capture.portable.instances import HEAP_TYPE, object_dict

DEPTH, MOST = 8, 20_000  # how far it is looked for
DEFINED = (types.FunctionType, classmethod, staticmethod, property)  # of what a class defines
NAMESPACE = ("globals", None)  # of a generated function, which has no module
Path = tuple[tuple[str, Any], ...]
Step = tuple[tuple[str, Any], Any]  # an edge, and what it leads to


class Finder:
    """The ways to objects from the roots given so far."""

    def __init__(self, depth: int = DEPTH) -> None:
        self._depth = depth
        self._ways: dict[int, tuple[Any, Path]] = {}
        self._held: list[Any] = []  # so that no id is used again
        self._todo: deque[tuple[Any, Any, Path]] = deque()

    def add(self, root: Any, obj: Any) -> None:
        """One more root, and what a way from it begins with."""
        self._note(obj, root, ())

    def path(self, obj: Any) -> tuple[Any, Path] | None:
        while id(obj) not in self._ways and self._todo and len(self._ways) < MOST:
            at, root, path = self._todo.popleft()
            for edge, found in steps(at):
                self._note(found, root, (*path, edge))
        return self._ways.get(id(obj))

    def _note(self, obj: Any, root: Any, path: Path) -> None:
        if not is_literal(obj) and id(obj) not in self._ways:
            self._ways[id(obj)] = root, path
            self._held.append(obj)
            if len(path) < self._depth and path[-1:] != (NAMESPACE,):
                self._todo.append((obj, root, path))


def steps(obj: Any) -> Iterator[Step]:
    """What an object leads to, read from tables alone."""
    row = next((row for classes, row in LEADING if issubclass(type(obj), classes)), _instance)
    return row(obj)


def _parts(*names: str) -> Callable[[Any], Iterator[Step]]:
    return lambda obj: ((("get", name), getattr(obj, name)) for name in names)


def _function(fn: types.FunctionType) -> Iterator[Step]:
    yield from _parts("__code__", "__defaults__", "__kwdefaults__")(fn)
    if module_of(fn.__globals__) is None:
        yield NAMESPACE, fn.__globals__
    for k, cell in enumerate(fn.__closure__ or ()):
        yield ("cell object", k), cell
        yield from _content(k, cell)
    yield from _attributes(vars(fn))


def _content(k: int, cell: types.CellType) -> Iterator[Step]:
    try:
        yield ("cell", k), cell.cell_contents
    except ValueError:
        return


def follow(obj: Any, path: Path) -> Any:
    """What lies at the end of a path; LookupError where it is not there."""
    for edge in path:
        obj = dict(steps(obj))[edge]
    return obj


def _attributes(table: Mapping[str, Any]) -> Iterator[Step]:
    return ((("attr", name), value) for name, value in table.items())


def _class(cls: type) -> Iterator[Step]:
    yield from ((("attr", name), value) for name, value in vars(cls).items() if issubclass(type(value), DEFINED))
    entry = REGISTRY.get(cls)
    if entry is not None:
        yield from ((("tree", name), getattr(entry, name)) for name in ("to_iter", "from_iter"))


def _instance(obj: Any) -> Iterator[Step]:
    if type(obj) is functools.partial:
        return _parts("func", "args", "keywords")(obj)
    if type(obj) is dict and module_of(obj) is None:
        return ((("key", key), value) for key, value in obj.items() if is_literal(key))
    table = object_dict(obj) if type(obj).__flags__ & HEAP_TYPE else None
    return _attributes(table or {})


LEADING: tuple[tuple[Any, Callable[[Any], Iterator[Step]]], ...] = (
    (types.FunctionType, _function),
    (types.CodeType, lambda code: ((("const", k), c) for k, c in enumerate(code.co_consts)
                                   if type(c) is types.CodeType)),
    (types.MethodType, _parts("__func__", "__self__")),
    ((classmethod, staticmethod), _parts("__func__")),
    (property, _parts("fget", "fset", "fdel")),
    ((CompiledFunction, functools._lru_cache_wrapper), _parts("__wrapped__")),
    (type, _class),
    (tuple, lambda obj: ((("item", k), x) for k, x in enumerate(tuple.__iter__(obj)))),
)
