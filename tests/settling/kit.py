"""Programs that settle: how one is declared, called ten times plainly and compiled, and what is counted.

A program is a function in `tests/settling/programs/`, registered with `@program`. Each call gets arguments made anew
by `args(i)`, often with other numbers. From the eighth call on nothing may be captured any more, and next to no
operation of JAX may run one by one: both are counted, not guessed from results.
"""

from __future__ import annotations

import contextlib
import functools
import io
import statistics
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax._src.core as core
import jax._src.pjit as pjit
import jax.numpy as jnp
import numpy as np

import dynacomp
from dynacomp.capture import _native
from dynacomp.driver.foreign import Foreign
from dynacomp.driver.interpreted import interpreted
from dynacomp.driver.pass_list import CAPTURED
from tests.program_files import import_all
from tests.settling import programs

CALLS, SETTLED = 10, 7  # calls of a program; the first one (from 0) that must find all compiled


@dataclass(frozen=True)
class Program:
    """One program. args: makes the arguments of call number i. share: least share of its operations that must run in
    graphs. tolerance: of its results, relative and absolute. open: why it does not
    settle yet; "" as a rule."""

    fn: Callable[..., Any]
    args: Callable[[int], tuple[Any, ...]]
    share: float
    tolerance: float
    open: str

    @property
    def name(self) -> str:
        return f"{self.fn.__module__.rpartition('.')[2]}.{self.fn.__name__}"


PROGRAMS: list[Program] = []
CLASSES = "classes made in the call are known by their identity"  # why some programs do not settle yet
MISSING: list[str] = []  # files of programs whose library is not installed


def vector(i: int) -> tuple[Any, ...]:
    """The usual argument: one float32 array of six elements, another in each call."""
    return (jnp.arange(6, dtype=jnp.float32) / (i + 1),)


def program(fn: Any = None, *, args: Callable[[int], tuple[Any, ...]] = vector, share: float = 0.95,
            tolerance: float = 1e-4, open: str = "") -> Any:
    """Registers a program; see Program."""
    if fn is None:
        return functools.partial(program, args=args, share=share, tolerance=tolerance, open=open)
    PROGRAMS.append(Program(fn, args, share, tolerance, open))
    return fn


@functools.cache
def load() -> tuple[Program, ...]:
    """Every program whose library is installed, in the order of the files."""
    MISSING.extend(import_all(programs))
    return tuple(PROGRAMS)


class Bound:
    """How many operations JAX has run one by one, outside of compiled graphs."""

    def __init__(self) -> None:
        self.count = 0
        self.inside = 0

    def backend(self, graph: Any) -> Callable[..., Any]:
        """A backend that runs a graph as it is, its operations not counted."""
        run = interpreted(graph)

        def call(*arrays: Any) -> Any:
            self.inside += 1
            try:
                return run(*arrays)
            finally:
                self.inside -= 1

        _native.mark_skip(call.__code__)
        return call


def as_jaxs(fn: Any) -> Any:
    """`fn` as if JAX had it: capture neither enters it nor asks what it changes."""
    _native.mark_skip(fn.__code__)
    return types.FunctionType(fn.__code__, {**fn.__globals__, "__name__": "jax"}, fn.__name__, None, fn.__closure__)


@contextlib.contextmanager
def counted(bound: Bound) -> Iterator[None]:
    """Within the block every operation that JAX runs eagerly is counted, also what its C++ would run at once."""
    real, fast = core.EvalTrace.process_primitive, pjit._get_fastpath_data

    def process_primitive(self: Any, primitive: Any, args: Any, params: Any) -> Any:
        bound.count += not bound.inside
        bound.inside += 1  # what runs within an operation is part of it
        try:
            return real(self, primitive, args, params)
        finally:
            bound.inside -= 1

    def at_once(*_: Any, **__: Any) -> None:
        """What JAX's C++ asks for after each jitted call, to make the next one without Python; it gets nothing."""
        bound.count += not bound.inside

    core.EvalTrace.process_primitive, pjit._get_fastpath_data = as_jaxs(process_primitive), as_jaxs(at_once)
    _native.mark_skip(Bound.backend.__code__)  # else it is a function of the program's
    jax.clear_caches()
    try:
        yield
    finally:
        core.EvalTrace.process_primitive, pjit._get_fastpath_data = real, fast
        jax.clear_caches()


@dataclass
class Calls:
    """Ten calls. captures, bound, seconds: of each."""

    results: list[Any] = field(default_factory=list)
    captures: list[int] = field(default_factory=list)
    bound: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stats: dict[str, Any] = field(default_factory=dict)


def called(p: Program, fn: Callable[..., Any], bound: Bound) -> Calls:
    """The program called again and again as `fn`."""
    made = Calls()
    for i in range(CALLS):
        args, before, bound.count = p.args(i), dynacomp.stats()["frames_captured"], 0
        start, out = time.perf_counter(), io.StringIO()
        with contextlib.redirect_stdout(out):
            made.results.append((jax.block_until_ready(fn(*args)), out.getvalue()))
        made.seconds.append(time.perf_counter() - start)
        made.captures.append(dynacomp.stats()["frames_captured"] - before)
        made.bound.append(bound.count)
    made.stats = dynacomp.stats()
    return made


@dataclass
class Report:
    """A program plainly and compiled."""

    plain: Calls
    compiled: Calls

    @property
    def tenth(self) -> int:
        """Captures in the last calls."""
        return sum(self.compiled.captures[SETTLED:])

    @property
    def share(self) -> float:
        """Of the operations that plain Python runs in the last calls, those that run in graphs."""
        plain, left = sum(self.plain.bound[SETTLED:]), sum(self.compiled.bound[SETTLED:])
        return max(0.0, 1 - left / plain) if plain else 1.0

    @property
    def against_plain(self) -> float:
        """How many times as fast as plain Python the last calls were."""
        return statistics.median(self.plain.seconds[SETTLED:]) / statistics.median(self.compiled.seconds[SETTLED:])


def check(p: Program) -> Report:
    """Counts: the program under a backend that compiles nothing."""
    bound = Bound()
    dynacomp.reset()
    with counted(bound):
        plain = called(p, p.fn, bound)
        return Report(plain, called(p, dynacomp.jit(p.fn, backend=Foreign("counted", bound.backend, CAPTURED)), bound))


def timed(p: Program, backend: str = "auto") -> Report:
    """The program compiled for use, and timed."""
    dynacomp.reset()
    plain = called(p, p.fn, Bound())
    return Report(plain, called(p, dynacomp.jit(p.fn, backend=backend), Bound()))


def wrong(p: Program, r: Report) -> list[str]:
    """Calls whose results differ from plain Python's."""
    found = []
    for i, (want, have) in enumerate(zip(r.plain.results, r.compiled.results)):
        a, b = jax.tree.flatten(want), jax.tree.flatten(have)
        if a[1] != b[1]:
            found.append(f"call {i}: structure {b[1]}, expected {a[1]}")
        found += [f"call {i}: {y!r}, expected {x!r}" for x, y in zip(a[0], b[0]) if not same(x, y, p.tolerance)]
    return found


def same(a: Any, b: Any, tolerance: float) -> bool:
    if type(a) is not type(b):
        return False
    if not isinstance(a, (jax.Array, np.ndarray, float)):
        return bool(a == b)
    if isinstance(a, jax.Array) and jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    if (np.shape(a), getattr(a, "dtype", None), getattr(a, "weak_type", None)) != (
            np.shape(b), getattr(b, "dtype", None), getattr(b, "weak_type", None)):
        return False
    return np.allclose(np.asarray(a, float), np.asarray(b, float), rtol=tolerance, atol=tolerance, equal_nan=True)


def differences(p: Program, r: Report) -> list[str]:
    """What is wrong with a report of `check`, in words; empty when all is well."""
    found = wrong(p, r)
    if r.tenth:
        found.append(f"captures in calls 1 to {CALLS}: {r.compiled.captures}")
    if r.share < p.share:
        found.append(f"{r.share:.0%} of operations in graphs, expected {p.share:.0%}")
    return found
