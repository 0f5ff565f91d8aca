"""Random programs over jax.numpy, jax.lax and jax.nn: drawn with a seed, run plainly and compiled, made small.

`draw(seed)` gives a `Program`: lines `v3 = jnp.sum(v1, axis=0)` of the rows of `ROWS`, whose holes are filled with
values at hand that fit, and inputs of sizes and dtypes drawn too. `difference(program)` says where compiled code
differs from eager JAX, which runs line by line; "" if nowhere.

How far apart two right answers may be depends on the program. So the program also runs with each of its values moved
by a few units in the last place: what that changes, other roundings may change as well.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import dynacomp

NAMES = {"jnp": jnp, "jax": jax, "lax": lax, "np": np}
VALUE = re.compile(r"\b[av]\d+\b")
LENGTHS, OTHERS = (1, 8, 17), (9, 33, 0)  # of the first dimension: in the first call, and in later ones
MOST = 20_000  # elements of a value
MOVED, NUDGES, ULPS = 4, 16.0, 8.0  # runs with moved values; times what these move a value, or in its own last place
FLOATS, WHOLE = ("float32", "float16", "bfloat16"), ("int8", "int32", "uint8", "uint32")

ROWS = (  # the kinds of x (float, int, bool), and the line; see HOLES
    ("f", "jnp.{unary}({x})"), ("f", "jax.nn.{activation}({x})"), ("fi", "{x} {arithmetic} {y}"),
    ("fi", "{x} {arithmetic} {number}"), ("i", "{x} {bits} {y}"), ("b", "{x} ^ {y}"), ("fi", "{x} < {y}"),
    ("fi", "jnp.{binary}({x}, {y})"), ("fi", "jnp.where({mask}, {x}, {y})"), ("fib", "{x}.astype({dtype})"),
    ("fi", "jnp.{fold}({x}, axis={axis}, keepdims={flag})"), ("fi", "jnp.{fold}({x}, axis={axis}, initial={number})"),
    ("fi", "jnp.{fold}({x}, where={mask}, initial={number})"), ("f", "jnp.{statistic}({x}, axis={axis})"),
    ("fi", "jnp.{arg}({x}, axis={axis})"), ("f", "jax.nn.{normal}({x}, axis={axis})"), ("fib", "jnp.any({x}, axis=0)"),
    ("fi", "lax.{scan}({x}, axis={nth}, reverse={flag})"), ("fi", "jnp.diff({x}, axis={axis})"),
    ("fib", "{x}.reshape(-1)"), ("fib", "{x}.T"), ("fib", "{x}[{slice}]"), ("fib", "{x}[..., {slice}]"),
    ("fib", "jnp.flip({x}, axis={axis})"), ("fib", "jnp.roll({x}, {few}, axis={axis})"),
    ("fib", "jnp.tile({x}, (2, 1))"),
    ("fib", "jnp.repeat({x}, 2, axis={axis})"), ("fib", "jnp.concatenate([{x}, {same}[:2], {same}], axis=0)"),
    ("fib", "jnp.stack([{x}, {same}], axis=-1)"), ("fib", "jnp.pad({x}, {few_more}, mode='{pad}')"),
    ("fi", "lax.pad({x}, {x}.dtype.type(1), [({few}, {few}, {one})] * {x}.ndim)"), ("fi", "jnp.triu({x}, 1)"),
    ("fib", "{x}[{index}]"), ("fib", "{x}[::2, {index}]"),
    ("fib", "jnp.take({x}, {index}, axis={axis}, mode='{read}')"),
    ("fi", "{x}.at[{index}].{update}({number})"), ("fi", "{x}.at[{index}].{update}({number}, mode='{write}')"),
    ("fi", "{x}.at[{slice}].{update}({number})"), ("fi", "{x}.at[{mask}].set({number})"),
    ("fi", "lax.dynamic_slice_in_dim({x}, {start}, 1, axis={nth})"), ("fi", "jnp.sort({x}, axis={axis})"),
    ("fi", "lax.dynamic_update_index_in_dim({x}, {x}[0], {start}, 0)"), ("fi", "jnp.argsort({x}, axis={axis})"),
    ("fi", "lax.sort(({x}, {same}), dimension=0, num_keys={key})[{one}]"), ("fi", "lax.top_k({x}, 1)[{one}]"),
    ("fi", "{x} @ jnp.swapaxes({same}, -1, -2)"), ("fi", "jnp.einsum('ij,ij->i', {x}, {same})"),
    ("fi", "jnp.outer({x}.ravel()[:5], {y}.ravel()[:7])"), ("fi", "jnp.convolve({x}.ravel(), {same}.ravel()[:3])"),
    ("f", "lax.reduce_window({x}, 0., lax.add, (2,) * {x}.ndim, ({key},) * {x}.ndim, '{padding}')"),
    ("f", "lax.conv_general_dilated({x}.reshape(1, 1, -1), {same}.reshape(-1)[:3].reshape(1, 1, -1), ({key},), "
          "'{padding}', rhs_dilation=({key},))"),
    ("f", "lax.cond(jnp.sum({x}) > 0, lambda t: t * 2, lambda t: t - {same}, {x})"),
    ("f", "lax.fori_loop(0, 3, lambda i, t: t * 0.5 + {same}, {x})"),
    ("fi", "lax.scan(lambda c, t: (jnp.maximum(c, t), c - t), {x}[0], {x}, reverse={flag})[{one}]"),
    ("f", "jax.vmap(lambda a, b: a * jnp.sum(b))({x}, {same})"),
    ("f", "jax.random.uniform(jax.random.key(3), {x}.shape) + {x}"), ("fi", "jnp.arange({x}.shape[0])"),
    ("fi", "jax.ops.segment_sum({x}, jnp.arange({x}.shape[0]) % 3, 4)"),
)
WORDS = {  # what fills a hole whatever x is
    "unary": "sin exp tanh log1p sqrt floor isnan abs square", "activation": "relu gelu silu softplus sigmoid",
    "arithmetic": "+ - *", "bits": "& | ^ << >>", "binary": "maximum minimum", "fold": "sum prod max min",
    "statistic": "mean var std nansum nanmax median", "arg": "argmax argmin", "normal": "softmax log_softmax logsumexp",
    "scan": "cumsum cummax cummin cumprod", "flag": "True False", "few": "-2 -1 0 1 3", "few_more": "1 2 3",
    "one": "0 1", "key": "1 2", "number": "0 1 2 -1 3", "pad": "edge reflect wrap constant", "read": "clip fill wrap",
    "write": "clip drop", "update": "set add max multiply", "padding": "SAME VALID",
    "slice": "::-1 1: :-1 ::2 -2::-1 2:5",
    "dtype": "jnp.float32 jnp.bfloat16 jnp.int8 jnp.int32 jnp.uint8 bool",
}


@dataclass(frozen=True)
class Program:
    """`lines`: (name, expression). `calls`: the inputs of each call, by name. `outputs`: which values it returns."""

    lines: tuple[tuple[str, str], ...]
    calls: tuple[dict[str, jax.Array], ...]
    outputs: tuple[str, ...]

    @property
    def source(self) -> str:
        body = [f"    {name} = {text}" for name, text in self.lines]
        return "\n".join([f"def f({', '.join(self.calls[0])}):", *body, f"    return {', '.join(self.outputs)},\n"])


def kind(x: Any) -> str:
    """"f", "i" or "b"; another letter for what no row takes."""
    return "b" if x.dtype == bool else "i" if jnp.issubdtype(x.dtype, jnp.integer) else (
        "f" if jnp.issubdtype(x.dtype, jnp.floating) else "?")


def array(rng: random.Random, dtype: str, shape: tuple[int, ...], odd: bool) -> jax.Array:
    """Numbers of a dtype; `odd`: some of them are none, infinite, zeros of both signs, or the largest."""
    made = np.random.RandomState(rng.randrange(1 << 30))
    if not dtype.startswith(FLOATS):
        numbers = made.randint(0 if dtype[0] in "bu" else -9, 10, shape)
        return jnp.asarray(numbers % 2 if dtype == "bool" else numbers).astype(dtype)
    numbers = made.randn(*shape)
    strange = made.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 2.5], shape)
    return jnp.asarray(np.where(made.rand(*shape) < 0.15 * odd, strange, numbers)).astype(dtype)


def draw(seed: int, lines: int = 10, calls: int = 3) -> Program:
    """A program of about so many lines, called with several lengths of its first dimension."""
    rng = random.Random(seed)
    dtypes = ["float32", *(rng.choice((*FLOATS, *WHOLE, "bool")) for _ in range(4))]
    specs = [(f"a{k}", dtype, rng.choice(("nm", "n", "m", "")) if k else "nm") for k, dtype in enumerate(dtypes)]
    odd, width = rng.random() < 0.3, rng.choice((1, 4))
    lengths = [rng.choice(LENGTHS), *rng.sample(OTHERS, calls - 1)]
    given = [{name: array(rng, dtype, tuple({"n": n, "m": width}[d] for d in dims), odd) for name, dtype, dims in specs}
             for n in lengths]
    env, made = dict(given[0]), []
    for _ in range(4 * lines):
        kinds, row = rng.choice(ROWS)
        fitting = [name for name in env if kind(env[name]) in kinds]
        text = filled(rng, row, rng.choice(fitting), env) if fitting else None
        value = attempt(text, env) if text else None
        if isinstance(value, jax.Array) and value.size <= MOST and value.ndim < 5 and kind(value) != "?":
            name = f"v{len(made)}"
            made.append((name, text))
            env[name] = value
        if len(made) == lines:
            break
    used = {name for _, text in made for name in VALUE.findall(text)}
    outputs = tuple(name for name, _ in made if name not in used or rng.random() < 0.3)
    return Program(tuple(made), tuple(given), outputs)


def filled(rng: random.Random, row: str, name: str, env: dict[str, jax.Array]) -> str | None:
    """A row with all its holes filled; None where x has no dimension for it."""
    x = env[name]
    if x.ndim == 0 and re.search(r"axis|nth|index|start|slice", row):
        return None
    values = [n for n in env if kind(env[n]) == kind(x) and fits(env[n], x)]
    holes = {
        "x": [name], "y": values, "same": [n for n in values if (env[n].shape, env[n].dtype) == (x.shape, x.dtype)],
        "mask": [f"({name} > 0)", *(n for n in env if kind(env[n]) == "b" and env[n].shape == x.shape)],
        "axis": [*range(-x.ndim, x.ndim)], "nth": [*range(x.ndim)],
        "index": ["jnp.array([0, -1, 3, 0])", "jnp.array([5, 90, -90])", "jnp.array([[1, 2], [0, 7]])",
                  *(n for n in env if kind(env[n]) == "i" and env[n].ndim == 1)],
        "start": ["jnp.int32(-1)", "2", *(n for n in env if kind(env[n]) == "i" and not env[n].ndim)]}
    return re.sub(r"\{(\w+)\}", lambda m: str(rng.choice(holes[m[1]] if m[1] in holes else WORDS[m[1]].split())), row)


def fits(y: jax.Array, x: jax.Array) -> bool:
    """Whether the two broadcast to few elements."""
    try:
        return bool(np.prod(np.broadcast_shapes(y.shape, x.shape)) <= MOST)
    except ValueError:
        return False


def attempt(text: str, env: dict[str, jax.Array]) -> Any:
    """What a line gives; None where JAX refuses it."""
    try:
        return eval(text, {**NAMES, **env})
    except Exception:  # whatever JAX says of arguments that do not fit
        return None


def plainly(program: Program, call: dict[str, jax.Array], nudge: Any = lambda x: x) -> dict[str, Any]:
    """All values of a call of the program, line by line."""
    env: dict[str, Any] = {name: nudge(x) for name, x in call.items()}
    for name, text in program.lines:
        env[name] = nudge(eval(text, {**NAMES, **env}))
    return env


def nudged(seed: int) -> Any:
    """A function that moves floats by up to two units in the last place, and the sign of what is no number."""
    made = np.random.RandomState(seed)

    def nudge(x: jax.Array) -> jax.Array:
        if kind(x) != "f" or x.weak_type:
            return x
        with np.errstate(all="ignore"):
            wide = np.asarray(x, np.float64) * (1 + made.randint(-2, 3, x.shape) * float(jnp.finfo(x.dtype).eps))
        wide = np.where(np.isnan(wide) & (made.rand(*x.shape) < 0.5), -wide, wide)
        return jnp.asarray(wide.astype(x.dtype))

    return nudge


def function(program: Program) -> Any:
    names = dict(NAMES)
    exec(program.source, names)
    return names["f"]


def difference(program: Program) -> str:
    """Where the program, compiled and called as it says, differs from eager JAX."""
    dynacomp.reset()
    compiled = dynacomp.jit(function(program))
    for number, call in enumerate(program.calls):
        wanted = found = error = None
        try:
            wanted = plainly(program, call)
        except Exception as e:  # what JAX says of sizes that do not fit, and the compiled function has to say too
            error = e
        if str(error).startswith("Cannot lower"):  # XLA has no such window of an empty array
            continue
        try:
            found = compiled(*call.values())
        except Exception as e:
            if type(e) is not type(error):
                return f"call {number} raises {type(e).__name__}: {e}; eager: {error!r}"
            continue
        if wanted is None or found is None:
            return f"call {number} does not raise {error!r}"
        for name, got in zip(program.outputs, found):
            if text := unlike(got, wanted[name], []):
                moved = [plainly(program, call, nudged(k))[name] for k in range(MOVED)]
                if text := unlike(got, wanted[name], moved):
                    return f"call {number}, {name}: {text}"
    return ""


def slopes(program: Program) -> str:
    """Where gradients differ: of the compiled function, and of the function, compiled. Values are few and tame here:
    a part of the largest slope is enough."""
    fn, call = function(program), program.calls[0]
    moving = tuple(k for k, x in enumerate(call.values()) if kind(x) == "f")

    if not moving:
        return ""

    def total(f: Any) -> Any:
        return lambda *args: sum(jnp.sum(jnp.tanh(y.astype(jnp.float32))) for y in f(*args) if kind(y) == "f") * 1.0

    wanted = jax.grad(total(fn), moving)(*call.values())
    for gradient in (jax.grad(total(dynacomp.jit(fn)), moving), dynacomp.jit(jax.grad(total(fn), moving))):
        for got, want in zip(gradient(*call.values()), wanted):
            tolerance = 16 * float(jnp.finfo(want.dtype).eps)
            a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
            largest = np.max(np.abs(b), initial=1.0, where=np.isfinite(b))
            if (got.dtype, got.shape) != (want.dtype, want.shape) or not np.allclose(
                    a, b, tolerance, tolerance * largest, equal_nan=True):
                return f"gradient {a} for {b}"
    return ""


def unlike(got: Any, want: jax.Array, moved: list[jax.Array]) -> str:
    """What is wrong with a value, given those of the runs with moved values."""
    if (got.dtype, got.shape, got.weak_type) != (want.dtype, want.shape, want.weak_type):
        return f"{got.dtype, got.shape, got.weak_type} for {want.dtype, want.shape, want.weak_type}"
    exact = kind(want) != "f"
    a, b, *others = (np.asarray(x) if exact else np.asarray(x, np.float64) for x in (got, want, *moved))
    with np.errstate(all="ignore"):
        if exact:
            sure = np.all([x == b for x in others], axis=0) if others else np.ones(b.shape, bool)
            bad = (a != b) & sure
        else:
            spread = np.max([np.abs(x - b) for x in others], axis=0) if others else np.zeros(b.shape)
            unit = np.maximum(np.abs(b), float(jnp.finfo(want.dtype).tiny)) * float(jnp.finfo(want.dtype).eps)
            near = np.abs(a - b) <= NUDGES * spread + ULPS * unit
            alike = [(x == b) | np.isnan(x) & np.isnan(b) for x in (a, *others)]
            steady = np.all([k | np.isfinite(x) & np.isfinite(b) for k, x in zip(alike[1:], others)], axis=0)
            bad = ~near & ~alike[0] & steady
    return f"{got} for {want}" if bad.any() else ""


def smaller(program: Program, differs: Any) -> Program:
    """The program without the lines that it fails without: outputs, then lines as inputs."""
    for name in program.outputs:
        if differs(alone := of_outputs(replace(program, outputs=(name,)))):
            program = alone
            break
    again = True
    while again:
        again = False
        for name, _ in program.lines:
            if name not in program.outputs and (given := as_input(program, name)) is not None and differs(given):
                program, again = given, True
                break
    return program


def of_outputs(program: Program) -> Program:
    """Only what the outputs need."""
    needed = set(program.outputs)
    lines = []
    for name, text in reversed(program.lines):
        if name in needed:
            lines.append((name, text))
            needed |= set(VALUE.findall(text))
    calls = tuple({n: x for n, x in call.items() if n in needed} for call in program.calls)
    return replace(program, lines=tuple(lines[::-1]), calls=calls)


def as_input(program: Program, name: str) -> Program | None:
    """The program that is given a value instead of making it; None where JAX refuses a call."""
    try:
        calls = tuple({**call, name: plainly(program, call)[name]} for call in program.calls)
    except Exception:  # a call that shall raise
        return None
    lines = tuple(line for line in program.lines if line[0] != name)
    return of_outputs(replace(program, lines=lines, calls=calls))
