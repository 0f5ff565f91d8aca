"""The C++ compiler that an earlier process has found: to look for one and try it takes as long as a small program.

    >>> toolchain((), folder)       # `compiler.find(())`, or what it gave when the same files were there
"""

from __future__ import annotations

import functools
import json
import platform
from pathlib import Path

import dynacomp.codegen.compiler
from dynacomp.codegen.cache import headers_hash, prebuilt
from dynacomp.codegen.compiler import Compiler, cpu_key, find, linker_flags
from dynacomp.codegen.records import compilers, digest, found, keep


def toolchain(cxx: tuple[str, ...], folder: Path) -> Compiler:
    """The compiler to use (see `find`); a success is remembered in the folder, a failure nowhere."""
    files = compilers(cxx)
    return _remembered(cxx, files, folder) if files else find(cxx)


@functools.cache
def _remembered(cxx: tuple[str, ...], files: tuple[str, ...], folder: Path) -> Compiler:
    key = digest("compiler", _finder(), *linker_flags(), *files)
    known = found(folder, key) or prebuilt(f"{key}.record")
    if known is not None:
        command, flags, version = json.loads(known)
        return Compiler(tuple(command), tuple(flags), version)
    compiler = find(cxx)
    keep(folder, key, json.dumps([compiler.command, compiler.flags, compiler.version]).encode())
    return compiler


def _finder() -> str:
    """What `find` depends on besides the compilers."""
    code = Path(str(dynacomp.codegen.compiler.__file__)).read_bytes()
    return digest(code, headers_hash(), cpu_key(), platform.platform())
