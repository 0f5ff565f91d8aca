"""Kinds of Values: one row for each class of Values says what the objects do that it stands for.

A row is CPython's `PyTypeObject` in small. `kind(v).truth(cap, v)` is `bool(v)`; a field that is None is what such
an object cannot do, or what the machine does not know of it: whoever asks says so. The module that knows a part of
a kind defines that part, once; a kind made of another (`class MemoV(DictV)`) has its fields, but for its own.

    define(RangeV, Kind(iter=lambda cap, v: CountIterV(v.start, v.stop, v.step)))

Where such a kind has not what the other has, its own row says `WITHOUT`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

Cap: TypeAlias = Any  # a Capture, and
V: TypeAlias = Any  # a Value of the kind: both are defined above this module


WITHOUT: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What Values of one class do. Where a result is no Value, it is what the machine decides while capturing."""

    # what it is
    python_type: Callable[[V], type] | None = None
    own_class: Callable[[V], type] | None = None  # of an instance whose attributes the machine knows
    constant: Callable[[V], Any] | None = None  # the object itself, where it is known; else NotConstant
    existing: Callable[[V], Any] | None = None  # the object that it stands for, if it was there before; else None
    now: Callable[[V], Any] | None = None  # what a constant, a changing number or a string is in this call
    changes: bool | None = None  # a number or string of Python's that another call may have otherwise
    span: Callable[[V], tuple[int, int]] | None = None  # least and greatest value of a number that the Graph computes
    is_data: Callable[[V], bool] | None = None  # whether it is made of literals alone, or the like; None: not so
    node: Callable[[V], Any] | None = None  # the Node of the Graph that computes an array or number
    children: Callable[[V], Iterable[Any]] | None = None  # what a tuple, list, dict or slice holds, some maybe Lazy
    rebuild: Callable[[V, Iterable[Any]], Any] | None = None  # such an object of these children
    of_items: Callable[[V, list[V]], V] | None = None  # a sequence that an operator makes; the first where it has them

    # what Python does with it
    special: Callable[[Cap, V, str], V | None] | None = None  # a method that an instance's class has for operators
    getattr: Callable[[Cap, V, str], V] | None = None
    has: Callable[[V, str], bool | None] | None = None  # an attribute, where that is known, though not which; else None
    member: Callable[[V, str], V | None] | None = None  # an attribute that its class keeps in C; None: another
    setattr: Callable[[Cap, V, str, V], None] | None = None
    delattr: Callable[[Cap, V, str], None] | None = None
    call: Callable[[Cap, V, list[V], dict[str, V]], V] | None = None
    callable: Callable[[Cap, V], bool] | None = None  # None: its class tells
    method: Callable[[Cap, V, str, list[V], dict[str, V]], V] | None = None  # of a built-in class; None: a constant's
    truth: Callable[[Cap, V], bool] | None = None  # None: always true
    as_bool: Callable[[Cap, V], V | None] | None = None  # `bool(x)` that this call does not decide; None: `truth` does
    negated: Callable[[Cap, V], V] | None = None  # `not x` of such a truth
    identical: Callable[[Cap, V, V], bool] | None = None  # `a is b`, either is of the kind; None: the objects tell
    unary: Callable[[Cap, Any, V], V] | None = None  # None: that of a constant
    number: Callable[[Cap, V, type, list[V], dict[str, V]], V] | None = None  # `int`, `float`, `complex`; so, too
    index: Callable[[Cap, V], V] | None = None  # `operator.index`; itself where it is none; None: of a constant
    round: Callable[[Cap, V, V], V] | None = None  # None: that of a constant, or of a class
    is_instance: Callable[[Cap, V, V], V | None] | None = None  # of classes, by its type; None: its class tells
    iter: Callable[[Cap, V], V] | None = None
    next: Callable[[Cap, V], V | None] | None = None  # None at the end
    result: Callable[[V], V | None] | None = None  # what an iterator at its end has returned
    throw: Callable[[Cap, V, V], V | None] | None = None  # None: its attribute of that name
    close: Callable[[Cap, V], V] | None = None  # so, too
    many: Callable[[V], bool] | None = None  # whether very many items may come
    looped: Callable[..., V | None] | None = None  # a loop over it in Python, see `whole_loops`
    reversed: Callable[[Cap, V], V | None] | None = None  # None: its items, the last one first
    elements: Callable[[Cap, V], Iterable[V]] | None = None  # those that need no iterator to be found
    length: Callable[[Cap, V], V] | None = None  # None: that of a constant
    contains: Callable[[Cap, V, V], bool] | None = None  # None: one of the elements is equal
    getitem: Callable[[Cap, V, V], V] | None = None  # None: that of a constant
    lookup: Callable[[V], Any] | None = None  # what finds an item in it before the call: see `kinds.given_items`
    members: Callable[[V], Any] | None = None  # the keys of a set or dict, for who does not ask for their order
    shown: Callable[[V], Any] | None = None  # the set, or the table of a view, that operators of sets work on
    setitem: Callable[[Cap, V, V, V], None] | None = None
    delitem: Callable[[Cap, V, V], None] | None = None
    key: Callable[[Cap, V], Any] | None = None  # in dicts and sets; None: the constant itself
    text: Callable[[Cap, V, Any, str], V] | None = None  # `str`, `repr`, `ascii`, `format`; None: a constant's
    display: Callable[[Cap, V, str, list[V]], str] | None = None  # a container's text, under the name of its class
    manager: Callable[[Cap, V], tuple[V, V]] | None = None  # what leaves a context manager, and what enters it
    amanager: Callable[[Cap, V], tuple[V, V]] | None = None  # an asynchronous one
    aiter: Callable[[Cap, V], V] | None = None
    awaited: Callable[[Cap, V], V | None] | None = None  # what `await` sends to; None: the object is refused
    send: Callable[[Cap, V, V], tuple[bool, V]] | None = None  # (True, its result), or (False, what it yields)
    may_begin: Callable[[V], bool] | None = None  # a coroutine, or the like, that nobody has sent to yet
    signature: Callable[[Cap, V], Any] | None = None  # of a function
    copy: Callable[[Cap, V], V] | None = None
    deepcopy: Callable[[Cap, V, V], V] | None = None

    # what becomes of it
    binds: Callable[[V], Iterable[V]] | None = None  # what a method or partial keeps for its function
    found: Callable[[Cap, Any, V], None] | None = None  # the existing object that it stands for has been met
    changing: Callable[[V], None] | None = None  # it is going to be changed in place
    stored: Callable[[V], Iterable[tuple[str, Any]]] | None = None  # what it holds now, by the names of the places
    changed: Callable[[V], Iterable[V]] | None = None  # those of it whose real objects must be brought up to date
    content: Callable[[V], Any] | None = None  # what it holds, by identity, to compare; None: that is not looked into
    parts: Callable[[V], tuple[Any, list[Any]]] | None = None  # a shape that can be compared, and the Values in it
    put: Callable[[V, list[Any]], None] | None = None  # the same object with other Values in it
    fresh: Callable[[V], bool] | None = None  # a function that eager JAX has not seen; None: it may have
    counters: Callable[[V], list[Any]] | None = None  # the counts that an iterator is made of, if of nothing else
    rounds: Callable[[Cap, V], Iterable[Any]] | None = None  # what decides how often a loop over it goes round
    carried: Any = None  # how a loop that becomes a node carries it: see `control_flow.loop_state`
    spoil: Callable[[V], None] | None = None  # makes an iterator unusable
    is_known: Callable[[Cap, V], bool] | None = None  # whether NumPy can be given it while capturing
    numbers: Callable[[Cap, V], V | None] | None = None  # what NumPy is given of a list of numbers that change
    plain: Callable[[Cap, V], Any] | None = None  # for NumPy, which has to know it; None: a constant's
    is_unnoticed: Callable[[V], bool] | None = None  # whether nothing tells that it has died; None: not so
    is_as_it_was: Callable[[Cap, V], bool] | None = None  # a changed one that needs no replay; None: not so
    twin: Callable[[Cap, V], V | None] | None = None  # an array of JAX with the same content
    argument: Callable[[Cap, V], Any] | None = None  # in a node of the Graph
    shell: Callable[[Cap, V, Any], Any] | None = None  # for JAX's registry of trees; None: the Value itself
    template: Callable[[Cap, V, Any], Any] | None = None  # in the C side's template of a result; None: not that way
    emit: Callable[[Any, V], None] | None = None  # bytecode that makes or finds the object
    fill: Callable[[Any, V], None] | None = None  # bytecode that puts its items into a new object
    replay: Callable[[Any, V], None] | None = None  # bytecode that changes the existing object as the program did


FIELDS = tuple(f.name for f in fields(Kind))


class _Kinds(dict[type, Kind]):
    """Class of Values → its whole row, put together from its own and its bases' when it is first asked for."""

    def __missing__(self, cls: type) -> Kind:
        own = [_DEFINED[base] for base in cls.__mro__ if base in _DEFINED]
        found = {name: next((f for row in own if (f := getattr(row, name)) is not None), None) for name in FIELDS}
        self[cls] = Kind(**{name: None if f is WITHOUT else f for name, f in found.items()})
        return self[cls]


_DEFINED: dict[type, Kind] = {}
KINDS = _Kinds()


def kind(value: Any) -> Kind:
    """The row of a Value's class."""
    return KINDS[type(value)]


def define(cls: type, row: Kind) -> None:
    """Adds the fields of `row` to those of `cls`; TypeError where one is there already."""
    before = _DEFINED.get(cls, Kind())
    new = {name: f for name in FIELDS if (f := getattr(row, name)) is not None}
    twice = [name for name in new if getattr(before, name) is not None]
    if twice:
        raise TypeError(f"{cls.__name__} has {', '.join(twice)} already")
    _DEFINED[cls] = Kind(**{name: getattr(before, name) for name in FIELDS} | new)
    KINDS.clear()
