"""How compiled functions behave, process-wide: `set_stance`.

    with dynacomp.set_stance("fail_on_recompile"):
        serve()
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

import dynacomp.capture._native as _native


@dataclass(frozen=True)
class Stance:
    """One row: whether compiled entries run at all, and whether new ones may be made after the first."""

    runs: bool
    recompiles: bool
    doc: str


STANCES: dict[str, Stance] = {
    "default": Stance(True, True, "capture and compile as needed"),
    "eager": Stance(False, False, "every compiled function runs as plain Python"),
    "fail_on_recompile": Stance(True, False, "a second capture of a function raises RecompileError"),
    "eager_on_recompile": Stance(True, False, "calls that no entry serves run as plain Python"),
}
_current = "default"


def current_stance() -> str:
    return _current


class set_stance:  # noqa: N801 - used as a function
    """Sets the stance at once; as a context manager it restores the one before.

    Raises ValueError for an unknown name.

    Example:
        >>> import dynacomp, jax.numpy as jnp
        >>> with dynacomp.set_stance("eager"):
        ...     dynacomp.jit(lambda x: x + dynacomp.is_compiling())(jnp.ones(2)).tolist()
        [1.0, 1.0]
    """

    def __init__(self, name: str) -> None:
        if name not in STANCES:
            raise ValueError(f"unknown stance {name!r}: expected one of {', '.join(STANCES)}")
        self.before = _current
        _set(name)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        _set(self.before)


def _set(name: str) -> None:
    global _current
    _current = name
    _native.set_enabled(STANCES[name].runs)
