"""The code objects of callers: of the Python functions that only call what was compiled (see `api.caller`).

Compiled entries hang off code objects. What a program makes anew again and again, `dynacomp.jit(partial(f, 2))` or
`dynacomp.jit(jax.grad(loss))` in each of its calls, finds the entries of the one before: a caller gets the code object
of one that has died and called something made of the same code, function by function. The guards tell the rest.
Callers that live side by side have code of their own each, so that what changes between them is no change of either.

    >>> import functools
    >>> def power(x, n): return x ** n
    >>> made_of(functools.partial(power, n=2)) == made_of(functools.partial(power, n=3)) == (power.__code__,)
    True
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

MAX_PARTS = 64  # functions in functions: what has more is known by its identity
MAX_SIDE_BY_SIDE = 16  # callers that are made of the same code and alive together, and whose code waits for others
_SLOTS: dict[tuple[int, ...], list[Slot]] = {}  # by the ids of what a callable is made of, all of it alive


@dataclass
class Slot:
    """A code object, and the caller that had it last."""

    code: CodeType
    owner: weakref.ref[types.FunctionType]


def give_code(call: Any, fn: Any) -> None:
    """Gives the function `call`, which calls `fn`, the code that a caller made of the same had, now dead; else code of
    its own."""
    parts = made_of(fn) or (fn,)
    slots = _slots(parts)
    free = next((slot for slot in slots if slot.owner() is None), None)
    call.__code__ = free.code if free is not None else call.__code__.replace()
    if free is not None:
        free.owner = weakref.ref(call)
    elif len(slots) < MAX_SIDE_BY_SIDE:
        slots.append(Slot(call.__code__, weakref.ref(call)))


def _slots(parts: tuple[Any, ...]) -> list[Slot]:
    """The slots of callables that are made of these parts, as long as those live."""
    key = tuple(map(id, parts))
    if key not in _SLOTS:
        try:
            for part in parts:
                weakref.finalize(part, _SLOTS.pop, key, None).atexit = False
        except TypeError:
            return []  # nobody learns when such an object dies
        _SLOTS.setdefault(key, [])
    return _SLOTS.get(key, [])


def made_of(fn: Any) -> tuple[CodeType, ...]:
    """The code of a function, of those in its closure, of those that a partial binds, and so on; () for
    other callables."""
    found: list[CodeType] = []
    waiting, seen = [fn], set()
    while waiting and len(found) < MAX_PARTS:
        part = waiting.pop()
        if id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, types.FunctionType):
                found.append(part.__code__)
            waiting += _parts(part)
    return () if waiting else tuple(found)


def _parts(fn: Any) -> Iterator[Any]:
    """What a callable is made of, as far as that is callable."""
    if type(fn) is functools.partial:
        yield from filter(callable, (fn.func, *fn.args, *fn.keywords.values()))
    elif isinstance(fn, types.MethodType):
        yield fn.__func__
    elif type(fn).__name__ == "PjitFunction":
        yield fn.__wrapped__
    elif isinstance(fn, types.FunctionType):
        for cell in fn.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            if callable(content):
                yield content


def shown(code: CodeType) -> CodeType:
    """The code that notices name for a frame: its own, or that of the program's function which a caller calls, as far
    as that shows (`jax.grad(loss)` wraps `loss`)."""
    for slot in (slot for slots in _SLOTS.values() for slot in slots):
        owner = slot.owner() if slot.code is code else None
        if owner is not None and owner.__closure__:
            return getattr(_innermost(owner.__closure__[0].cell_contents), "__code__", code)
    return code


def _innermost(fn: Any) -> Any:
    """What a partial, a bound method or a wrapper calls."""
    for _ in range(MAX_PARTS):
        called = fn.func if type(fn) is functools.partial else getattr(fn, "__func__", getattr(fn, "__wrapped__", None))
        if called is None:
            break
        fn = called
    return fn


def reset() -> None:
    """Forgets the code of every caller."""
    _SLOTS.clear()
