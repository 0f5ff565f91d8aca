"""Fourier transforms of `fft.h`: the call and the reference behind their row of `TEMPLATES`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Params = Mapping[str, Any]
Dtypes = Sequence[np.dtype]

PARTS = {"float32": "float", "complex64": "float", "float64": "double", "complex128": "double"}


def applies(params: Params, dtypes: Dtypes) -> bool:
    return dtypes[0].name in PARTS


def call(
    params: Params, dtypes: Dtypes, operands: Sequence[str], results: Sequence[str], expr: Callable[[Any], str]
) -> str:
    """A statement for each dimension, in a block."""
    part, lengths, batch = PARTS[dtypes[0].name], list(params["lengths"]), f"({expr(params['batch'])})"
    pair = f"dynacomp::tile::Complex<{part}>"
    real_in, real_out, inverse = (params["kind"] == k for k in ("RFFT", "IRFFT", "IFFT"))
    held = [*lengths[:-1], lengths[-1] // 2 + 1] if real_in or real_out else lengths
    lines = [f"const {part if real_in else pair}* in = (const {part if real_in else pair}*)({operands[0]});"]
    if real_out:
        size = f"{batch} * {math.prod(held)}"
        lines += [f"dynacomp::scratch<{pair}> held({size}); if (held.data) {{", f"{pair}* x = held.data;"]
    else:
        lines += ["{", f"{pair}* x = ({pair}*)({results[0]});"]
    lead = f"{batch} * {math.prod(held[:-1])}"
    backwards = "true" if inverse or real_out else "false"
    if real_in:
        lines.append(f"dynacomp::tile::fft_real<{part}, {lengths[-1]}>(rt, {lead}, in, x);")
    elif real_out:
        lines.append(f"__builtin_memcpy(x, in, (uint64_t)({batch} * {math.prod(held)}) * sizeof({pair}));")
    else:
        lines.append(f"dynacomp::tile::fft_lines<{part}, {lengths[-1]}, {backwards}>(rt, {lead}, in, x);")
    for d in reversed(range(len(lengths) - 1)):
        outer, inner = math.prod(held[:d]), math.prod(held[d + 1 :])
        lines.append(f"dynacomp::tile::fft_axis<{part}, {held[d]}, {backwards}>(rt, {batch} * {outer}, {inner}, x);")
    if real_out:
        lines.append(f"dynacomp::tile::fft_back<{part}, {lengths[-1]}>(rt, {lead}, x, ({part}*)({results[0]}));")
    return "{ " + " ".join(lines) + " } }"


def reference(params: Params, x: np.ndarray) -> tuple[np.ndarray, ...]:
    lengths = tuple(map(int, params["lengths"]))
    axes = tuple(range(-len(lengths), 0))
    functions: Any = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}
    held = (*lengths[:-1], lengths[-1] // 2 + 1) if params["kind"] == "IRFFT" else lengths
    found = functions[params["kind"]](x.reshape(-1, *held), s=lengths, axes=axes)
    part = x.real.dtype
    return (found.astype(part if params["kind"] == "IRFFT" else np.result_type(part, np.complex64)),)
