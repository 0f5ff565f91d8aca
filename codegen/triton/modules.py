"""Generated Triton source as Python functions, to compile or to interpret. Needs Triton.

Triton reads a function's source through `inspect`, so the text is registered with `linecache` under a
made-up file name. The same text serves twice: as `JITFunction`s for compilation, and as plain functions
that Triton's interpreter runs on NumPy. For the latter, `lib` is the source of `lib` run again
under the interpreter's decorator, and `libdevice` is the scalar table's own references.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import linecache
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction, TensorHandle

from dynacomp.codegen.triton import lib
from dynacomp.lowering.kernel_ir.scalars import evaluate


def jit_functions(source: str) -> dict[str, Any]:
    """The `@triton.jit` functions of a module's text, by name, ready to compile."""
    return {n: f for n, f in _executed(source, False).items() if isinstance(f, triton.JITFunction)}


@functools.lru_cache(maxsize=256)
def interpreted_functions(source: str) -> dict[str, Any]:
    """The same functions as `InterpretedFunction`s; among themselves they call plain functions."""
    names = _executed(source, True)
    entries = {n: f for n, f in list(names.items()) if isinstance(f, InterpretedFunction)}
    names.update({n: f.rewrite() for n, f in entries.items()}, libdevice=LIBDEVICE)
    if "lib" in names:
        names["lib"] = _interpreted_lib()
    return entries


@functools.lru_cache(maxsize=256)
def _executed(source: str, interpret: bool) -> dict[str, Any]:
    name = f"<triton {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names: dict[str, Any] = {"__name__": name}
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.interpret = interpret
        exec(compile(source, name, "exec"), names)
    return names


@functools.lru_cache(maxsize=1)
def _interpreted_lib() -> SimpleNamespace:
    """`lib` for the interpreter: plain functions, which saves a patching of Triton's
    language at every call."""
    entries = interpreted_functions(inspect.getsource(lib))
    functions = {n: f.rewrite() for n, f in entries.items()}
    combines = {n: SimpleNamespace(fn=f) for n, f in functions.items() if n.startswith("combine_")}
    return SimpleNamespace(**{**functions, **combines})


_RENAMED = {"fmod": "rem", "round": "round_away"}


def _device_function(name: str) -> Any:
    """A function of Triton's `libdevice` on interpreter tensors."""
    row = _RENAMED.get(name, name)

    def call(*args: Any) -> Any:
        arrays = [a.handle.data for a in args]
        value = evaluate(row, tuple(arrays), arrays[0].dtype)
        return tl.tensor(TensorHandle(np.asarray(value), args[0].dtype), args[0].type)

    call.__name__ = name
    return call


class _Libdevice:
    """`triton.language.extra.libdevice` by the scalar table's references."""

    def __getattr__(self, name: str) -> Any:
        function = _device_function(name)
        setattr(self, name, function)
        return function


LIBDEVICE = _Libdevice()
