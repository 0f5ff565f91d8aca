"""What `jax.jit(f)` offers besides calls: `lower`, `trace`, `eval_shape`, `clear_cache`, on what `jit(f)` returns.

`lower` and `trace` are JAX's own: who asks for `f.lower(x).compile()` asks for XLA's executable, its text, cost
and memory, and gets that, of the function as JAX traces it. `clear_cache` forgets what we compiled of `f`. An
attribute of that name on the function, or on the object, that was compiled comes first.

    step = jit(step, static_argnums=1)
    step.lower(x, 3).cost_analysis()      # as of jax.jit(step, static_argnums=1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax import jit as jax_jit  # now: a program may put dynacomp.jit in its place

import dynacomp.capture._native as _native

TOLD = "_of_jax_jit"  # where a compiled function keeps its original and the arguments of `jax.jit`, if it had any


def tell(made: Any, fn: Any, arguments: dict[str, Any]) -> None:
    """Keeps the arguments that only `jax.jit` has, for `made`, which was compiled from `fn`."""
    given = {name: value for name, value in arguments.items() if value is not None}
    if given and made is not fn:
        object.__setattr__(made, TOLD, (fn, given))


def told(made: Any) -> tuple[Any, dict[str, Any]]:
    """The function that was compiled to `made`, and what else `jax.jit` is to be given."""
    return vars(made).get(TOLD) or (made.__wrapped__, {})


def lower(self: Any, *args: Any, **kwargs: Any) -> Any:
    """`jax.jit(f).lower`: the function's lowering by JAX for these arguments."""
    return _of_jax(self, "lower", args, kwargs)


def trace(self: Any, *args: Any, **kwargs: Any) -> Any:
    """`jax.jit(f).trace`: the function's jaxpr, by JAX, for these arguments."""
    return _of_jax(self, "trace", args, kwargs)


def eval_shape(self: Any, *args: Any, **kwargs: Any) -> Any:
    """`jax.jit(f).eval_shape`: shapes and dtypes of the results, which are not computed."""
    return _of_jax(self, "eval_shape", args, kwargs)


def clear_cache(self: Any) -> None:
    """Forgets every compiled entry of this function."""
    fn = getattr(self, "_compiled", self).__wrapped__
    _native.clear(getattr(fn, "__func__", fn).__code__)


def _of_jax(made: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    fn, arguments = told(made)
    return _native.run_eager(getattr(jax_jit(fn, **arguments), name), args, kwargs)


METHODS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (lower, trace, eval_shape, clear_cache)}
for _method in METHODS.values():
    _method._dynacomp_break = f"a compiled function's {_method.__name__}()"  # type: ignore[attr-defined]
_native.set_methods(METHODS)
