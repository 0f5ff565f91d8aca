"""Runs kernel templates by themselves: for tests, benchmarks and tuning.

`build` compiles a table of `Call`s (template, dtypes, which parameters are symbols) into one shared
library and returns it as a `Library`; `Library.run(name, sizes, arrays, outputs)` calls one of them.

    >>> call = Call("matmul", ("float32",) * 3, dict(batch=1, m=M, n=N, k=K, a_strides=..., b_strides=...))
    >>> library = build({"mm": call}, folder)
    >>> library.run("mm", {"m": 2, "n": 3, "k": 4}, [a, b], [out])
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sympy

from dynacomp.kernels import lapack
from dynacomp.kernels.templates import HEADERS, TEMPLATES


@dataclass(frozen=True)
class Call:
    """One use of a template; `params` may contain SymPy symbols, given at `run`. The last `results`
    of the dtypes are the results'."""

    template: str
    dtypes: tuple[str, ...]
    params: Mapping[str, Any]
    results: int = 1

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(sorted({str(s) for v in self.params.values() for s in free_symbols(v)}))


def free_symbols(value: Any) -> set:
    if isinstance(value, tuple | list):
        return set().union(*map(free_symbols, value)) if value else set()
    return value.free_symbols if isinstance(value, sympy.Basic) else set()


def function(name: str, call: Call) -> str:
    """The C++ source of one call as `void name(rt, operands and results, sizes)`."""
    row = TEMPLATES[call.template]
    dtypes = tuple(map(np.dtype, call.dtypes))
    sizes = "".join(f"  [[maybe_unused]] const int64_t {s} = sizes[{i}];\n" for i, s in enumerate(call.symbols))
    count = len(dtypes) - call.results
    names = [f"data[{i}]" for i in range(len(dtypes))]
    body = row.call(call.params, dtypes, names[:count], names[count:], sympy.ccode)
    return (
        f'extern "C" void {name}(const dynacomp_runtime* rt, void* const* data,'
        f" [[maybe_unused]] const int64_t* sizes) {{\n"
        f"{sizes}  {body}\n}}\n"
    )


def source(calls: Mapping[str, Call]) -> str:
    headers = sorted({TEMPLATES[c.template].header for c in calls.values()} | {"standalone.h"})
    includes = "".join(f'#include "{h}"\n' for h in headers)
    return includes + "".join(function(name, call) for name, call in calls.items())


def compiled(text: str, folder: Path, command: Sequence[str]) -> Path:
    """The path of the shared library for `text`; compiled unless the folder has it already."""
    content = "".join(p.read_text() for p in sorted(HEADERS.glob("*.h")))
    key = hashlib.sha256("\0".join([text, content, *command]).encode()).hexdigest()[:16]
    path = folder / f"{key}.so"
    if not path.exists():
        cpp, temporary = folder / f"{key}-{os.getpid()}.cpp", folder / f"{key}-{os.getpid()}.so"
        cpp.write_text(text)
        subprocess.run([*command, "-iquote", str(HEADERS), str(cpp), "-o", str(temporary)], check=True)
        temporary.rename(path)
    return path


COMMAND = ("g++", "-O3", "-march=native", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread")


@dataclass(frozen=True)
class Library:
    """Compiled calls and the threads that they run on."""

    calls: Mapping[str, Call]
    native: ctypes.CDLL
    runtime: int

    def bind(
        self, name: str, sizes: Mapping[str, int], operands: Sequence[np.ndarray], results: Sequence[np.ndarray]
    ) -> Callable[[], None]:
        """A function of no arguments that calls it; the arrays are contiguous, the results are written."""
        call, arrays = self.calls[name], [*operands, *results]
        if [a.dtype.name for a in arrays] != list(call.dtypes):
            raise TypeError(f"{name} takes {call.dtypes}, got {[a.dtype.name for a in arrays]}")
        data = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        values = (ctypes.c_int64 * max(1, len(call.symbols)))(*(sizes[s] for s in call.symbols))
        native, runtime = getattr(self.native, name), ctypes.c_void_p(self.runtime)

        def run() -> None:
            native(runtime, data, values)

        run.arrays = arrays  # type: ignore[attr-defined]  # alive as long as the addresses in `data`
        return run

    def run(
        self, name: str, sizes: Mapping[str, int], operands: Sequence[np.ndarray], results: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, ...]:
        """Calls it once and returns the results."""
        self.bind(name, sizes, operands, results)()
        return tuple(results)


def start(native: ctypes.CDLL, threads: int) -> int:
    native.standalone_runtime.restype = ctypes.c_void_p
    return native.standalone_runtime(threads)


def build(calls: Mapping[str, Call], folder: Path, threads: int = 2, command: Sequence[str] = COMMAND) -> Library:
    """Compiles the calls into one library in `folder` (kept there for the next time)."""
    native = ctypes.CDLL(str(compiled(source(calls), folder, command)))
    lapack.link(native)
    return Library(calls, native, start(native, threads))
