"""How much runs at once on what will run the kernels: what big folds are divided by.

Results depend on it, on sizes, and on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Enough:
    """Results from which on a fold is not divided, and how many partial results there are to be, between the least and
    the most parts of each."""

    results: int
    partial: int
    least: int
    most: int

    def parts(self, results: int) -> int:
        return max(self.least, min(self.most, self.partial // max(1, results)))


@dataclass(frozen=True)
class Machine:
    """big_fold: elements from which on a fold with few results is divided. lanes: what is enough where neighbouring
    results are neighbours in memory; rows: elsewhere."""

    big_fold: int
    lanes: Enough
    rows: Enough


CPU = Machine(1 << 17, Enough(1024, 0, 64, 64), Enough(8, 0, 64, 64))
GPU = Machine(1 << 16, Enough(1 << 14, 1 << 15, 32, 256), Enough(256, 1024, 16, 1024))
