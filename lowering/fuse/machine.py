"""What the division of big folds among threads goes by: how much runs at once on what will run the kernels.

Results depend on it, on sizes, and on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """big_fold: elements from which on a fold is divided, where it has few results: less than `lanes` where
    neighbouring results are neighbours in memory, else than `rows`. lane_blocks, row_blocks: into how many parts."""

    big_fold: int
    lanes: int
    rows: int
    lane_blocks: int
    row_blocks: int


CPU = Machine(1 << 17, 1024, 8, 64, 64)
GPU = Machine(1 << 16, 1 << 14, 256, 32, 1024)
