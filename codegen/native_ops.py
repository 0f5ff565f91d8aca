"""C++ functions that the program brings: inside our translation units, and as custom calls of XLA.

The source is C++20; it defines `name(dynacomp::Array<const T>..., dynacomp::Array<T>..., parameters...)`: operands,
results (to be filled), then the static parameters in order of their names (`int64_t`, `double` or `bool`). One
that takes a `const dynacomp_runtime*` first can use its threads (`dynacomp::parallel`, see kernels/runtime.h). It is
put in a namespace of its own, but for its preprocessor lines, so that several do not meet.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dynacomp.codegen.cache import Request, Tell, obtain
from dynacomp.codegen.compiler import open_library
from dynacomp.codegen.toolchain import toolchain
from dynacomp.kernels.templates import STORAGE, TEMPLATES, Dtypes, Params, Template
from dynacomp.lowering.rules.templates import TEMPLATE_RULES, TemplateRule, contiguous_operands

MOST_DIMENSIONS = 8
ELEMENTS = {**STORAGE, "bool": "bool", "float16": "dynacomp::float16", "bfloat16": "dynacomp::bfloat16"}
"""Dtypes that such a function can take, as it sees them."""
SPELLED: dict[type, Callable[[Any], str]] = {
    bool: lambda v: "true" if v else "false", int: lambda v: f"INT64_C({v})",
    float: lambda v: v.hex() if np.isfinite(v) else "__builtin_nan(\"\")" if v != v else
    "__builtin_inf()" if v > 0 else "-__builtin_inf()",
}


@dataclass(frozen=True)
class NativeOp:
    """One such function: `name` in `source`."""

    name: str
    source: str

    @property
    def space(self) -> str:
        """Its namespace."""
        return "dynacomp_" + hashlib.sha256(self.source.encode()).hexdigest()[:16]

    @property
    def text(self) -> str:
        """The source as it stands in a translation unit."""
        lines = self.source.splitlines()
        directives = [line for line in lines if line.lstrip().startswith("#")]
        own = ["" if line.lstrip().startswith("#") else line for line in lines]
        guard = f"#ifndef {self.space}_seen\n#define {self.space}_seen"
        body = "\n".join(["using dynacomp::Array;", *own])
        return "\n".join([guard, *directives, f"namespace {self.space} {{ namespace {{", body, "} }", "#endif"])

    def call(self, arrays: Sequence[str], params: Mapping[str, Any]) -> str:
        """The statement that calls it on arrays, with the runtime `rt` where it takes one."""
        given = ", ".join([*arrays, *(SPELLED[type(params[k])](params[k]) for k in sorted(params))])
        names = f"[&](auto&&... a) {{ if constexpr (requires {{ {self.space}::{self.name}(rt, a...); }}) " \
                f"{self.space}::{self.name}(rt, a...); else {self.space}::{self.name}(a...); }}"
        return f"({names})({given});"


def why_not(shapes: Sequence[Sequence[Any]], dtypes: Dtypes, params: Mapping[str, Any]) -> str | None:
    """Why a function cannot be called on such arrays and parameters, or None."""
    strange = [str(d) for d in dtypes if d.name not in ELEMENTS]
    if strange:
        return f"a C++ function cannot take {strange[0]}; it takes {', '.join(ELEMENTS)}"
    if any(len(s) > MOST_DIMENSIONS for s in shapes):
        return f"a C++ function cannot take arrays of more than {MOST_DIMENSIONS} dimensions"
    bad = [f"{k}={v!r}" for k, v in params.items() if type(v) not in SPELLED]
    return f"a parameter of a C++ function is a bool, an int or a float, not {bad[0]}" if bad else None


# --- in a translation unit of ours


def register(op: NativeOp, name: str) -> None:
    """Makes the Op `name` a template: one call in the native code around it."""
    TEMPLATES[name] = Template(
        name=name, header="array.h", doc=f"the C++ function {op.name}", source=op.text,
        applies=lambda params, dtypes: True, call=functools.partial(_template_call, op), reference=_no_reference)
    TEMPLATE_RULES[name] = TemplateRule(name, lambda node: True, contiguous_operands, _params, contiguous=True)


def _params(node: Any, *strides: Any) -> dict[str, Any]:
    results = node.aval if isinstance(node.aval, tuple) else (node.aval,)
    return {"shapes": tuple(tuple(a.shape) for a in (*(x.aval for x in node.args), *results)),
            "static": tuple(sorted(node.kwargs.items()))}


def _template_call(op: NativeOp, params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str],
                   expr: Callable[[Any], str]) -> str:
    consts = ["const "] * len(operands) + [""] * len(results)
    arrays = []
    for const, dtype, place, shape in zip(consts, dtypes, (*operands, *results), params["shapes"], strict=True):
        kind = f"{const}{ELEMENTS[dtype.name]}"
        sizes = ", ".join(f"(int64_t)({expr(d)})" for d in shape)
        arrays.append(f"dynacomp::Array<{kind}>{{({kind}*)({place}), {len(shape)}, {{{sizes}}}}}")
    return op.call(arrays, dict(params["static"]))


def _no_reference(params: Params, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    raise TypeError("a C++ function of the program has no NumPy twin: interpret the Graph, which runs it through JAX")


# --- as a custom call of XLA


def foreign_call(op: NativeOp, ins: Sequence[Any], outs: Sequence[Any], params: Mapping[str, Any], cxx: tuple[str, ...],
                 folder: Path, tell: Tell) -> Callable[..., Any]:
    """A function of arrays that runs it in XLA's CPU executables. Raises TypeError for what it cannot take, and
    CompilerError where the source does not compile."""
    reason = why_not([x.shape for x in (*ins, *outs)], [np.dtype(x.dtype) for x in (*ins, *outs)], params)
    if reason:
        raise TypeError(f"{op.name}: {reason}")
    kinds = tuple(tuple(ELEMENTS[np.dtype(x.dtype).name] for x in xs) for xs in (ins, outs))
    target = _target(op, kinds, tuple(sorted(params.items())), cxx, folder, tell)
    return jax.ffi.ffi_call(target, [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in outs])


@functools.cache
def _target(op: NativeOp, kinds: tuple[tuple[str, ...], ...], params: tuple[tuple[str, Any], ...], cxx: tuple[str, ...],
            folder: Path, tell: Tell) -> str:
    """The name of the registered custom call; it stays for the life of the process."""
    arrays = [f"ffi::array<{'const ' if k == 0 else ''}{t}>(frame->{which}, {i})"
              for k, which in enumerate(("args", "results")) for i, t in enumerate(kinds[k])]
    text = f"""#include "ffi.h"
{op.text}
DYNACOMP_EXPORT void* dynacomp_call(dynacomp::ffi::Frame* frame) {{
  using namespace dynacomp;
  if (!ffi::runs(frame)) return nullptr;
  const dynacomp_runtime alone{{nullptr, nullptr, 1}};
  [[maybe_unused]] const dynacomp_runtime* rt = &alone;
  {op.call(arrays, dict(params))}
  return nullptr;
}}
"""
    path, _ = obtain(Request(text, False, toolchain(cxx, folder)), folder, tell)
    function = open_library(path, ("dynacomp_call",)).dynacomp_call
    name = f"dynacomp_{op.name}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(function), platform="cpu", api_version=1)
    return name
