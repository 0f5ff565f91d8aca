"""How a framework's training step is compared: a few steps plainly and compiled, losses and state the same."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dynacomp
from dynacomp.capture import frame

X = jax.random.normal(jax.random.key(0), (8, 4))
Y = jnp.sin(X.sum(1, keepdims=True))


def train(step: Callable[..., Any], state: Any, steps: int) -> Any:
    """The last state and all losses of `step(state) -> (state, loss)`."""
    losses = []
    for _ in range(steps):
        state, loss = step(state)
        losses.append(loss)
    return state, losses


def trains(step: Callable[..., Any], start: Callable[[], Any], *, steps: int = 4, backend: str = "xla",
           breaks: dict[str, int] | None = None) -> dict[str, Any]:
    """Trains plainly and compiled from equal states; the counters of the compiled run."""
    frame.strict_errors = True
    want = train(step, start(), steps)
    dynacomp.reset()
    got = train(dynacomp.jit(step, backend=backend), start(), steps)
    left, right = jax.tree.leaves(want), jax.tree.leaves(got)
    assert len(left) == len(right)
    for a, b in zip(left, right):
        close(a, b)
    stats = dynacomp.stats()
    assert stats["breaks"] == (breaks or {}) and stats["graphs"] >= 1
    assert not set(stats["frames_eager"]) - {"traced"}
    return stats


def close(a: Any, b: Any) -> None:
    if isinstance(a, jax.Array) and jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    if not isinstance(a, (jax.Array, np.ndarray, float)):
        assert a == b
        return
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
