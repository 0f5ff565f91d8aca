"""What the code of a function names: attributes, globals, types that it may ask for.

All of it is read off the bytecode, for code that a library runs and that is not captured. It looks at names, not at
paths: a name stands for all that it may be.

    >>> names_in((lambda x: x.shape[WIDTH]).__code__)
    ('shape', 'WIDTH')
"""

from __future__ import annotations

import contextlib
import dis
import functools
import threading
import types
from collections.abc import Iterable, Iterator
from typing import Any

from dynacomp.capture.base.remembered import remembered

ASKING = frozenset({"isinstance", "issubclass", "type"})
TYPES = frozenset({  # what they may name that tells a number of Python's from an array
    "bool", "int", "float", "complex", "Number", "Complex", "Real", "Rational", "Integral", "Array", "ndarray",
    "generic", "number", "integer", "floating", "inexact", "__name__", "__qualname__"})
ARRAYS_HAVE = frozenset({"shape", "dtype", "ndim", "size"})  # which `hasattr` or `getattr` may ask for
DISPATCHING = functools.singledispatch(print).__code__  # type: ignore[attr-defined]


@remembered
def names_in(code: types.CodeType) -> tuple[str, ...]:
    """Attributes, globals, and strings that may name an attribute."""
    return (*code.co_names, *(c for c in code.co_consts if type(c) is str and c.isidentifier()))


@remembered
def globals_in(code: types.CodeType) -> tuple[str, ...]:
    loads = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
    return tuple(dict.fromkeys(i.argval for i in dis.get_instructions(code) if i.opname in loads))


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
    """What `fn` can change: what stands in its cells and defaults, unless the call has made it, and the globals that it
    names."""
    for cell in () if is_nested else fn.__closure__ or ():
        with contextlib.suppress(ValueError):  # still empty
            yield cell.cell_contents
    for held in () if is_nested else (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()):
        if not isinstance(held, threading.local):  # nesting depths of printers; what a thread has is put in order again
            yield held
    for name in globals_in(fn.__code__):
        yield fn.__globals__.get(name)
