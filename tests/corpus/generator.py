"""Programs made by Hypothesis: nested control flow over Python values and arrays.

`programs()` draws the source of one function `f(x, y, n, box, items)` whose arguments are two float
arrays, an int, a mutable object and a list, together with arguments for several calls. Statements
are written against a small pool of variables of known kinds, so that most programs run to the end;
some raise on purpose, some catch what they raise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

INTS = ("n", "i", "j")
ARRAYS = ("x", "y", "z")


@dataclass(frozen=True)
class Generated:
    """The source of a function `f`, and the argument tuples `(seed, n)` of its calls."""

    source: str
    calls: tuple[tuple[int, int], ...]


class Writer:
    """Draws statements and writes them with indentation; `budget` bounds the program's size."""

    def __init__(self, draw: Any, budget: int) -> None:
        self.draw, self.budget, self.lines, self.names = draw, budget, [], 0

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(tuple(options)))

    def number(self, low: int = -3, high: int = 6) -> int:
        return self.draw(st.integers(low, high))

    def fresh(self, hint: str) -> str:
        self.names += 1
        return f"{hint}{self.names}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    # --- expressions

    def an_int(self) -> str:
        a, b = self.pick(INTS), self.pick((*INTS, str(self.number())))
        return self.pick(
            (
                str(self.number()),
                a,
                f"({a} + {b})",
                f"({a} * {b})",
                f"({a} - {b})",
                f"({a} % 5)",
                "len(items)",
                "box.count",
                f"abs({a})",
                f"max({a}, {b})",
                "x.shape[0]",
                f"divmod({a}, 3)[1]",
                f"(lambda q: q + {b})({a})",
                f"sum(k for k in range({a} % 4))",
                "int(box.name == 'b')",
            )
        )

    def an_array(self) -> str:
        a, b = self.pick(ARRAYS), self.pick((*ARRAYS, str(self.number()), "0.5", "n", "i"))
        return self.pick(
            (
                a,
                f"({a} + {b})",
                f"({a} * {b})",
                f"({a} - {b})",
                f"jnp.maximum({a}, {b})",
                f"jnp.tanh({a})",
                f"-{a}",
                f"jnp.where({a} > 1, {a}, {b})",
                f"{a}.at[{self.number(0, 2)}].set({self.number()})",
                f"jnp.sum({a}) * y",
                f"({a} / 2)",
                "box.value",
                f"helper({a}, {b})",
                f"jnp.roll({a}, 1)",
            )
        )

    def a_test(self) -> str:
        a, b = self.an_int(), self.an_int()
        return self.pick(
            (
                f"{a} > {b}",
                f"{a} == {b}",
                f"{a} % 2",
                f"not {a}",
                f"{a} in items",
                "items",
                f"0 <= {a} < 5",
                f"{a} > 1 and {b} < 3",
                f"{a} or {b}",
                "box.name == 'a'",
                "x.ndim == 1",
                f"isinstance({self.pick(('n', 'x', 'items'))}, int)",
            )
        )

    def an_array_test(self) -> str:
        return self.pick(
            (f"jnp.sum({self.pick(ARRAYS)}) > {self.number()}", f"{self.pick(ARRAYS)}[0] < {self.number()}")
        )

    # --- statements

    def block(self, depth: int, loops: int) -> None:
        for _ in range(self.draw(st.integers(1, 3))):
            self.statement(depth, loops)

    def statement(self, depth: int, loops: int) -> None:
        self.budget -= 1
        simple = self.budget <= 0 or depth > 4
        row = self.pick(SIMPLE if simple else (*SIMPLE, *COMPOUND))
        row(self, depth, loops)


def _assign_int(w: Writer, depth: int, loops: int) -> None:
    w.line(depth, f"{w.pick(('i', 'j'))} {w.pick(('=', '=', '+=', '-='))} {w.an_int()}")


def _assign_array(w: Writer, depth: int, loops: int) -> None:
    w.line(depth, f"{w.pick(ARRAYS)} {w.pick(('=', '=', '+='))} {w.an_array()}")


def _mutate(w: Writer, depth: int, loops: int) -> None:
    w.line(
        depth,
        w.pick(
            (
                f"items.append({w.an_int()})",
                f"box.count += {w.an_int()}",
                f"box.value = {w.an_array()}",
                "items.reverse()",
                f"box.name = {w.pick(('a', 'b'))!r}",
                f"table[{w.an_int()}] = {w.an_array()}",
                f"items[:] = items[-{w.number(2, 5)}:]",
                f"table.setdefault({w.an_int()}, []) ",
                "bump()",
                f"items.insert(0, {w.an_array()})",
                f"log.add({w.an_int()})",
                "items.extend(log)",
                "table.pop(2, None)",
                f"box.kids.append({w.an_int()})",
                "swap = items, box; items, box = swap",
            )
        ),
    )


def _raise(w: Writer, depth: int, loops: int) -> None:
    w.line(depth, f"if {w.a_test()}:")
    w.line(
        depth + 1,
        w.pick(
            (
                f"raise ValueError({w.an_int()})",
                f"{{}}[{w.an_int()}]",
                f"items[{w.number(5, 9)}]",
                f"1 // ({w.an_int()} % 2)",
                "raise Custom('c', i)",
                "assert i > 2, 'small'",
            )
        ),
    )


def _leave_loop(w: Writer, depth: int, loops: int) -> None:
    if not loops:
        return _assign_int(w, depth, loops)
    w.line(depth, f"if {w.a_test()}:")
    w.line(depth + 1, w.pick(("break", "continue")))


def _branch(w: Writer, depth: int, loops: int) -> None:
    w.line(depth, f"if {w.a_test()}:")
    w.block(depth + 1, loops)
    if w.pick((True, False)):
        w.line(depth, f"elif {w.a_test()}:")
        w.block(depth + 1, loops)
    w.line(depth, "else:")
    w.block(depth + 1, loops)


def _array_branch(w: Writer, depth: int, loops: int) -> None:
    w.line(depth, f"if {w.an_array_test()}:")
    w.block(depth + 1, loops)
    w.line(depth, "else:")
    w.block(depth + 1, loops)


def _for(w: Writer, depth: int, loops: int) -> None:
    if loops > 1:
        return _branch(w, depth, loops)
    k = w.fresh("k")
    w.line(
        depth,
        w.pick(
            (
                f"for {k} in range({w.number(0, 3)}):",
                f"for {k} in list(items)[:3]:",
                f"for {k}, _ in enumerate('ab'):",
                f"for {k} in sorted(log)[:2]:",
                f"for {k} in count({w.number(0, 3)}):",
                f"for {k}, _ in zip(range(3), items):",
            )
        ),
    )
    w.block(depth + 1, loops + 1)
    if w.pick((True, False, False)):
        w.line(depth, "else:")
        w.block(depth + 1, loops)


def _while(w: Writer, depth: int, loops: int) -> None:
    if loops > 1:
        return _branch(w, depth, loops)
    k = w.fresh("w")
    w.line(depth, f"{k} = {w.number(0, 3)}")
    w.line(depth, f"while {k} > 0:")
    w.line(depth + 1, f"{k} -= 1")
    w.block(depth + 1, loops + 1)


def _try(w: Writer, depth: int, loops: int) -> None:
    w.line(depth, "try:")
    w.block(depth + 1, loops)
    w.line(
        depth,
        w.pick(
            (
                "except ValueError as e:",
                "except (KeyError, ZeroDivisionError) as e:",
                "except Exception as e:",
                "except Custom as e:",
            )
        ),
    )
    w.line(
        depth + 1,
        w.pick(
            (
                "seen.append(str(e))",
                "seen.append(type(e).__name__)",
                "raise",
                "raise Custom('from', 1) from e",
                "seen.append(e.args)",
            )
        ),
    )
    if w.pick((True, False)):
        w.line(depth, "finally:")
        w.line(depth + 1, f"seen.append({w.an_int()})")


def _function(w: Writer, depth: int, loops: int) -> None:
    name = w.fresh("g")
    w.line(depth, f"def {name}(a, b={w.number()}):")
    w.line(depth + 1, "nonlocal i, j, x, y, z, items, log, table, box")
    w.block(depth + 1, 0)
    w.line(depth + 1, f"return a + b + {w.an_int()}")
    w.line(depth, f"i = {name}({w.an_int()})")


def _with(w: Writer, depth: int, loops: int) -> None:
    w.line(depth, f"with Noting(seen, swallow={w.pick(('True', 'False'))}) as m:")
    w.block(depth + 1, loops)


def _comprehension(w: Writer, depth: int, loops: int) -> None:
    w.line(
        depth,
        w.pick(
            (
                f"items = [q for q in items if not isinstance(q, int) or q > {w.number()}]",
                f"table = {{k: v for k, v in table.items() if k != {w.number()}}}",
                f"z = sum((x * k for k in range({w.number(1, 3)})), y)",
                f"log |= {{k % 3 for k in range({w.number(0, 4)})}}",
                "j = len([0 for a in items for b in log])",
            )
        ),
    )


SIMPLE = (_assign_int, _assign_array, _mutate, _mutate, _assign_array, _leave_loop, _raise, _comprehension)
COMPOUND = (_branch, _for, _while, _try, _function, _with, _branch, _array_branch)

HEADER = """
def f(x, y, n, box, items):
    i, j, z, log, table, seen = 0, 1, x, set(), {}, []
    def bump():
        nonlocal i
        i += 1
        box.count -= 1
"""


@st.composite
def programs(draw: Any) -> Generated:
    """A function and some calls of it."""
    w = Writer(draw, draw(st.integers(2, 14)))
    w.block(1, 0)
    while w.budget > 0:
        w.statement(1, 0)
    w.line(
        1,
        draw(
            st.sampled_from(
                (
                    "return x, z, i, j, items, seen",
                    "return {'a': [x, y], 'b': table, 'c': sorted(log)}, seen",
                    "return z * i, box, seen",
                )
            )
        ),
    )
    calls = tuple(draw(st.tuples(st.integers(0, 1), st.integers(0, 4))) for _ in range(2))
    return Generated(HEADER + "\n".join(w.lines) + "\n", calls)
