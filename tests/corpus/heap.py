"""Heaps as plain data, so that two runs of a program can be compared whole.

`describe(*roots)` walks everything that is reachable from the roots and gives one list of
descriptions, one for each object in the order of discovery. A reference is the number of its
object, so aliasing (the same list twice, a cycle, an argument inside a result) is part of what is
compared. Arrays are described by dtype, weak type, shape and bits.

    >>> a = [1]
    >>> describe([a, a]) == describe([[1], [1]])
    False
"""

from __future__ import annotations

import collections
import functools
import itertools
import types
from typing import Any

import jax
import numpy as np

ATOMS = (int, float, complex, bool, str, bytes, type(None), type(...), range, slice, type(NotImplemented))
ITERATORS = (type(iter([])), type(iter(())), type(iter({})), type(iter(range(0))), zip, map, filter, enumerate,
             types.GeneratorType, type(iter({}.items())), type(iter({}.values())), type(iter(set())),
             type(reversed([])), itertools.chain, itertools.islice)


def describe(*roots: Any) -> list[Any]:
    """The heap reachable from `roots`: a list of descriptions that `==` compares."""
    return Heap().walk(roots)


def is_atom(obj: Any) -> bool:
    """Values without an identity of their own: literals, and tuples of them."""
    return type(obj) in ATOMS or (type(obj) is tuple and all(map(is_atom, obj)))


class Heap:
    """Objects met so far, by identity."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.keep: list[Any] = []
        self.found: list[Any] = []

    def walk(self, roots: tuple[Any, ...]) -> list[Any]:
        self.found.append(("roots", [self.ref(r) for r in roots]))
        return self.found

    def ref(self, obj: Any) -> Any:
        """An atom's value, or the number of an object."""
        if is_atom(obj):
            return (type(obj).__name__, repr(obj))
        if isinstance(obj, (type, types.ModuleType, types.CodeType, types.BuiltinFunctionType, np.dtype)):
            return ("known", getattr(obj, "__qualname__", None) or repr(obj))
        if id(obj) not in self.numbers:
            number = self.numbers[id(obj)] = len(self.numbers)
            self.keep.append(obj)
            self.found.append((number, *self.content(obj)))
        return ("object", self.numbers[id(obj)])

    def refs(self, objs: Any) -> list[Any]:
        return [self.ref(o) for o in objs]

    def content(self, obj: Any) -> tuple[Any, ...]:
        cls = type(obj)
        name = f"{cls.__module__}.{cls.__qualname__}"
        for kinds, row in ROWS:
            if isinstance(obj, kinds):
                return name, row(self, obj), self.attributes(obj)
        return name, self.attributes(obj)

    def attributes(self, obj: Any) -> Any:
        table = dict(getattr(obj, "__dict__", {}))
        for base in type(obj).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if isinstance(base.__dict__.get(slot), types.MemberDescriptorType) and hasattr(obj, slot):
                    table[slot] = getattr(obj, slot)
        return [(k, self.ref(v)) for k, v in table.items() if k not in ("__weakref__", "__wrapped__")]


def _array(h: Heap, x: Any) -> Any:
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        return str(x.dtype), x.shape, np.asarray(jax.random.key_data(x)).tobytes()
    return str(x.dtype), bool(getattr(x, "weak_type", False)), x.shape, np.asarray(x).tobytes()


def _mapping(h: Heap, d: Any) -> Any:
    factory = d.default_factory if isinstance(d, collections.defaultdict) else None
    return [(h.ref(k), h.ref(v)) for k, v in d.items()], h.ref(factory)


def _set(h: Heap, s: Any) -> Any:
    return sorted(repr(h.ref(x)) if not hasattr(x, "__dict__") else type(x).__name__ for x in s)


def _function(h: Heap, f: Any) -> Any:
    return (f.__qualname__, f.__code__.co_name, h.ref(f.__defaults__), h.ref(f.__kwdefaults__),
            h.refs(f.__closure__ or ()), h.refs(f.__dict__.values()))


def _cell(h: Heap, c: Any) -> Any:
    try:
        return h.ref(c.cell_contents)
    except ValueError:
        return "empty"


def _exception(h: Heap, e: BaseException) -> Any:
    return (h.refs(e.args), str(e), h.ref(e.__cause__), h.ref(e.__context__), e.__suppress_context__,
            list(getattr(e, "__notes__", ())), h.refs(getattr(e, "exceptions", ())))


def _iterator(h: Heap, it: Any) -> Any:
    """What is left in an iterator; this uses it up, so iterators come last in a comparison."""
    return [h.ref(x) for x in itertools.islice(it, 50)]


ROWS: tuple[tuple[Any, Any], ...] = (
    ((jax.Array, np.ndarray, np.generic), _array),
    (dict, _mapping),
    (types.MappingProxyType, _mapping),
    ((list, tuple, collections.deque), lambda h, x: (h.refs(x), getattr(x, "maxlen", None))),
    ((set, frozenset), _set),
    (type({}.keys()), lambda h, x: h.refs(x)),
    (type({}.values()), lambda h, x: h.refs(x)),
    (type({}.items()), lambda h, x: h.refs(x)),
    (types.FunctionType, _function),
    (types.MethodType, lambda h, m: (h.ref(m.__func__), h.ref(m.__self__))),
    (functools.partial, lambda h, p: (h.ref(p.func), h.refs(p.args), h.ref(p.keywords))),
    (types.CellType, _cell),
    (BaseException, _exception),
    (ITERATORS, _iterator),
    ((int, float, complex, str, bytes), lambda h, x: str(x)),
)
