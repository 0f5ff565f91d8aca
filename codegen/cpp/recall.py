"""A compiled Schedule as a record, and its Program out of one: nothing is planned, written or compiled again.

    record(schedule, program, options)    bytes, or None where there is nothing to keep
    recalled(bytes, options)              the Program, or None: its library is gone, or the compiler is another
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dynacomp.capture.base.interrupts import ours
from dynacomp.codegen.cache import verified
from dynacomp.codegen.compiler import CompilerError
from dynacomp.codegen.cpp.backend import loaded, settings
from dynacomp.codegen.records import compilers
from dynacomp.lowering.fuse.schedule import Schedule

MOST_CONSTANTS = 1 << 20  # bytes of constants in a record


@dataclass(frozen=True)
class Kept:
    """What a record holds: the outside of a Schedule (no steps, the inputs' buffers only), which compilers there were,
    and what its Program says of itself."""

    library: str
    compilers: tuple[str, ...]
    schedule: Schedule
    source: Mapping[str, str]
    kernels: tuple[str, ...]


def record(schedule: Schedule, program: Any, options: Mapping[str, Any]) -> bytes | None:
    """The record of a Program that `compile` made of `schedule`."""
    library = getattr(program, "library", None)  # none of its own where XLA runs parts of it
    if library is None or sum(c.nbytes for c in schedule.consts.values()) > MOST_CONSTANTS:
        return None
    outside = replace(schedule, steps=(), offsets={}, buffers={n: schedule.buffers[n] for n in schedule.inputs})
    found = compilers(settings(options).cxx)
    return pickle.dumps(Kept(library, found, outside, program.source, program.kernels))


def recalled(data: bytes, options: Mapping[str, Any]) -> Any:
    """The Program of a record."""
    chosen = settings(options)
    try:
        kept: Kept = pickle.loads(data)
        if compilers(chosen.cxx) not in ((), kept.compilers):
            return None
        path = verified(chosen.cache_dir, kept.library)
        return None if path is None else loaded(path, kept.schedule, kept.source, kept.kernels, chosen, cached=True)
    except ours(CompilerError):
        return None
