"""Programs made by Hypothesis: nested control flow over Python values and arrays.

`programs()` draws the source of a module with one function `f(x, y, n, box, items, opts)` from the rows
of `grammar.GRAMMAR`, and the `Call`s to make of it: shapes, dtypes, numbers and aliasing change from
call to call. Most programs run to the end; some raise on purpose, some catch what they raise.
"""

from __future__ import annotations

import functools
import re
import textwrap
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.corpus.grammar import GRAMMAR, HEADER

HOLE = re.compile(r"<([a-z]+)>")
MAX_DEPTH, MAX_EXPRESSION, MAX_LOOPS = 4, 3, 2
INDENT = "    "


@dataclass(frozen=True)
class Call:
    """Arguments: `size` and `dtype` of the arrays, the numbers `n` and `opts['lr']`, the string `box.name`, what is in
    `items`, which arguments are one object, and whether `box`, `items` and `opts` are those of the call before."""

    size: int = 3
    dtype: str = "float32"
    n: Any = 1
    alias: str = ""
    lr: float = 0.5
    name: str = "a"
    items: tuple[Any, ...] = (1,)
    kept: bool = False


@dataclass(frozen=True)
class Generated:
    """The source of a module with a function `f`, and the calls to make of it."""

    source: str
    calls: tuple[Call, ...]


@functools.cache
def below(n: int) -> Any:
    return st.integers(0, n - 1)


@functools.cache
def rows(kind: str, flat: bool) -> tuple[str, ...]:
    """The rows of a kind; the flat ones have only holes whose kinds have no holes."""
    return tuple(r for r in GRAMMAR[kind] if not flat or all(is_terminal(k) for k in HOLE.findall(r)))


def is_terminal(kind: str) -> bool:
    return kind in GRAMMAR and not any(HOLE.search(r) for r in GRAMMAR[kind])


class Writer:
    """Fills holes; `budget` is how many statements may still be written."""

    def __init__(self, draw: Any, budget: int) -> None:
        self.draw, self.budget, self.serial = draw, budget, 0

    def pick(self, options: Any) -> Any:
        return options[self.draw(below(len(options)))]

    def expression(self, kind: str, depth: int = 0) -> str:
        row = self.pick(rows(kind, flat=depth >= MAX_EXPRESSION))
        return HOLE.sub(lambda hole: self.expression(hole[1], depth + 1), row)

    def block(self, depth: int, loops: int) -> str:
        return "\n".join(self.statement(depth, loops) for _ in range(self.pick((1, 2, 3))))

    def statement(self, depth: int, loops: int) -> str:
        self.budget -= 1
        kinds = ["simple", "simple", "simple", *(["leaving"] if loops else [])]
        if self.budget > 0 and depth < MAX_DEPTH:
            kinds += ["compound", "compound", "compound", *(["loop"] if loops < MAX_LOOPS else [])]
        kind = self.pick(kinds)
        if kind == "leaving":
            return f"if {self.expression('test')}:\n{INDENT}{self.expression('leave')}"
        return self.row(self.pick(GRAMMAR[kind]), depth, loops)

    def row(self, text: str, depth: int, loops: int) -> str:
        """A statement's row with its holes filled; blocks take the hole's indentation."""
        self.serial += 1
        serial = str(self.serial)
        return "\n".join(self.filled(line, depth, loops) for line in text.split("\n")).replace("#", serial)

    def filled(self, line: str, depth: int, loops: int) -> str:
        inner = {"block": (depth + 1, loops), "loopblock": (depth + 1, loops + 1), "body": (depth + 1, 0),
                 "innerbody": (MAX_DEPTH, 0)}
        hole = HOLE.fullmatch(line.strip())
        if hole is None or hole[1] not in inner:
            return HOLE.sub(lambda h: self.expression(h[1]), line)
        return textwrap.indent(self.block(*inner[hole[1]]), line[:len(line) - len(line.lstrip())])


def in_module(body: str) -> str:
    """The source of a module whose `f` has this body."""
    return HEADER + textwrap.indent(body, INDENT) + "\n"


SIZES, DTYPES, NUMBERS = (3, 3, 4, 2), ("float32", "float32", "int32", "float16"), (1, 0, 2, 3, 4, True, 2.5)
ALIASES = ("", "", "y is x", "box.value is x", "items is box.kids", "opts.k is items")


RATES, WORDS, KEPT = (0.5, 0.5, 0.25, 1.0, 0.1), ("a", "a", "b", "ab", ""), (False, False, True)
ITEMS = ((1,), (1,), (), (3, 2), (0, 1, 2, 5), (2.5,))


def call(w: Writer) -> Call:
    return Call(*map(w.pick, (SIZES, DTYPES, NUMBERS, ALIASES, RATES, WORDS, ITEMS, KEPT)))


@st.composite
def programs(draw: Any, most: int = 14) -> Generated:
    """A module of at most about `most` statements, and some calls of its function."""
    w = Writer(draw, draw(st.integers(2, most)))
    parts = [w.block(0, 0)]
    while w.budget > 0:
        parts.append(w.statement(0, 0))
    parts.append(f"return {w.expression('result')}")
    return Generated(in_module("\n".join(parts)), tuple(call(w) for _ in range(w.pick((2, 3, 1, 6)))))
