"""Going through all attributes of an object in an order that does not matter: `sorted(vars(module).items())`.

Which order they stand in is no condition of the Graph where all of them are sorted by their names, and what is done
with each on the way, in a generator expression, is nothing that another could tell:

    sorted((name, wrap(value)) for name, value in vars(self).items())      # guard: these are its names
    sorted((next(count), name) for name in vars(self))                     # guard: these, in this order

The capture goes through them in the order that they have. Where it turns out that another order might have given
something else, this order is guarded after all.
"""

from __future__ import annotations

from typing import Any

from dynacomp.capture.base.key_order import is_unordered
from dynacomp.capture.bytecode.genexprs import ITEM
from dynacomp.capture.graph.graph import PLACEHOLDER
from dynacomp.capture.kinds.iteration import get_iter, iterate, rest
from dynacomp.capture.kinds.sequences import sort_by, sort_keys, sort_values
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.constant import is_const
from dynacomp.capture.values.containers import ViewV
from dynacomp.capture.values.questions import is_dict, is_stream, is_suspended, is_tuple
from dynacomp.capture.values.value import Value, next_serial


def sort_all(cap: Capture, xs: Value, key: Value, reverse: Any) -> list[Value]:
    """`sorted(xs)`."""
    if not (is_dict(xs) or is_suspended(xs) or isinstance(xs, ViewV)):
        return sort_values(cap, list(iterate(cap, xs)), key, reverse)
    it = get_iter(cap, xs)
    chain = _chain(it)
    if not chain:
        return sort_values(cap, list(rest(cap, it)), key, reverse)
    attributes, free = chain[-1].parts[0].items, False
    stretch = Stretch(cap)
    chain[-1].state["any order"] = True
    try:
        items = list(rest(cap, it))
        keys = sort_keys(cap, items, key)
        found = sort_by(cap, items, keys, reverse)
        free = _all_apart(keys) and stretch.left_nothing(cap, chain)
    finally:
        if not free:
            attributes.ask()
    return found


class Stretch:
    """A stretch of code, and how much had been done before it."""

    def __init__(self, cap: Capture) -> None:
        self.birth = next_serial()
        self.changes, self.nodes = len(cap.effects.mutated), len(cap.graph.builder.nodes)
        self.calls = len(cap.effects.calls), len(cap.effects.arrays)

    def left_nothing(self, cap: Capture, own: list[Value]) -> bool:
        """Whether it has changed nothing but these and what it has made itself, and done nothing else that others can
        see, nor anything to arrays."""
        effects = cap.effects
        return (len(effects.calls), len(effects.arrays)) == self.calls and all(
            v is not None and (self._made(v) or v in own) for v in effects.mutated[self.changes:]) and all(
            node.op == PLACEHOLDER for node in cap.graph.builder.nodes[self.nodes:])

    def _made(self, value: Value) -> bool:
        return value.serial > self.birth and getattr(value, "real", None) is None


def _chain(it: Any) -> list[Any]:
    """The iterator over attributes that nothing has gone through in order, and before it the generator expressions
    around it, none of which has started; empty for others."""
    if is_stream(it) and it.kind == "table" and it.state["index"] == 0:
        return [it] if is_unordered(it.parts[0].items) else []
    if not is_suspended(it) or it.started or it.real is not None:
        return []
    inner = it.frame.locals.get(ITEM)  # what has such a name is a generator expression
    below = [] if inner is None else _chain(inner)
    return [it, *below] if below else []


def _all_apart(keys: list[Value]) -> bool:
    """Whether texts and whole numbers at their start tell all of these apart, so that nothing behind is compared."""
    leads = [_lead(k) for k in keys]
    size = min(map(len, leads), default=1)
    return size > 0 and len({lead[:size] for lead in leads}) == len(leads)


def _lead(key: Value) -> tuple[Any, ...]:
    """The literals with which a tuple begins; another key as a tuple of one."""
    found: list[Any] = []
    for part in key.items if is_tuple(key) and key.cls is tuple else [key]:  # type: ignore[attr-defined]
        if not is_const(part) or type(part.value) not in (str, int):
            break
        found.append(part.value)
    return tuple(found)
