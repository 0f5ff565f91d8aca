"""What earlier captures of one code object saw, and what follows from it: which sizes and numbers are symbolic.

A `History` belongs to a code object, its options, and whether JAX transforms the caller. Sizes and Python numbers are
remembered by `Source`, and apart for each *kind of call*: one training step that serves two models sees a size
"change" at `L['params']['out'].shape[0]`, but no call of either model changes it. What kind a call is follows from
how its arguments and its closure are built (`kind_of_call`): their containers, keys, classes and functions. Where one
kind after the other comes a single time and nothing but keys tells them apart, keys are no mark of a model: calls are
one kind then whatever their keys (`shape_of_call`).

What runs in a frame with a name of another's, the rest of a frame behind a graph break or a function that it defines,
inherits what is known of that: what was seen to change in the frame changes there, too.

    >>> one, other = np.ones(3), np.ones(4)
    >>> kind_of_call(None, ({"w": one}, 2)) == kind_of_call(None, ({"w": other}, 4))
    True
    >>> kind_of_call(None, ({"w": one}, 2)) == kind_of_call(None, ({"v": one}, 2))
    False
"""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import os
import re
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from dynacomp.capture.base.identity_table import IdentityTable
from dynacomp.capture.base.marks import Mark
from dynacomp.capture.bytecode.resume import is_resume, layout_of, original_of, own_cells
from dynacomp.capture.bytecode.segments import generator_of
from dynacomp.capture.control_flow.python_loops import Rounds
from dynacomp.capture.graph.avals import ARRAY_TYPE
from dynacomp.capture.hosting.made_anew import Anew
from dynacomp.capture.kinds.keys import Identity
from dynacomp.capture.numbers.dynamic_scalars import Pinned
from dynacomp.capture.reconstruct.counted_numbers import Counted
from dynacomp.capture.symbolic.lessons import Data, Frozen, Policy, Stored
from dynacomp.capture.values.sources import At, Count, Dim, Host, Local, Source, passed
from dynacomp.capture.wrapping.alike_objects import Said
from dynacomp.capture.wrapping.changing_contents import Content, Part
from dynacomp.driver import frame_places
from dynacomp.marks import dynamic_marks, static_marks
from dynacomp.options import Options

MAX_SIZES = 2  # sizes that must be constants for a call in the program: with a third, the call breaks the graph
MAX_MISSES = 3  # so many misses because of what a container holds, and Python runs the loops over it
MAX_FRESH = 2  # the same after a graph break, over a container that Python has just made
LAST = 2  # before so few entries are left, a container passed in that had another content once is Python's
MAX_VALUES = 4  # a Python number that must be a constant and had more values than this breaks the graph
MAX_SAID = 2  # jaxprs of so many kinds may be passed in at one place, or be alive at a break, until Python has them
AXES = 3  # on so many the first axes the size of an array may follow a number
MAX_ALIKE = 2  # kinds that came once and differ in keys alone: with a third, keys tell no kinds apart
MAX_KINDS = 32  # kinds of calls of one code object that are remembered
DEPTH, WIDTH = 6, 64  # how deep and how far into a container is looked for the kind of a call
NOTES = (int, float, complex, bool, str, bytes, type(None))
LEAVES = (*NOTES, ARRAY_TYPE, np.ndarray)
ITEM = re.compile(r"\[\d+\]")
HOLDER = re.compile(r"""\[(?:-?\d+|'[^']*'|"[^"]*")\](?=\.)""")  # the key of an object in a container
ROW = re.compile(r"(?<!\d\])\[\d+\](?=(?:\[\d+\])*$)")  # where in a list a number is, or the row that it is in
PEERS = 2  # objects, or items, of one container where something changes: that of the others is expected to
OBJECT = "<"  # how the words begin that a guard has for an object
STORED = " holds the same "  # in a guard on the content of an array
TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")  # in words: it may hold anything
LOOPS = "what loops that Python runs go through"
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


@dataclass(eq=False)
class Seen:
    """What the calls of one kind had: sizes and Python numbers by Source."""

    sizes: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    scalars: dict[str, set[Any]] = field(default_factory=dict)
    varied: set[str] = field(default_factory=set)  # those of the numbers that had another value once
    peers: dict[str, set[str]] = field(default_factory=dict)  # the same, by attribute of any object in a container
    numbers: dict[str, int] = field(default_factory=dict)  # ints that are inputs, as the last capture found them
    lengths: dict[str, set[int]] = field(default_factory=dict)  # of the containers that the code was given
    shape: int = 0  # of its calls, see `shape_of_call`
    captures: int = 0
    any_keys: bool = False  # whether it is of calls with other keys, too

    def joined(self, other: Seen) -> None:
        """What the calls of another kind had is seen here, too."""
        for mine, others in ((self.sizes, other.sizes), (self.scalars, other.scalars), (self.lengths, other.lengths)):
            for place, had in others.items():
                mine.setdefault(place, set()).update(had)  # type: ignore[arg-type, call-overload]
        self.numbers.update(other.numbers)
        for name in other.varied:
            self.vary(name)

    def vary(self, name: str) -> None:
        """Notes that the number there has another value than it had."""
        self.varied.add(name)
        if of_any(name):
            self.peers.setdefault(of_any(name), set()).add(name)

    def varies(self, name: str) -> bool:
        """Whether the number there has changed, or that of objects which lie where its object does."""
        return name in self.varied or len(self.peers.get(of_any(name), ())) >= PEERS


class History:
    """What earlier captures of one code object saw. traced: under a transformation of JAX. order: how often such calls
    were differentiated; at least once, since the entry that a batch finds serves a gradient, too."""

    def __init__(self, traced: bool = False) -> None:
        self.traced = traced
        self.order = int(traced)
        self.trace: Any = None  # the weak reference to it of the trace that runs the call at hand
        self.kinds: OrderedDict[int, Seen] = OrderedDict()  # the one that was asked for last stands last
        self.captures = 0
        self.died = 0  # entries whose objects were gone when the last capture began
        self.owners: set[int] = set()  # ids of the functions that were compiled and run this code
        self.limited = -1  # how many captures there were when a call met the limit
        self.refused = self.unasked = 0  # calls that it left to Python; how many do not ask until the next one does
        self.failures = 0  # captures in a row that made no entry
        self.wait = 0  # calls that run plainly before the next attempt
        self.failure = ("", "")  # why the last one made none
        self.missed: Counter[Source] = Counter()  # arguments by whose content an entry was not that of a call
        self.contents: Counter[str] = Counter()  # containers by whose; resume functions have their original's
        self.expected: set[str] = set()  # which contents they had not, in words; shared in the same way
        self.restless: set[str] = set()  # containers that Python reads because of that; shared in the same way
        self.counted: set[str] = set()  # numbers that calls change where they find them; shared in the same way
        self.outer: History | None = None  # of the frame that this code goes on with, or that defines its function
        self.resumes: list[weakref.ref[History]] = []  # of what goes on with this code behind its breaks
        self.resumed = False  # whether the code goes on after a graph break: what it is given Python has just made
        self.cells: tuple[str, ...] = ()  # that the frame has filled itself, of what goes on with it
        self.walks = ""  # the iterator of which the break before has told that it goes over what changes
        self.splits = 0  # how often a condition on changing numbers kept an entry from serving a call
        self.data = False  # whether calls have had other texts or contents of containers
        self.frozen: dict[str, Frozen] = {}  # sizes that something in this code needs as constants
        self.churned = 0  # how often it was left to Python because its entries served next to nothing
        self.made_anew: set[str] = set()  # names of classes that were other ones in call after call
        self.served: list[int] = []  # how many calls entries had served at each capture
        self.hits = 0  # the same, now
        self.lock = threading.RLock()  # one thread captures, the others wait for its entry

    def seen_by(self, fn: Any, args: tuple[Any, ...]) -> Seen:
        """What calls of this one's kind had."""
        kind = kind_of_call(fn, args)
        return self.seen(kind, 0 if kind in self.kinds else shape_of_call(fn, args))

    def seen(self, kind: int, shape: int = 0) -> Seen:
        """What calls of this kind had; the kind that was not asked for the longest is forgotten for a new one."""
        found = self.kinds.get(kind) or self.kinds.setdefault(kind, self._seen_in(shape))
        self.kinds.move_to_end(kind)
        if len(self.kinds) > MAX_KINDS:
            self.kinds.popitem(last=False)
        return found

    def _seen_in(self, shape: int) -> Seen:
        """What a new kind of calls begins with: nothing, or what all of this shape had."""
        alike = [seen for seen in self.kinds.values() if seen.shape == shape]
        common = next((seen for seen in alike if seen.any_keys), None)
        once = [seen for seen in alike if seen.captures == 1]
        if common is None and len(once) >= MAX_ALIKE:
            common = Seen(shape=shape, any_keys=True)
            for seen in once:
                common.joined(seen)
        return common or Seen(shape=shape)

    def inherited(self, kind: str, place: str, axis: int | None = None) -> set[Any]:
        """What the frames around had under this name in their last call, `kind` "sizes" or "scalars": the nearest that
        had something. Of what goes on with them behind other breaks just what changed there: a local may be another
        array at each. Cells are arguments of one frame and closures of another."""
        if self.outer is None or place[:2] not in ("L[", "C[", "G["):
            return set()
        spelled = [place] if place[0] == "G" else ["L" + place[1:], "C" + place[1:]]
        names = [name if axis is None else (name, axis) for name in spelled]
        found: set[Any] = set()
        for n, seen in enumerate(self.outer.last()):
            had = [vars(seen)[kind].get(name, ()) for name in names]
            found.update(*(values for values in had if n == 0 or len(values) > 1))
        return found or self.outer.inherited(kind, place, axis)

    def had_others(self, name: str, value: float) -> bool:
        """Whether calls of another kind had another number there. A float shapes nothing: what differs between two
        objects (prices, rates) is another for the next of either as well, and costs little as an input."""
        return any(type(had) is float and had != value for seen in self.kinds.values()
                   for had in seen.scalars.get(name, ()))

    def is_expected(self, name: str) -> bool:
        """Whether numbers that lie where this one does change in the frames around, in calls like their last."""
        if not of_any(name) or self.outer is None:
            return False
        spelled = [name] if name[0] == "G" else [root + name[1:] for root in "LC"]
        found = any(seen.varies(place) for seen in self.outer.last() for place in spelled)
        return found or self.outer.is_expected(name)

    def last(self) -> Iterator[Seen]:
        """What the last calls had, of this frame and of what goes on with it."""
        for history in (self, *(r() for r in self.resumes)):
            yield Seen() if history is None else next(reversed(history.kinds.values()), Seen())

    def moving(self) -> set[tuple[int, int]]:
        """The sizes, with their axes, of arrays that the frames around, and what goes on with them, had with others,
        too, in calls like the last; and the numbers that changed there, as sizes."""
        found: set[tuple[int, int]] = set()
        for seen in () if self.outer is None else self.outer.last():
            found |= {(axis, n) for (_, axis), sizes in seen.sizes.items() if len(sizes) > 1 for n in sizes}
            found |= {(axis, n) for name, n in seen.numbers.items() if name in seen.varied for axis in range(AXES)}
        return found if self.outer is None else found | self.outer.moving()

    def misses_by(self, container: Source) -> int:
        """How often calls, of the frames around too, had another content of this container. Once one item of a list has
        had another, all of its items count as such, and once two of them have, what was counted of one holds of all."""
        name, history = repr(container), self.outer
        own = repr(Content(container))
        alike = [n for of, n in self.contents.items() if n and any_item(of) == any_item(own)]
        found = sum(alike) if len(alike) > 1 else max(self.contents[own], bool(alike))
        while history is not None and name[:2] in ("L[", "C["):
            found = max(found, *(history.contents[f"content({root}{name[1:]})"] for root in "LC"))
            history = history.outer
        return found

    def changed(self) -> set[str] | None:
        """The arguments by whose content calls have missed entries, where that was often: here or, of what goes on with
        a frame for the first time, in it; else None."""
        around = self.outer.missed.total() if self.resumed and self.outer is not None and not self.captures else 0
        often = max(self.missed.total(), self.contents.total(), around) >= MAX_FRESH
        return {place.name for place in self.missed if isinstance(place, Local)} if often else None

    def is_torn(self) -> bool:
        """Whether conditions have kept each entry behind a break from serving another call, once and again."""
        return self.resumed and self.splits >= MAX_FRESH and not self.hits

    def sizes_of(self, name: str) -> set[int]:
        """The sizes that a place had in calls of all kinds, by its name: `L['x'].shape[0]`."""
        return {n for seen in self.kinds.values() for (source, axis), found in seen.sizes.items()
                if f"{source}.shape[{axis}]" == name for n in found}


_HISTORY: dict[tuple[int, Options, bool], History] = {}


def history_of(code: CodeType, options: Options, traced: bool) -> History:
    """By identity (code objects compare by value), for as long as the code lives. What runs under JAX's
    transformations has entries, and so a history, of its own."""
    key = (id(code), options, traced)
    found = _HISTORY.get(key)
    if found is None:
        found = _HISTORY.setdefault(key, History(traced))
        if original_of(code) is not code:
            found.resumed = True
            found.outer = original = history_of(original_of(code), options, traced)
            found.contents, found.restless = original.contents, original.restless
            found.counted, found.expected = original.counted, original.expected
            original.resumes = [*(r for r in original.resumes if r() is not None), weakref.ref(found)]
        elif (around := _around(code)) is not None:
            found.outer = outer = history_of(around, options, traced)
            if code.co_name in COMPREHENSIONS:  # Python runs the frame that it is a part of
                found.resumed, found.restless = True, outer.restless
        found.cells = fresh_cells(code)
        _define(code, code)
        weakref.finalize(code, _HISTORY.pop, key, None).atexit = False
    return found


_AROUND = IdentityTable()  # the code of a function → that of the frame which defines it, and has a history


def _define(inner: CodeType, around: CodeType) -> None:
    """Notes which functions a frame defines, and those in them."""
    for const in defined_in(inner):
        if _around(const) is None:
            _AROUND[const] = weakref.ref(around)


def defined_in(code: CodeType) -> Iterator[CodeType]:
    """The code of the functions that a frame defines, and of those in them."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from defined_in(const)


def _around(code: CodeType) -> CodeType | None:
    known = _AROUND.get(code)
    return generator_of(code) if known is None else known()


def forget() -> None:
    """Forgets what was learned about all code objects."""
    _HISTORY.clear()
    _AROUND.clear()


def _after_fork() -> None:
    """The thread that held a lock does not exist in the child."""
    for history in _HISTORY.values():
        history.lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


@functools.lru_cache(4096)
def any_item(name: str) -> str:
    """The name of a place, whichever items of containers it leads through."""
    return ITEM.sub("[]", name)


@functools.lru_cache(4096)
def of_any(name: str) -> str:
    """The name of an attribute of objects in containers, or of an item of lists, whichever it is; "" for other places.

    >>> of_any("G['stock']['pears'].count"), of_any("C['board'][2]"), of_any("L['self'].rate")
    ("G['stock'][].count", "C['board'][]", '')
    """
    root = name.find("]") + 1
    found = name[:root] + ROW.sub("[]", HOLDER.sub("[]", name[root:]))
    return "" if found == name else found


# --- kinds of calls


def kind_of_call(fn: Any, args: tuple[Any, ...]) -> int:
    """How the arguments of a call and the closure of its function are built, as a hash, which keeps nothing alive.
    Two calls of a kind can differ in arrays, numbers, lengths, in what lists hold, and in objects, functions and
    classes made anew."""
    return hash((*(_built(arg, DEPTH) for arg in args), _built(fn, DEPTH)))


def shape_of_call(fn: Any, args: tuple[Any, ...]) -> int:
    """The same, whatever the keys of dicts."""
    return hash((*(_built(arg, DEPTH, False) for arg in args), _built(fn, DEPTH, False)))


def _built(x: Any, depth: int, keys: bool = True) -> Hashable:
    """Nothing of the program's runs: objects are asked for nothing, not even for their class."""
    kind = type(x)
    if kind in LEAVES or depth == 0:
        return None
    if kind is dict:  # of parameters; what counts and notes beside them comes and goes
        return kind, frozenset((key if keys else None, _built(v, depth - 1, keys))
                               for key, v in itertools.islice(x.items(), WIDTH)
                               if type(key) is str and type(v) not in NOTES)
    if issubclass(kind, tuple):
        return _name(kind), frozenset(_built(v, depth - 1, keys) for v in tuple.__getitem__(x, slice(WIDTH)))
    if kind is FunctionType:
        return x.__code__, frozenset(_built(v, depth - 1, keys) for _, v in cells_of(x))
    return _name(kind)


def _name(kind: type) -> str:
    return type.__getattribute__(kind, "__qualname__")


def cells_of(fn: Any) -> list[tuple[str, Any]]:
    """What the cells of a function hold, by name."""
    found = []
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()) if type(fn) is FunctionType else ():
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # nothing in it yet
            continue
    return found


# --- what is symbolic


def policy_of(history: History, seen: Seen, options: Options, fn: Any, code: CodeType,
              args: tuple[Any, ...]) -> Policy:
    """What a capture of this call may ask."""
    return Policy(size_rule(history, seen, options, moved(history, seen, fn, code, args)),
                  scalar_rule(history, seen, options, is_resume(code)),
                  functools.partial(changes_often, history, seen, options), opens(history))


def opens(history: History) -> int | None:
    """From how many conditions on changing numbers on they are left open, where a call has missed an entry by one: for
    a single one two entries do."""
    return (1 if history.captures > 2 else 2) if history.splits else None


def moved(history: History, seen: Seen, fn: Any, code: CodeType, args: tuple[Any, ...]) -> set[tuple[int, int]]:
    """Axes of the call's own arrays, those in cells too, each with a size that has now changed for the first time:
    other arrays that had this size on that axis are likely to follow. So are those that have the size of an array
    which a frame around has seen to change."""
    found: set[tuple[int, int]] = set()
    given = [(f"L[{name!r}]", arg) for name, arg in zip(code.co_varnames, args)]
    for place, arg in (*given, *((f"C[{name!r}]", arg) for name, arg in cells_of(fn))):
        for axis, size in enumerate(arg.shape if type(arg) in (ARRAY_TYPE, np.ndarray) else ()):
            had = seen.sizes.get((place, axis), set())
            found |= {(axis, n) for n in had} if len(had) == 1 and size not in had else set()
            found |= {(axis, size)} if not had and len(history.inherited("sizes", place, axis) | {size}) > 1 else set()
    return found


def size_rule(history: History, seen: Seen, options: Options,
              follows: set[tuple[int, int]]) -> Callable[[Source, int, int, Any], Any]:
    """Which sizes of which inputs are symbolic: marked ones (within their bounds), those that were seen to differ,
    and, among the call's own arrays, those that were equal to one that has just changed. So are, behind a break, those
    of what Python then gives (the item of a loop, say) that arrays before it had among others."""
    def is_dynamic(source: Source, axis: int, size: int, array: Any = None) -> Any:
        frozen = history.frozen.get(repr(Dim(source, axis)))
        if options.dynamic is False or size < 2 or axis in static_marks(array) or frozen is not None and (
                frozen.compiled or not changes_often(history, seen, options, Dim(source, axis))):
            return False
        marks = dynamic_marks(array)
        if axis in marks:
            return marks[axis]
        had = seen.sizes.get((repr(source), axis)) or history.inherited("sizes", repr(source), axis)
        fresh = source.is_argument or frame_places.on_stack(source)
        return type(source) is Host or frame_places.under_a_size(source) or options.dynamic is True or bool(
            had - {size}) or history.resumed and not had and fresh and (axis, size) in history.moving() or bool(
            had or history.outer) and (axis, size) in follows and fresh
    return is_dynamic


def fresh_cells(code: CodeType) -> tuple[str, ...]:
    """Cells that a frame has filled itself which Python runs in part: of a resume function, and of a comprehension in
    such a frame."""
    of = _around(original_of(code)) if code.co_name in COMPREHENSIONS else code if is_resume(code) else None
    return () if of is None else own_cells(of)


def scalar_rule(history: History, seen: Seen, options: Options, resumed: bool) -> Callable[[Source, Any], bool]:
    """Which Python numbers and strings are inputs instead of constants: those that were seen to differ, and, after
    a graph break, those that the frame holds then (Python has just computed them, likely)."""
    changes = LOOPS in history.restless

    def is_just_made(source: Source) -> bool:
        cells = history.cells
        torn = changes and frame_places.in_the_frame(source, cells) or frame_places.under_a_key(source, cells)
        return resumed and _is_just_made(history, source) or (
            history.resumed and torn) or frame_places.in_a_cell(source, cells)

    def is_dynamic_scalar(source: Source, value: Any) -> bool:
        if options.dynamic is False:
            return False
        if isinstance(source, (At, Count)):  # asked for only where the content, or the key, was seen to change
            return True
        if type(value) in (int, float, complex, str, bytes) and is_just_made(source):
            return True
        name = repr(source)
        if (seen.scalars.get(name) or history.inherited("scalars", name)) - {value} or (
                type(value) is float and history.had_others(name, value)):
            seen.vary(name)  # whatever value comes next
        return seen.varies(name) or history.is_expected(name) or name in history.counted
    return is_dynamic_scalar


def changes_often(history: History, seen: Seen, options: Options, source: Source) -> bool:
    """A number or size had too many values to be a constant. Conditions on numbers are guarded for half of the
    entries that a code may have; then they break, and what follows is compiled once for all."""
    return OFTEN.get(type(source), _number_changes)(history, seen, options, source)


def _number_changes(history: History, seen: Seen, options: Options, source: Source) -> bool:
    return len(seen.scalars.get(repr(source), ())) > MAX_VALUES


def _computed_changes(history: History, seen: Seen, options: Options, source: Source) -> bool:
    """Computed numbers are constants for half of the entries that a code may have, those with few values longer."""
    found = len(seen.scalars.get(repr(source), ()))
    return found >= MAX_SIZES and history.captures >= options.recompile_limit // 2


def _content_changes(history: History, seen: Seen, options: Options, source: Content) -> bool:
    vain = not history.hits and frame_places.kept(source.base)
    most = MAX_FRESH if vain else max(MAX_MISSES, options.recompile_limit // 2)
    last = history.captures >= options.recompile_limit - min(LAST, options.recompile_limit // 4)
    if last and passed(source.base) is not None:  # what a module or a function has is not another in each call
        most = 1
    return options.dynamic is not False and _is_restless(history, source.base, history.misses_by(source.base), most)


def _rounds_change(history: History, seen: Seen, options: Options, rounds: Rounds) -> bool:
    """Whether a loop had so many numbers of rounds that Python is to run it. What is passed in changes more often than
    what an object holds: the size of a model, say."""
    argument = passed(rounds.base)
    if rounds.walked:
        goes_on = frame_places.on_stack(rounds.base)  # Python ran rounds of the loop before
        most = MAX_FRESH if history.resumed else MAX_MISSES
        return argument is not None and (argument.name == history.walks or _is_restless(
            history, rounds.base, history.missed[argument], most)) or (
            goes_on and history.captures >= options.recompile_limit // 2)
    if type(rounds.base) in OFTEN:
        return changes_often(history, seen, options, rounds.base)
    return len(seen.scalars.get(repr(rounds), ())) >= (MAX_SIZES if argument is not None else MAX_VALUES)


# What may change too often, a number aside → whether it did.
OFTEN: dict[type, Callable[[History, Seen, Options, Any], bool]] = {
    Counted: lambda history, seen, options, source: options.dynamic is not False,
    Pinned: _computed_changes, Rounds: _rounds_change, Content: _content_changes,
    Anew: lambda history, seen, options, source: len(seen.scalars.get(repr(source), ())) >= MAX_SIZES,
    Identity: lambda history, seen, options, source: history.died >= MAX_MISSES,
    Part: lambda history, seen, options, source: options.dynamic is not False and (
        _is_just_made(history, source.base) or history.resumed and frame_places.under_a_key(source.base, history.cells)
        or history.misses_by(source.base) > 0),
    Said: lambda history, seen, options, source: len(seen.scalars.get(repr(source), ())) > MAX_SAID,
    Data: lambda history, seen, options, source: history.data,
    Stored: lambda history, seen, options, source: options.dynamic is not False and (
        history.misses_by(source.base) >= MAX_FRESH),
    Host: lambda history, seen, options, source: history.is_torn() or (
        history.captures >= options.recompile_limit // 2),
    Dim: lambda history, seen, options, source: len(
        seen.sizes.get((repr(source.base), source.axis), ())) >= MAX_SIZES,
}


def is_lasting(history: History, seen: Seen, info: Any) -> bool:
    """Whether an entry, of another process, knows no object by its identity that each call was seen to make anew: its
    guards would hold of this call alone."""
    changed = [name for name, mark in info.scalars.items()
               if type(mark) is Mark and (seen.scalars.get(name) or history.inherited("scalars", name)) - {mark}]
    return not any(name.startswith(place) or place.startswith(name) for name in changed for place in info.identities)


def note_content(history: History, container: str, said: str) -> None:
    """Notes that a call had another content of a container than an entry expects; once, however many of the functions
    that the frame goes on with expect it: parameters that come back sorted are one change to all of them. Objects have
    no words of their own, nor has what is stored in an array: what is said of them by a later entry is something
    else."""
    said = f"{said} #{history.captures}" if any(word in TEXT.sub("", said) for word in (OBJECT, STORED)) else said
    if container and said not in history.expected:
        history.expected.add(said)
        history.contents[container] += 1


def note_lengths(history: History, seen: Seen, code: CodeType, args: tuple[Any, ...],
                 missed: Source | None) -> None:
    """Notes how long the containers are that a call passes, and what a comprehension goes over. One that has another
    length than before would have been missed by that, behind `missed`: those that one program fills change together."""
    for place, length in lengths_of(code, args):
        had = seen.lengths.setdefault(place.name, set())
        if had and length not in had and place != missed:
            history.missed[place] += 1
            history.contents[repr(Content(place))] += 1
        had.add(length)


def had_lengths(seen: Seen, code: CodeType, args: tuple[Any, ...]) -> set[Source]:
    """The containers that are as long as in an earlier call, of those that were longer or shorter meanwhile."""
    return {place for place, length in lengths_of(code, args) if length in (had := seen.lengths.get(place.name, ()))
            and len(had) > 1}


def lengths_of(code: CodeType, args: tuple[Any, ...]) -> Iterator[tuple[Local, int]]:
    """The containers that a call passes, and in a comprehension the iterators, with how long they are."""
    kinds = (*CONTAINERS, *ITERATORS) if code.co_name in COMPREHENSIONS else CONTAINERS
    for n, (name, arg) in enumerate(zip(code.co_varnames, args)):
        if type(arg) in kinds:
            yield Local(n, name), operator.length_hint(arg)


CONTAINERS = (list, dict, set, collections.deque)
ITERATORS = tuple(map(type, map(iter, ([], (), {}, {}.values(), {}.items()))))


def note_walks(info: Any, code: CodeType, options: Options, traced: bool) -> None:
    """Notes of what goes on behind a break over a container, or a comprehension in which a loop was broken at, that the
    iterator which it is given goes over what changes: no call has to miss an entry before that is found there, too."""
    if info.breaks is None or info.breaks.kind not in ("contents", "rounds"):
        return
    for resumed in info.resumes() if info.breaks.kind == "contents" else ():
        layout = layout_of(resumed)
        if layout is not None and layout.stack:
            history_of(resumed, options, traced).walks = f"$s{len(layout.stack) - 1}"
    _, line, name = info.breaks.where[-1] if info.breaks.where else ("", 0, "")
    for inner in defined_in(original_of(code)):
        if inner.co_name == name and name in COMPREHENSIONS and any(at == line for _, _, at in inner.co_lines()):
            history_of(inner, options, traced).walks = ".0"


def _is_just_made(history: History, source: Source) -> bool:
    """Whether Python has made that, or filled it, in this call: it lies on the stack after a graph break, or in a local
    then."""
    return history.resumed and (
        source.is_argument or frame_places.on_stack(source) or frame_places.in_a_cell(source, history.cells))


def _is_restless(history: History, container: Source, misses: int, most: int) -> bool:
    """Whether a container has had other contents too often. Of those that Python has just made one miss is enough
    once that was found of another: what a program makes of changing data changes with it."""
    fresh = _is_just_made(history, container)
    found = misses >= (1 if fresh and history.restless - {repr(container)} else most)
    if found:
        history.restless.add(repr(container))
    return found


def remember(history: History, seen: Seen, info: Any) -> None:
    """Notes what a capture saw, for the next one. info: the `Info` of its entry."""
    seen.captures += 1
    history.counted.update(info.counted)
    seen.numbers.update(info.numbers)
    for place, size in info.shapes.items():
        seen.sizes.setdefault(place, set()).add(size)
    for name, value in info.scalars.items():
        seen.scalars.setdefault(name, set()).add(value)
