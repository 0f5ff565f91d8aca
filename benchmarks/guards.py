"""What a call of a compiled function costs, piece by piece, against `jax.jit` and its like.

    python benchmarks/guards.py            # the whole table, a minute
    python benchmarks/guards.py --quick    # fewer repetitions

A row is a function and its arguments: plain arrays (so many in, so many out), and models of 200 array
leaves and 300 Python attributes (an Equinox module, an NNX module, a dict of arrays with a dict of
settings), each with a computation of a few nanoseconds per leaf. Columns, in µs for one call:

    lookup  binding the arguments and finding the entry of the code object
    guard   evaluating its guards, which read the arguments
    launch  the compiled program: reading inputs, running, making the outputs
    wrap    building what the function returns
    total   a call, as users make it; `rival` the same call under jax.jit, eqx.filter_jit or nnx.jit

The pieces are differences between calls of entries that lack one piece each. Contestants take turns in
short blocks within one process; figures are medians over the blocks, `ratio` the median of each round's.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import nnx
from measure import machine

import dynacomp
from dynacomp.capture import _native as native
from dynacomp.capture import entries

LEAVES, ATTRIBUTES = 200, 300
WARM = 1100  # calls after which nothing changes any more
X = jnp.ones((4, 8))


@dataclass(frozen=True)
class Case:
    """A function with arguments, and what to compare with."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    rival: Callable[..., Any]


# --- cases


def of_arrays(inputs: int, outputs: int) -> Case:
    """A fresh function of so many arrays that returns so many."""
    names = [f"a{i}" for i in range(inputs)]
    results = [f"{names[k % inputs]} * {k + 2}.0" for k in range(outputs)]
    body = " + ".join([*names, "1.0"]) if outputs == 1 else f"({', '.join(results)})"
    namespace: dict[str, Any] = {}
    exec(f"def fn({', '.join(names)}): return {body}", namespace)
    fn = namespace["fn"]
    return Case(f"arrays, {inputs} in, {outputs} out", fn, tuple(X + i for i in range(inputs)), jax.jit(fn))


class Scale(eqx.Module):
    """x ↦ x · weight + bias: two leaves, three attributes."""

    weight: jax.Array
    bias: jax.Array
    name: str = eqx.field(static=True)
    rate: float = eqx.field(static=True)
    enabled: bool = eqx.field(static=True)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x * self.weight + self.bias * self.rate if self.enabled else x


class NnxScale(nnx.Module):
    """The same as an NNX module."""

    def __init__(self, name: str) -> None:
        self.weight, self.bias = nnx.Param(jnp.ones(8)), nnx.Param(jnp.zeros(8))
        self.name, self.rate, self.enabled = name, 1.0, True

    def __call__(self, x: jax.Array) -> jax.Array:
        return x * self.weight[...] + self.bias[...] * self.rate if self.enabled else x


class NnxChain(nnx.Module):
    """NNX modules, one after the other."""

    def __init__(self, layers: list[NnxScale]) -> None:
        self.layers = nnx.List(layers)

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in self.layers:
            x = layer(x)
        return x


def apply_equinox(layers: Sequence[Scale], x: jax.Array) -> jax.Array:
    for layer in layers:
        x = layer(x)
    return x


def apply_nnx(model: NnxChain, x: jax.Array) -> jax.Array:
    return model(x)


def apply_dict(params: dict[str, dict[str, jax.Array]], x: jax.Array) -> jax.Array:
    for layer in params.values():
        x = x * layer["weight"] + layer["bias"] * SETTINGS["rate"]
    return x


SETTINGS = {"rate": 1.0}


def models() -> list[Case]:
    names = [f"layer{k}" for k in range(LEAVES // 2)]
    assert 3 * len(names) == ATTRIBUTES
    layers = [Scale(jnp.ones(8), jnp.zeros(8), name, 1.0, True) for name in names]
    chain = NnxChain([NnxScale(name) for name in names])
    params = {name: {"weight": jnp.ones(8), "bias": jnp.zeros(8)} for name in names}
    x = jnp.ones(8)
    return [
        Case("Equinox module", apply_equinox, (layers, x), eqx.filter_jit(apply_equinox)),
        Case("NNX module", apply_nnx, (chain, x), nnx.jit(apply_nnx)),
        Case("dict of arrays", apply_dict, (params, x), jax.jit(apply_dict)),
    ]


# --- entries that lack a piece


@contextmanager
def recorded_steps() -> Iterator[list[Any]]:
    """The steps of every GuardProgram that a capture makes meanwhile; entries themselves keep none."""
    made: list[Any] = []
    original = entries.GuardProgram

    def recording(steps: Any) -> Any:
        made.append(list(steps))
        return original(steps)

    entries.GuardProgram = recording  # type: ignore[assignment, misc]
    try:
        yield made
    finally:
        entries.GuardProgram = original  # type: ignore[misc]


def with_entry(case: Case, steps: list[Any], program: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A compiled function of the case's parameters whose only entry has these guards and runs `program`."""
    code = case.fn.__code__.replace()
    fn = type(case.fn)(code, case.fn.__globals__)
    native.add_entry(code, native.Entry(native.GuardProgram(steps), program=program, **options))
    return native.CompiledFunction(fn)


def contestants(case: Case) -> dict[str, Callable[[], Any]]:
    """What is timed, by name; `launch` and the entries without a piece come out of a real capture."""
    compiled = dynacomp.jit(case.fn)
    with recorded_steps() as made:
        compiled(*case.args)
    (entry,) = native.entries(case.fn.__code__)
    if entry.program is None:
        raise SystemExit(f"{case.name}: not captured as one program, so that its pieces cannot be told apart")
    arrays = [v for v in jax.tree.leaves(case.args) if isinstance(v, jax.Array)]
    inputs = arrays[:len(entry.info.graph.placeholders)]
    outputs = entry.program(*inputs)
    template = tuple if isinstance(compiled(*case.args), tuple) else None
    shape = [("out", k) for k in range(len(outputs))]
    unguarded = with_entry(case, [], "".format)
    guarded = with_entry(case, made[-1], "".format)
    wrapped = with_entry(case, [], itertools.repeat(outputs).__next__,
                         template=("tuple", shape) if template else shape[0])
    program, args = entry.program, case.args
    return {
        "lookup": lambda: unguarded(*args), "guard": lambda: guarded(*args), "launch": lambda: program(*inputs),
        "wrap": lambda: wrapped(*args), "total": lambda: compiled(*args), "rival": lambda: case.rival(*args),
    }


# --- timing


def timed(calls: dict[str, Callable[[], Any]], blocks: int, seconds: float) -> dict[str, list[float]]:
    """µs of one call, for each block of each contestant."""
    for call in calls.values():
        jax.block_until_ready([call() for _ in range(WARM)][-1])
    counts = {name: max(3, int(seconds / _once(call, 20))) for name, call in calls.items()}
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(blocks):
        for name, call in calls.items():
            spent[name].append(_once(call, counts[name]) * 1e6)
    return spent


def _once(call: Callable[[], Any], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number


def row(case: Case, blocks: int, seconds: float) -> dict[str, float]:
    """The table's figures of one case."""
    spent = timed(contestants(case), blocks, seconds)
    found = {name: statistics.median(values) for name, values in spent.items()}
    found["ratio"] = statistics.median(a / b for a, b in zip(spent["total"], spent["rival"]))
    found["wrap"] -= found["lookup"]
    found["guard"] -= found["lookup"]
    return found


COLUMNS = ("lookup", "guard", "launch", "wrap", "total", "rival", "ratio")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    blocks, seconds = (5, 0.002) if parser.parse_args().quick else (41, 0.004)
    print(machine())
    print(f"{'µs per call':24}" + "".join(f"{name:>9}" for name in COLUMNS))
    arrays = [of_arrays(i, o) for i in (1, 2, 10, 100) for o in (1, 10, 100)]
    for case in [*arrays, *models()]:
        found = row(case, blocks, seconds)
        print(f"{case.name:24}" + "".join(f"{found[name]:>9.2f}" for name in COLUMNS), flush=True)


if __name__ == "__main__":
    main()
