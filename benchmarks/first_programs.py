"""The programs of `first.py`, and what one of its processes does: `python first_programs.py NAME jax|dynacomp`.

A program is a function `run(jit)`, as the models of the framework tests are. It prints one line of JSON: the seconds
that the first calls of all functions took that it wrapped with `jit`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "examples")]

MODELS = {
    "haiku_models": ("mlp_with_dropout", "cnn_batch_statistics", "transformer", "recurrent"),
    "keras_models": ("sequential_stateless",),
    "learning": ("hamiltonian_monte_carlo", "gaussian_process"),
    "linen_models": ("mlp", "cnn", "resnet_batch_statistics", "transformer", "recurrent", "lifted_scan_and_remat"),
    "methods": ("message_passing", "real_nvp", "adversaries_with_two_optimisers", "neural_ode_by_diffrax"),
    "nnx_models": ("mlp_batchnorm_dropout", "cnn_with_metrics", "transformer", "recurrent"),
    "plain_training": ("nano_gpt", "vision_transformer", "resnet_running_statistics", "variational_autoencoder",
                       "lstm_scan_and_gru_loop", "mixture_of_experts", "low_rank_adaptation"),
}
OWN_JIT = {"nnx_models": ("flax.nnx", "jit"), "methods": ("equinox", "filter_jit"),
           "example": ("equinox", "filter_jit")}


def example_gpt(jit: Any) -> Any:
    """A training step of examples/gpt.py, and its logits."""
    gpt, eqx, optax = map(importlib.import_module, ("gpt", "equinox", "optax"))
    model, optimizer = gpt.GPT(jax.random.key(0)), optax.adamw(3e-3)
    state, tokens = optimizer.init(eqx.filter(model, eqx.is_array)), next(gpt.batches(seed=0))
    return jit(gpt.make_step(optimizer))(model, state, tokens), jit(lambda m, x: m(x))(model, tokens[0, 1:])


def small_gpt(name: str, jit: Any) -> Any:
    """One program of small_gpt.py at one length."""
    programs = {p.name: p for p in importlib.import_module("small_gpt").PROGRAMS}
    return jit(programs[name].fn)(*programs[name].args(16))


OWN: dict[str, Callable[[Any], Any]] = {
    "example.gpt": example_gpt,
    "small_gpt.forward": functools.partial(small_gpt, "forward"),
    "small_gpt.train": functools.partial(small_gpt, "train"),
}
NAMES = (*OWN, *(f"{file}.{name}" for file, names in MODELS.items() for name in names))


def program(name: str) -> Callable[[Any], Any]:
    """The function `run(jit)` of a program."""
    if name in OWN:
        return OWN[name]
    file, _, function = name.rpartition(".")
    return getattr(importlib.import_module(f"tests.frameworks.models.{file}"), function)


def plain_jit(name: str) -> Any:
    """What jits this program's functions without us: its framework's own jit."""
    module, attribute = OWN_JIT.get(name.partition(".")[0], ("jax", "jit"))
    return getattr(importlib.import_module(module), attribute)


def cpu() -> float:
    """Seconds of the CPUs: this process, with all its threads, and those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


class First:
    """A `jit` that adds up what the first call of each function took."""

    def __init__(self, wrap: Any) -> None:
        self.wrap, self.clock, self.cpu = wrap, 0.0, 0.0

    def __call__(self, fn: Any) -> Any:
        wrapped, calls = self.wrap(fn), itertools.count()

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.counted() if next(calls) == 0 else contextlib.nullcontext():
                return jax.block_until_ready(wrapped(*args, **kwargs))

        return call

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        clock, used = time.perf_counter(), cpu()
        yield
        self.clock += time.perf_counter() - clock
        self.cpu += cpu() - used


def costs(name: str, contestant: str) -> dict[str, Any]:
    """What the first calls cost; for dynacomp the stages as well (each without those inside it)."""
    run = program(name)
    if contestant == "jax":
        first = First(plain_jit(name))
        run(first)
        return {"clock": first.clock, "cpu": first.cpu}
    dynacomp = importlib.import_module("dynacomp")
    dynacomp.reset()
    first = First(dynacomp.jit)
    at_first: dict[str, float] = {}
    with observed(first, dynacomp, at_first):
        run(first)
    return {"clock": first.clock, "cpu": first.cpu, "stages": at_first}


@contextlib.contextmanager
def observed(first: First, dynacomp: Any, stages: dict[str, float]) -> Iterator[None]:
    """Within the block the stages' seconds are added up over first calls alone."""
    compiler = importlib.import_module("dynacomp.codegen.compiler")
    seconds = {"compiler": 0.0}
    plain_run, plain_counted = compiler.run_together, first.counted

    def run_together(*args: Any) -> Any:
        start = time.perf_counter()
        try:
            return plain_run(*args)
        finally:
            seconds["compiler"] += time.perf_counter() - start

    @contextlib.contextmanager
    def counted() -> Iterator[None]:
        before = {**dynacomp.stats()["compile_seconds"], **seconds}
        with plain_counted():
            yield
        for stage, total in {**dynacomp.stats()["compile_seconds"], **seconds}.items():
            stages[stage] = stages.get(stage, 0) + total - before.get(stage, 0)

    compiler.run_together, first.counted = run_together, counted  # type: ignore[method-assign]
    yield
    # What was timed within another stage belongs to it alone.
    stages["codegen cpp"] = stages.get("codegen cpp", 0) - stages["compiler"]
    if "capture" in stages:  # nothing is, where all was kept
        stages["capture"] -= sum(s for stage, s in stages.items() if stage != "capture")


if __name__ == "__main__":
    print(json.dumps(costs(*sys.argv[1:])))
