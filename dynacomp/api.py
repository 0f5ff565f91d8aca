"""`dynacomp.jit` and its companions: the public way in.

`jit(fn)` returns a C callable that behaves like `fn`. A call whose guards hold enters the compiled
program at once; any other goes to `misses.on_miss`.
"""

from __future__ import annotations

import copyreg
import functools
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

import jax

from dynacomp import ahead, callers, counters, misses, notices
from dynacomp.capture import _native
from dynacomp.capture.base.errors import Break
from dynacomp.capture.bodies.placement import jit_places
from dynacomp.capture.calls.calls import BUILTINS, USER_RULES
from dynacomp.capture.calls.user_rules import allow_in_graph, assume_constant_result, substitute
from dynacomp.capture.symbolic.libraries import is_library
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import Const, stands_for
from dynacomp.capture.values.value import Value
from dynacomp.codegen.backends import BACKENDS
from dynacomp.donation import Donated, DonatingFunction, donated, donating
from dynacomp.driver.foreign import FOREIGN, is_foreign
from dynacomp.driver.pipeline import INTERPRETER
from dynacomp.marks import mark_dynamic, mark_static
from dynacomp.options import Options, resolve
from dynacomp.shardings import placed

F = TypeVar("F", bound=Callable[..., Any])  # a function, or a model: compiled, it has the same type
Numbers = int | Sequence[int] | None
Backend = str | Callable[[Any], Callable[..., Any]]
Names = str | Iterable[str] | None
NOTHING = Donated()
PLATFORMS = ("cpu", "gpu", "tpu")  # what `jax.jit` takes for `backend`


@overload
def jit(fn: F, *, backend: Backend | None = ..., dynamic: bool | None = ..., fullgraph: bool = ..., mode: str = ...,
        options: Mapping[str, Any] | None = ..., static_argnums: Numbers = ..., static_argnames: Names = ...,
        donate_argnums: Numbers = ..., donate_argnames: Names = ..., in_shardings: Any = ...,
        out_shardings: Any = ..., device: jax.Device | None = ..., keep_unused: bool = ..., inline: bool = ...,
        compiler_options: Mapping[str, Any] | None = ...) -> F: ...


@overload
def jit(fn: None = ..., *, backend: Backend | None = ..., dynamic: bool | None = ..., fullgraph: bool = ...,
        mode: str = ..., options: Mapping[str, Any] | None = ..., static_argnums: Numbers = ...,
        static_argnames: Names = ..., donate_argnums: Numbers = ..., donate_argnames: Names = ...,
        in_shardings: Any = ..., out_shardings: Any = ..., device: jax.Device | None = ..., keep_unused: bool = ...,
        inline: bool = ..., compiler_options: Mapping[str, Any] | None = ...) -> Callable[[F], F]: ...


def jit(fn: Any = None, *, backend: Backend | None = "auto", dynamic: bool | None = None, fullgraph: bool = False,
        mode: str = "default", options: Mapping[str, Any] | None = None, static_argnums: Numbers = None,
        static_argnames: Names = None, donate_argnums: Numbers = None, donate_argnames: Names = None,
        in_shardings: Any = None, out_shardings: Any = None, device: jax.Device | None = None,
        keep_unused: bool = False, inline: bool = False, compiler_options: Mapping[str, Any] | None = None) -> Any:
    """Compiles `fn` as it is called: same values, exceptions and side effects as eager JAX, faster.

    fn: a function, method, `functools.partial` or callable object (a model), whose attributes stay
    visible. backend: "auto", a name of `list_backends()` or a function (see `register_backend`); for
    `jax.jit` it names a platform ("cpu", "gpu", "tpu"), and means its first device. dynamic: True makes array
    sizes symbolic from the first call, False never, None when a second size is seen. fullgraph: a graph break raises
    GraphBreakError. The arguments of `jax.jit` are accepted and checked as there, so that replacing it
    just works: Python values need no marking (they are guarded); donated arrays are deleted after the
    call (see `donation`); shardings and a device say where arrays shall live (see `shardings`); what
    only speaks to XLA's compiler (keep_unused, inline, compiler_options) changes no result, and nothing here.

        @dynacomp.jit
        def step(params, batch): ...

    Example, where the `if` on a Python number stays a guard:
        >>> import dynacomp, jax.numpy as jnp
        >>> @dynacomp.jit
        ... def total(x, factor):
        ...     return (x * factor).sum() if factor > 0 else x.sum()
        >>> float(total(jnp.arange(4.0), 2)), float(total(jnp.arange(5.0), -1))
        (12.0, 10.0)
    """
    backend, device = platform_or_backend(backend, device)
    how: dict[str, Any] = dict(
        backend=backend, dynamic=dynamic, fullgraph=fullgraph, mode=mode, options=options,
        static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
        donate_argnames=donate_argnames, in_shardings=in_shardings, out_shardings=out_shardings, device=device)
    if fn is None:
        return functools.partial(jit, **how)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(jit(fn.__func__, **how))
    if not callable(fn):
        raise TypeError(f"dynacomp.jit: expected a callable, got {type(fn).__name__}")
    chosen = resolve(backend=backend, dynamic=dynamic, fullgraph=fullgraph, mode=mode, options=options)
    if not is_foreign(chosen.backend) and chosen.backend not in ("auto", INTERPRETER, *BACKENDS):
        raise ValueError(f"dynacomp.jit: no backend {backend!r}; there are {', '.join([*BACKENDS, *FOREIGN])}")
    given = donate_argnums, donate_argnames, static_argnums, static_argnames
    which, static = (NOTHING, ()) if given == (None,) * 4 else donated(fn, *given)
    made = compiled(placed(fn, in_shardings, out_shardings, device, static), chosen, which)
    ahead.tell(made, fn, dict(static_argnums=static_argnums, static_argnames=static_argnames,
                              donate_argnums=donate_argnums, donate_argnames=donate_argnames,
                              in_shardings=in_shardings, out_shardings=out_shardings, device=device))
    return made


def platform_or_backend(backend: Backend | None, device: Any) -> tuple[Backend, Any]:
    """Which compiler and which device `backend` and `device` ask for: what `jax.jit` calls a backend is a platform.
    ValueError for a platform and a device, RuntimeError for a platform that this process has not."""
    if not isinstance(backend, str) or backend not in PLATFORMS:
        return "auto" if backend is None else backend, device
    if device is not None:
        raise ValueError(f"dynacomp.jit: give a platform or a device, not both: {backend=} and {device=}")
    return "auto", jax.local_devices(backend=backend)[0]


def _inside(cap: Capture, fn: Value = Const(None), **how: Value) -> Value:
    """`jit(f)` in compiled code is `f`: the code around it is compiled with it."""
    asked = {k for k, v in how.items() if not stands_for(v, None)}
    backend = how.get("backend")
    platform = isinstance(backend, Const) and backend.value in PLATFORMS
    if platform or {"mode", "options", "in_shardings", "out_shardings", "device"} & asked:
        raise Break("call", "dynacomp.jit with options, in compiled code")
    return Const(_itself) if stands_for(fn, None) else fn


def _itself(fn: Any) -> Any:
    return fn


BUILTINS[jit] = _inside


def compiled(fn: Any, options: Options, which: Donated = NOTHING) -> Any:
    """The C callable for a function or method; a wrapper with the object's attributes for others."""
    if isinstance(fn.__func__ if isinstance(fn, types.MethodType) else fn, (_native.CompiledFunction, CompiledObject)):
        return fn
    if type(fn).__name__ == "PjitFunction" and not jit_places(fn):
        return callable_of(caller(fn), options, which)
    if fn in USER_RULES or (is_library(fn) and not isinstance(fn, types.MethodType)):
        return callable_of(caller(fn), options, which)
    if isinstance(fn, types.FunctionType) or (
            isinstance(fn, types.MethodType) and isinstance(fn.__func__, types.FunctionType)):
        return callable_of(fn, options, which)
    return CompiledObject(fn, options, which)


def callable_of(fn: Any, options: Options, which: Donated) -> Any:
    if options.fullgraph or options.capture_idle:  # another compiled function of this code may have found it idle
        _native.rest(getattr(fn, "__func__", fn).__code__, 0)
    on_miss = functools.partial(misses.on_miss, options)
    return donating(fn, on_miss, options, which) if which else _native.CompiledFunction(fn, on_miss, options)


def caller(fn: Any) -> Any:
    """A Python function that only calls `fn`: a library's own function is one node, not entered."""
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    call.__name__ = call.__qualname__ = getattr(fn, "__name__", type(fn).__name__)
    call.__doc__ = fn.__doc__
    callers.give_code(call, fn)  # entries hang off the code: each callable that lives needs its own
    return call


class CompiledObject:
    """A callable object (a model, a partial) whose calls are compiled; everything else is the object's."""

    def __init__(self, obj: Any, options: Options, which: Donated = NOTHING) -> None:
        object.__setattr__(self, "__wrapped__", obj)
        object.__setattr__(self, "_donated", which)
        object.__setattr__(self, "_compiled", compiled(caller(obj), options, which))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(object.__getattribute__(self, "__wrapped__"), name)
        except AttributeError:
            if name not in ahead.METHODS:
                raise
            return types.MethodType(ahead.METHODS[name], self)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__wrapped__, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are wrappers of the object's copy."""
        return _remade, (self.__wrapped__, self._compiled.key, self._donated, *ahead.told(self))

    def __repr__(self) -> str:
        return f"<dynacomp.jit of {self.__wrapped__!r}>"


def _remade(obj: Any, options: Options, which: Donated, fn: Any, arguments: dict[str, Any]) -> Any:
    made = compiled(obj, options, which)
    ahead.tell(made, fn, arguments)
    return made


def _reduced(made: Any) -> str | tuple[Any, ...]:
    """How a compiled function is pickled: by its name where that is its own, as functions are, else as what it was made
    of; where that has no name either, cloudpickle and its like take a function by value."""
    found: Any = sys.modules.get(made.__module__)
    for name in made.__qualname__.split("."):
        found = getattr(found, name, None)
    return made.__qualname__ if found is made else (
        _remade, (made.__wrapped__, made.key, getattr(made, "donated", NOTHING), *ahead.told(made)))


for _cls in (_native.CompiledFunction, DonatingFunction):
    copyreg.pickle(_cls, _reduced)


def disable(fn: F) -> F:
    """`fn` run as plain Python, and all that it calls, even below a compiled function.

    fn: any function; what is compiled calls it after a graph break.

    Example:
        >>> import dynacomp, jax.numpy as jnp
        >>> @dynacomp.disable
        ... def plain(x):
        ...     return x + dynacomp.is_compiling()
        >>> dynacomp.jit(lambda x: plain(x * 2))(jnp.ones(2)).tolist()
        [2.0, 2.0]
    """
    @functools.wraps(fn)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return _native.run_eager(fn, args, kwargs)

    plain._dynacomp_break = f"{getattr(fn, '__qualname__', fn)} is disabled"  # type: ignore[attr-defined]
    return plain  # type: ignore[return-value]


def graph_break(reason: str = "") -> None:
    """Breaks the graph here: what comes before and what comes after are compiled apart.

    Example:
        >>> import dynacomp, jax.numpy as jnp
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     dynacomp.graph_break()
        ...     return y + 1
        >>> explained = dynacomp.explain(f)(jnp.zeros(2))
        >>> len(explained.regions), [b.reason for b in explained.breaks]
        (2, ['dynacomp.graph_break(): asked for'])
    """


graph_break._dynacomp_break = "asked for"  # type: ignore[attr-defined]


def list_backends() -> dict[str, str | None]:
    """Each backend, with None where this process can use it, else the reason why it cannot.

    Example:
        >>> import dynacomp
        >>> dynacomp.list_backends()["xla"] is None
        True
    """
    options = resolve()
    own = {name: row.unavailable(options.cxx, options.cache_dir) for name, row in BACKENDS.items()}
    return {**own, **dict.fromkeys(FOREIGN)}


def reset() -> None:
    """Forgets every compiled entry, counter and notice.

    Example:
        >>> import dynacomp
        >>> dynacomp.reset()
        >>> dynacomp.stats()["frames_captured"]
        0
    """
    misses.reset()
    callers.reset()
    counters.reset()
    notices.reset()


_ASKED_BY_PYTHON: tuple[Any, ...] = (list_backends, reset, counters.stats, mark_dynamic, mark_static, allow_in_graph,
                                     assume_constant_result, substitute)
for _fn in _ASKED_BY_PYTHON:
    _fn._dynacomp_break = f"dynacomp.{_fn.__name__}()"
