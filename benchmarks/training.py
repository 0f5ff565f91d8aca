"""Peak temporary memory and time of a training step, forward, gradient and Adam in one graph, against jax.jit's.

    python benchmarks/training.py [--filter wide] [--blocks 5]

The model is a GPT of twelve layers. Temporaries are what a step needs beside its arguments and results: the arena
that dynacomp planned (`explain` shows it), what XLA's `memory_analysis` says. Contestants take turns in one process
(see `measure.py`). The exit status is 1 where the loss differs from jax.jit's by more than 1e-3, or where more than
60 % of jax.jit's memory is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from measure import machine, ratio, timed, worst_error
from rich.console import Console
from rich.table import Table
from small_gpt import ADAM, adam_step

import dynacomp

TOLERANCE, MOST_MEMORY = 1e-3, 0.6
LAYERS, HEADS, TOKENS = 12, 4, 512


@dataclass(frozen=True)
class Setting:
    """How wide the model is, and its batch of texts."""

    width: int
    batch: int
    length: int


SETTINGS = {"narrow, much text": Setting(128, 4, 128), "wide, little text": Setting(256, 2, 64)}


def initial(setting: Setting) -> dict[str, Any]:
    """The model's parameters."""
    keys = iter(jax.random.split(jax.random.key(0), 3 + 4 * LAYERS))
    width = setting.width

    def normal(*shape: int) -> jax.Array:
        return jax.random.normal(next(keys), shape) / shape[0] ** 0.5

    return {"tokens": normal(TOKENS, width), "positions": normal(setting.length, width), "head": normal(width, TOKENS),
            "layers": [{"qkv": normal(width, 3 * width), "out": normal(width, width), "scales": jnp.ones((2, width)),
                        "widen": normal(width, 4 * width), "wide": jnp.zeros(4 * width),
                        "narrow": normal(4 * width, width), "bias": jnp.zeros(width)} for _ in range(LAYERS)]}


def normalised(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def attended(layer: Any, x: Any) -> Any:
    batch, time, width = x.shape
    split = (normalised(x) * layer["scales"][0] @ layer["qkv"]).reshape(batch, time, 3, HEADS, width // HEADS)
    q, k, v = split.transpose(2, 0, 3, 1, 4)
    seen = jnp.tril(jnp.ones((time, time), bool))
    scores = jnp.where(seen, q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -jnp.inf)
    return (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ layer["out"]


def forward(params: Any, tokens: Any) -> Any:
    """Logits [batch, time, tokens]."""
    x = params["tokens"][tokens] + params["positions"][:tokens.shape[1]]
    for layer in params["layers"]:
        x = x + attended(layer, x)
        inner = normalised(x) * layer["scales"][1] @ layer["widen"] + layer["wide"]
        x = x + jax.nn.gelu(inner) @ layer["narrow"] + layer["bias"]
    return normalised(x) @ params["head"]


def step(params: Any, state: Any, tokens: Any) -> Any:
    """One step of Adam: parameters, state, loss."""
    return adam_step(forward, params, state, tokens)


@dataclass(frozen=True)
class Found:
    """Bytes of temporaries, how many times as fast as jax.jit, seconds a step, the error of the loss."""

    ours: int
    theirs: int
    speed: float
    seconds: float
    error: float

    @property
    def share(self) -> float:
        return self.ours / self.theirs


def arguments(setting: Setting) -> tuple[Any, ...]:
    params = initial(setting)
    text = jax.random.randint(jax.random.key(1), (setting.batch, setting.length + 1), 0, TOKENS)
    return params, ADAM.init(params), text


def measured(setting: Setting, blocks: int, fn: Callable[..., Any] = step) -> Found:
    """The step under both compilers, with jax.jit's own analysis of its memory."""
    args = arguments(setting)
    explained = dynacomp.explain(fn, dynamic=False)(*args)
    ours, theirs = dynacomp.jit(fn, dynamic=False), jax.jit(fn).lower(*args).compile()
    error = worst_error(ours(*args)[2], theirs(*args)[2])
    times = timed({"ours": lambda: ours(*args), "jit": lambda: theirs(*args)}, blocks)
    arena = sum(int(region.schedule.arena) for region in explained.regions if region.schedule)
    analysis: Any = theirs.memory_analysis()
    return Found(arena, analysis.temp_size_in_bytes, ratio(times["jit"], times["ours"]), min(times["ours"]), error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only settings whose name has this in it")
    parser.add_argument("--blocks", type=int, default=5)
    given = parser.parse_args()
    table = Table("12 layers", "temporaries", "of jax.jit's", "a step", "× jax.jit", "error", title=machine())
    rows = {n: measured(s, given.blocks) for n, s in SETTINGS.items() if given.filter in n}
    for name, f in rows.items():
        table.add_row(name, f"{f.ours / 1e6:.1f} MB", f"{f.share:.0%}", f"{f.seconds * 1e3:.0f} ms", f"{f.speed:.2f}",
                      f"{f.error:.0e}")
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    print(f"wanted: at most {MOST_MEMORY:.0%} of jax.jit's temporaries, and no slower")
    return int(any(f.error > TOLERANCE or f.share > MOST_MEMORY for f in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
