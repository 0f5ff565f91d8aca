"""The parts of an entry as bytes, and the entry again in another process, for a call that its guards hold of.

    data = written(parts, fn, code, args)     # Unportable: the entry is this process's alone
    parts = read(data, fn, code, args)        # Changed, Unportable: something is not what it was

Guards are the steps that C runs (see `entries`). What a step compares with is found again by name, or at the very place
that the step reads, where a print says that it is the same.
"""

from __future__ import annotations

import abc
import enum
import functools
import itertools
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jax._src.core import AxisEnv, eval_context
from jax.sharding import AbstractMesh

from dynacomp.capture._native import GuardProgram, jax_config_token, suspended
from dynacomp.capture.base.hashes import hashes_alike, hashes_as_text
from dynacomp.capture.base.literals import is_literal, is_single
from dynacomp.capture.base.marks import Mark
from dynacomp.capture.bytecode.drivers import KEY, slots_of
from dynacomp.capture.bytecode.generator_plan import plan_at
from dynacomp.capture.bytecode.resume import living
from dynacomp.capture.entries import Info, Parts
from dynacomp.capture.portable import graphs
from dynacomp.capture.portable.homes import Unportable, is_library, module_of
from dynacomp.capture.portable.instances import is_value
from dynacomp.capture.portable.paths import NAMESPACE, REGISTRY, Finder, Path, follow
from dynacomp.capture.portable.prints import digest, library_name, named, owner_of, prints_of
from dynacomp.capture.portable.references import READERS, SCALARS, Changed, Reader, Writer, made_code, placed
from dynacomp.capture.wrapping.alike_classes import is_local

CONFIG = "jax_config"
TOKEN = "abc_token"  # which every process has others of: there the classes are asked again
UNPORTABLE = ("known_key",)  # hashes of one process
SUSPENDED = "suspended"  # a generator that stands still, in code that each process makes
OF_HOLDERS = ("unnoticed", "unreferable")  # who else holds an object: whoever looks at the guards does, meanwhile
LOADS = ("attr", "key")  # steps that read a name of a table
BY_IDENTITY = ("is_not", "const", "weak_const")
PLACE = "place "
ORDER = "the order of sets"
VALUES = (*LOADS, "local", "closure", "cell", "global", "slot", "dict", "item", "get", "upcoming", "iterated",
          "reduced", "suspended_local", "suspended_delegate")  # that fill a register
SIZES = ("dim", "int_size")
PLAIN = "plain_function"
TABLES = ("type_unchanged", "names_unchanged")
INFO = ("traced", "guards", "origin", "shapes", "operations", "scalars", "contents", "steps", "conditional",
        "arguments", "sized", "counted", "numbers", "identities", "classes")


@dataclass(frozen=True)
class TextGraph:
    """A Graph that another process has captured: nothing but its text."""

    text: str

    def __str__(self) -> str:
        return self.text


def written(parts: Parts, fn: Any, code: types.CodeType, args: tuple[Any, ...], hashes: bool = True,
            options: Any = None) -> bytes:
    """The record of an entry that was made for this call of a frame. hashes: whether other processes may have the same
    hashes of strings. options: whose entry it is. Where JAX transforms a caller, its Graph is written whole; settings
    are those of that call then, not those in which it was captured."""
    traced = parts.info.traced
    asked = [s for s in parts.steps if s[0] not in OF_HOLDERS and (s[0] != CONFIG or not traced)]
    held = GuardProgram(asked).registers(fn, args)
    if held is None:
        raise Unportable("its guards do not hold of its own call")
    steps = Steps(held, code, parts.steps)
    steps.writer.options = options
    try:
        return _record(parts, steps, hashes)
    finally:
        steps.let_go()


def _record(parts: Parts, steps: Steps, hashes: bool) -> bytes:
    info = parts.info
    written_steps = [steps.write(step) for step in parts.steps]
    replacement = parts.runs.get("fn_code")
    runs = {k: steps.reference(v) for k, v in parts.runs.items() if k != "fn_code"}
    made = {} if replacement is None else {"fn_code": made_code(steps.reference, replacement)}
    stopped = info.breaks and replace(info.breaks, because=(), sizes=())  # those are for attempts at the frame
    known = {name: getattr(info, name) for name in INFO} | {"scalars": _scalars(parts), "breaks": stopped}
    resumes = steps.writer.every(info.resumes())
    abstract = [(steps.reference(cls), steps.reference(base), found) for cls, base, found in parts.abstract]
    runs |= made
    by_text, by_address = info.hashes
    seed = hash(ORDER) if by_text or steps.writer.hashes else None
    if by_address or seed is not None and not hashes:
        raise Unportable("the order of sets, or hashes, which every process has others of")
    has_slot = parts.slot is not None
    whole = graphs.write(steps.writer, info.graph) if info.traced and info.graph is not None else None
    text = info.graph and (whole or str(info.graph))
    return pickle.dumps((seed, written_steps, runs, has_slot, known, resumes, abstract, text))


def read(data: bytes, fn: Any, code: types.CodeType, args: tuple[Any, ...], options: Any = None) -> Parts:
    """The parts of an entry for this very call, whose objects the record may ask for."""
    seed, written_steps, runs, has_slot, known, resumes, abstract, text = pickle.loads(data)
    if seed not in (None, hash(ORDER)):
        raise Changed("hashes of strings")
    r = Call(fn, code, args)
    r.options = options
    for step in written_steps:
        r.steps.append(r.step(step))
    for cls, base, answer in abstract:
        if issubclass(r.read(cls), r.read(base)) is not answer:
            raise Changed("what is registered with an abstract base class")
    known["scalars"] = {n: v if kind == "is" else Mark(r.register(v)) for n, kind, v in known["scalars"]}
    graph: Any = TextGraph(text) if type(text) is str else text and graphs.read(r, text)
    info = Info(graph, resumes=living(r.every(resumes)), **known)
    return Parts(r.steps, {k: r.read(v) for k, v in runs.items()}, r.slot if has_slot else None, info)


def _scalars(parts: Parts) -> list[tuple[str, str, Any]]:
    """The numbers that the capture saw; objects that it knew by their identity, by the registers that hold them."""
    info, found = parts.info, []
    registers = {text: step[1] for text, step in zip(info.origin, parts.steps) if step[0] in VALUES}
    for name, value in info.scalars.items():
        if is_literal(value) or type(value) in SCALARS:
            found.append((name, "is", value))
        elif type(value) is Mark and name in registers:
            found.append((name, "mark", registers[name]))
        elif type(value) is not Mark:
            raise Unportable(f"a {type(value).__qualname__} that may change")
    return found


class Steps:
    """Writes steps in turn. held: what all registers hold in the call. steps: all of them."""

    def __init__(self, held: list[Any], code: types.CodeType, steps: Sequence[tuple[Any, ...]] = ()) -> None:
        self.writer, self.finder, self.held, self.steps = Writer(code, self.way), Finder(), held, steps
        self.loads: dict[int, tuple[Any, ...]] = {}

    def let_go(self) -> None:
        """The two hold each other, and what the registers hold: the program's objects have to die at their time."""
        del self.writer.way

    def write(self, step: tuple[Any, ...]) -> tuple[Any, ...]:
        kind, *args = step
        if kind in UNPORTABLE:
            raise Unportable(f"a guard {kind}")
        if kind == CONFIG:
            made: tuple[Any, ...] = CONFIG, args[0][2], config_print(args[0])
        elif kind == TOKEN:
            made = (TOKEN,)
        elif kind == SUSPENDED:
            standing = _standing(self.writer, self.held[args[0]])
            if standing is None:
                raise Unportable("a generator")
            made = SUSPENDED, args[0], standing, args[2]
        elif kind in TABLES:
            src, names, objs = args
            made = kind, src, names, [self.print_at(obj, self.home(src, name)) for name, obj in zip(names, objs)]
        elif kind == "is" and not is_single(args[1]):
            if issubclass(type(args[1]), type) and is_local(args[1]) and self.of_call(args[0]):
                raise Unportable("a class that a function has made, which may be another in each call")
            made = "at", args[0], self.print_at(args[1], _place(self.loads.get(args[0]), self.held))
        elif kind == PLAIN:
            made = PLAIN, args[0], self.print_at(args[1], None)
        else:
            if kind == "set" and len(args[1]) > 1:  # it asks for their order
                if not all(map(hashes_as_text, args[1])):
                    raise Unportable("the order of a set of objects")
                self.writer.hashes |= not all(map(hashes_alike, args[1]))
            made = "step", kind, [self.reference(a, k and self.is_of_identity(kind, args)) for k, a in enumerate(args)]
        if kind in VALUES:
            self.loads[args[0]] = step
            self.finder.add(("register", args[0]), self.held[args[0]])
        return made

    def of_call(self, register: Any) -> bool:
        """Whether each call brings what the register holds."""
        kind, _, *rest = self.loads.get(register, ("", None))
        return kind in ("local", "closure") or bool(rest) and type(rest[0]) is int and self.of_call(rest[0])

    def reference(self, obj: Any, by_identity: Any = False) -> tuple[Any, ...]:
        """An object as data; by_identity: it must be this very one, not one that is made like it."""
        if not by_identity or not (type(obj) in (list, dict, tuple) and module_of(obj) is None or is_literal(
                obj) and not is_single(obj) or is_value(type(obj))):
            return self.writer.write(obj)
        data = self.way(obj) or placed(obj)
        if data is None:
            raise Unportable(f"a {type(obj).__qualname__} known by its identity")
        return "found", self.writer.number(obj), data

    def is_of_identity(self, kind: str, args: list[Any]) -> bool:
        """Whether a step is about the very object that it names, not about what the object holds."""
        return kind in BY_IDENTITY and not (kind == "const" and args[0] not in self.compared and (
            is_literal(args[1]) or is_value(type(args[1]))))

    @functools.cached_property
    def compared(self) -> set[int]:
        """The registers whose objects are told apart, or known to be one."""
        found: set[int] = set()
        for kind, *args in self.steps:
            if kind in ("same", "distinct"):
                found |= {a for a in args if type(a) is int}
            elif kind == "all_distinct":
                found |= {n for group in args for n in group}
        return found

    def way(self, obj: Any) -> tuple[Any, ...] | None:
        """How to an object without a name from one that a register holds; None where no way is known."""
        found = self.finder.path(obj) or self.far(obj)
        if found is None:
            return None
        root, path = found
        guarded = path[-1:] == (NAMESPACE,)  # what is read of it
        return "way", root, path, "" if guarded else self.writer.prints.of(obj)

    def far(self, obj: Any) -> tuple[Any, Path] | None:
        """The way to what belongs to a function or class that a module has: one that some step compares with, the class
        after which a function is named, one that JAX takes apart."""
        owner = owner_of(obj)
        if owner is not None:
            self.by_name.add(self.writer.by_name(owner), owner)
        return self.by_name.path(obj)

    @functools.cached_property
    def by_name(self) -> Finder:
        found = Finder(depth=3)
        for obj in itertools.chain(defined(self.steps), list(REGISTRY)):
            if (names := named(obj)) is not None:
                found.add(("named", *names, ""), obj)
        return found

    def print_at(self, obj: Any, place: str | None) -> tuple[int | None, str]:
        """What an object at a place is: its number, and a print, or that a library has put it there."""
        try:
            told = self.writer.prints.of(obj)
        except Unportable:
            if place is None:
                raise
            told = f"{place}: {type(obj).__qualname__}"
        return self.writer.number(obj), told

    def home(self, src: int, name: str) -> str | None:
        return _home(self.held[src], name)


def defined(steps: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """The functions and classes that steps compare with."""
    for kind, *args in steps:
        objs = args[2] if kind in TABLES else args[0] if kind == "functions_unchanged" else args
        yield from (obj for obj in objs if issubclass(type(obj), (types.FunctionType, type)))


class Call(Reader):
    """Reads steps in turn, for one call, in which all that were read before hold."""

    def __init__(self, fn: Any, code: types.CodeType, args: tuple[Any, ...]) -> None:
        super().__init__(code)
        self.fn, self.args, self.steps = fn, args, []  # type: tuple[Any, Any, list[tuple[Any, ...]]]
        self.loads: dict[int, tuple[Any, ...]] = {}
        self._held: list[Any] = []
        self._done = 0  # how many steps have been run
        self._sizes: list[tuple[Any, ...]] = []  # those of them that read sizes, which later ones ask for

    def register(self, number: int) -> Any:
        """What a register holds."""
        if number >= len(self._held):
            self._run()
        return self._held[number]

    def _run(self) -> None:
        """Runs the steps that have not been run, on what the registers hold that they read."""
        fresh, self._done = self.steps[self._done:], len(self.steps)
        fresh = [*self._sizes, *fresh]
        self._sizes = [s for s in fresh if s[0] in SIZES]
        read = {n for step in fresh for n in numbers_in(step[1:]) if 0 <= n < len(self._held)}
        fresh = [s for s in fresh if s[0] not in OF_HOLDERS]
        known = [("const", n, self._held[n]) for n in sorted(read)]
        found = GuardProgram([*known, *fresh]).registers(self.fn, self.args)
        if found is None:
            raise Changed("a guard")
        self._held += found[len(self._held):]

    def step(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        kind = data[0]
        if kind == "step":
            made = (data[1], *self.every(data[2]))
            if made[0] in VALUES:
                self.loads[made[1]] = made
            return made
        if kind == CONFIG:
            with eval_context():
                token = jax_config_token(data[1])
            if config_print(token) != data[2]:
                raise Changed("the configuration of JAX")
            return CONFIG, token
        if kind == TOKEN:
            return TOKEN, abc.get_cache_token()
        if kind == SUSPENDED:
            _, src, standing, key = data
            if _standing(self, self.register(src)) != standing:
                raise Changed("a generator")
            driver = suspended(self.register(src))[0]  # type: ignore[index]
            return SUSPENDED, src, driver, key, slots_of(driver)[KEY]
        if kind == "at":
            _, src, told = data
            return "is", src, self.same_at(self.register(src), told, lambda: self.place(src))
        if kind == PLAIN:
            _, src, told = data
            return PLAIN, src, self.same_at(getattr(self.register(src), "__code__", None), told, lambda: None)
        _, src, names, prints = data
        table = self.register(src)
        return kind, src, names, tuple(self.same_at(_lookup(table, name), told, functools.partial(_home, table, name))
                                       for name, told in zip(names, prints))

    def place(self, src: int) -> str | None:
        step = self.loads.get(src)
        if step is not None and step[0] in LOADS:
            self.register(step[2])
        return _place(step, self._held)

    def same_at(self, obj: Any, data: tuple[int | None, str], place: Callable[[], str | None]) -> Any:
        number, told = data
        if told.startswith(PLACE):
            if f"{place()}: {type(obj).__qualname__}" != told:
                raise Changed(told)
        else:
            self.same(obj, told)
        return self.found(number, obj)


def _standing(side: Writer | Reader, obj: Any) -> tuple[str, bool] | None:
    """Whose generator stands there, as the print of its code, and whether its driver began in the middle."""
    plan, _ = plan_at(obj)
    code = plan.original() if plan is not None else None
    if plan is None or code is None:
        return None
    return side.prints.of(code), suspended(obj)[0] is plan.begun  # type: ignore[index]


def numbers_in(operands: tuple[Any, ...]) -> Iterator[int]:
    """The numbers among a step's operands, registers among them."""
    for part in operands:
        if type(part) is int:
            yield part
        elif type(part) is tuple:
            yield from numbers_in(part)


def _way(r: Any, root: int, path: Any, told: str) -> Any:
    try:
        found = follow(r.read(root), path)
    except LookupError:
        raise Changed(f"the way {path}") from None
    return r.same(found, told) if told else found


READERS |= {"way": _way, "register": lambda r, number: r.register(number)}


def _lookup(table: Any, name: str) -> Any:
    """What a class or a namespace has under a name, as the guard looks it up."""
    if issubclass(type(table), type):
        return next((vars(c)[name] for c in table.__mro__ if name in vars(c)), NotImplemented)
    return table.get(name, NotImplemented) if type(table) is dict else NotImplemented


def _place(step: tuple[Any, ...] | None, held: list[Any]) -> str | None:
    """Where a step reads a name of a library's module or class; None elsewhere."""
    return None if step is None or step[0] not in LOADS else _home(held[step[2]], step[3])


def _home(table: Any, name: Any) -> str | None:
    """A name of a library's module or class; None of other tables."""
    home = table.__name__ if issubclass(type(table), types.ModuleType) else module_of(table)
    if home is not None:
        return f"{PLACE}{home}.{name}" if is_library(sys.modules.get(home)) else None
    found = library_name(table) if issubclass(type(table), type) else None
    return None if found is None else f"{PLACE}{found}.{name}"


def config_print(token: tuple[Any, ...]) -> str:
    """JAX's settings as text."""
    return digest(*_settings(token))


def _settings(part: Any) -> Iterator[str]:
    if type(part) is tuple:
        yield f"({len(part)}"
        for inner in part:
            yield from _settings(inner)
    elif type(part) is AxisEnv:
        yield from (repr(getattr(part, name)) for name in AXES)
    elif is_literal(part) or isinstance(part, (enum.Enum, AbstractMesh)):
        yield f"{type(part).__name__} {part!r}"
    else:
        yield prints_of(part)


AXES = tuple(name for name in AxisEnv.__slots__ if name != "__weakref__")
