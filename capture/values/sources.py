"""Sources: where a value came from, as a path from the frame to the object.

A Source is printed in guards (`L['self'].layers[2].w`), walked in C when guards are checked, and
spelled as bytecode when compiled code needs the object again. No step of a path runs user code:
attributes are read from instance dictionaries and slots only.

    >>> Item(Attr(Local(0, "self"), "layers"), 2)
    L['self'].layers[2]
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from contextvars import Token
from dataclasses import dataclass, field
from types import MemberDescriptorType
from typing import Any, ClassVar


class Source:
    """Base of all Sources; values, compared structurally. One is declared by its fields and by

    form: how it prints, of its fields;
    read: the step in C that reads it for a guard, and the fields that the step is given (see `guards`);
    contained: whether a container at `base`, or what goes through one, holds it;
    of_call: whether each call of the function brings its own, beside the globals; is_argument: as an argument."""

    __slots__ = ()
    form: ClassVar[str]
    read: ClassVar[tuple[str, ...]]
    contained: ClassVar[bool] = False
    of_call: ClassVar[bool] = False
    is_argument: ClassVar[bool] = False

    def __repr__(self) -> str:
        return self.form.format_map(vars(self))

    def numbers(self) -> list[Source]:
        """The Sources that a changing number here is computed from, as a size too: one below zero is that of its
        negative."""
        return [self]


@dataclass(frozen=True, repr=False)
class Local(Source):
    """Argument number `index` of the frame (`*args` and `**kwargs` count as one each, last)."""

    index: int
    name: str
    form = "L[{name!r}]"
    read = ("local", "index")
    of_call = is_argument = True


@dataclass(frozen=True, repr=False)
class Closure(Source):
    """The content of cell `index` of the frame's function."""

    index: int
    name: str
    form = "C[{name!r}]"
    read = ("closure", "index")
    of_call = True


@dataclass(frozen=True, repr=False)
class ClosureCell(Source):
    """Cell `index` of the function that is called, not what the cell holds."""

    index: int
    name: str
    form = "cell({name})"
    read = ("cell", "index")


@dataclass(frozen=True, repr=False)
class Global(Source):
    """A name in the globals of the frame's function."""

    name: str
    form = "G[{name!r}]"
    read = ("global", "name")


@dataclass(frozen=True, repr=False)
class Handled(Source):
    """The exception that a caller of the frame handles, or None."""

    form = "sys.exception()"
    read = ("handled",)


@dataclass(frozen=True, repr=False)
class ThreadIdent(Source):
    """The number of the thread that runs the frame."""

    form = "get_ident()"
    read = ("thread_ident",)


@dataclass(frozen=True, repr=False)
class TraceRef(Source):
    """JAX's weak reference to the trace that runs the frame."""

    form = "jax_trace()"
    read = ("trace_ref",)


class Root(Source):
    """An object that compiled code may hold for ever: a module, a class, a module's globals."""

    __slots__ = ("obj", "name")
    read = ("const", "obj")

    def __init__(self, obj: Any, name: str) -> None:
        self.obj, self.name = obj, name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Root) and other.obj is self.obj

    def __hash__(self) -> int:
        return id(self.obj)

    def __repr__(self) -> str:
        return self.name


class KeyObject(Root):
    """A dict key or set element, known to a guard of the dict: guards refer to it weakly, for the dict alone
    decides how long it lives."""

    __slots__ = ()
    read = ("weak_const", "obj")


@dataclass(frozen=True, repr=False)
class Attr(Source):
    """`vars(base)[name]`: an instance, module or class dictionary entry."""

    base: Source
    name: str
    form = "{base!r}.{name}"
    read = ("attr", "name")


@dataclass(frozen=True, repr=False)
class Slot(Source):
    """A `__slots__` entry, read through its member descriptor."""

    base: Source
    name: str
    member: MemberDescriptorType
    form = "{base!r}.{name}"
    read = ("slot", "member")


@dataclass(frozen=True, repr=False)
class Get(Source):
    """An attribute that a built-in type keeps in C: `f.__closure__`, `m.__self__`, `p.args`."""

    base: Source
    name: str
    form = "{base!r}.{name}"
    read = ("get", "name")


@dataclass(frozen=True, repr=False)
class Item(Source):
    """`base[index]` of a list or tuple."""

    base: Source
    index: int
    form = "{base!r}[{index}]"
    read = ("item", "index")
    contained = True


@dataclass(frozen=True, repr=False)
class Key(Source):
    """`base[key]` of a dict, whose key is a constant."""

    base: Source
    key: Any
    form = "{base!r}[{key!r}]"
    read = ("key", "key")
    contained = True


@dataclass(frozen=True, repr=False)
class KnownKey(Source):
    """`base[key]` of a dict whose key has a hash of its own: `digest`, which the dict remembers."""

    base: Source
    key: Any
    digest: int
    read = ("known_key", "key", "digest")
    contained = True

    def __eq__(self, other: object) -> bool:
        return type(other) is KnownKey and other.base == self.base and other.key is self.key

    def __hash__(self) -> int:
        return hash((self.base, id(self.key)))

    def __repr__(self) -> str:
        return f"{self.base!r}[<key {type(self.key).__qualname__}>]"


@dataclass(frozen=True, repr=False)
class Dim(Source):
    """`base.shape[axis]` of an array."""

    base: Source
    axis: int
    form = "{base!r}.shape[{axis}]"


@dataclass(frozen=True, repr=False)
class SizeOf(Source):
    """The value of an expression of sizes; `reads` says where its symbols are read. It is the same as in the attempts
    before, whose symbols were others."""

    expr: Any
    reads: tuple[tuple[str, Source], ...]
    form = "{expr}"

    @functools.cached_property
    def text(self) -> str:
        return str(self.expr)

    def __eq__(self, other: object) -> bool:
        return type(other) is SizeOf and other.text == self.text and other.reads == self.reads

    def __hash__(self) -> int:
        return hash(self.text)

    def numbers(self) -> list[Source]:
        return [s for _, place in self.reads for s in place.numbers()]


@dataclass(frozen=True, repr=False)
class Carrier(Source):
    """An array of shape (n, 0), n being the number at `base`: how a size that no array has gets into a Graph."""

    base: Source
    form = "carrier({base!r})"


@dataclass(frozen=True, repr=False)
class TypeOf(Source):
    """`type(base)`."""

    base: Source
    form = "type({base!r})"
    read = ("type",)


@dataclass(frozen=True, repr=False)
class Count(Source):
    """How many elements the list, dict or set at `base` has."""

    base: Source
    op: str = "len"
    other: int = -1
    form = "len({base!r})"
    read = ("number", "op", "other")


@dataclass(frozen=True, repr=False)
class Host(Source):
    """A number or string that Python computes from others as `fn(*args)`: in replacement code, and in guards.

    `args` are Sources and literals; `op` is the name of `fn`. `k * 2` and `k * 2.0` are two: literals are told apart by
    their types too (`kinds`), and zeros by their signs. `size`: how many operations it is written with."""

    op: str
    args: tuple[Any, ...]
    fn: Any = field(compare=False)
    kinds: tuple[Any, ...] = field(init=False)
    size: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        literals = (a for a in self.args if not isinstance(a, Source))
        object.__setattr__(self, "kinds", tuple((type(a), repr(a) if a == 0 else "") for a in literals))
        object.__setattr__(self, "size", 1 + sum(a.size for a in self.args if isinstance(a, Host)))

    def numbers(self) -> list[Source]:
        return [s for a in self.args if isinstance(a, Source) for s in a.numbers()]

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.args))})"


@dataclass(frozen=True, repr=False)
class At(Host):
    """What a container holds under a key that changes, `fn(container, key)`: an array, a number or a string, guarded as
    one that is found anywhere else."""


@dataclass(frozen=True, repr=False)
class DictOf(Source):
    """The instance dictionary of `base` itself."""

    base: Source
    form = "vars({base!r})"
    read = ("dict",)


@dataclass(frozen=True, repr=False)
class Plain(Source):
    """The number or string inside an instance of a subclass of int, float, str, ..., as the built-in class has it."""

    base: Source
    form = "plain({base!r})"
    read = ("plain",)


@dataclass(frozen=True, repr=False)
class ThreadDict(Source):
    """The dictionary that the thread local object at `base` has in the thread at hand."""

    base: Source
    form = "vars({base!r})"
    read = ("thread_dict",)


@dataclass(frozen=True, repr=False)
class Contextual(Source):
    """What the context variable at `base` has in the context at hand; `unset` where that is nothing."""

    base: Source
    unset: ClassVar[Any] = Token.MISSING
    form = "{base!r}.get()"
    read = ("contextual", "unset")


@dataclass(frozen=True, repr=False)
class Referent(Source):
    """What the weak reference at `base` refers to; None where that is gone."""

    base: Source
    form = "{base!r}()"
    read = ("referent",)


@dataclass(frozen=True, repr=False)
class Suspended(Source):
    """A local, cell or free variable (`slot`) of a generator that stands still; slot -1: its globals."""

    base: Source
    slot: int
    name: str
    form = "frame({base!r}).{name}"
    read = ("suspended_local", "slot")


@dataclass(frozen=True, repr=False)
class Delegate(Source):
    """What a generator that stands still waits for in its `yield from` or `await`."""

    base: Source
    form = "delegate({base!r})"
    read = ("suspended_delegate",)


@dataclass(frozen=True, repr=False)
class Upcoming(Source):
    """The item that the built-in iterator `base` gives after `after` others."""

    base: Source
    after: int
    form = "upcoming({base!r}, {after})"
    read = ("upcoming", "after")
    contained = True


@dataclass(frozen=True, repr=False)
class Iterated(Source):
    """The container that the built-in iterator `base` goes through, the dict that a mappingproxy shows."""

    base: Source
    form = "iterated({base!r})"
    read = ("iterated",)
    contained = True


@dataclass(frozen=True, repr=False)
class Reduced(Source):
    """What a zip, map, filter or enumerate is made of: `base.__reduce__()`."""

    base: Source
    form = "reduced({base!r})"
    read = ("reduced",)
    contained = True


def base_of(source: Source) -> Source | None:
    """The Source one step nearer to the frame; None for a root."""
    return getattr(source, "base", None)


def belongs_to_call(source: Source) -> bool:
    """Whether it is found through an argument or a cell of the function, not through a module."""
    base = base_of(source)
    return source.of_call if base is None else belongs_to_call(base)


class Places:
    """A set of Sources that is kept from one attempt to the next. Those that belong to no argument are known by their
    names: what an attempt reads from an object that it has made itself has another Source in each."""

    def __init__(self, keys: Iterable[Any] = ()) -> None:
        self._keys: set[Any] = set(keys)

    def __copy__(self) -> Places:
        return Places(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and other._keys == self._keys

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def _key(source: Source) -> Any:
        return source if belongs_to_call(source) else repr(source)

    def __contains__(self, source: Source) -> bool:
        return bool(self._keys) and self._key(source) in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, *sources: Source) -> None:
        self._keys.update(map(self._key, sources))

    def discard(self, *sources: Source) -> None:
        self._keys.difference_update(map(self._key, sources))


def passed(source: Source | None) -> Local | None:
    """The argument that holds it, where only containers lie between."""
    while source is not None and source.contained:
        source = base_of(source)
    return source if isinstance(source, Local) else None
