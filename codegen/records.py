"""What one process found out and another need not: records beside the compiled code.

A record is bytes under a key, kept as the libraries are (see `cache`): in a folder that is the user's alone, sealed by
its own digest, moved there in one step. Whatever is wrong with one, it is as if it were not there.

`origin()` is what every key starts from: all that decides what this version of dynacomp makes of the same input, but
for the compiler: what one made serves where there is none.

    keep(folder, key, b"...")
    found(folder, key)          the bytes, or None
"""

from __future__ import annotations

import functools
import hashlib
import platform
import shutil
import sys
from pathlib import Path

import jax
import numpy as np
import sympy

import dynacomp.capture.graph
import dynacomp.kernels
import dynacomp.lowering
from dynacomp.capture.base.interrupts import ours
from dynacomp.codegen.cache import content, headers_hash, publish, secure
from dynacomp.codegen.compiler import COMPILERS, cpu_key

# Whose code decides what comes of a primitive Graph.
ROOMS = tuple(Path(str(p.__file__)).parent for p in (dynacomp.capture.graph, dynacomp.lowering, dynacomp.kernels))
CODEGEN = Path(__file__).parent


def keep(folder: Path, key: str, content: bytes) -> None:
    """Writes a record; where that cannot be, there is none."""
    try:
        secure(folder)
        publish(content, folder / f"{key}.record")
    except ours(OSError):
        return


def found(folder: Path, key: str) -> bytes | None:
    """What is kept under a key, where it is whole and nobody else's."""
    try:
        secure(folder)
    except ours(OSError):
        return None
    return content(folder / f"{key}.record")


def digest(*parts: bytes | str) -> str:
    """A key of these parts; none can pass for another."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()[:40]


@functools.cache
def origin() -> str:
    """The versions of everything that a record depends on: our code, the libraries, the CPU."""
    libraries = (jax.__version__, np.__version__, sympy.__version__)
    return digest(own_code(), headers_hash(), cpu_key(), platform.platform(), sys.version, *libraries)


@functools.cache
def own_code() -> str:
    """The digest of the modules that stand between a primitive Graph and its code."""
    files = sorted(f for room in (*ROOMS, CODEGEN) for f in room.rglob("*.py"))
    return digest(*(part for f in files for part in (f.name, f.read_bytes())))


def compilers(cxx: tuple[str, ...]) -> tuple[str, ...]:
    """The compilers that there are, by command and file (to ask one for its version takes as long as a small program);
    () where there is none."""
    paths = [path for command in cxx[:1] or COMPILERS if (path := shutil.which(command))]
    found = [(path, Path(path).stat()) for path in paths]
    return tuple(f"{cxx} {path} {s.st_ino} {s.st_size} {s.st_mtime_ns}" for path, s in found)
