"""The C++ compiler that an earlier process has found: to look for one and try it takes as long as a small program.

    >>> toolchain((), folder)       # `compiler.find(())`, or what it gave when the same files were there
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from dynacomp.codegen.compiler import Compiler, find, linker_flags
from dynacomp.codegen.records import compilers, digest, found, keep, origin


def toolchain(cxx: tuple[str, ...], folder: Path) -> Compiler:
    """The compiler to use (see `find`); a success is remembered in the folder, a failure nowhere."""
    files = compilers(cxx)
    return _remembered(cxx, files, folder) if files else find(cxx)


@functools.cache
def _remembered(cxx: tuple[str, ...], files: tuple[str, ...], folder: Path) -> Compiler:
    key = digest("compiler", origin(), *linker_flags(), *files)
    known = found(folder, key)
    if known is not None:
        command, flags, version = json.loads(known)
        return Compiler(tuple(command), tuple(flags), version)
    compiler = find(cxx)
    keep(folder, key, json.dumps([compiler.command, compiler.flags, compiler.version]).encode())
    return compiler
