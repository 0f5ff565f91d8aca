"""What a call of a compiled function costs before the compiled program starts, piece by piece.

    python benchmarks/guards.py

One column per number of array arguments. Each row adds one piece to the row above: binding and lookup
in the cache, reading the arguments, their guards (shape, dtype, weak type, sharding), the guard on
JAX's configuration, and passing the arguments to a program (a C function that does nothing). The last
rows are `jax.jit` of a function that returns one of its arguments. Contestants take turns in blocks
within one process; a figure is the median over the blocks.
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from dynacomp.capture import _native as native

COUNTS, BLOCKS, NUMBER = (1, 10, 50), 9, 2000
NOTHING: Callable[..., Any] = "".format  # takes any arguments, looks at none


def function_of(n: int) -> Callable[..., Any]:
    """A fresh Python function of n parameters, so that each contestant has its own cache."""
    namespace: dict[str, Any] = {}
    exec(f"def fn({', '.join(f'a{i}' for i in range(n))}): return a0", namespace)
    return namespace["fn"]


def compiled(n: int, steps: list[tuple[Any, ...]], inputs: range = range(0)) -> Callable[..., Any]:
    """A CompiledFunction of n parameters whose only entry has these guards."""
    fn = function_of(n)
    native.add_entry(fn.__code__, native.Entry(native.GuardProgram(steps), program=NOTHING, inputs=inputs))
    return native.CompiledFunction(fn)


def array_guards(x: jax.Array, n: int) -> list[tuple[Any, ...]]:
    return [("array", i, x.shape, x.dtype, x.aval.weak_type, x.sharding) for i in range(n)]


def contestants(n: int, x: jax.Array) -> dict[str, Callable[..., Any]]:
    """Label → callable of n arrays, each row with one piece more than the last."""
    config = ("jax_config", native.jax_config_token())
    read = [("local", i, i) for i in range(n)]
    checked = [*read, *array_guards(x, n)]
    return {
        "bind and look up": compiled(n, []),
        "+ read the arguments": compiled(n, read),
        "+ guard the arrays": compiled(n, checked),
        "+ guard the configuration": compiled(n, [config, *checked]),
        "+ launch (all together)": compiled(n, [config, *checked], range(n)),
        "jax.jit": jax.jit(function_of(n)),
    }


def nanoseconds(calls: dict[str, Callable[..., Any]], args: tuple[Any, ...]) -> dict[str, float]:
    """The median over interleaved blocks of one call's time."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call(*args)
    for _ in range(BLOCKS):
        for name, call in calls.items():
            spent[name].append(timeit.timeit(lambda call=call: call(*args), number=NUMBER) / NUMBER * 1e9)
    return {name: statistics.median(times) for name, times in spent.items()}


def main() -> None:
    x = jnp.ones((4, 8))
    columns = {n: nanoseconds(contestants(n, x), tuple(x + i for i in range(n))) for n in COUNTS}
    print(f"{'ns per call, by arrays':28}" + "".join(f"{n:>10}" for n in COUNTS))
    for name in columns[COUNTS[0]]:
        print(f"{name:28}" + "".join(f"{columns[n][name]:>10.0f}" for n in COUNTS))


if __name__ == "__main__":
    main()
