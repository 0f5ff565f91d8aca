"""What one attempt to capture a frame accumulates, by what it is about: the parts of a `Capture`.

    graph      the Graph that grows, its inputs, and where its nodes live
    known      objects of the program and what they are, by identity
    sizes      symbolic sizes, and where their values are read
    numbers    Python numbers and strings, constants and those that change
    libraries  calls of libraries that run on tracers, and what they were shown
    dropping   generators that run code when they are dropped, and who holds them
    progress   how far the machine has come
"""

from __future__ import annotations

import types
import weakref
from dataclasses import dataclass, field
from typing import Any

from dynacomp.capture.graph.graph import Builder, Node
from dynacomp.capture.graph.size_scope import Scope
from dynacomp.capture.symbolic.escapes import Escapes
from dynacomp.capture.symbolic.libraries import is_library_file
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ScalarV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.value import Value


@dataclass(eq=False)
class Growing:
    """The Graph so far."""

    builder: Builder = field(default_factory=Builder)
    inputs: dict[Node, S.Source] = field(default_factory=dict)
    checks: list[tuple[Any, Node]] = field(default_factory=list)  # conditions that are expected to hold, see `raising`
    telling: list[Node] = field(default_factory=list)  # calls that print (`jax.debug.print` in a body)
    heard: set[Node] = field(default_factory=set)  # what prints or calls back wherever it is computed: once, that is
    candidates: list[Any] = field(default_factory=list)  # existing arrays that it may choose, see `array_identity`
    owner: dict[Node, int] = field(default_factory=dict)  # how many bodies deep a node lives
    homes: dict[Node, int] = field(default_factory=dict)  # the serial of the body that it lives in, if any


@dataclass(eq=False)
class Known:
    """Objects by identity, and what was read of them; `keep` keeps ids alive."""

    objects: dict[int, Value] = field(default_factory=dict)  # real object id → Value, for mutable objects
    twins: dict[tuple[int, S.Source], Value] = field(default_factory=dict)  # (id, source) → Value, at other places
    are_twins: set[int] = field(default_factory=set)  # ids of those, and of the Values at the first place
    arrays: dict[Any, Value] = field(default_factory=dict)  # (id, source) of an array → the input of the Graph
    shown: dict[Any, bool] = field(default_factory=dict)  # source of a tracer → whether Python may look into it
    keep: list[Any] = field(default_factory=list)
    refers: bool = False  # whether the captured code has made weak references
    rows: dict[int, S.Source] = field(default_factory=dict)  # id of a list or dict in a list → that list
    made: dict[int, Any] = field(default_factory=dict)  # id of the capture's own → what it is, see `class_prototypes`
    anew: dict[int, S.Source] = field(default_factory=dict)  # id of a class that each call makes anew, of a
    anew_classes: list[type] = field(default_factory=list)  #          function in it → where it is found; these classes
    folded: dict[int, type] = field(default_factory=dict)  # classes made of constants, by id: nobody else holds them
    stood: dict[int, Any] = field(default_factory=dict)  # id of a Value → the object that stands for it there
    ndarrays: dict[int, Value] = field(default_factory=dict)  # id of a NumPy array of the capture's own → its Value
    outside: dict[int, Any] = field(default_factory=dict)  # id of one from outside → the capture's copy of it
    shells: dict[int, tuple[Value, Any]] = field(default_factory=dict)  # id of a Value, and of its shell → both
    tuples: dict[int, Value] = field(default_factory=dict)  # id of a tuple of constants that libraries see → its Value
    ids: dict[int, Any] = field(default_factory=dict)  # id of an object, or of what stands for it → its IdV
    numbers_asked: tuple[list[Value], list[Value]] = field(default_factory=lambda: ([], []))  # numbers and strings
    #                                                                whose ids were asked for: those that change, others
    changing_asked: Any = None  # where the last one of the former was, a Lesson
    names: dict[tuple[int, str], Const] = field(default_factory=dict)  # (id of a globals, name) → what was read
    built_in: dict[tuple[int, str], Const] = field(default_factory=dict)  # the same of names that it has not itself
    resolved: dict[tuple[int, str, int], Any] = field(default_factory=dict)  # what `class_attrs.resolve` found, guarded
    entered: dict[int, Any] = field(default_factory=dict)  # id of a real function that calls just enter → its FunctionV
    functions: dict[Any, Any] = field(default_factory=dict)  # (id, where one known by its code is) → its FunctionV
    tables: dict[int, Any] = field(default_factory=dict)  # id of an existing dictionary of attributes → its instance
    settled: dict[int, types.FunctionType] = field(default_factory=dict)  # functions of libraries that were entered
    relied: dict[int, tuple[Any, dict[str, Any]]] = field(default_factory=dict)  # see `Capture.rely`
    abstract: dict[tuple[int, int], tuple[type, type, bool]] = field(default_factory=dict)  # classes, abstract bases
    #                                                            of which it was asked whether those are theirs, and are
    telling: dict[int, tuple[type, bool]] = field(default_factory=dict)  # classes; may their code tell a `__class__`?
    instances: dict[Any, tuple[bool, Any]] = field(default_factory=dict)  # what `isinstance` says of all of a class
    checks: dict[Any, Value | None] = field(default_factory=dict)  # what is said of all objects of a class
    asked: dict[int, Any] = field(default_factory=dict)  # id of a function → its calls of one argument
    escapes: Escapes = field(default_factory=Escapes)  # what such an answer may depend on


@dataclass(eq=False)
class Sizes:
    """Symbolic sizes; `dims`: name of a symbol → where its value is read."""

    scope: Scope = field(default_factory=lambda: Scope(is_library=is_library_file))
    dims: dict[str, S.Source] = field(default_factory=dict)
    real_shapes: dict[S.Source, tuple[int, ...]] = field(default_factory=dict)


@dataclass(eq=False)
class Numbers:
    """Python numbers by Source."""

    scalars: dict[S.Source, Any] = field(default_factory=dict)  # taken as constants; ids of unchanging objects
    changing: dict[S.Source, Any] = field(default_factory=dict)  # those that change, strings too: their values now
    scalar_nodes: dict[S.Source, Node] = field(default_factory=dict)
    originals: dict[Node, ScalarV] = field(default_factory=dict)  # the stack of a given list's arrays → these, a tuple
    scalar_reads: list[tuple[int, ScalarV]] = field(default_factory=list)  # the steps at which some became nodes
    opened: dict[S.Source, set[Any]] = field(default_factory=dict)  # a condition that is left open → its places
    decisions: set[Any] = field(default_factory=set)  # the conditions on changing numbers that this call's have decided
    places: set[Any] = field(default_factory=set)  # where the program was, for those on the content of NumPy arrays


@dataclass(eq=False)
class LibraryCalls:
    """Calls of libraries that are being evaluated, and what they have in place of the capture's Values."""

    tracing: int = 0  # how many, one within the other
    traces: list[Any] = field(default_factory=list)  # JAX's traces under which they are, innermost last
    overheard: dict[Any, None] = field(default_factory=dict)  # the program's functions they ran, see `hearing`
    given: list[Value] = field(default_factory=list)  # what those were given
    whole: dict[int, tuple[S.Source, Any]] = field(default_factory=dict)  # id of an object known by all that it holds
    hosts: set[str] = field(default_factory=set)  # packages whose contexts they have read, see `host_contexts`
    overhears: bool = False
    hosted: dict[int, Any] = field(default_factory=dict)  # id of a Value → the real object that a library has for it
    promised: int = 0  # inside calls of functions that the user has said need no guards
    derived: int = 0  # derivatives of calls being traced, inside each other
    handed: dict[Node, Value] = field(default_factory=dict)  # a node's argument → the array of JAX that it is
    numpys: dict[Node, tuple[Value, Any]] = field(default_factory=dict)  # likewise → the NumPy array: its Value, itself
    passing: dict[int, Any] = field(default_factory=dict)  # id of a tracer → it, and the changing number that it is
    real: dict[Node, Any] = field(default_factory=dict)  # the numbers that Nodes are, where a call runs once more
    spelled: dict[int, Value] = field(default_factory=dict)  # id → a function of which somebody has a jaxpr
    counted: dict[int, tuple[Any, Any]] = field(default_factory=dict)  # id of an array → it, and which number it is
    kept: dict[Value, dict[Any, Any]] = field(default_factory=dict)  # functions whose traces JAX has kept
    unread: dict[int, tuple[Any, Value]] = field(default_factory=dict)  # id → an object handed on unread, its Value
    unasked: bool = False  # JAX alone sees what the innermost call is given, and what bodies give back to it
    by_name: bool = False  # nobody sees in which order dicts stand that it is given, or that bodies give back to it
    blind: bool = False  # the arguments being lowered are for a function that hands objects on
    taken_apart: list[Value] = field(default_factory=list)  # objects whose attributes are being lowered
    lent: dict[int, Any] = field(default_factory=dict)  # id → a container or tree that a call was given
    copied: tuple[Value, ...] = ()  # what `jax.jit` gives the function that it wraps: trees that no one else has
    stands: dict[int, tuple[Any, Node]] = field(default_factory=dict)  # id → an array for a Node in a body, it
    arguments: list[Any] = field(default_factory=list)  # of the calls that are evaluated, innermost last
    said: list[Any] = field(default_factory=list)  # what the last of them has warned of
    alike: dict[Any, Any] = field(default_factory=dict)  # what such calls have given, see `alike_calls`
    sets: bool = False  # a `with` statement has brought some setting of JAX, see `settings`
    placed: bool = False  # some call decides where its results live
    hashing: list[bool] = field(default_factory=list)  # for each `__hash__` that runs now: whether it depends on ids


@dataclass(eq=False)
class Dropping:
    """Generators that run code when they are dropped."""

    pending: dict[int, Any] = field(default_factory=dict)  # id of a suspended one → it
    holders: dict[int, Any] = field(default_factory=dict)  # id of one → the way on which a frame was seen to hold it
    held_before: list[Any] = field(default_factory=list)  # what objects held that this instruction has changed
    frames: list[weakref.ref[Any]] = field(default_factory=list)  # all that have run: some are still referred to


@dataclass(eq=False)
class Progress:
    """Steps are instructions; top steps those of the outermost frame."""

    top_step: int = -1
    top_from: tuple[int, int] = (0, 0)  # the steps and array operations before it
    top_known: tuple[int, int] = (0, 0)  # the guards and relations of sizes before it
    births: list[int] = field(default_factory=list)  # by top step: Values with a higher serial were made then or later
    steps: int = 0
    depth: int = 0
    captured_ops: int = 0
    peels: dict[Any, int] = field(default_factory=dict)  # loop → iterations that run before it, see `loops`
    hashes: tuple[int, ...] = ()  # how often hashes had been asked for before, see `base.hashes`
    last_where: tuple[tuple[str, int, str], ...] = ()  # where the last Break was raised
