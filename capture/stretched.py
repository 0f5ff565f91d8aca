"""Frames that run in Python up to where compiled code goes on: their entries, and what that may lose.

A capture that ends in a graph break before it has met an operation of JAX makes such an entry instead of one that
guards all that was read. What the frame calls is captured by itself; operations of its own on ways that no capture
has seen would run one by one, so none may be in sight, and what the frame reads is guarded for that alone: a call that
brings an array there is captured.
"""

from __future__ import annotations

import inspect
import itertools
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import CodeType
from typing import Any

import jax
import numpy as np
from jax._src.core import Tracer

from dynacomp.capture._native import Entry, GuardProgram, jax_config_token
from dynacomp.capture.bytecode.code import Instruction, decode
from dynacomp.capture.bytecode.control_flow_graph import EXIT, successors
from dynacomp.capture.bytecode.resume import living, returns_tail
from dynacomp.capture.bytecode.stretches import places_of, stretch
from dynacomp.capture.entries import Info, by_guard
from dynacomp.capture.reconstruct.runtime import Leave
from dynacomp.capture.symbolic.guards import Guard, StepWriter
from dynacomp.capture.symbolic.libraries import is_pure_module, module_of
from dynacomp.capture.values import sources as S

JITTED = type(jax.jit(lambda: None))
COMPUTE = (JITTED, jax.custom_jvp, jax.custom_vjp)  # what computes with JAX when it is called
READS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF")
DEPTH, WIDTH = 3, 50  # how far a look into a value goes, and how many of its items it takes


def stretched(code: CodeType, info: Info, resumes: Iterable[CodeType], key: Any,
              watched: Iterable[Guard] = ()) -> Entry | None:
    """The entry that runs `code` in Python up to one of `resumes`, while the guards in `watched` hold; None where that
    cannot be."""
    resumes = list(resumes)
    made = stretch(code, resumes, Leave)
    if made is None:
        return None
    writer = StepWriter()
    writer.emit(None, "jax_config", jax_config_token(2 * info.traced))
    for guard in watched:
        writer.guard(guard)
    known = replace(info, guards="", origin=writer.texts(), shapes={}, scalars={}, identities=(),
                    resumes=living(resumes), **by_guard([None] * len(writer.origin)))
    return Entry(GuardProgram(writer.steps), fn_code=made, key=key, info=known, returns_tail=returns_tail(code))


def without_arrays(code: CodeType, fn: Any, args: tuple[Any, ...], resumes: Iterable[CodeType]) -> Iterator[Guard]:
    """That no array comes to where there is none now, of what the code reads before it arrives at one of `resumes`."""
    arguments = {name: S.Local(n, name) for n, name in enumerate(code.co_varnames[:len(args)])}
    cells = {name: S.Closure(n, name) for n, name in enumerate(code.co_freevars)}
    for place in dict.fromkeys(places_read(code, places_of(code, resumes), arguments, cells)):
        guard, writer = Guard("no_array", place, (COMPUTE,)), StepWriter()
        writer.guard(guard)
        if GuardProgram(writer.steps).check(fn, args) == -1:
            yield guard


def places_read(code: CodeType, places: Iterable[int], arguments: Mapping[str, S.Source],
                cells: Mapping[str, S.Source]) -> Iterator[S.Source]:
    """Where the values come from that are read on the ways to `places`; of globals and cells, of those there are."""
    for instr in instructions_before(code, places):
        for name in instr.argval if isinstance(instr.argval, tuple) else (instr.argval,):
            if instr.name.startswith(("LOAD_GLOBAL", "LOAD_NAME")):
                yield S.Global(name)
            elif instr.name.startswith(READS):
                yield from filter(None, [arguments.get(name), cells.get(name)])


def has_jax_in_sight(code: CodeType, fn: Any, args: tuple[Any, ...], resumes: Iterable[CodeType]) -> bool:
    """Whether something that the code reads before it arrives at one of `resumes` is an array or a library's."""
    return any(computes(value, DEPTH) for value in values_read(code, fn, args, places_of(code, resumes)))


def values_read(code: CodeType, fn: Any, args: tuple[Any, ...], places: Iterable[int]) -> Iterator[Any]:
    """What the names mean that are read on the ways to `places`, as far as that is known when `fn` is called."""
    arguments = dict(zip(code.co_varnames, args))
    cells = dict(zip(code.co_freevars, fn.__closure__ or ()))
    builtins = fn.__globals__.get("__builtins__", {})
    outer = {**(vars(builtins) if isinstance(builtins, types.ModuleType) else builtins), **fn.__globals__}
    for instr in instructions_before(code, places):
        for name in instr.argval if isinstance(instr.argval, tuple) else (instr.argval,):
            if instr.name.startswith(("LOAD_GLOBAL", "LOAD_NAME")):
                yield outer.get(name)
            elif instr.name.startswith(READS):
                yield arguments.get(name)
                yield content(cells.get(name))


def instructions_before(code: CodeType, places: Iterable[int]) -> Iterator[Instruction]:
    """Those on the ways from the beginning to `places`."""
    decoded = decode(code)
    todo, seen = [0], {EXIT, *places}
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        instr = decoded.instrs[at]
        handler = decoded.handler(instr.offset)
        todo += [*successors(decoded, at), *([] if handler is None else [decoded.at[handler.target]])]
        yield instr


def content(cell: Any) -> Any:
    """What is in a cell, if anything is."""
    try:
        return None if cell is None else cell.cell_contents
    except ValueError:
        return None


def computes(value: Any, depth: int) -> bool:
    """Whether a frame that reads this may compute with JAX by itself. A function of the program's may not: its own
    frames are captured."""
    kind = type(value)
    if issubclass(kind, (jax.Array, Tracer)) or kind is JITTED:
        return True
    if kind is types.ModuleType:
        return is_pure_module(value.__name__)
    if kind not in PLAIN and callable(value) and is_pure_module(module_of(value)):
        return True
    return depth > 0 and kind not in PLAIN and any(computes(inside, depth - 1) for inside in parts(value))


PLAIN = (int, float, bool, complex, str, bytes, type(None), np.ndarray, types.FunctionType, types.BuiltinFunctionType)


def parts(value: Any) -> list[Any]:
    """The first things in a container or an object of the program's; none of its code runs for that."""
    kind = type(value)
    if issubclass(kind, dict):
        return list(itertools.islice(dict.values(value), WIDTH))
    if kind in (list, tuple, set, frozenset, deque):
        return list(itertools.islice(value, WIDTH))
    if issubclass(kind, type):
        return []
    held = inspect.getattr_static(value, "__dict__", None)
    own = list(itertools.islice(held.values(), WIDTH)) if type(held) is dict else []
    slots = [d for c in kind.__mro__ for d in vars(c).values() if type(d) is types.MemberDescriptorType]
    return [*own, *(slot_content(d, value) for d in slots)]


def slot_content(slot: types.MemberDescriptorType, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return None
