"""Runs a Schedule step by step: Kernels by their interpreter, templates by their references, XLA
calls by the graph's own reference. The oracle for every backend.

Temporaries live in one real arena or in outputs at their planned offsets, so that a wrong plan gives wrong results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dynacomp.capture.graph import interpreter
from dynacomp.lowering.fuse.schedule import BranchStep, ExternStep, KernelStep, LoopStep, Schedule, TemplateStep
from dynacomp.lowering.interpret import kernels
from dynacomp.lowering.interpret.kernels import value_of

_TYPED = ("matmul", "conv")
"""Templates whose result's dtype is not an operand's: their references are told it."""

References = Mapping[str, Callable[..., tuple[np.ndarray, ...]]]


def run(schedule: Schedule, inputs: tuple[Any, ...], templates: References) -> tuple[np.ndarray, ...]:
    """The flat outputs of `schedule` on `inputs` (arrays or Python scalars).

    `templates` maps template names to references `(params, *arrays, dtype=) -> arrays`.
    """
    arrays = [_contiguous(x, schedule.buffers[n].dtype) for n, x in zip(schedule.inputs, inputs)]
    return _run(schedule, arrays, {s.name: arrays[k].shape[d] for s, (k, d) in schedule.sizes}, templates)


def _run(
    schedule: Schedule, arrays: Sequence[np.ndarray], sizes: Mapping[str, int], templates: References
) -> tuple[np.ndarray, ...]:
    buffers = _allocate(schedule, sizes) | dict(zip(schedule.inputs, arrays)) | dict(schedule.consts)
    buffers |= {after: buffers[before].copy() for after, before in schedule.in_place.items()}
    buffers |= {before: buffers[after] for after, before in schedule.in_place.items()}
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
    shapes = {n: _shape(b.shape, sizes) for n, b in schedule.buffers.items() if n not in given}
    found = {n: np.zeros(s, schedule.buffers[n].dtype) for n, s in shapes.items() if n not in schedule.offsets}
    for name, offset in schedule.offsets.items():
        shape, dtype, host = shapes[name], schedule.buffers[name].dtype, schedule.hosts.get(name)
        memory = arena if host is None else found[host].reshape(-1).view(np.uint8)
        start = int(value_of(offset, sizes))
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        found[name] = memory[start : start + size].view(dtype).reshape(shape)
    return found


def _run_step(step: Any, buffers: dict[str, np.ndarray], sizes: Mapping[str, int], templates: References) -> None:
    given = [buffers[o] for o in step.operands]
    match step:
        case KernelStep():
            kernels.run(step.kernel, {p: _as_pairs(buffers[b]) for p, b in step.bindings.items()}, sizes)
            return
        case TemplateStep():
            params = {k: _concrete(v, sizes) for k, v in step.params.items()}
            more = {"dtype": buffers[step.results[0]].dtype} if step.template in _TYPED else {}
            results = templates[step.template](params, *given, **more)
        case LoopStep():
            results = _loop(step, given, sizes, templates)
        case BranchStep():
            inner = step.inner[int(np.clip(given[0].item(), 0, len(step.inner) - 1))]
            results = _inner(inner, given[1:], sizes, templates)
        case ExternStep():
            shaped = [_as_placeholder(n.aval, a, sizes) for n, a in zip(step.graph.placeholders, given)]
            results = interpreter.run(step.graph, *shaped)
    for name, value in zip(step.results, results):
        buffers[name][...] = np.asarray(value).reshape(buffers[name].shape)


def _loop(
    step: LoopStep, arrays: list[np.ndarray], sizes: Mapping[str, int], templates: References
) -> tuple[np.ndarray, ...]:
    consts, carries = arrays[: step.consts], arrays[step.consts : step.consts + step.carries]
    slices = arrays[step.consts + step.carries :]
    if step.condition is not None:
        while _inner(step.condition, [*consts, *carries], sizes, templates)[0]:
            carries = list(_inner(step.body, [*consts, *carries], sizes, templates))
        return tuple(carries)
    length = int(value_of(step.length, sizes))
    stacked: list[Any] = [np.empty((length, 0))] * (len(step.results) - step.carries)
    for n in range(length)[:: -1 if step.reverse else 1]:
        out = _inner(step.body, [*consts, *carries, *(x.reshape(length, -1)[n] for x in slices)], sizes, templates)
        carries, one = list(out[: step.carries]), out[step.carries :]
        stacked = [s if s.shape[1] else np.zeros((length, x.size), x.dtype) for s, x in zip(stacked, one)]
        for whole, x in zip(stacked, one):
            whole[n] = x.reshape(-1)
    return (*carries, *stacked)


def _inner(
    schedule: Schedule, arrays: Sequence[np.ndarray], sizes: Mapping[str, int], templates: References
) -> tuple[np.ndarray, ...]:
    """A body on arrays that may come in another shape of as many elements."""
    shapes = [_shape(schedule.buffers[n].shape, sizes) for n in schedule.inputs]
    return _run(schedule, [x.reshape(shape) for x, shape in zip(arrays, shapes)], sizes, templates)


def _contiguous(x: Any, dtype: np.dtype) -> np.ndarray:
    return np.ascontiguousarray(x, dtype).reshape(np.shape(x))


def _as_pairs(array: np.ndarray) -> np.ndarray:
    """What a kernel sees of an array: the floats of complex numbers."""
    return array.reshape(-1).view(f"f{array.itemsize // 2}") if array.dtype.kind == "c" else array


def _as_placeholder(aval: Any, array: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    return array.reshape(_shape(aval.shape, sizes)).astype(aval.dtype)


def _concrete(value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_concrete(v, sizes) for v in value)
    return int(value_of(value, sizes)) if hasattr(value, "free_symbols") else value
