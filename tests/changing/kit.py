"""Functions whose sizes and numbers change from call to call: how one is declared, run and compared.

An entry is a function in `tests/changing/entries/`, registered with `@entry`, and the arguments of its
calls. It runs as plain Python and under `dynacomp.jit`, call by call, on equal fresh arguments: results
(values within the dtype's tolerance, dtypes, weak types, shapes, Python types), exceptions (type and
message) and printed text must be the same. No call may end in plain Python, and each code object may be
captured three times at most, however many calls follow.

Only the public names of dynacomp are used here.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import itertools
import math
import pkgutil
import re
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dynacomp
from tests.changing import entries

SIZES = (4, 5, 6, 7, 3, 9, 12, 8, 5, 16)
CAPTURES = 3
# What a change of size or number may not lead to. Other reasons ("effect", "leaves", "branch", "concrete",
# "raises") say what the program itself asks for.
NO_EXCUSE = {"argument", "attempts", "attribute", "call", "guards", "hash", "identity", "internal", "iterator", "limit",
             "live", "objects", "opaque", "operator", "resume", "scalar", "scalar_branch", "scalar_constant", "stance",
             "store", "tracer"}
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "complex64": 2e-5}
ADDRESS = re.compile(r"0x[0-9a-f]+|object id \d+")
ALL = ("grad", "vmap", "jacfwd", "break", "grad of break")


def vec(n: int) -> jax.Array:
    """n positive numbers that are not in order."""
    return jnp.asarray(1 + np.arange(n) * 7 % 5 + np.arange(n) / 16, jnp.float32)


def mat(n: int, m: int) -> jax.Array:
    return vec(n * m).reshape(n, m)


def ints(n: int) -> jax.Array:
    return jnp.asarray(np.arange(n) * 7 % 5, jnp.int32)


def well(n: int) -> jax.Array:
    """An n x n matrix that is well conditioned."""
    return mat(n, n) / 8 + 4 * jnp.eye(n)


def one_vector(n: int) -> tuple[Any, ...]:
    return (vec(n),)


@dataclass(frozen=True)
class Entry:
    """One function. calls: for each call what makes its arguments. state: makes an object that all calls get as their
    last argument. variants: which of `variants.VARIANTS` it has. options: of `dynacomp.jit`. captures: how often
    each code object may be captured; frames: how many code objects it has, those after its breaks counted."""

    name: str
    fn: Callable[..., Any]
    calls: tuple[Callable[[], tuple[Any, ...]], ...]
    state: Callable[[], Any] | None = None
    variants: tuple[str, ...] = ALL
    options: dict[str, Any] = field(default_factory=dict)
    captures: int = CAPTURES
    frames: int = 1


ENTRIES: list[Entry] = []


def entry(args: Callable[..., tuple[Any, ...]] = one_vector, over: Iterable[Any] = SIZES, *, state: Any = None,
          variants: tuple[str, ...] = ALL, captures: int = CAPTURES, frames: int = 1, **options: Any) -> Any:
    """Registers an entry: `args(size)`, or `args(*sizes)`, makes the arguments of the call for each one of `over`."""
    def register(fn: Any) -> Any:
        calls = tuple(functools.partial(args, *(s if isinstance(s, tuple) else (s,))) for s in over)
        name = f"{fn.__module__.rpartition('.')[2]}.{fn.__name__}"
        ENTRIES.append(Entry(name, fn, calls, state, variants, options, captures, frames))
        return fn
    return register


def load() -> list[Entry]:
    """Every entry, in the order of the files."""
    for module in sorted(m.name for m in pkgutil.iter_modules(entries.__path__)):
        importlib.import_module(f"{entries.__name__}.{module}")
    return ENTRIES


# --- what a call did, and where two of them differ


@dataclass(frozen=True)
class Outcome:
    """What one call did."""

    value: Any
    raised: BaseException | None
    out: str


def outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> Outcome:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            return Outcome(fn(*args), None, out.getvalue())
        except Exception as error:
            return Outcome(None, error, out.getvalue())


def unlike(want: Outcome, got: Outcome) -> str:
    """How `got` differs from `want`, in words; "" where it does not."""
    if said(want.raised) != said(got.raised):
        return f"raised {said(got.raised) or short(got.value)}, plain {said(want.raised) or short(want.value)}"
    if want.out != got.out:
        return f"printed {got.out!r}, plain {want.out!r}"
    return next(parts(want.value, got.value, ""), "")


def said(error: BaseException | None) -> str:
    if isinstance(error, RecursionError):  # never meant: where it was
        frames = traceback.extract_tb(error.__traceback__)[-12:]
        return f"RecursionError at {[f'{f.filename}:{f.lineno} {f.name}' for f in frames]}"
    return "" if error is None else f"{type(error).__name__}: {ADDRESS.sub('...', str(error))[:400]}"


def short(value: Any) -> str:
    return repr(value)[:80]


def parts(want: Any, got: Any, at: str) -> Iterable[str]:
    """The differences of two results, part by part."""
    if type(want) is not type(got):
        yield f"result{at} is a {type(got).__name__} ({short(got)}), plain a {type(want).__name__} ({short(want)})"
    elif isinstance(want, (jax.Array, np.ndarray, np.generic)):
        yield from arrays(want, got, at)
    elif isinstance(want, dict):
        yield from parts(list(want.items()), list(got.items()), at)
    elif isinstance(want, (list, tuple)):
        if len(want) != len(got):
            yield f"result{at} has {len(got)} items, plain {len(want)}"
        for i, (w, g) in enumerate(zip(want, got)):
            yield from parts(w, g, f"{at}[{i}]")
    elif isinstance(want, float):
        if want != got and not math.isclose(want, got, rel_tol=1e-5) and not (want != want and got != got):
            yield f"result{at} is {got!r}, plain {want!r}"
    elif want != got:
        yield f"result{at} is {short(got)}, plain {short(want)}"


def arrays(want: Any, got: Any, at: str) -> Iterable[str]:
    kinds = [(str(a.dtype), a.shape, getattr(a, "weak_type", None)) for a in (want, got)]
    if kinds[0] != kinds[1]:
        yield f"result{at} is {kinds[1]}, plain {kinds[0]} (dtype, shape, weak type)"
    elif jnp.issubdtype(want.dtype, jax.dtypes.prng_key):
        yield from arrays(jax.random.key_data(want), jax.random.key_data(got), at)
    elif not same_numbers(np.asarray(want), np.asarray(got)):
        yield f"result{at} is {np.asarray(got).ravel()[:8]}, plain {np.asarray(want).ravel()[:8]}"


def same_numbers(want: np.ndarray, got: np.ndarray) -> bool:
    """Equal, but for rounding where they are not whole numbers."""
    if np.array_equal(want, got) or want.size == 0:
        return True
    if want.dtype.kind in "biuSU":
        return False
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = want.astype(wide), got.astype(wide)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = max(1e-6, float(np.max(np.abs(a[finite]), initial=0)))
    return float(np.max(np.abs(a - b)[finite], initial=0)) <= scale * TOLERANCE.get(str(want.dtype), 1e-6)


# --- rounding


def as_near(fn: Callable[..., Any], args: tuple[Any, ...], want: Outcome, got: Outcome) -> bool:
    """Whether a result that differs by rounding is right: against 64 bits it errs no more than twice as much as plain
    Python's. What cancels (the derivative of a matrix by its own inverse, of a sum of probabilities) has no digits
    that two ways of rounding share."""
    if want.raised or got.raised or want.out != got.out:
        return False
    leaves, structures = zip(*map(jax.tree.flatten, (want.value, got.value)))
    arrays = [[np.asarray(x) for x in held if isinstance(x, jax.Array)] for held in leaves]
    if structures[0] != structures[1] or [len(a) for a in leaves] != [len(a) for a in arrays] or any(
            w.dtype != g.dtype or w.shape != g.shape or w.dtype.kind != "f" for w, g in zip(*arrays)):
        return False
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda x: x.astype("float64") if getattr(x, "dtype", None) == np.float32 else x, args)
        exact = [np.asarray(x, np.float64) for x in jax.tree.leaves(outcome(fn, wide).value)]
    if [x.shape for x in exact] != [w.shape for w in arrays[0]]:
        return False
    return all(error(g, x) <= 2 * error(w, x) + 1e-6 * float(np.max(np.abs(x), initial=0))
               for w, g, x in zip(*arrays, exact))


def error(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest error of an array; infinite where one of them is no number."""
    difference = np.abs(found.astype(np.float64) - exact)
    return float(np.max(difference, initial=0)) if np.all(np.isfinite(difference)) else math.inf


# --- one entry


@dataclass
class Result:
    """What came of an entry. wrong: the first call that differs. plain: what ran as plain Python, by reason.
    captures: of all its frames; codes: how many code objects those are at most; allowed: captures of each."""

    name: str
    wrong: str = ""
    plain: dict[str, float] = field(default_factory=dict)
    captures: int = 0
    codes: int = 1
    allowed: int = CAPTURES
    crash: str = ""
    seconds: float = 0.0

    @property
    def many(self) -> bool:
        return self.captures > self.allowed * self.codes

    @property
    def bad(self) -> bool:
        return bool(self.wrong or self.plain or self.crash or self.many)


def run(e: Entry, backend: str = "auto") -> Result:
    """Runs an entry plainly and compiled, call by call. Nothing is recalled from disk: many entries share the code of
    a variant, where captures that break at the call of another function would serve."""
    dynacomp.reset()
    compiled = dynacomp.jit(e.fn, backend=backend, **{**e.options, "options": {"recall": False}})
    states = [() if e.state is None else (e.state(),) for _ in range(2)]
    result = Result(e.name, allowed=e.captures, codes=e.frames)
    for number, args in enumerate(e.calls, 1):
        want = outcome(e.fn, args() + states[0])
        got = outcome(compiled, args() + states[1])
        difference = unlike(want, got)
        if difference and not as_near(e.fn, args() + states[0], want, got):
            result.wrong = result.wrong or labelled(difference, number, args)
    count(result, dynacomp.stats())
    return result


def labelled(difference: str, number: int, args: Any) -> str:
    return difference and f"call {number} {args.args}: {difference}"


def count(result: Result, stats: dict[str, Any]) -> None:
    """Captures and what ran plainly; a code object's first capture is no recompile."""
    result.captures = stats["frames_captured"]
    result.codes = max(1, min(result.codes, stats["frames_captured"] - stats["recompiles"]))
    for reason, times in itertools.chain(stats["frames_eager"].items(), stats["breaks"].items()):
        if reason in NO_EXCUSE:
            result.plain[reason] = result.plain.get(reason, 0) + times
