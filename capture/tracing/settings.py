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
from typing import Any, cast

import jax
from jax._src import config

from dynacomp.capture.symbolic.libraries import label
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.tracing.failures import calls_out
from dynacomp.capture.values.callables import SettingV
from dynacomp.capture.values.computed import LibraryV
from dynacomp.capture.values.containers import TupleV

SETTINGS = ("jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion",
            "jax_default_prng_impl", "jax_legacy_prng_key", "jax_softmax_custom_jvp")
STATES: dict[str, Any] = {name: config.config_states[name] for name in SETTINGS if name in config.config_states}
MANAGER: Any = type(config.default_matmul_precision("float32"))
ENTER, EXIT = MANAGER.__enter__, MANAGER.__exit__
_NAMES = (*getattr(config, "trace_context_names", tuple)(), "jax_debug_nans", "jax_debug_infs", "jax_disable_jit",
          "jax_check_tracer_leaks", *SETTINGS)
GUARDED: dict[str, Any] = {name: config.config_states[name] for name in _NAMES if name in config.config_states}
Held = tuple[tuple[str, Any], ...]


def setting_of(cap: Capture, manager: LibraryV) -> tuple[str, Any] | None:
    """The name and the value of the setting that a context manager brings, if the graph may stand below it."""
    real = manager.real
    if type(real) is not MANAGER or not manager.fixed:
        return None
    name: str = real.state.name
    if STATES.get(name) is not real.state and not _holds(cap, real):
        return None
    return name, real.new_val


def _holds(cap: Capture, manager: Any) -> bool:
    """Whether what a context manager brings is so anyway, as the guards of every entry say."""
    name, value = manager.state.name, manager.new_val
    if name not in GUARDED or GUARDED[name] is not manager.state:
        return False
    now = dict(held(cap)).get(name, manager.state.value)
    if name == "jax_default_device" and now is None:
        return value is None or value is jax.local_devices()[0]
    return type(now) is type(value) and bool(now == value)


def held(cap: Capture) -> Held:
    """The settings that hold here, outermost first."""
    if not cap.libraries.sets:
        return ()
    found, frame = [(serial, setting) for _, serial, setting in entered(cap)], cap.current
    while frame is not None:
        found += [(v.serial, v.setting) for v in frame.stack if type(v) is SettingV]
        frame = frame.parent
    return tuple(setting for _, setting in sorted(found, key=lambda one: one[0]))


def enter_setting(args: Any, kwargs: Any) -> None:
    """An effect: a context manager of a setting of JAX's is entered, by other than a `with` statement."""
    args[0].__enter__()


def leave_setting(args: Any, kwargs: Any) -> None:
    """An effect: such a context manager is left."""
    args[0].__exit__(None, None, None)


def entered(cap: Capture) -> list[tuple[LibraryV, int, tuple[str, Any]]]:
    """The context managers that side effects enter and have not left, when each is entered (see `Value.serial`), and
    the settings they bring."""
    found: list[tuple[LibraryV, int, tuple[str, Any]]] = []
    for effect in cap.effects.calls:
        if effect.act is enter_setting:
            given = cast(TupleV, effect.operands[0])
            manager = given.items[0]
            found.append((manager, given.serial, (manager.real.state.name, manager.real.new_val)))
        elif effect.act is leave_setting:
            del found[-1:]
    return found


@contextlib.contextmanager
def _holding(settings: Held) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, value in settings:
            stack.enter_context(GUARDED[name](value))
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

    @calls_out
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with holding(self.settings):
            return self.fn(*args, **kwargs)


def traced_under(cap: Capture) -> Held:
    """The settings that what is made here is made under, wherever that happens."""
    return tuple(one for one in held(cap) if one[0] in STATES)


def under(cap: Capture, fn: Any) -> Any:
    """`fn` as the target of a node made here."""
    settings = traced_under(cap)
    return Under(fn, settings) if settings else fn


def maker(value: LibraryV) -> Any:
    """What makes a library's object, under the settings that held where the program made it."""
    return Under(value.make, value.settings) if value.settings else value.make
