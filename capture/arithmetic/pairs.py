"""What is decided by the kinds of two Values: who computes `a + b`, who says whether they are equal.

A table is rows in the order in which they are asked; one is asked where some operand is of the kinds `some` and
both are of the kinds `every`, and may leave the answer to the next by giving None. The last one always has one.

    operands = Pairs(Pair(_of_arrays, some=(ArrayV,)), Pair(_of_numbers, every=(Const, NumberV)), Pair(_of_others))
    found = operands.decide(a, b, cap, op)   # the first answer of row(cap, op, a, b)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.values.value import Value


@dataclass(frozen=True)
class Pair:
    """Who is asked about two Values of these kinds."""

    row: Callable[..., Any]
    some: tuple[type, ...] = (Value,)
    every: tuple[type, ...] = (Value,)

    def asked(self, kinds: tuple[type, type]) -> bool:
        return any(issubclass(k, self.some) for k in kinds) and all(issubclass(k, self.every) for k in kinds)


class Pairs:
    """A table of them."""

    def __init__(self, *table: Pair) -> None:
        self.table = table
        self._rows: dict[tuple[type, type], list[Callable[..., Any]]] = {}

    def decide(self, a: Value, b: Value, *before: Any) -> Any:
        """The first answer of `row(*before, a, b)`; LookupError where no row has one."""
        kinds = type(a), type(b)
        rows = self._rows.get(kinds)
        if rows is None:
            rows = self._rows[kinds] = [p.row for p in self.table if p.asked(kinds)]
        for row in rows:
            found = row(*before, a, b)
            if found is not None:
                return found
        raise LookupError(f"no answer for {kinds[0].__name__} and {kinds[1].__name__}")
