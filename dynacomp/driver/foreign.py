"""Backends that the program brings: functions of a Graph that return a callable of flat arrays.

    def count_calls(graph):
        print(len(graph.calls), "operations")
        return lambda *arrays: dynacomp.passes.interpret(graph, *arrays)

    dynacomp.jit(f, backend=count_calls)
    dynacomp.register_backend("counting", count_calls)      # then also backend="counting"

Its program is called with jax Arrays, one for each placeholder, and returns as many arrays (NumPy's will do) as
the Graph has outputs. What it returns is held to the Graph's dtypes and ranks: TypeError where it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from dynacomp.capture._native import run_eager
from dynacomp.capture.graph.avals import aval_of, is_aval
from dynacomp.codegen.backends import BACKENDS
from dynacomp.codegen.xla import with_weak_type
from dynacomp.driver.pass_list import LEVELS, PRIMITIVE

RESERVED = ("auto", "eager", "cpu", "gpu", "tpu")


@dataclass(frozen=True)
class Foreign:
    """One backend of the program's: `make` gets that `form` of a region ("captured", "primitive" or "kernels")."""

    name: str
    make: Callable[[Any], Callable[..., Any]]
    form: str = PRIMITIVE

    def __str__(self) -> str:
        return self.name


FOREIGN: dict[str, Foreign] = {}


def register_backend(name: str, fn: Callable[[Any], Callable[..., Any]], *, form: str = PRIMITIVE) -> None:
    """Makes `fn` a backend of that name: `dynacomp.jit(f, backend=name)`; `dynacomp.list_backends()` lists it.

    fn: gets a Graph (of a Schedule for form="kernels") and returns a callable: flat arrays in, flat arrays out. Where
    it raises, XLA takes the region and a notice says so; CompileError under fullgraph=True. form: "primitive" (a
    closed set of operations), "captured" (what the program called) or "kernels". A name that was registered before
    is the new function's from now on. ValueError for names of dynacomp's own.

    Example, a backend that interprets:
        >>> import dynacomp, jax.numpy as jnp
        >>> def interpreter(graph):
        ...     return lambda *arrays: dynacomp.passes.interpret(graph, *arrays)
        >>> dynacomp.register_backend("interpreter", interpreter)
        >>> dynacomp.jit(lambda x: x * 2 + 1, backend="interpreter")(jnp.ones(2)).tolist()
        [3.0, 3.0]
    """
    if not isinstance(name, str) or not name or name in (*RESERVED, *BACKENDS):
        raise ValueError(f"dynacomp.register_backend: {name!r} cannot be a backend's name of your own")
    FOREIGN[name] = foreign(fn, name, form)


def foreign(fn: Any, name: str = "", form: str = PRIMITIVE) -> Foreign:
    """The row of a function."""
    if not callable(fn):
        raise TypeError(f"a backend is a function of a Graph that returns a callable, not {fn!r}")
    if form not in LEVELS:
        raise ValueError(f"backend {name!r}: form {form!r} is none of {', '.join(LEVELS)}")
    return Foreign(name or getattr(fn, "__name__", type(fn).__name__), fn, form)


def known(backend: Any) -> Any:
    """What `backend=` stands for: a row for a function and for the name of one, a name of dynacomp's own as it is."""
    if isinstance(backend, str):
        return FOREIGN.get(backend, backend)
    return foreign(backend) if callable(backend) and not is_foreign(backend) else backend


def is_foreign(backend: Any) -> TypeGuard[Foreign]:
    """Whether a backend is a function of the user's."""
    return isinstance(backend, Foreign)


@dataclass(eq=False)
class ForeignProgram:
    """A region as a foreign backend runs it. The attributes are those of every Program."""

    call: Callable[..., Any]
    outputs: Sequence[Any]  # Avals; what is no array as it is
    backend: str
    source: dict[str, str] = field(default_factory=dict)
    kernels: tuple[str, ...] = ()
    externs: tuple[str, ...] = ()

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        made = run_eager(self.call, arrays)  # what a backend has made is not captured itself
        if not isinstance(made, (tuple, list)) or len(made) != len(self.outputs):
            what = f"{len(made)} values" if isinstance(made, (tuple, list)) else f"{type(made).__name__}, no tuple"
            wanted = f"the graph has {len(self.outputs)} outputs"
            raise TypeError(f"backend {self.backend!r} returned {what}, where {wanted}")
        return tuple(self.typed(k, value, aval) for k, (value, aval) in enumerate(zip(made, self.outputs)))

    def typed(self, k: int, value: Any, aval: Any) -> Any:
        """An output as the jax Array that it must be."""
        if not is_aval(aval):
            return aval
        array = value if isinstance(value, jax.Array) else jnp.asarray(np.asarray(value))
        found = aval_of(array)
        sizes = zip(found.shape, aval.shape)
        if found.dtype != aval.dtype or found.ndim != aval.ndim or any(
                isinstance(want, int) and got != want for got, want in sizes):
            raise TypeError(f"backend {self.backend!r} returned {found} as output {k}, which is {aval}")
        return with_weak_type(array, aval.weak_type)


def program_of(row: Foreign, form: Any, outputs: Sequence[Any]) -> ForeignProgram:
    """The program that a foreign backend makes of a form. Raises what the backend raises, TypeError where it returns
    nothing that can be called."""
    call = row.make(form)
    if not callable(call):
        raise TypeError(f"it returned {call!r}, which cannot be called")
    return ForeignProgram(call, tuple(outputs), row.name, {f"{row.name}.txt": str(form)})
