"""Programs with control flow on arrays, run plainly and compiled."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import dynacomp


def same(got: Any, want: Any, rtol: float = 1e-6) -> bool:
    """Trees, types, dtypes, weak types; values up to rounding."""
    a, b = jax.tree.leaves(got), jax.tree.leaves(want)
    return jax.tree.structure(got) == jax.tree.structure(want) and all(
        _same_leaf(x, y, rtol) for x, y in zip(a, b))


def _same_leaf(a: Any, b: Any, rtol: float) -> bool:
    if type(a) is not type(b) or getattr(a, "weak_type", None) != getattr(b, "weak_type", None):
        return False
    if not isinstance(a, jax.Array):
        return bool(a == b)
    return a.dtype == b.dtype and a.shape == b.shape and np.allclose(a, b, rtol=rtol, atol=rtol / 10, equal_nan=True)


def breaks_of(fn: Callable[..., Any], *arguments: Callable[[], tuple], backend: str = "eager",
              rtol: float = 1e-6) -> dict[str, int]:
    """Runs `fn` on fresh arguments plainly and compiled: results and arguments afterwards must be the
    same. Returns the graph breaks."""
    dynacomp.reset()
    compiled = dynacomp.jit(fn, backend=backend)
    for make in arguments:
        ours, theirs = make(), make()
        got, want = compiled(*ours), fn(*theirs)
        assert same(got, want, rtol), (got, want)
        held = [[x for x in arguments if isinstance(x, (list, dict))] for arguments in (ours, theirs)]
        assert same(*held, rtol), held
    assert not dynacomp.stats()["frames_eager"]
    return dynacomp.stats()["breaks"]
