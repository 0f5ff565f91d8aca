"""Graphs whose arrays live on several devices, or where the program itself puts them.

Eager JAX settles where each result lives operation by operation; XLA, which sees the whole program, may settle
it otherwise. So the first call runs as eager JAX does, and is watched: where its results lie is where the
compiled program must put them. A later call has inputs that lie where those did, for the entry's guards
hold their shardings, so its results lie there too. Each tuple of input shapes has a first call of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import jit as jax_jit  # now: a program may put dynacomp.jit in its place

from dynacomp import notices
from dynacomp.capture.base.interrupts import ours


class PlacedProgram:
    """The program of a Graph; `run` runs the Graph operation by operation, where JAX dispatches each."""

    def __init__(self, run: Callable[..., tuple[Any, ...]], where: tuple[str, int]) -> None:
        self.run, self.where = run, where
        self.compiled: dict[tuple[tuple[int, ...], ...], Callable[..., Any]] = {}

    def __call__(self, *arrays: Any) -> Any:
        shapes = tuple(map(np.shape, arrays))
        program = self.compiled.get(shapes)
        if program is not None:
            return program(*arrays)
        results = self.run(*arrays)
        self.compiled[shapes] = self._compile(arrays, tuple(map(place, results)))
        return results

    def _compile(self, arrays: Any, places: tuple[Any, ...]) -> Callable[..., Any]:
        """One XLA program of the Graph where JAX can make one: its operations may lie on different devices."""
        program = jax_jit(self.run, out_shardings=places)
        try:
            program.lower(*arrays).compile()  # and no more: what is printed has been printed
            return program
        except ours(Exception) as error:
            notices.tell("fallback", *self.where, f"XLA cannot compile it as a whole: {first_line(error)}; "
                         "JAX runs its operations one by one")
            return self.run


def place(x: Any) -> Any:
    """The sharding that a result must have; None where it may live anywhere, as it is not committed to a device.
    (Where there is one device that makes no difference, so that it gets the very same sharding.)"""
    fixed = isinstance(x, jax.Array) and (x.committed or x.devices() == set(jax.local_devices()))
    return x.sharding if fixed else None


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
