"""What another process found out about a primitive Graph is not found out again.

Under a key of the Graph's whole text, its constants, our own code, the libraries and the CPU the cache folder
keeps a record of the Program (`codegen.cpp.recall`). A second process goes from the Graph as it was lowered to
the loaded library: no passes, no schedule, no code, no compiler.

Only what the text says wholly has a key: no Graph with parts for XLA, whose arguments are objects. Nor is a record
used where somebody looks at the steps between: under `verify`, `DYNACOMP_LOG=passes`, with passes or kernels of the
user's, or without `options.recall`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from dynacomp import notices
from dynacomp.capture.graph.graph import Graph
from dynacomp.capture.graph.printer import Printer
from dynacomp.codegen import records
from dynacomp.codegen.cpp import recall as cpp
from dynacomp.driver.pass_list import DEFAULT, current
from dynacomp.kernels.templates import TEMPLATES
from dynacomp.lowering.fuse.schedule import Schedule
from dynacomp.lowering.passes.kernels import REGISTERED
from dynacomp.lowering.primitives.control import bodies
from dynacomp.options import Options

BACKEND = "cpp"  # whose Programs are kept
MOST_CONSTANTS = cpp.MOST_CONSTANTS


def key_of(graph: Graph, options: Options) -> str | None:
    """What the Program of a primitive Graph is kept under; None where that is not to be."""
    watched = options.verify or notices.logs("passes")
    if watched or not options.recall or (options.passes or current()) != DEFAULT or REGISTERED:
        return None
    if constant_bytes(graph) > MOST_CONSTANTS:
        return None
    printer = Printer()
    text = printer.graph(graph)
    if printer.refs:
        return None
    return records.digest(records.origin(), jax.default_backend(), options.numerics, str(options.memory_budget),
                          text, *contents(graph))


def contents(graph: Graph) -> Iterator[bytes | str]:
    """What the text of a Graph does not say: its constants, the C++ of the program's own operations, the bits of
    scalars that are no numbers, and the same of the bodies of its loops."""
    for name, const in graph.consts.items():
        array = np.asarray(const)
        yield f"{name} {array.dtype} {array.shape}"
        yield array.tobytes()
    for node in graph.calls:
        yield getattr(TEMPLATES.get(getattr(node.target, "name", "")), "source", "")
        yield from (a.tobytes() for a in node.args if isinstance(a, np.generic) and a != a)
        for body in bodies(node.kwargs):
            yield f"bodies of {node.name}"
            yield from contents(body)


def constant_bytes(graph: Graph) -> int:
    """How many bytes of constants a Graph and its bodies have."""
    own = sum(np.size(c) * np.dtype(c.dtype).itemsize for c in graph.consts.values())
    return own + sum(constant_bytes(b) for n in graph.calls for b in bodies(n.kwargs))


def recalled(key: str, settings: Mapping[str, Any]) -> Any:
    """The Program that is kept under a key, or None."""
    data = records.found(settings["cache_dir"], key)
    return None if data is None else cpp.recalled(data, settings)


def keep(key: str, schedule: Schedule, program: Any, settings: Mapping[str, Any]) -> None:
    """Keeps a Program of the C++ backend for other processes."""
    data = cpp.record(schedule, program, settings)
    if data is not None:
        records.keep(settings["cache_dir"], key, data)
