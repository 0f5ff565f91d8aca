"""Values that stand for something else: ids and keys, where Python compares or hashes, for objects; an object of the
capture's own for one in C that the captured code has made of constants (see `c_objects`), and for one that Python
makes once the Graph has run (see `arithmetic.later`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.kind import Kind, define
from dynacomp.capture.values.objects import ObjectV, OpaqueV
from dynacomp.capture.values.questions import asks, is_value
from dynacomp.capture.values.value import Value


@dataclass(eq=False)
class IdV(Value):
    """`id(obj)`. `anchor` is the object itself, or what stands for it while it does not exist: two ids
    are equal when their anchors are one object."""

    obj: Value
    anchor: Any

    def __hash__(self) -> int:
        return hash(id(self.anchor))

    def __eq__(self, other: object) -> bool:
        return other.anchor is self.anchor if isinstance(other, IdV) else other == id(self.anchor)


class HashedV(Value):
    """A dict key or set element whose class has its own `__hash__` and `__eq__`: `digest` is its
    hash, `same(a, b)` runs the comparison on the symbolic machine. A hash that is `by_id` tells
    objects apart like the real one, but is another number."""

    def __init__(self, value: Value, digest: int, same: Callable[[Value, Value], bool], by_id: bool = False) -> None:
        super().__init__()
        self.value, self.digest, self.same, self.by_id = value, digest, same, by_id

    def __hash__(self) -> int:
        return self.digest

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        second = bare(other)
        return self.same(self.value, second if is_value(second) else Const(second))


def bare(key: Any) -> Any:
    """The Value of a key whose hash is noted with it; other keys are themselves."""
    return key.value if isinstance(key, HashedV) else key


@dataclass(eq=False)
class PrivateV(ObjectV):
    """`obj` is an object of the capture's own, in the state in which the program's is now."""

    obj: Any = None
    recipe: Any = None  # the host expression that makes one in that state; None: it is the same in all calls


@dataclass(eq=False)
class GivenGeneratorV(OpaqueV):
    """An existing generator of random numbers. `twin` draws in its place, once it has been asked."""

    twin: PrivateV | None = None


@dataclass(eq=False)
class StateV(Value):
    """The state in which a generator of the capture's is, where this is loaded."""

    generator: PrivateV


@dataclass(eq=False)
class LaterV(OpaqueV):
    """`fn(*args)`, which Python computes once the Graph has run; `obj` is like it: of its class and shape; so is
    `other`, of other sizes where these change."""

    fn: Any = None
    args: tuple[Value, ...] = ()
    depth: int = 1  # how many such calls are nested in it
    other: Any = None


@dataclass(eq=False)
class ClassOfTracedV(Value):
    """`type(array)` of an array that JAX may trace: one of its arrays or tracers."""

    array: Value


@dataclass(eq=False)
class TracedNameV(Value):
    """`cls.__name__` of it, or another name that classes have."""

    cls: ClassOfTracedV
    name: str


class TraceStateV(Value):
    """What JAX says of the trace that runs the frame: an OpaqueTraceState. All that a frame asks for are equal."""


define(IdV, Kind(python_type=lambda v: int))
define(TracedNameV, Kind(python_type=lambda v: str))
is_later = asks(LaterV)  # what Python makes of arrays once the Graph has run
is_traced_name = asks(TracedNameV)

define(LaterV, Kind(existing=lambda v: None))
