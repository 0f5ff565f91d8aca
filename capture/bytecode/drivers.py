"""Drivers: the generators, coroutines and async generators that run the segments of a captured one.

A driver is a real generator (coroutine, async generator), so `send`, `throw`, `close`, delegation,
finalizers and all else that a program can ask of one are CPython's own. It loops: run a segment (see
segments.py), look at the event, yield or await its value, go on with what was sent or thrown in.

The three templates below are ordinary Python. `driver(code, segments)` makes one of them the code of
one particular function: same name, parameters and cells as the original. Two rules of that rewriting
keep it invisible: a variable that is read is forgotten (it holds none of the program's objects while
segments run, or while it is suspended), and what it raises on has no line of it in the traceback.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from types import CodeType
from typing import Any

from bytecode import Bytecode, CellVar, FreeVar, Instr
from bytecode.instr import InstrLocation

from dynacomp.capture._native import rethrow, run_segment
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bytecode.code import VERSION, decode
from dynacomp.capture.bytecode.line_tables import to_code
from dynacomp.capture.bytecode.resume import late_cells
from dynacomp.capture.bytecode.segments import START
from dynacomp.capture.bytecode.suspensions import DRIVE, HANDLING, WAIT


def without_driver(error: BaseException) -> BaseException:
    """The exception as the program knows it: without the driver's line in its traceback."""
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next
    return error


def with_last(state: tuple[Any, ...]) -> tuple[Any, Any]:
    """The state, and the exception that is being handled, which comes last in it."""
    return state, state[-1]


# --- the templates


def _raw(value: Any) -> Any:
    """Marks a value that is driven as it is: neither `iter()` nor `__await__` is asked of it again."""
    return value


def _generator(segments: Any, state: Any) -> Iterator[Any]:
    key, value = START, None
    while True:
        try:
            key, value, state = run_segment(segments[key], state, value)
        except BaseException as error:
            without_driver(error)
            raise
        if not key:
            return value
        try:
            if key & HANDLING:
                state, current = with_last(state)
                try:
                    rethrow(current)
                except BaseException as handled:
                    without_driver(handled)
                    value = (yield from value) if key & WAIT else (yield from _raw(value))
            elif key & WAIT:
                value = yield from value
            elif key & DRIVE:
                value = yield from _raw(value)
            else:
                value = yield value
        except BaseException as error:
            key, value = -key, without_driver(error)


async def _coroutine(segments: Any, state: Any) -> Any:
    key, value = START, None
    while True:
        try:
            key, value, state = run_segment(segments[key], state, value)
        except BaseException as error:
            without_driver(error)
            raise
        if not key:
            return value
        try:
            if key & HANDLING:
                state, current = with_last(state)
                try:
                    rethrow(current)
                except BaseException as handled:
                    without_driver(handled)
                    value = (await value) if key & WAIT else (await _raw(value))
            elif key & WAIT:
                value = await value
            else:
                value = await _raw(value)
        except BaseException as error:
            key, value = -key, without_driver(error)


async def _async_generator(segments: Any, state: Any) -> AsyncIterator[Any]:
    key, value = START, None
    while True:
        try:
            key, value, state = run_segment(segments[key], state, value)
        except BaseException as error:
            without_driver(error)
            raise
        if not key:
            return
        try:
            if key & HANDLING:
                state, current = with_last(state)
                try:
                    rethrow(current)
                except BaseException as handled:
                    without_driver(handled)
                    value = (await value) if key & WAIT else (await _raw(value))
            elif key & WAIT:
                value = await value
            elif key & DRIVE:
                value = await _raw(value)
            else:
                value = yield value
        except BaseException as error:
            key, value = -key, without_driver(error)


TEMPLATES = {inspect.CO_GENERATOR: _generator, inspect.CO_COROUTINE: _coroutine,
             inspect.CO_ASYNC_GENERATOR: _async_generator}


# --- rewriting a template

SEGMENTS, STATE, KEY, FIRST = "$segments", "$state", "$key", "$first"  # names that no parameter has
MOVED = ("value", "state", "error", "current", "handled")  # variables that are forgotten when they are read
Items = list[Any]


def driver(code: CodeType, segments: Callable[[dict[str, Any], tuple], Any], begun: bool = False) -> CodeType:
    """The code of a driver for the function whose code is `code`, called with its arguments in order.

    segments: from the function's globals and the frame's cells to a mapping from keys to functions.
    begun: it goes on with a generator that exists in part: all cells come with the function, and its one argument
    is a list with the event to begin with."""
    template = next(t for flag, t in TEMPLATES.items() if code.co_flags & flag)
    bc = Bytecode.from_code(template.__code__, conserve_exception_block_stackdepth=True)
    start = next(n for n, item in enumerate(bc) if isinstance(item, Instr) and item.name == "RESUME") + 1
    late = late_cells(decode(code))
    cells = [c for c in code.co_cellvars if c not in late]
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    free = [*(cells if begun else ()), *code.co_freevars]
    if begun:
        cells, count = [], 1
    parameters = (FIRST,) if begun else code.co_varnames[:count]
    bc[:] = [*_cells(cells, free), *bc[:start], *_opening(parameters, cells, free, segments),
             *_loop(template, bc[start:])]
    for item in of_class(Instr, bc):
        item.location = InstrLocation(code.co_firstlineno, None, None, None)
    bc.argnames, bc.argcount = list(parameters), count
    bc.name, bc.qualname = code.co_name, code.co_qualname
    bc.filename, bc.first_lineno = code.co_filename, code.co_firstlineno
    bc.docstring = None
    bc.cellvars, bc.freevars = cells, free
    size = template.__code__.co_stacksize + count + len(bc.cellvars) + len(bc.freevars)
    made = to_code(bc, size)
    return made.replace(co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))


def slots_of(made: CodeType) -> dict[str, int]:
    """Where a frame of a driver keeps its locals, cells and free variables: name → slot."""
    names = dict.fromkeys((*made.co_varnames, *made.co_cellvars, *made.co_freevars))
    return {name: slot for slot, name in enumerate(names)}


def _cells(cells: list[str], free: list[str]) -> Items:
    copied = [Instr("COPY_FREE_VARS", len(free))] if free else []
    return [*copied, *(Instr("MAKE_CELL", CellVar(name)) for name in cells)]


def _opening(parameters: tuple[str, ...], cells: list[str], free: list[str], make: Any) -> Items:
    """Sets the template's variables `segments` and `state` from the arguments and cells."""
    first = [n for n in parameters if n == FIRST]
    out = _call(make, [*_call(builtins.globals, []), *_closure(cells, free), *map(_load, first)], 2 + len(first))
    out.append(Instr("STORE_FAST", SEGMENTS))
    plain = [n for n in parameters if n not in (*cells, *first)]
    for name in plain:
        out += _move(name)
    return [*out, Instr("BUILD_TUPLE", len(plain)), Instr("STORE_FAST", STATE)]


def _closure(cells: list[str], free: list[str]) -> Items:
    load = "LOAD_CLOSURE" if VERSION < (3, 13) else "LOAD_FAST"
    variables: list[CellVar | FreeVar] = [*map(CellVar, cells), *map(FreeVar, free)]
    return [*(Instr(load, cell) for cell in variables), Instr("BUILD_TUPLE", len(variables))]


def _call(fn: Any, arguments: Items, count: int = 0) -> Items:
    callee = [Instr("PUSH_NULL"), Instr("LOAD_CONST", fn)]
    call = [Instr("PRECALL", count)] if VERSION < (3, 12) else []
    return [*(callee if VERSION < (3, 13) else callee[::-1]), *arguments, *call, Instr("CALL", count)]


def _load(name: str) -> Instr:
    return Instr("LOAD_FAST", name)


def _move(name: str) -> Items:
    return [Instr("LOAD_FAST", name), Instr("DELETE_FAST", name)]


def _loop(template: Any, items: Items) -> Items:
    """The template's instructions: its variables renamed and moved, its globals constants, `_raw` gone."""
    out: Items = []
    raw = False
    for item in items:
        if not isinstance(item, Instr):
            out.append(item)
        elif item.name == "LOAD_GLOBAL":
            called, name = item.arg  # type: ignore[misc, str-unpack]
            raw = name == _raw.__name__
            out += [] if raw else _constant(template, called, name)  # type: ignore[arg-type]
        elif raw and item.name in ("PRECALL", "CALL", "GET_AWAITABLE", "GET_YIELD_FROM_ITER"):
            raw = not item.name.startswith("GET_")
        else:
            out += _renamed(item)
    return out


def _constant(template: Any, called: bool, name: str) -> Items:
    known = template.__globals__.get(name, getattr(builtins, name, None))
    pair = [Instr("PUSH_NULL"), Instr("LOAD_CONST", known)]
    return (pair if VERSION < (3, 13) else pair[::-1]) if called else pair[1:]


def _renamed(item: Instr) -> Items:
    """Access to locals, one at a time, under names that no parameter has."""
    if "_FAST" not in item.name:
        return [item]
    names = item.arg if isinstance(item.arg, tuple) else (item.arg,)
    kinds = item.name.replace("_FAST", "_FAST ").replace("_CHECK", "").split()
    out: Items = []
    for kind, name in zip(kinds, names, strict=True):
        load = kind.endswith("LOAD_FAST") and name in MOVED
        out += _move(f"${name}") if load else [Instr(kind.lstrip("_"), f"${name}")]
    return out
