"""Random programs: drawn from the productions by a seed, called ten times plainly and compiled, and made small.

`drawn(seed)` is a Program: the statements of a function `f(x, n, s, flag, name, items, box)`, and the arguments of its
calls, other numbers, texts, sizes each time. `differs(program)` says in words where the compiled function and the
plain one part: results, what they print, raise, change in arguments and globals. `smallest(program)` leaves out
what that does not need.
"""

from __future__ import annotations

import itertools
import linecache
import random
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

import dynacomp
from tests.changing.kit import Outcome, outcome, said, short, unlike
from tests.random_programs import holders, models, productions

HOLE = re.compile(r"<([a-z]+)>")
DEPTH, NESTED = 2, 2  # of expressions in expressions, of statements in statements
PARTS = (productions, models, holders)
HEADER = "".join(part.HEADER for part in PARTS)
KINDS = dict.fromkeys(kind for part in PARTS for kind in part.EXPRESSIONS)
EXPRESSIONS = {kind: sum((part.EXPRESSIONS.get(kind, ()) for part in PARTS), ()) for kind in KINDS}
STATEMENTS = productions.STATEMENTS + 2 * models.STATEMENTS + 2 * holders.STATEMENTS
STATES = ("TOTAL", "SEEN", "TABLE", "STATE", "POOL")  # globals that a program changes
# Which variables serve where a kind is wanted.
SERVES = {"num": ("num", "int"), "any": ("any", "num", "text", "list", "array", "scalar", "bool")}
INTS, NUMBERS = (2, 3, 4, 1, 5, 0, -3, 7, 12, 40), (0.5, 1.5, 2.25, -0.75, 0.0, 3.0, -0.0, 7.5, 1e-3, 60.0)
NAMES, SIZES = ("a", "b", "abc", "k", "", "B"), (3, 4, 5, 3, 6)


@dataclass(frozen=True)
class Call:
    """The arguments of a call, but for those that are made anew."""

    size: int
    n: int
    s: float
    flag: bool
    name: str
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """The statements of `f`, in groups that may be left out, each as a text, and its calls."""

    statements: tuple[str, ...]
    result: tuple[str, ...]
    calls: tuple[Call, ...]

    @property
    def source(self) -> str:
        lines = "\n".join(self.statements) + f"\nreturn [{', '.join(self.result)}]"
        return f"def f(x, n, s, flag, name, items, box):\n{textwrap.indent(lines, '    ')}\n"


# --- drawing


class _Drawing:
    """The variables that are in scope, by kind, while the statements of one program are drawn."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.names = rng, itertools.count()
        self.scope: dict[str, list[str]] = {kind: [] for kind in EXPRESSIONS}

    def expression(self, kind: str, depth: int = 0) -> str:
        known = [name for k in SERVES.get(kind, (kind,)) for name in self.scope[k]]
        if known and self.rng.random() < 0.35:
            return self.rng.choice(known)
        rows = EXPRESSIONS[kind]
        if depth > DEPTH:
            rows = tuple(row for row in rows if not HOLE.search(row)) or rows[:1]
        return self.filled(self.rng.choice(rows), depth)

    def filled(self, row: str, depth: int = 0, nested: int = 0) -> str:
        fill = lambda kind: self.body(nested) if kind == "body" else self.expression(kind, depth + 1)
        return HOLE.sub(lambda hole: fill(hole[1]), row)

    def statement(self, nested: int = 0) -> str:
        kinds, row = self.rng.choice([s for s in STATEMENTS if nested < NESTED or "<body>" not in s[1]])
        names = [f"v{next(self.names)}" for _ in kinds]
        text = self.filled(row.format(*names), nested=nested)
        for kind, name in zip(kinds, names):
            self.scope[kind].append(name)
        return text

    def body(self, nested: int) -> str:
        """A few statements, whose variables are not in scope behind them."""
        before = {kind: list(names) for kind, names in self.scope.items()}
        text = "\n".join(self.statement(nested + 1) for _ in range(self.rng.choice((1, 1, 2))))
        self.scope = before
        return textwrap.indent(text, "    ")


def drawn(seed: int) -> Program:
    rng = random.Random(seed)
    return next(filter(_is_python, (_program(rng) for _ in itertools.count())))


def _is_python(program: Program) -> bool:
    """Whether it compiles: until Python 3.12 a text within a formatted one has other quotes than that."""
    try:
        compile(program.source, "drawn", "exec")
    except SyntaxError:
        return False
    return True


def _program(rng: random.Random) -> Program:
    drawing = _Drawing(rng)
    statements = tuple(drawing.statement() for _ in range(rng.choice((2, 3, 4, 6))))
    result = [name for names in drawing.scope.values() for name in names]
    return Program(statements, (*result, "x * s"), tuple(_call(rng) for _ in range(10)))


def _call(rng: random.Random) -> Call:
    number = lambda: rng.choice(NUMBERS) if rng.random() < 0.7 else rng.choice(INTS)
    return Call(rng.choice(SIZES), rng.choice(INTS), rng.choice(NUMBERS), rng.random() < 0.5, rng.choice(NAMES),
                tuple(number() for _ in range(rng.choice((2, 2, 3)))))


# --- running


class Side:
    """A module with the program's function, and what its calls leave behind."""

    serial = itertools.count()

    def __init__(self, program: Program, compiled: Callable[[Any], Any] = lambda f: f) -> None:
        source = HEADER + program.source
        name = f"random_{next(self.serial)}.py"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        self.scope: dict[str, Any] = {"__name__": __name__}  # dataclasses look there
        exec(compile(source, name, "exec"), self.scope)
        self.f = compiled(self.scope["f"])

    def called(self, call: Call) -> tuple[Outcome, list[Any]]:
        """What a call did, and the arguments and globals after it."""
        items, box = list(call.items), self.scope["Box"](call.s)
        x = jnp.asarray(np.arange(call.size) * 7 % 5 - 1.25, jnp.float32)
        done = outcome(self.f, (x, call.n, call.s, call.flag, call.name, items, box))
        left = [items, box.v, box.count, *map(self.scope.get, STATES)]
        return replace(done, value=self.data(done.value)), self.data(left)

    def data(self, value: Any) -> Any:
        """A result in terms of classes that both sides have."""
        if isinstance(value, dict):
            return {k: self.data(v) for k, v in value.items()} if type(value) is dict else value
        if isinstance(value, self.scope["Pair"]):
            return "Pair", *map(self.data, value)
        if isinstance(value, (self.scope["Layer"], self.scope["Params"])):
            return type(value).__name__, *map(self.data, vars(value).values())
        return type(value)(map(self.data, value)) if type(value) in (list, tuple) else value


def differs(program: Program, **options: Any) -> str:
    """The first call that differs, in words; "" when none does."""
    dynacomp.reset()
    plain, compiled = Side(program), Side(program, lambda f: dynacomp.jit(f, **options))
    for number, call in enumerate(program.calls, 1):
        (want, left), (got, changed) = plain.called(call), compiled.called(call)
        found = unlike(want, got) or inexact(want.value, got.value) or unlike(
            replace(want, value=left), replace(got, value=changed)) or inexact(left, changed)
        if found:
            return f"call {number}, {call}: {found} {said(want.raised)}"
    defects = dynacomp.stats()["frames_eager"].get("internal", 0)
    return f"{defects} frames ran plainly for a defect of ours" if defects else ""


def inexact(want: Any, got: Any) -> str:
    """Python's own numbers are the same to the last bit, and the sign of zero."""
    if isinstance(want, (list, tuple)):
        return next(filter(None, map(inexact, want, got)), "")
    if isinstance(want, dict):
        return inexact(list(want.items()), list(got.items()))
    if isinstance(want, (int, float, complex, str, np.generic)) and repr(want) != repr(got):
        return f"{short(got)}, plain {short(want)}"
    return ""


# --- making small


def smallest(program: Program, fails: Callable[[Program], Any]) -> Program:
    """The program without the statements, results and calls that it fails without."""
    shrunk = True
    while shrunk:
        shrunk = False
        for field in ("statements", "result", "calls"):
            place = 0
            while place < len(getattr(program, field)):
                parts = getattr(program, field)
                less = replace(program, **{field: parts[:place] + parts[place + 1:]})
                if fails(less):
                    program, shrunk = less, True
                else:
                    place += 1
    return program
