"""Models of every framework: how one is declared, run plainly and compiled, and compared.

A model is a function `run(jit)` in `tests/frameworks/models/`, registered with `@model`. It builds
everything, wraps the functions that a user would compile with `jit`, trains and infers, and returns
what it saw (losses, states, outputs, exceptions): any pytree. It is run with a `jit` that does
nothing and with `dynacomp.jit`; both must see the same. `breaks` bounds the graph breaks, none as a
rule: a break is right only where a value must leave.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

import dynacomp
from dynacomp import notices
from dynacomp.capture import frame
from dynacomp.notices import Notice
from tests.corpus.leaving import unexplained
from tests.frameworks import models
from tests.program_files import import_all


@dataclass(frozen=True)
class Model:
    """One model. breaks: reason → most graph breaks. eager: why frames may run as plain Python.
    tolerance: of values, relative and absolute. graphs: most graphs, recompiles counted. slow: run by
    `make test-slow` only, since eager JAX compiles hundreds of operations for it."""

    run: Callable[[Any], Any]
    breaks: dict[str, int]
    eager: tuple[str, ...]
    graphs: int
    tolerance: float
    slow: bool

    @property
    def name(self) -> str:
        return f"{self.run.__module__.rpartition('.')[2]}.{self.run.__name__}"


MODELS: list[Model] = []
MISSING: list[str] = []  # files of models whose framework is not installed


def model(run: Any = None, *, breaks: dict[str, int] | None = None, eager: tuple[str, ...] = (), graphs: int = 6,
          tolerance: float = 1e-4, slow: bool = False) -> Any:
    """Registers a model; see Model."""
    if run is None:
        return functools.partial(model, breaks=breaks, eager=eager, graphs=graphs, tolerance=tolerance,
                                 slow=slow)
    MODELS.append(Model(run, breaks or {}, eager, graphs, tolerance, slow))
    return run


@functools.cache
def load() -> tuple[Model, ...]:
    """Every model whose framework is installed, in the order of the files."""
    MISSING.extend(import_all(models))
    return tuple(MODELS)


@dataclass
class Timed:
    """A `jit` that notes how long each call of each wrapped function took."""

    wrap: Callable[[Any], Any]
    seconds: list[list[float]] = field(default_factory=list)

    def __call__(self, fn: Any) -> Any:
        wrapped, mine = self.wrap(fn), []
        self.seconds.append(mine)

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return jax.block_until_ready(wrapped(*args, **kwargs))
            finally:
                mine.append(time.perf_counter() - start)

        return call

    @property
    def best(self) -> float:
        """The sum of the quickest calls: what the model takes once everything is compiled."""
        return sum(min(calls) for calls in self.seconds if calls)


@dataclass
class Report:
    """A model's two runs: what they saw, the counters of the compiled one, and how much faster it was."""

    plain: Any
    compiled: Any
    stats: dict[str, Any]
    notices: tuple[Notice, ...]
    speedup: float


def check(m: Model, backend: str = "xla") -> Report:
    """Runs the model plainly and compiled."""
    frame.strict_errors = True
    eager = Timed(lambda fn: fn)
    plain = m.run(eager)
    dynacomp.reset()
    timed = Timed(functools.partial(dynacomp.jit, backend=backend))
    compiled = m.run(timed)
    return Report(plain, compiled, dynacomp.stats(), notices.told(), eager.best / timed.best if timed.best else 0.0)


def differences(m: Model, r: Report) -> list[str]:
    """What is wrong with a report, in words; empty when all is well."""
    found = compare(r.plain, r.compiled, m.tolerance)
    for reason, count in r.stats["breaks"].items():
        if count > m.breaks.get(reason, 0):
            found.append(f"{count} graph breaks {reason!r}, at most {m.breaks.get(reason, 0)} expected")
    found += [f"nothing leaves here: {notice}" for notice in unexplained(r.notices)]
    eager = set(r.stats["frames_eager"]) - set(m.eager)
    if eager:
        found.append(f"frames run eagerly {r.stats['frames_eager']}, expected {m.eager}")
    least = 0 if m.breaks else 1
    if not least <= r.stats["graphs"] <= m.graphs:
        found.append(f"{r.stats['graphs']} graphs, between {least} and {m.graphs} expected")
    return found


def compare(want: Any, have: Any, tolerance: float) -> list[str]:
    """Where two pytrees differ: structures, dtypes, weak types, values."""
    left, right = jax.tree_util.tree_flatten_with_path(want), jax.tree.flatten(have)
    if left[1] != right[1]:
        return [f"structure differs:\n  plain    {left[1]}\n  compiled {right[1]}"]
    return [f"{jax.tree_util.keystr(path)} differs: {why}"
            for (path, a), b in zip(left[0], right[0]) if (why := differs(a, b, tolerance))]


def differs(a: Any, b: Any, tolerance: float) -> str:
    if type(a) is not type(b):
        return f"{type(a).__name__} and {type(b).__name__}"
    if not isinstance(a, (jax.Array, np.ndarray, float)):
        return "" if a == b else f"{a!r} and {b!r}"
    kind = [(np.shape(x), getattr(x, "dtype", None), getattr(x, "weak_type", None)) for x in (a, b)]
    if kind[0] != kind[1]:
        return f"{kind[0]} and {kind[1]}"
    if isinstance(a, jax.Array) and jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    x, y = (np.asarray(v, dtype=np.float64) if np.asarray(v).dtype.kind not in "biuc" else np.asarray(v)
            for v in (a, b))
    if x.dtype.kind in "biu":
        return "" if np.array_equal(x, y) else f"values {x.ravel()[:4]} and {y.ravel()[:4]}"
    close = np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True)
    return "" if close else f"values differ by up to {np.nanmax(np.abs(x - y)):.3g}"


def caught(fn: Callable[..., Any], *args: Any) -> str:
    """The kind of exception that a call raises, as part of what a model saw."""
    try:
        fn(*args)
    except Exception as error:
        return type(error).__name__
    return "none"
