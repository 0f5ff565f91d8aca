"""Counters: what was captured, what ran eagerly and why, so that no fallback looks like a success.

One row of `COUNTERS` per counter; `stats()` shows all of them as a plain dict that `json.dumps`
takes. A counter is a number, or a number per key (a reason, a backend, a stage).

    >>> reset()
    >>> count("graphs"); count("breaks", "print"); count("breaks", "print")
    >>> stats()["graphs"], stats()["breaks"]
    (1, {'print': 2})

Counting happens when something is compiled; what is counted on every call (cache hits) is
counted in C and read through `add_source`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dynacomp.capture.base.locks import ForkedLock


@dataclass(frozen=True)
class Counter:
    """One counter: what it counts, and what its keys are ("" for a plain number)."""

    name: str
    doc: str
    key: str = ""


COUNTERS = {c.name: c for c in (
    Counter("frames_captured", "frames whose bytecode was turned into graphs"),
    Counter("frames_recalled", "frames whose graphs an earlier process has kept"),
    Counter("frames_unkept", "captured frames that are not kept for other processes", key="reason"),
    Counter("frames_eager", "frames left to plain Python", key="reason"),
    Counter("checks_failed", "calls that started again as plain Python for what a condition came to", key="reason"),
    Counter("frames_idle", "captures of frames that compute nothing with arrays: these run as plain Python"),
    Counter("graphs", "graphs made by capture"),
    Counter("operations", "calls to JAX captured in those graphs"),
    Counter("breaks", "graph breaks", key="reason"),
    Counter("recompiles", "captures of a frame that had been captured before"),
    Counter("cache_hits", "calls that found a compiled entry whose guards hold"),
    Counter("regions", "graphs compiled, also those that a cache held", key="backend"),
    Counter("kernels", "kernels in those graphs", key="backend"),
    Counter("externs", "operations sent to XLA at a seam", key="reason"),
    Counter("compile_seconds", "seconds spent compiling", key="stage"),
)}

_lock = ForkedLock()
_values: dict[str, dict[str, float]] = {name: {} for name in COUNTERS}
_sources: dict[str, list[Callable[[], int]]] = {}
_baseline: dict[str, int] = {}


def count(name: str, key: str = "", by: float = 1) -> None:
    """Add `by` to the counter `name`, under `key` where its row has keys.

    Raises KeyError for an unknown counter, ValueError where a key is missing or too many.
    """
    if bool(COUNTERS[name].key) != bool(key):
        wanted = f"a key ({COUNTERS[name].key})" if COUNTERS[name].key else "no key"
        raise ValueError(f"counter {name!r} takes {wanted}, got {key!r}")
    with _lock():
        values = _values[name]
        values[key] = values.get(key, 0) + by


@contextlib.contextmanager
def timed(stage: str) -> Iterator[None]:
    """Add the seconds that the block takes to `compile_seconds[stage]`, also when it raises."""
    start = time.perf_counter()
    try:
        yield
    finally:
        count("compile_seconds", stage, time.perf_counter() - start)


def add_source(name: str, read: Callable[[], int]) -> None:
    """Let the plain counter `name` also show what `read()` grows by, from now on."""
    if COUNTERS[name].key:
        raise ValueError(f"counter {name!r} has keys; only a plain one can be read from a source")
    with _lock():
        _sources.setdefault(name, []).append(read)
        _baseline[name] = _baseline.get(name, 0) + read()


def stats() -> dict[str, int | dict[str, float]]:
    """All counters since the last `reset`, in the order of `COUNTERS`; a copy, JSON-able.

    Example:
        >>> import dynacomp, jax.numpy as jnp
        >>> dynacomp.reset()
        >>> f = dynacomp.jit(lambda x: jnp.tanh(x) * 2)
        >>> _ = [f(jnp.ones(n)) for n in (2, 3, 4, 5)]
        >>> dynacomp.stats()["breaks"], dynacomp.stats()["frames_captured"] < 4
        ({}, True)
    """
    with _lock():
        return {name: _shown(counter) for name, counter in COUNTERS.items()}


def reset() -> None:
    """Set every counter to zero."""
    with _lock():
        for values in _values.values():
            values.clear()
        for name, sources in _sources.items():
            _baseline[name] = sum(read() for read in sources)


def _shown(counter: Counter) -> int | dict[str, float]:
    values = _values[counter.name]
    if counter.key:
        return dict(values)
    grown = sum(read() for read in _sources.get(counter.name, ())) - _baseline.get(counter.name, 0)
    return int(values.get("", 0)) + grown
