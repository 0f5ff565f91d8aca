"""Programs that call Python: where such a function raises, the whole call runs as plain Python instead.

Eager JAX runs each operation by itself: whoever called that one may catch what it raised and raise something else
(`equinox.error_if` says which check of the user's failed). XLA says of a whole program that a callback failed. A
region runs before anything of its frame has happened, and what it calls is pure: `jax.pure_callback` allows that it is
called once more. So the frame starts again, plainly, and raises what eager JAX does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynacomp import notices
from dynacomp.capture._native import RunPlainly
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.graph.graph import Graph
from dynacomp.capture.tracing.abstract_evaluation import calls_back
from dynacomp.lowering.primitives.control import bodies
from dynacomp.lowering.primitives.ops import OPS


def may_raise(graph: Graph | None) -> bool:
    """Whether a primitive Graph calls Python, in the bodies of its loops and branches too."""
    return graph is not None and any(
        node.target is OPS["extern"] and calls_back(node.kwargs["jaxpr"].jaxpr)
        or any(map(may_raise, bodies(node.kwargs))) for node in graph.calls)


CALLBACK = "allback"  # in what XLA says where a function that it called has raised


def giving_up(program: Callable[..., Any], file: str, line: int) -> Callable[..., Any]:
    """`program`, or plain Python where that fails; what is not the callback's exception is told."""
    def run(*arrays: Any) -> Any:
        try:
            found = program(*arrays)
            for x in found:  # JAX's function of trees takes as long as a small program
                x.block_until_ready()
            return found
        except ours(Exception) as error:  # XLA's, or what a seam makes of it
            if CALLBACK not in str(error):
                notices.tell("fallback", file, line, f"{type(error).__name__} in a compiled region: {error}; the call "
                             "runs as plain Python")
            raise RunPlainly from error

    run.may_restart = True  # type: ignore[attr-defined]
    run.inner = getattr(program, "inner", program)  # type: ignore[attr-defined]
    return run
