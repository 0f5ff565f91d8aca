"""A Schedule step by step, for engines that run Triton Calls: the walk that host and GPU share.

`Plan` is what can be prepared ahead: the source of all launches. `run` keeps an environment from buffer name
to array; an engine gets a Call with the arrays that exist already, and returns the arrays it wrote. Complex
arrays are there as kernels see them: floats with one more dimension, of two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import sympy
from jax import jit as jax_jit  # now: a program may put dynacomp.jit in its place
from jax import lax

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.dims import substitute
from dynacomp.codegen.triton.call import Call, launch_call
from dynacomp.codegen.triton.seam import SEAMS
from dynacomp.codegen.triton.source import HEADER, Launch, triton_launches
from dynacomp.codegen.xla import as_function
from dynacomp.lowering.fuse.schedule import ExternStep, KernelStep, Schedule, TemplateStep, without_control
from dynacomp.lowering.kernel_ir.loops import Kernel

Arrays = dict[str, Any]
Engine = Callable[[Call, Arrays], Arrays]
AsArray = Callable[[Any, np.dtype], Any]


@dataclass(frozen=True)
class Plan:
    """A Schedule and its Triton source: `launches` by the identity of their Kernel."""

    schedule: Schedule
    source: str
    launches: Mapping[int, tuple[Launch, ...]]
    externs: tuple[Any, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why each step that is no Triton kernel goes to XLA."""
        steps = self.schedule.steps
        extern = [s.why for s in of_class(ExternStep, steps)]
        return (*extern, *(f"{s.template} has no Triton kernel" for s in of_class(TemplateStep, steps)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the Triton kernels."""
        return tuple(launch.name for group in self.launches.values() for launch in group)


def plan(schedule: Schedule, exact: bool) -> Plan:
    """Writes the source of every distinct Kernel; loops and branches are XLA's here. Raises ValueError for a
    template that Triton lacks."""
    schedule = without_control(schedule)
    kernels = {id(s.kernel): s.kernel for s in of_class(KernelStep, schedule.steps)}
    unknown = {s.template for s in of_class(TemplateStep, schedule.steps)} - set(SEAMS)
    if unknown:
        raise ValueError(f"Triton has no template {', '.join(sorted(unknown))}: send these operations to XLA")
    launches = {
        key: triton_launches(_renamed(kernel, n), exact) for n, (key, kernel) in enumerate(kernels.items())
    }
    text = "\n\n".join([HEADER, *(launch.source for group in launches.values() for launch in group)])
    externs = tuple(jax_jit(as_function(s.graph)) for s in of_class(ExternStep, schedule.steps))
    return Plan(schedule, text, launches, externs)


def _renamed(kernel: Kernel, number: int) -> Kernel:
    """The kernel with a name that no other of the Schedule has."""
    return Kernel(
        f"k{number}_{kernel.name}", kernel.inputs, kernel.outputs, kernel.body, kernel.sizes, kernel.locals
    )


def read_sizes(schedule: Schedule, inputs: Sequence[Any]) -> dict[sympy.Symbol, int]:
    """The values of the Schedule's sizes."""
    return {symbol: np.shape(inputs[position])[dim] for symbol, (position, dim) in schedule.sizes}


def run(plan: Plan, inputs: Sequence[Any], engine: Engine, asarray: AsArray) -> list[Any]:
    """The outputs of the Schedule, by an engine. `asarray` makes its arrays."""
    schedule = plan.schedule
    sizes = read_sizes(schedule, inputs)
    given = [*schedule.consts.items(), *zip(schedule.inputs, inputs)]
    env: Arrays = {n: apart(asarray(x, schedule.buffers[n].dtype), asarray) for n, x in given}
    externs = iter(plan.externs)
    for step in schedule.steps:
        match step:
            case KernelStep():
                _run_kernel(step, plan, env, sizes, engine, asarray)
            case TemplateStep():
                _run_seam(step, schedule, env, sizes, asarray)
            case ExternStep():
                _run_extern(step, schedule, next(externs), env, sizes, asarray)
    shapes = [tuple(substitute(d, sizes) for d in aval.shape) for aval in schedule.output_avals]
    found = [together(env[n], schedule, n, asarray) for n in (schedule.aliases.get(o, o) for o in schedule.outputs)]
    return [x.reshape(shape) for x, shape in zip(found, shapes)]


def apart(x: Any, asarray: AsArray) -> Any:
    """An array as kernels see it."""
    return asarray(jnp.stack([x.real, x.imag], -1), x.real.dtype) if x.dtype.kind == "c" else x


def together(x: Any, schedule: Schedule, name: str, asarray: AsArray) -> Any:
    """A buffer's array in the buffer's own dtype."""
    dtype = np.dtype(schedule.buffers[name].dtype)
    if dtype.kind != "c" or x.dtype.kind == "c":  # what XLA computed, or an input, is not taken apart
        return x
    pairs = x.reshape(-1, 2)
    return asarray(lax.complex(pairs[:, 0], pairs[:, 1]), dtype)


def _nothing(call: Call, arrays: Arrays, asarray: AsArray) -> Arrays:
    """What a launch without lanes writes: its outputs are empty."""
    return {n: asarray(np.zeros(*call.buffers[n]), call.buffers[n][1]) for n in call.writes - set(arrays)}


def _run_kernel(
    step: KernelStep,
    plan: Plan,
    env: Arrays,
    sizes: Mapping[sympy.Symbol, int],
    engine: Engine,
    asarray: AsArray,
) -> None:
    """Every launch of one Kernel; its own scratch buffers live as long as the step."""
    own: Arrays = {}
    for launch in plan.launches[id(step.kernel)]:
        call = launch_call(launch, plan.source, sizes)
        outer = {n: step.bindings.get(n, n) for n in call.buffers if n not in call.scratch}
        arrays = {n: env[o] for n, o in outer.items() if o in env} | {
            n: own[n] for n in call.buffers if n in own
        }
        wrote = engine(call, arrays) if call.grid else _nothing(call, arrays, asarray)
        own |= {n: a for n, a in wrote.items() if n in call.scratch}
        env |= {outer[n]: a for n, a in wrote.items() if n in outer}


def _run_seam(
    step: TemplateStep, schedule: Schedule, env: Arrays, sizes: Mapping[sympy.Symbol, int], asarray: AsArray
) -> None:
    """A template that XLA computes."""
    dtypes = [np.dtype(schedule.buffers[n].dtype) for n in (*step.operands, *step.results)]
    params = {k: _concrete(v, sizes) for k, v in step.params.items()}
    operands = [together(env[n], schedule, n, asarray) for n in step.operands]
    results = SEAMS[step.template](params, dtypes, *operands)
    arrays = (asarray(r, schedule.buffers[n].dtype) for n, r in zip(step.results, results))
    env.update(zip(step.results, (apart(x, asarray) for x in arrays)))


def _concrete(value: Any, sizes: Mapping[sympy.Symbol, int]) -> Any:
    """A template's parameter with its sizes put in."""
    if isinstance(value, (tuple, list)):
        return tuple(_concrete(v, sizes) for v in value)
    return substitute(value, sizes)


def _run_extern(
    step: ExternStep,
    schedule: Schedule,
    function: Any,
    env: Arrays,
    sizes: Mapping[sympy.Symbol, int],
    asarray: AsArray,
) -> None:
    """One call of XLA; buffers take the shapes that its graph gives them."""
    shapes = [tuple(substitute(d, sizes) for d in p.aval.shape) for p in step.graph.placeholders]
    operands = [together(env[n], schedule, n, asarray) for n in step.operands]
    results = function(*(x.reshape(shape) for x, shape in zip(operands, shapes)))
    env.update(zip(step.results, (apart(asarray(r, r.dtype), asarray) for r in results)))
