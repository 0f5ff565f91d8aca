"""Interleaved timing of several ways to compute the same thing, in one process.

Contestants take turns in blocks, so that a slow minute of the machine is everyone's; every block warms
up again, and a pause before it lets the threads of the last one go to sleep. A block counts by its
median; a ratio is the median of the ratios within each round of blocks.

    >>> rounds = timed({"a": lambda: jnp.ones(8) + 1, "b": lambda: jnp.ones(8)}, blocks=3)
    >>> len(rounds["a"]), ratio(rounds["a"], rounds["a"])
    (3, 1.0)
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

BLOCKS, BLOCK_SECONDS, PAUSE = 7, 0.02, 0.005
FEWEST, MOST = 3, 200


def timed(contestants: Mapping[str, Callable[[], Any]], blocks: int = BLOCKS) -> dict[str, list[float]]:
    """The median seconds of one call in each block of each contestant, its result waited for."""
    once = {name: _seconds(call, 3) for name, call in contestants.items()}
    counts = {name: max(FEWEST, min(MOST, int(BLOCK_SECONDS / min(s)))) for name, s in once.items()}
    medians: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    for _ in range(blocks):
        for name in order:
            time.sleep(PAUSE)
            _seconds(contestants[name], 2)
            medians[name].append(statistics.median(_seconds(contestants[name], counts[name])))
        order.append(order.pop(0))
    return medians


def ratio(slow: list[float], fast: list[float]) -> float:
    """How many times as long `slow` takes as `fast`: the median over the rounds."""
    return statistics.median(s / f for s, f in zip(slow, fast, strict=True))


def _seconds(call: Callable[[], Any], times: int) -> list[float]:
    out = []
    for _ in range(times):
        start = time.perf_counter()
        jax.block_until_ready(call())
        out.append(time.perf_counter() - start)
    return out


def worst_error(got: Any, expected: Any) -> float:
    """The largest |got - expected| of any leaf, relative to that leaf's largest value.

    Infinite where structure, shape or dtype differ, or where one is NaN and the other is not.
    """
    if jax.tree.structure(got) != jax.tree.structure(expected):
        return float("inf")
    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(expected))
    return max((_error(g, e) for g, e in pairs), default=0.0)


def _error(got: Any, expected: Any) -> float:
    got, expected = jnp.asarray(got), jnp.asarray(expected)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf")
    a, b = (np.asarray(x).astype(np.float64) for x in (got, expected))
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    finite = np.isfinite(a)
    if not finite.any():
        return 0.0
    return float(np.max(np.abs(a - b)[finite]) / max(np.max(np.abs(b[finite])), 1e-30))


def geometric_mean(values: list[float]) -> float:
    """The geometric mean, NaN of nothing."""
    return statistics.geometric_mean(values) if values else float("nan")


def machine() -> str:
    """The processor, its CPUs, and the versions that the timings hold for."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = f"{len(models)} × {models[0]}" if models else platform.processor() or platform.machine()
    return f"{name}, Python {platform.python_version()}, jax {jax.__version__}"
