"""JAX's settings that hold inside a `with` statement: `with jax.default_matmul_precision("float32"):`.

While the statement runs, what leaves it lies on its frame's stack (`SettingV`), as Python's own `__exit__` does: what
holds is read from there, and there is nothing to take back when an exception or a break leaves the statement. What is
asked of JAX meanwhile is asked under these settings (`holding`), and the nodes of the Graph carry them (`Under`), since
the Graph is traced when nothing is set any more. Where the graph breaks inside the statement, Python enters it.

Settings are rows here when they say what JAX traces, or refuses. Others change which arrays there may be
(`enable_x64`), what becomes of a trace later (`threefry_partitionable`), or how all of JAX runs (`debug_nans`): those
statements break the graph.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jax._src import config

from dynacomp.capture.symbolic.libraries import label
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.callables import SettingV
from dynacomp.capture.values.computed import LibraryV

SETTINGS = ("jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion",
            "jax_default_prng_impl", "jax_legacy_prng_key", "jax_softmax_custom_jvp")
STATES: dict[str, Any] = {name: config.config_states[name] for name in SETTINGS if name in config.config_states}
MANAGER: Any = type(config.default_matmul_precision("float32"))
Held = tuple[tuple[str, Any], ...]


def setting_of(manager: LibraryV) -> tuple[str, Any] | None:
    """The name and the value of the setting that a context manager brings, if it is one of SETTINGS."""
    real = manager.real
    if type(real) is not MANAGER or not manager.fixed:
        return None
    name: str = real.state.name
    return (name, real.new_val) if STATES.get(name) is real.state else None


def held(cap: Capture) -> Held:
    """The settings that hold here, outermost first."""
    if not cap.libraries.sets:
        return ()
    frames, frame = [], cap.current
    while frame is not None:
        frames.append(frame)
        frame = frame.parent
    return tuple(v.setting for f in reversed(frames) for v in f.stack if type(v) is SettingV)


@contextlib.contextmanager
def _holding(settings: Held) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, value in settings:
            stack.enter_context(STATES[name](value))
        yield


def holding(settings: Held) -> contextlib.AbstractContextManager[None]:
    """A context in which these settings hold."""
    return _holding(settings) if settings else contextlib.nullcontext()


@dataclass(frozen=True)
class Under:
    """The target of a node: a function that is called under settings."""

    fn: Any
    settings: Held

    @property
    def __name__(self) -> str:
        return label(self.fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with holding(self.settings):
            return self.fn(*args, **kwargs)


def under(cap: Capture, fn: Any) -> Any:
    """`fn` as the target of a node made here."""
    settings = held(cap)
    return Under(fn, settings) if settings else fn
