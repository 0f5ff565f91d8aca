"""Runs a Schedule step by step: Kernels by their interpreter, templates by their references, XLA
calls by the graph's own reference. The oracle for every backend.

Temporaries live in one real arena at their planned offsets, so that a wrong plan gives wrong results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dynacomp.capture.graph import interpreter
from dynacomp.lowering.fuse.schedule import ExternStep, KernelStep, Schedule, TemplateStep
from dynacomp.lowering.interpret import kernels
from dynacomp.lowering.interpret.kernels import value_of

_TYPED = ("matmul", "conv")
"""Templates whose result's dtype is not an operand's: their references are told it."""

References = Mapping[str, Callable[..., tuple[np.ndarray, ...]]]


def run(schedule: Schedule, inputs: tuple[Any, ...], templates: References) -> tuple[np.ndarray, ...]:
    """The flat outputs of `schedule` on `inputs` (arrays or Python scalars).

    `templates` maps template names to references `(params, *arrays, dtype=) -> arrays`.
    """
    arrays = [np.asarray(x, schedule.buffers[n].dtype) for n, x in zip(schedule.inputs, inputs)]
    sizes = {s.name: arrays[k].shape[d] for s, (k, d) in schedule.sizes}
    buffers = _allocate(schedule, sizes) | dict(zip(schedule.inputs, arrays)) | dict(schedule.consts)
    for step in schedule.steps:
        _run_step(step, buffers, sizes, templates)
    return tuple(
        buffers[schedule.aliases.get(n, n)].reshape(_shape(a.shape, sizes)).copy()
        for n, a in zip(schedule.outputs, schedule.output_avals)
    )


def _shape(shape: tuple[Any, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(d) if isinstance(d, int) else int(value_of(d, sizes)) for d in shape)


def _allocate(schedule: Schedule, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    arena = np.full(int(value_of(schedule.arena, sizes)), 0xCD, np.uint8)
    given = {*schedule.inputs, *schedule.consts}
    found = {}
    for name, buffer in schedule.buffers.items():
        shape = _shape(buffer.shape, sizes)
        if name in schedule.offsets:
            start = int(value_of(schedule.offsets[name], sizes))
            size = int(np.prod(shape, dtype=np.int64)) * buffer.dtype.itemsize
            found[name] = arena[start : start + size].view(buffer.dtype).reshape(shape)
        elif name not in given:
            found[name] = np.zeros(shape, buffer.dtype)
    return found


def _run_step(step: Any, buffers: dict[str, np.ndarray], sizes: Mapping[str, int], templates: References) -> None:
    if isinstance(step, KernelStep):
        mine = {p: buffers[b] for p, b in step.bindings.items()}
        kernels.run(step.kernel, mine, sizes)
        return
    if isinstance(step, TemplateStep):
        params = {k: _concrete(v, sizes) for k, v in step.params.items()}
        dtypes = [buffers[r].dtype for r in step.results]
        more = {"dtype": dtypes[0]} if step.template in _TYPED else {}
        results = templates[step.template](params, *(buffers[o] for o in step.operands), **more)
    else:
        assert isinstance(step, ExternStep)
        shaped = [_as_placeholder(n.aval, buffers[o], sizes) for n, o in zip(step.graph.placeholders, step.operands)]
        results = interpreter.run(step.graph, *shaped)
    for name, value in zip(step.results, results):
        buffers[name][...] = np.asarray(value).reshape(buffers[name].shape)


def _as_placeholder(aval: Any, array: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    return array.reshape(_shape(aval.shape, sizes)).astype(aval.dtype)


def _concrete(value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_concrete(v, sizes) for v in value)
    return int(value_of(value, sizes)) if hasattr(value, "free_symbols") else value
