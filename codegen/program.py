"""Programs: compiled code as a callable on jax Arrays.

`native_program` wraps one loaded library (the C type `_launch.Program`, no Python frame per call);
`SeamProgram` runs native programs and XLA executables in turn, for Schedules with ExternSteps. Both are
called with the flat inputs (jax Arrays; NumPy arrays and Python scalars are converted to the dtype that
was compiled for) and return the tuple of flat outputs. Their attributes:

    backend "cpp"; source: file name -> text; kernels: names; externs: reasons, one for each XLA call;
    compile_seconds; cached: whether all code came from the cache

Raises TypeError for an input of another shape or dtype than was compiled for, ValueError for one that is
not on the CPU device, and JAX's own error for a deleted array.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.ffi
import numpy as np
import sympy
from jax import jit as jax_jit  # now: a program may put dynacomp.jit in its place
from jax.experimental.layout import Format, Layout
from jax.sharding import SingleDeviceSharding
from jaxlib import _jax

from dynacomp.capture.graph.avals import Aval
from dynacomp.codegen import _launch
from dynacomp.codegen.dims import substitute
from dynacomp.lowering.fuse.schedule import Schedule

STOCK = 32  # arrays made ahead, about, in one execution: the more, the less each costs, but the longer it compiles
STOCK_BYTES = 4 << 20  # at most this much memory for them
ADDRESSES = "dynacomp_addresses"
ANY = -1  # a dimension that is a size, as `_launch/launch.h` has it
Refill = Callable[[bool], tuple[list[Any], Any]]  # of `committed`; the arrays, and one of their addresses

_launch.bind(_jax.ArrayImpl, _jax.batched_block_until_ready, _jax.batched_device_put, np.ndarray,
             jax.errors.JaxRuntimeError)
jax.ffi.register_ffi_target(ADDRESSES, _launch.addresses, platform="cpu", api_version=1)


def native_program(library: ctypes.CDLL, schedule: Schedule, threads: int, donate: Sequence[int],
                   device: Any) -> Any:
    """The callable of a loaded library that `cpp.unit` wrote for `schedule`."""
    checks = _Checks(schedule, device)
    consts = [np.ascontiguousarray(c) for c in schedule.consts.values()]
    return _launch.Program(
        run=_address(library.dynacomp_run), shapes=_address(library.dynacomp_shapes),
        inputs=checks.wanted, outputs=len(schedule.outputs),
        dims=sum(len(a.shape) for a in schedule.output_avals),
        reads=tuple(where for _, where in checks.reads), donated=tuple(donate),
        consts=tuple(c.ctypes.data for c in consts), keep=(library, consts),
        check=checks.check, convert=checks.convert, accept=checks.accept, arrange=arrange, plan=checks.plan,
        stock=checks.stock, sharding=checks.sharding, devices=[device], threads=threads)


def _fixed(dim: Any) -> int:
    return int(dim) if sympy.sympify(dim).is_Integer else ANY


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class _Checks:
    """What the launcher asks Python about things that it sees for the first time."""

    def __init__(self, schedule: Schedule, device: Any) -> None:
        self.device = device
        self.sharding = SingleDeviceSharding(device)
        self.inputs = [schedule.buffers[name] for name in schedule.inputs]
        self.names = schedule.inputs
        self.outputs = schedule.output_avals
        self.sizes = len(schedule.sizes)
        # Every symbolic dimension is read: the first of each symbol is its size, the others must agree.
        primary = tuple(schedule.sizes)
        taken = {where for _, where in primary}
        others = [(dim, (i, d)) for i, b in enumerate(self.inputs) for d, dim in enumerate(b.shape)
                  if _fixed(dim) == ANY and (i, d) not in taken]
        self.reads = (*primary, *others)
        # A dtype that was read from a record is another object than that of arrays; its type is the same.
        self.wanted = tuple((np.dtype(np.dtype(b.dtype).type), tuple(map(_fixed, b.shape))) for b in self.inputs)

    def check(self, i: int, x: Any) -> tuple[int, ...]:
        """The shape of input i; TypeError where it does not fit what was compiled."""
        buffer, shape, (dtype, wanted) = self.inputs[i], x.shape, self.wanted[i]
        if (x.dtype != dtype or len(shape) != len(wanted)
                or any(want not in (ANY, got) for want, got in zip(wanted, shape))):
            raise TypeError(f"input {i} ({self.names[i]}) is {x.dtype}{list(x.shape)}, but this program was "
                            f"compiled for {buffer.dtype}{list(buffer.shape)}")
        return shape

    def convert(self, i: int, x: Any) -> Any:
        """A NumPy value or Python scalar as a jax Array of input i's dtype."""
        if not isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)):
            raise TypeError(f"input {i} ({self.names[i]}) must be an array or a scalar, "
                            f"not {type(x).__name__}")
        array = np.asarray(x, self.inputs[i].dtype)
        aval = jax.core.ShapedArray(array.shape, array.dtype)
        return _jax.batched_device_put(aval, self.sharding, [array], [self.device], False)

    def accept(self, x: Any) -> None:
        """ValueError unless `x` lies wholly on this program's device."""
        if x.devices() != {self.device}:
            raise ValueError(f"this program runs on {self.device}, but an input lies on "
                             f"{', '.join(sorted(map(str, x.devices())))}: use jax.device_put")

    def plan(self, values: tuple[int, ...]) -> tuple[tuple[Any, tuple[int, ...], np.dtype, int], ...]:
        """(aval, shape, dtype, bytes) of every output at these sizes and output dimensions."""
        sizes, dims = values[:len(self.reads)], list(values[len(self.reads):])
        self._agree(sizes)
        rows = []
        for aval in self.outputs:
            shape, dims = tuple(dims[:len(aval.shape)]), dims[len(aval.shape):]
            rows.append((_shaped(aval, shape), shape, np.dtype(aval.dtype), _bytes(aval, shape)))
        return tuple(rows)

    def stock(self, avals: tuple[Any, ...]) -> Refill:
        return _refill(avals, self.sharding)

    def _agree(self, sizes: tuple[int, ...]) -> None:
        env = {symbol: size for (symbol, _), size in zip(self.reads[:self.sizes], sizes)}
        for (dim, (i, d)), got in zip(self.reads[self.sizes:], sizes[self.sizes:]):
            want = substitute(dim, env)
            if want != got:
                raise TypeError(f"dimension {d} of input {i} ({self.names[i]}) is {got}, "
                                f"but the other inputs make {dim} = {want}")


@functools.lru_cache(maxsize=256)
def _refill(avals: tuple[Any, ...], sharding: Any) -> Refill:
    """A function of `committed` that makes fresh Arrays of these avals, several times over, in one XLA
    execution that writes none of them, and an Array of their addresses. It belongs to no program."""
    size = sum(_bytes(a, a.shape) for a in avals)
    made = list(avals) * max(1, min(STOCK // len(avals), STOCK_BYTES // size))
    made.append(jax.core.ShapedArray((len(made), 2), np.dtype(np.uint32)))
    call = jax.ffi.ffi_call(ADDRESSES, [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in made])
    compiled = jax_jit(lambda: call(), out_shardings=sharding).lower().compile()
    executable: Any = compiled.runtime_executable()
    handlers = [[_handler(a, sharding, committed) for a in made] for committed in (False, True)]

    def refill(committed: bool) -> tuple[list[Any], Any]:
        *arrays, table = executable.execute_sharded([]).consume_with_handlers(handlers[committed])
        return arrays, table.block_until_ready()

    return refill


def arrange(x: Any) -> Any:
    """`x` itself where its elements lie in row-major order (all but arrays that were given another
    Layout), or a copy of it that does."""
    layout = x.format.layout
    row_major = tuple(range(x.ndim))
    if layout.major_to_minor == row_major and not layout.tiling:
        return x
    return jax.device_put(x, Format(Layout(row_major), x.sharding))


def _handler(aval: Any, sharding: Any, committed: bool) -> Any:
    """What makes an Array of `aval` out of a buffer that XLA returns."""
    skip = (True,) if jax.__version_info__ < (0, 11) else ()  # checks, which newer versions never make
    return _jax.array_result_handler(aval, sharding, committed, *skip)


def _shaped(aval: Aval, shape: tuple[int, ...]) -> Any:
    return jax.core.ShapedArray(shape, aval.dtype, weak_type=aval.weak_type)


def _bytes(aval: Aval, shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(aval.dtype).itemsize


@dataclass(frozen=True)
class Call:
    """One part of a SeamProgram: run `fn` on values by name, name its results."""

    fn: Callable[..., tuple[Any, ...]]
    operands: tuple[str, ...]
    results: tuple[str, ...]


@dataclass
class SeamProgram:
    """Native programs and XLA executables in turn, passing jax Arrays by name."""

    calls: tuple[Call, ...]
    schedule: Schedule
    finish: Callable[[Any, Aval], Any]
    donate: tuple[int, ...] = ()
    consts: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        schedule = self.schedule
        if len(inputs) != len(schedule.inputs):
            raise TypeError(f"this compiled program takes {len(schedule.inputs)} positional arguments, "
                            f"got {len(inputs)}")
        values = {**self.consts, **dict(zip(schedule.inputs, inputs))}
        for call in self.calls:
            values.update(zip(call.results, call.fn(*[values[n] for n in call.operands])))
        own = {id(x) for x in inputs}
        results = tuple(self.finish(self.output(name, values, own), aval)
                        for name, aval in zip(schedule.outputs, schedule.output_avals))
        for i in self.donate:
            inputs[i].delete()
        return results

    def output(self, name: str, values: Mapping[str, Any], own: set[int]) -> Any:
        """An output by its name. What a branch has handed on of the inputs (`own`, by identity) is another array in
        eager JAX: the caller may delete the input."""
        if name in self.schedule.aliases:
            return values[self.schedule.aliases[name]]
        return values[name].copy() if id(values[name]) in own else values[name]
