"""Expressions over sizes and ints, made by Hypothesis, and whether they do compiled what they do plainly.

`programs()` draws the source of a function `f(x, k)` of an array x of shape (n, m) and an int k: a few
expressions of the rows of `GRAMMAR` (arithmetic, comparison, bits, `math`, formatting, shapes, slices), and the
calls to make of it. `differs(program)` makes them plainly and compiled; Python's own numbers are the oracle, to the
last bit and with their types and exceptions.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import math
import re
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

import dynacomp
from tests.changing.kit import outcome, said, short, unlike

HOLE = re.compile(r"<([a-z]+)>")
DEPTH = 2  # holes within holes
EXPRESSIONS = 4  # of one program

GRAMMAR = {
    "int": (
        "n", "n", "m", "k", "len(x)", "x.size", "1", "2", "3", "5", "x.ndim",
        "(<int> + <int>)", "(<int> - <int>)", "(<int> * <int>)", "(<int> // <int>)", "(<int> % <int>)", "(n - <int>)",
        "(<int> ** <small>)", "(<int> & <int>)", "(<int> | <int>)", "(<int> ^ <int>)", "(<int> >> <small>)",
        "(<int> << <small>)", "(-<int>)", "(~<int>)", "abs(<int>)", "min(<int>, <int>)", "max(<int>, <int>, 3)",
        "divmod(<int>, <int>)[0]", "divmod(<int>, <int>)[1]", "pow(<int>, 2, 7)", "int(<num>)", "round(<num>)",
        "math.gcd(<int>, <int>)", "math.isqrt(<int>)", "math.floor(<num>)", "math.ceil(<num>)", "(<int>).bit_length()",
        "sum((<int>, <int>, 1))", "(<int> if <bool> else <int>)", "(<int>, <int>)[<bool>]", "len(<text>)",
        "sum(range(<few>))", "len(range(0, <few>, <int>))", "int(<bool>)", "(<int> or <int>)", "(<int> and <int>)",
        "math.prod(x.shape)", "math.comb(<int>, 2)", "dict(((n, 1), (m, 2))).get(<int>, 7)", "(<int>).bit_count()",
        "int(<text>)"),
    "small": ("0", "1", "2", "3", "n", "(n - 3)", "k"),
    "few": ("n", "(n - 4)", "k", "(<int> % 7)", "(<int> % 5 - 1)", "(n * m)", "n // 2"),
    "leaf": ("n", "m", "k", "n * m", "n - k", "n + 1", "len(x)", "n / 2", "1 / m", "k * 0.5", "n % 3", "x.shape"),
    "num": (
        "<int>", "0.5", "-1.5", "float(<int>)", "(<int> / <int>)", "(<num> + <num>)", "(<num> * <num>)",
        "(<num> / <num>)", "(<num> - <num>)", "(<int> ** -0.5)", "(<num> // <num>)", "(<num> % <num>)", "(<int> * 0.1)",
        "math.sqrt(<num>)", "math.log(<num>)", "math.log2(<int>)", "math.exp(-<int>)", "math.sin(<num>)",
        "math.hypot(<num>, <num>)", "round(<num>, 2)", "max(<num>, <num>)", "abs(<num>)", "math.fabs(<num>)",
        "math.ldexp(0.5, <small>)", "float(<bool>)"),
    "bool": (
        "(<int> < <int>)", "(<int> <= <int> < <int>)", "(<int> == <int>)", "(<int> != <int>)", "(<num> > <num>)",
        "(not <int>)", "(<bool> and <bool>)", "(<bool> or <bool>)", "bool(<int>)", "(<int> in (2, 4, m))",
        "(<num>).is_integer()", "isinstance(<num>, int)", "(n in {4: 1, 5: 2})", "(<text> == '4')",
        "(x.shape == (4, m))"),
    "text": (
        "str(<int>)", "f'{<leaf>}'", "f'{<leaf>!r:>6}|'", "f'{n:>4}|{m:x} {k:+}'", "f'{n / 3:.3f}'", "repr(<num>)",
        "'%d' % <int>", "'ab' * <few>", "hex(<int>)", "bin(<int>)", "'{:+}'.format(<int>)", "format(<int>, '>3')",
        "chr(65 + <few>)", "'%.2f' % <num>", "format(<num>, '.3e')"),
    "numpy": (
        "np.float32(<int>)", "np.log(<int>)", "np.sqrt(<num>)", "np.int32(<few>)", "np.maximum(<int>, <int>)",
        "np.arange(<few>)", "np.prod(x.shape)", "np.ceil(<num>)", "(np.float32(0.5) * <int>)", "np.power(2, <small>)"),
    "array": (
        "x * <num>", "x + <int>", "x.sum() + <int>", "x.sum() * <num>", "jnp.where(x > <num>, x, <int>)", "x[:<int>]",
        "x[<int>:]", "x[<int>]", "x[:, <int>]", "x[:, :<int>]", "x[<int> % 3]", "x.reshape(n * m)", "x.reshape(m, n)",
        "x.reshape(<few>, -1)", "jnp.zeros((<few>, 2))", "jnp.arange(<few>)", "jnp.full((2,), <num>)", "x / <int>",
        "jnp.asarray(<int>)", "jnp.asarray(<num>)", "x.T[:<int>]", "(x.sum() * 0).astype(jnp.int32) + <int>"),
    "value": ("<int>", "<int>", "<num>", "<num>", "<bool>", "<text>", "<numpy>", "<array>", "<array>", "(<int>, <num>)",
              "{<int>: <text>}", "[<int>] * <few>", "list(range(<few>))"),
}
# Few sizes: eager JAX compiles each operation for each of them.
CALLS = tuple((n, m, k) for n, m in ((4, 3), (5, 3), (6, 2), (4, 4), (7, 3), (3, 5), (1, 3), (0, 2))
              for k in (1, 2, 5, 0, -3, 40))


@dataclass(frozen=True)
class Program:
    """The source of a function `f`, and the sizes and ints of its calls."""

    source: str
    calls: tuple[tuple[int, int, int], ...]


@functools.cache
def below(n: int) -> Any:
    return st.integers(0, n - 1)


@functools.cache
def rows(kind: str, flat: bool) -> tuple[str, ...]:
    """The rows of a kind; the flat ones have no holes, or one of ints."""
    return tuple(r for r in GRAMMAR[kind] if not flat or not HOLE.search(r)) or ("n",)


def expression(draw: Any, kind: str, depth: int = 0) -> str:
    options = rows(kind, depth > DEPTH)
    row = options[draw(below(len(options)))]
    return HOLE.sub(lambda hole: expression(draw, hole[1], depth + 1), row)


@st.composite
def programs(draw: Any) -> Program:
    """A function of a few expressions, and six calls of it, the first ones as they come most often."""
    names = [f"v{i}" for i in range(EXPRESSIONS)]
    lines = [f"    {name} = {expression(draw, 'value')}" for name in names]
    source = "\n".join(["def f(x, k):", "    n, m = x.shape", *lines, f"    return {', '.join(names)}, x * 2", ""])
    calls = tuple(CALLS[draw(below(len(CALLS)))] for _ in range(5))
    return Program(source, ((4, 3, 2), *calls))


# --- running them

_SERIAL = itertools.count()


def function(source: str) -> Any:
    """The function of a source, in a file that tracebacks can show."""
    name = f"expressions_{next(_SERIAL)}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"math": math, "np": np, "jnp": jnp, "jax": jax}
    exec(compile(source, name, "exec"), scope)
    return scope["f"]


@functools.cache
def array(n: int, m: int) -> Any:
    return jnp.asarray(np.arange(n * m).reshape(n, m) + 0.5, jnp.float32)


def differs(program: Program, backend: str = "eager") -> str:
    """The first call that differs, in words; "" when none does."""
    dynacomp.reset()
    plain = function(program.source)
    compiled = dynacomp.jit(function(program.source), backend=backend)
    for number, (n, m, k) in enumerate(program.calls, 1):
        want, got = outcome(plain, (array(n, m), k)), outcome(compiled, (array(n, m), k))
        found = unlike(want, got) or inexact(want.value, got.value)
        if found:
            return f"call {number}, n={n}, m={m}, k={k}: {found} {said(want.raised)}"
    defects = dynacomp.stats()["frames_eager"].get("internal", 0)
    return f"{defects} frames ran plainly for a defect of ours" if defects else ""


def inexact(want: Any, got: Any) -> str:
    """Python's own numbers and text are the same to the last bit."""
    for w, g in zip(want or (), got or ()):
        if not isinstance(w, jax.Array) and repr(w) != repr(g):
            return f"{short(g)}, plain {short(w)}"
    return ""
