"""Programs that must be one graph: run plainly and compiled, on several inputs, each of them twice. What they return
is compared as it prints: array by array, with dtype and weak type, and in the order of dicts."""

from collections.abc import Callable
from typing import Any

import dynacomp


def outcome(fn: Callable[..., Any], args: tuple) -> Any:
    """What a program returns; of an exception its class and words."""
    try:
        return fn(*args)
    except Exception as error:
        return type(error), str(error)


def check_one_graph(program: Callable[..., Any], *inputs: tuple, captures: int = 1) -> None:
    """The same results as plain Python's, with no graph break and no eager frame, from so many captures."""
    dynacomp.reset()
    compiled = dynacomp.jit(program, backend="eager")
    for args in (*inputs, *inputs):
        want, got = outcome(program, args), outcome(compiled, args)
        assert repr(got) == repr(want)
    stats = dynacomp.stats()
    assert not stats["breaks"] and not stats["frames_eager"]
    assert stats["frames_captured"] == captures


def captured(program: Callable[..., Any], *args: Any) -> Any:
    """The one region that a call is captured as: `.graph` and `.guards`, to look into."""
    found = dynacomp.explain(program, backend="eager")(*args)
    assert not found.breaks, found
    (region,) = found.regions
    return region
