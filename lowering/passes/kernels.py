"""Kernels that the program brings for patterns of several operations, and the pass that puts them in.

`REGISTERED` is empty as long as nobody has registered one (`dynacomp.register_kernel`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.graph.graph import Graph
from dynacomp.lowering.passes.patterns import Match, Where, rewrite


@dataclass(frozen=True, eq=False)
class KernelRule:
    """`template` stands for `pattern` where `where` holds; see `patterns.rewrite`."""

    pattern: Callable[..., Any]
    template: Callable[..., Any]
    where: Where | None = None
    example: tuple[Any, ...] | None = None


REGISTERED: list[KernelRule] = []


def use_kernels(graph: Graph) -> Graph:
    """`graph` with every registered kernel put in, the last registered first."""
    for rule in reversed(REGISTERED):
        graph = rewrite(graph, rule.pattern, rule.template, where=rule.where or _alone, example=rule.example)
    return graph


def _alone(match: Match) -> bool:
    return not match.shared
