"""Generators as functions of one item: `(f(x) for x in xs)` gives what `map(lambda x: f(x), xs)` gives.

A loop over a symbolic number of items becomes a node of the Graph where each round starts from one item. A generator's
frame stands still between its items; the function of one item has no such state. A generator function that is a loop
with one `yield` at its end is such a function, too, of an item and of what stands before the loop:

    def batches(x, size):
        n = len(x)                          # `before`: gives the iterator, x, size
        for i in range(0, n, size):
            yield x[i:i + size]             # `item`: of x, size and i
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from bytecode import Bytecode, CompilerFlags, Instr, Label

from dynacomp.capture.bytecode.line_tables import to_code

# Flags of functions that are left as they are; others (a docstring, a future import) say nothing of how one runs.
REFUSED = (CompilerFlags.VARARGS | CompilerFlags.VARKEYWORDS | CompilerFlags.COROUTINE
           | CompilerFlags.ITERABLE_COROUTINE | CompilerFlags.ASYNC_GENERATOR)
ITEM = ".0"  # what CPython calls the argument: the iterator in a generator expression, here an item of it


def _places(made: Any) -> tuple[int, int] | None:
    """Where the first loop begins and where it yields: once, at its end, as the generator does nowhere else; None of
    other generators."""
    names = [item.name if isinstance(item, Instr) else "" for item in made]
    if names.count("YIELD_VALUE") != 1 or "SEND" in names or "FOR_ITER" not in names:
        return None
    start, at = names.index("FOR_ITER"), names.index("YIELD_VALUE")
    again = made[start - 1]
    back = [k for k, item in enumerate(made) if isinstance(item, Instr) and item.arg is again]
    if not isinstance(again, Label) or back != [at + 3] or names[at + 1:at + 3] != ["RESUME", "POP_TOP"]:
        return None
    return start, at


@functools.lru_cache(maxsize=1024)
def function_of_item(code: CodeType) -> CodeType | None:
    """The function of one item of a generator expression that has one `for`, no `if` and no `await`; None of others.

        LOAD_FAST .0; again: FOR_ITER end; <store, expression>; YIELD_VALUE; RESUME; POP_TOP; JUMP_BACKWARD again
    """
    if code.co_name != "<genexpr>" or code.co_varnames[:code.co_argcount] != (ITEM,) or not (
            code.co_flags & CompilerFlags.GENERATOR):
        return None
    made: Any = Bytecode.from_code(code)
    places = _places(made)
    if places is None:
        return None
    start, at = places
    cells = [item for item in made[:start] if isinstance(item, Instr) and item.name in ("MAKE_CELL", "COPY_FREE_VARS")]
    first, last = made[start], made[at]
    within = [item for item in made[start + 1:at] if isinstance(item, (Instr, Label))]  # no handlers: this frame ends
    made[:] = [*cells, Instr("RESUME", 0, location=first.location), Instr("LOAD_FAST", ITEM, location=first.location),
               *within, Instr("RETURN_VALUE", location=last.location)]
    made.flags = CompilerFlags(made.flags & ~CompilerFlags.GENERATOR)
    return to_code(made)


@dataclass(frozen=True)
class LoopCodes:
    """A generator function in two: `before` takes its arguments, and gives the iterator of its loop and the locals that
    `item` takes before an item."""

    before: CodeType
    item: CodeType


@functools.lru_cache(maxsize=1024)
def loop_codes(code: CodeType) -> LoopCodes | None:
    """The two functions of a generator function whose body ends with one `for`, which yields at its end, keeps nothing
    for its next round and handles no exception; None of others."""
    if code.co_name.startswith("<") or code.co_flags & REFUSED or not code.co_flags & CompilerFlags.GENERATOR or (
            code.co_cellvars or {"next", "StopIteration"} & {*code.co_names}):
        return None
    made: Any = Bytecode.from_code(code)
    names = [item.name for item in made if isinstance(item, Instr)]
    places = _places(made)
    if places is None or names.count("FOR_ITER") != 1 or "PUSH_EXC_INFO" in names:
        return None
    start, at = places
    before, within = _plain(made[:start - 1]), _plain(made[start + 1:at])
    given = _handed_over(code, before, within)
    if given is None or not _only_ends(made, at + 4):
        return None
    return LoopCodes(_before(made, before, given), _item(made, before, within, given, made[at].location))


def _plain(items: Any) -> list[Any]:
    """Instructions and labels, without the handler that makes a RuntimeError of a StopIteration."""
    return [item for item in items if isinstance(item, (Instr, Label))]


def _handed_over(code: CodeType, before: list[Any], within: list[Any]) -> tuple[str, ...] | None:
    """The locals that a round reads and that stand before the loop; None where one may be unbound there, or a round
    leaves one to the next."""
    arguments = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    known = {*arguments, *(name for what, name in _locals(before) if what == "STORE")}
    bound: set[str] = set()
    given: dict[str, None] = {}
    for what, name in _locals(within):
        if what == "STORE":
            bound.add(name)
        elif what == "LOAD" and name not in bound:
            given[name] = None
        elif what != "LOAD":
            return None
    jumps = any(isinstance(x, Label) for x in (*before, *within))
    leaves = any(isinstance(x, Instr) and x.name.startswith("RETURN_") for x in within)
    return None if jumps or leaves or bound & given.keys() or not given.keys() <= known else tuple(given)


def _locals(items: list[Any]) -> Iterator[tuple[str, str]]:
    """What instructions do with locals, in their order: some do two things (`STORE_FAST_LOAD_FAST`)."""
    for x in items:
        if isinstance(x, Instr) and "FAST" in x.name:
            names: Any = x.arg if isinstance(x.arg, tuple) else (x.arg,)
            yield from zip(re.findall("([A-Z]+)_FAST", x.name), names)


def _only_ends(made: Any, at: int) -> bool:
    """Whether nothing stands behind the loop but the generator's end."""
    rest = [x for x in made[at:] if isinstance(x, Instr)]
    named = [x.name for x in rest if x.name not in ("END_FOR", "POP_TOP", "CALL_INTRINSIC_1", "RERAISE")]
    return named in (["LOAD_CONST", "RETURN_VALUE"], ["RETURN_CONST"]) and rest[
        [x.name for x in rest].index(named[0])].arg is None


def _before(made: Any, before: list[Any], given: tuple[str, ...]) -> CodeType:
    code = _like(made)
    code.argcount, code.posonlyargcount, code.kwonlyargcount = made.argcount + made.kwonlyargcount, 0, 0
    place = before[-1].location
    starts = [x for x in before if not (isinstance(x, Instr) and x.name == "RETURN_GENERATOR")]
    first = next(k for k, x in enumerate(starts) if isinstance(x, Instr) and x.name == "POP_TOP")  # of what is sent
    code[:] = [*starts[:first], *starts[first + 1:], *(Instr("LOAD_FAST", name, location=place) for name in given),
               Instr("BUILD_TUPLE", 1 + len(given), location=place), Instr("RETURN_VALUE", location=place)]
    return to_code(code)


def _item(made: Any, before: list[Any], within: list[Any], given: tuple[str, ...], place: Any) -> CodeType:
    code = _like(made)
    code.argnames, code.argcount, code.posonlyargcount, code.kwonlyargcount = [*given, ITEM], 1 + len(given), 0, 0
    free = [x for x in before if isinstance(x, Instr) and x.name == "COPY_FREE_VARS"]
    code[:] = [*free, Instr("RESUME", 0, location=place), Instr("LOAD_FAST", ITEM, location=place), *within,
               Instr("RETURN_VALUE", location=place)]
    return to_code(code)


def _like(made: Any) -> Any:
    """Bytecode of the same function, without instructions, that is no generator's."""
    code = Bytecode()
    code._copy_attr_from(made)
    code.flags = CompilerFlags(made.flags & ~CompilerFlags.GENERATOR)
    return code
