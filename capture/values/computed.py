"""Values that another call may have otherwise: arrays, sizes and numbers, and what libraries make of arrays.

The Graph computes them, or the guards read them anew in each call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dynacomp.capture.graph.avals import Aval, class_of
from dynacomp.capture.graph.graph import Node
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.value import NotConstant, Value


@dataclass(eq=False)
class ArrayV(Value):
    """An array in the Graph."""

    node: Node
    aval: Aval
    real: Any = None  # the array itself, for an input: its device and sharding are read from here
    attrs: dict[str, Any] | None = None  # what the program has noted on an array that the Graph computes
    origin: Any = None  # where the Graph may have chosen an existing array: a NumberV says which: `array_identity`
    joined: bool = False  # the Graph chose it: it may be any array that the Graph has computed
    row: tuple[Any, Any] | None = None  # of which stack it is a row (its Node), and which one (a number)


@dataclass(eq=False)
class NdArrayV(Value):
    """A NumPy array that the captured code has made of constants: see `ndarrays`; or of numbers that change, with a
    recipe then: see `host_arrays`."""

    array: Any  # a real one, the capture's own
    base: Any = None  # the Value of the array whose memory it shows, if it is a view
    recipe: Any = None  # the host expression that makes it in each call; None: its content is the same in all

    @property
    def hint(self) -> Any:  # in this call, as of a number
        return self.array


@dataclass(eq=False)
class SizeV(Value):
    """A symbolic Python int: a `Size` (see `sizes`), and its value in this call."""

    expr: Any
    hint: int


@dataclass(eq=False)
class ScalarV(Value):
    """A Python int, float or bool that changes from call to call; `hint` is this call's value."""

    hint: Any


@dataclass(eq=False)
class NumberV(Value):
    """A Python int, bool or float (`kind`) that the Graph computes: a loop's counter, `float(loss)`.

    `node` is a scalar array of it; ints lie in [low, high]. `steps` = (Node, least, most): how far it is
    from the counter that a loop began its round with, where it is counted from one. `series`: what Python
    makes of it in each round of a loop (see `loop_numbers`). `below`: a size or int that it
    is known to be less than."""

    node: Node
    aval: Aval
    kind: type
    low: int = 0
    high: int = 1
    steps: Any = None
    series: Any = None
    below: Any = None


@dataclass(eq=False)
class LibraryV(Value):
    """A library's non-array object computed from arrays: `x.at`, `x.at[i]`, `jax.grad(f)`, ...

    `make(*args, **kwargs)` rebuilds it, in a node, in bytecode or under a trace; `real` is a
    sample instance (with tracers or stand-ins inside) for reading its type, or None.
    """

    make: Any
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = field(default_factory=dict)
    real: Any = None
    fixed: bool = False  # made of constants alone: `real` is what the program would have
    node: Any = None  # what holds it where a transformation has passed it to a body
    lowered: dict[Any, Any] = field(default_factory=dict)  # body -> its form there as a node argument, once asked for
    entered: bool = False  # a context manager whose `__enter__` the program has called, without a `with` statement
    fields: dict[str, Value] = field(default_factory=dict)  # a named tuple: what was read of it, one object each time
    once: bool = False  # what made it has changed outer objects, or printed: it is made nowhere else
    shell: Any = None  # a named tuple: one of its fields, once it was taken apart as a tree
    settings: tuple = ()  # of JAX's, that held where the program made it: it is made under them (see `settings.maker`)


class NeedsConcrete(Exception):
    """A changing Python number is needed as a constant: capture starts over with it fixed. hosted: by a library that
    runs the program's code out of sight, where no frame is captured: left to Python, a model would run eagerly."""

    hosted = False

    def __init__(self, value: ScalarV) -> None:
        super().__init__(value)
        self.value = value


def _scalar(v: ScalarV) -> Any:
    raise NeedsConcrete(v)


def _library(v: LibraryV) -> Any:
    if not v.fixed:
        raise NotConstant(v)
    return v.real


define(ArrayV, Kind(node=lambda v: v.node,
                    python_type=lambda v: class_of(v.aval) if v.real is None else type(v.real)))
define(NdArrayV, Kind(python_type=lambda v: type(v.array)))
define(SizeV, Kind(python_type=lambda v: int, now=lambda v: v.hint, changes=True))
define(ScalarV, Kind(python_type=lambda v: type(v.hint), constant=_scalar, now=lambda v: v.hint, changes=True))
define(NumberV, Kind(python_type=lambda v: v.kind, node=lambda v: v.node))
define(LibraryV, Kind(constant=_library))
