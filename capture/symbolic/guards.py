"""Guards: what must hold of a Source for a compiled entry to be used again.

`GuardSet` collects them during capture, without repetition; `program()` turns them into the steps
that `_native.GuardProgram` evaluates in C, one register a Source. Each kind of guard is one row of
`KINDS`: how it prints. The C side is the other half of the row, under the same name.

    >>> from dynacomp.capture.values.sources import Local
    >>> guards = GuardSet()
    >>> guards.add("len", Local(0, "xs"), 3)
    >>> print(guards)
    len(L['xs']) == 3
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynacomp.capture.base.carriers import carrier
from dynacomp.capture.base.errors import GiveUp
from dynacomp.capture.base.literals import is_plain_key
from dynacomp.capture.graph.size_evaluation import postfix
from dynacomp.capture.values import sources as S


@dataclass(frozen=True, eq=False)
class Guard:
    """One condition: `kind` (a row of KINDS), the Source it reads, what it compares with."""

    kind: str
    source: S.Source | None
    payload: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return KINDS[self.kind](self.source, *self.payload)


KINDS: dict[str, Callable[..., str]] = {
    "is_type": lambda s, t: f"type({s}) is {t.__qualname__}",
    "is": lambda s, o: f"{s} is {_brief(o)}",
    "is_not": lambda s, o: f"{s} is not {_brief(o)}",
    "eq": lambda s, c: f"{s} == {_literal(c)}",
    "tree": lambda s, t: f"{s} == {t}",
    "empty": lambda s: f"{s} is empty",
    "len": lambda s, n: f"len({s}) == {n}",
    "keys": lambda s, keys: f"list({s}) == [{_listed(keys)}]",
    "names": lambda s, names: f"set({s}) == {{{_listed(names)}}}",
    "missing": lambda s, name: f"{name!r} not in vars({s})",
    "empty_slot": lambda s, member: f"{s}.{member.__name__} is not set",
    "has_key": lambda s, key: f"{key!r} in {s}",
    "missing_key": lambda s, key: f"{key!r} not in {s}",
    "missing_global": lambda s, name: f"{name!r} not in globals()",
    "type_unchanged": lambda s, names, objs: f"{s} still defines {', '.join(names)}",
    "names_unchanged": lambda s, names, objs: f"{s} still has the same {', '.join(names)}",
    "plain_function": lambda s, code: f"{s}.__code__ is {_brief(code)}, without defaults",
    "functions_unchanged": lambda s, functions: (
        f"the code and defaults of {', '.join(fn.__qualname__ for fn in functions)}"),
    "array": lambda s, shape, dtype, weak, sharding, committed: (
        f"{s}: {dtype}{list(shape)}{' weak' if weak else ''}"),
    "tracer": lambda s, shape, dtype, weak: f"{s}: a tracer of {dtype}{list(shape)}{' weak' if weak else ''}",
    "shows": lambda s: f"Python may look at what {s} holds",
    "undeleted": lambda s: f"{s} was not deleted",
    "ndarray": lambda s, shape, dtype, contiguous=None: f"{s}: numpy {dtype}{list(shape)}",
    "content": lambda s, content: f"{s} holds the same {len(content)} bytes",
    "symbol": lambda s, name, least: f"{name} = {s} >= {least}",
    "set": lambda s, items: f"{s} == {{{_listed(items)}}}",
    "relation": lambda s, relation: str(relation),
    "scalar": lambda s, kind: f"type({s}) is {kind}",
    "same": lambda s, other: f"{s} is {other}",
    "distinct": lambda s, other: f"{s} is not {other}",
    "all_distinct": lambda s, sources, others: " and ".join(filter(None, (
        f"no two of {', '.join(map(str, sources))} are the same object" if len(sources) > 1 else "",
        f"none of {', '.join(map(str, sources))} is one of {', '.join(map(str, others))}" if others else ""))),
    "unnoticed": lambda s: f"nothing tells that {s} has died",
    "set_layout": lambda s, layout: f"{s} takes new elements as it did",
    "no_array": lambda s, classes: f"no array in {s}",
    "unreferable": lambda s: f"nothing could tell that {s} has died",
    "own_globals": lambda s: f"{s} is globals()",
    "suspended": lambda s, code, key, slot: (
        f"{s} stands still in {code.co_qualname}, " + ("not started" if key is None else f"at place {key}")),
    "origins_untracked": lambda s: "Python does not note where coroutines are made",
    "has_ended": lambda s: f"{s} is a generator that has ended",
    "ended": lambda s, n: f"{s} ends after {n} items",
    "alike": lambda s, known, asks: f"{s} says what {_brief(known)} says",
    "abc_token": lambda s, token: "no class was registered with an abstract base class",
    "jax_config": lambda s, token: "jax configuration unchanged, " + ("JAX transforms a caller" if token[2]
                                                                      else "no trace active"),
}


def _literal(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python refuses to print an int of so many digits
        return f"<int of {value.bit_length()} bits>" if type(value) is int else f"<{type(value).__name__}>"


def _listed(keys: Any) -> str:
    """Keys as text; objects are not asked for theirs, nor for their hash: that would run the program's code."""
    return ", ".join(_literal(k) if is_plain_key(k) else _brief(k) for k in keys)


def _brief(obj: Any) -> str:
    if issubclass(type(obj), (type, types.FunctionType, types.BuiltinFunctionType)):
        return obj.__qualname__
    return vars(obj).get("__name__", "?") if type(obj) is types.ModuleType else f"<{type(obj).__name__}>"


class GuardSet:
    """The guards of one capture, in order, each once."""

    def __init__(self) -> None:
        self.guards: list[Guard] = []
        self._seen: set[Any] = set()
        self._known: set[int] = set()

    def add(self, kind: str, source: S.Source | None, *payload: Any) -> None:
        key = (kind, source, tuple(map(identity_key, payload)))
        if key not in self._seen:
            self._seen.add(key)
            self.guards.append(Guard(kind, source, payload))
            for part in payload:
                self._known.update(map(id, part if type(part) is tuple else (part,)))

    def holds(self, kind: str, source: S.Source, *payload: Any) -> bool:
        """Whether this very condition is among them."""
        return (kind, source, tuple(map(identity_key, payload))) in self._seen

    def knows(self, obj: Any) -> bool:
        """Whether some guard compares with this very object: it dies with the entry."""
        return id(obj) in self._known

    def __str__(self) -> str:
        return "\n".join(map(str, self.guards))


def identity_key(payload: Any) -> Any:
    """Constants by type and value, objects by identity."""
    if issubclass(type(payload), S.Source):
        return payload
    if type(payload) in (int, str, bytes, bool):
        return (type(payload), payload)
    if type(payload) in (float, complex):  # by their text: zeros have signs, and no NaN equals itself
        return (type(payload), repr(payload))
    if type(payload) is tuple:
        return tuple(map(identity_key, payload))
    return id(payload)


NUMBER_OPS = frozenset({  # what `_native/guard_numbers.c` computes without a call
    "add", "sub", "mul", "truediv", "floordiv", "pow", "mod", "lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs",
    "truth", "len", "id", "has_dict"})
MAX_REGISTERS = 1 << 14  # of a GuardProgram, see _native/native.h


class StepWriter:
    """Turns Guards into C steps, giving every Source a register when it is first needed."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, ...]] = []
        self.origin: list[Guard | S.Source | None] = []
        self.registers: dict[S.Source, int] = {}
        self.sizes: dict[str, int] = {}

    def emit(self, origin: Guard | S.Source | None, *step: Any) -> None:
        self.steps.append(step)
        self.origin.append(origin)

    def texts(self) -> tuple[str, ...]:
        """What each step asks, in words; a step of no Guard asks for JAX's settings."""
        return tuple("JAX's settings, or whether JAX transforms the caller" if origin is None else str(origin)
                     for origin in self.origin)

    def register(self, source: S.Source) -> int:
        """The register that holds `source`, with the steps that fill it."""
        if source in self.registers:
            return self.registers[source]
        if isinstance(source, S.Host):
            return self.computed(source)
        if isinstance(source, S.SizeOf):
            return self.evaluated(source)
        if isinstance(source, S.Carrier):
            return self.computed(S.Host("carrier", (source.base,), carrier))
        base = S.base_of(source)
        src = () if base is None else (self.register(base),)
        dst = self.registers[source] = len(self.registers)
        if dst >= MAX_REGISTERS:
            raise GiveUp("guards", f"more than {MAX_REGISTERS} objects")
        op, *names = source.read
        self.emit(source, op, dst, *src, *(getattr(source, name) for name in names))
        return dst

    def computed(self, source: S.Host) -> int:
        """The register that holds a number computed from others."""
        operands = [self.register(a if isinstance(a, S.Source) else S.Root(a, repr(a))) for a in source.args]
        dst = self.registers[source] = len(self.registers)
        if source.op in NUMBER_OPS:
            self.emit(source, "number", dst, operands[0], source.op, *(operands[1:] or (-1,)))
        else:
            self.emit(source, "host", dst, source.fn, tuple(operands))
        return dst

    def evaluated(self, source: S.SizeOf) -> int:
        """The register that holds the value of an expression of sizes."""
        program = self.program(postfix(source.expr))
        dst = self.registers[source] = len(self.registers)
        self.emit(source, "size_number", dst, program)
        return dst

    def size(self, name: str) -> int:
        return self.sizes.setdefault(name, len(self.sizes))

    def program(self, postfix: tuple[Any, ...]) -> tuple[Any, ...]:
        """A postfix program with the slots of symbols in place of their names."""
        return tuple(("size", self.size(p[1])) if p[0] == "size" else p for p in postfix)

    def guard(self, guard: Guard) -> None:
        special = _SPECIAL.get(guard.kind)
        if special is not None:
            special(self, guard)
            return
        payload = tuple(self.register(p) if issubclass(type(p), S.Source) else p for p in guard.payload)
        src = () if guard.source is None else (self.register(guard.source),)
        self.emit(guard, guard.kind, *src, *payload)


def _symbol(writer: StepWriter, guard: Guard) -> None:
    """A symbol: its value is read once, and lies above a bound that the Graph relies on."""
    source, (name, least) = guard.source, guard.payload
    slot = writer.size(name)
    if isinstance(source, S.Dim):
        writer.emit(guard, "dim", slot, writer.register(source.base), source.axis)
    else:
        assert source is not None
        writer.emit(guard, "int_size", slot, writer.register(source))
    writer.emit(guard, "size_check", (("size", slot), ("int", least), "ge"))


def _relation(writer: StepWriter, guard: Guard) -> None:
    writer.emit(guard, "size_check", writer.program(guard.payload[0].program()))


def _has_key(writer: StepWriter, guard: Guard) -> None:
    assert guard.source is not None
    writer.register(S.Key(guard.source, guard.payload[0]))  # which is not found where it is not there


def _all_distinct(writer: StepWriter, guard: Guard) -> None:
    writer.emit(guard, "all_distinct", *(tuple(map(writer.register, group)) for group in guard.payload))


_SPECIAL: dict[str, Callable[[StepWriter, Guard], None]] = {
    "symbol": _symbol, "relation": _relation, "all_distinct": _all_distinct, "has_key": _has_key,
}
