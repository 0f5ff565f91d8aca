"""Units: the steps to be, as they grow while items, templates and nodes for XLA are added in graph order.

An item joins the kernel of a producer, or of a sibling that reads the same, wherever that makes no cycle
among the units (`Ancestry` knows who comes before whom); two kernels that an item ties together become one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dynacomp.capture.graph.graph import Node, nodes_in
from dynacomp.lowering.fuse.groups import Ancestry, Group, alone, fused, may_join, shares_work
from dynacomp.lowering.fuse.items import Item
from dynacomp.lowering.primitives.ops import has_effects
from dynacomp.lowering.rules.reader import Reader


@dataclass(eq=False)
class Unit:
    """One step to be: a group of items, a node that is a template, or nodes for XLA."""

    number: int
    group: Group | None = None
    node: Node | None = None
    outside: list[Node] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)


class Units:
    """All units of one scheduling; `of` says which unit makes a buffer."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.all: list[Unit] = []
        self.of: dict[str, int] = {}
        self.ancestry = Ancestry()
        self.acted: set[int] = set()  # the last unit that does more than compute: the next one comes after it

    def new(self, names: Iterable[str], reads: set[str], group: Group | None = None, node: Node | None = None) -> None:
        """A unit that makes the buffers `names` out of `reads`."""
        number = self.ancestry.add(self.producers(reads))
        self.all.append(Unit(number, group, node, reads=reads))
        self.of |= dict.fromkeys(names, number)

    def add_item(self, item: Item) -> None:
        """Into the group of a producer, or of a sibling that reads the same, or a new one."""
        reads = {r.buffer for r in item.reads} | item.after
        producers = self.producers(reads)
        for number in self.candidates(item, reads, producers):
            unit = self.all[number]
            group = fused(self.reader, unit.group, [item]) if unit.group else None
            if group is not None:
                unit.group = group
                unit.reads |= reads
                self.of[item.name] = number
                self.ancestry.grow(number, producers - {number})
                self.join_others(number, producers)
                return
        self.new([item.name], reads, alone(item))

    def candidates(self, item: Item, reads: set[str], producers: set[int]) -> list[int]:
        """Units that the item may join: its producers, latest first, then recent siblings."""
        siblings = [
            u.number
            for u in self.all[-16:]
            if u.group is not None and u.number not in producers and shares_work(u.group, item)
        ]
        ordered = [*sorted(producers, reverse=True), *reversed(siblings)]
        return [u for u in ordered if self.all[u].group is not None and may_join(self.ancestry, u, producers)]

    def join_others(self, number: int, producers: set[int]) -> None:
        """Draws further producers of a grown unit into it where that makes no cycle."""
        for other in sorted(producers - {number}):
            mine, theirs = self.all[number], self.all[other]
            if mine.group is None or theirs.group is None or not self.may_merge(other, number):
                continue
            first, second = theirs.group.items, mine.group.items
            group = fused(self.reader, Group(first, {}, False), second)
            if group is not None:
                self.merge(other, number, group)

    def may_merge(self, first: int, second: int) -> bool:
        """Is there no path from `first` to `second` through a third unit (nor one back)?"""
        others = self.producers(self.all[second].reads) - {first, second}
        back = self.ancestry.before[first] & (1 << second)
        return not back and not self.ancestry.reach(others) & (1 << first)

    def merge(self, first: int, second: int, group: Group) -> None:
        mine, theirs = self.all[second], self.all[first]
        mine.group, mine.reads = group, mine.reads | theirs.reads
        theirs.group, theirs.reads = None, set()
        self.of |= dict.fromkeys((name for i in group.items for name in (i.name, i.target) if name), second)
        self.ancestry.before[second] |= self.ancestry.before[first]
        self.ancestry.replace(first, second)

    def producers(self, reads: Iterable[str]) -> set[int]:
        return {self.of[r] for r in reads if r in self.of}

    def add_outside(self, node: Node) -> None:
        """Into the XLA call that made one of its operands where that makes no cycle, or a new one. A reshape in between
        is none of XLA's: what reads that stays apart, and so do effects, whose order XLA does not keep."""
        operands = [o.name for o in nodes_in((node.args, dict(node.kwargs)))]
        reads = {self.reader.views.get(o, o) for o in operands}
        acts = has_effects(node)
        producers = self.producers(reads) | (self.acted if acts else set())
        reshaped = self.producers(self.reader.views[o] for o in operands if o in self.reader.views)
        joined = [p for p in sorted(producers - reshaped)
                  if self.all[p].outside and may_join(self.ancestry, p, producers)
                  and not (acts and any(map(has_effects, self.all[p].outside)))]
        if not joined:
            self.new([], reads)
        unit = self.all[joined[0] if joined else -1]
        self.ancestry.grow(unit.number, producers - {unit.number})
        unit.outside.append(node)
        unit.reads |= reads
        self.of[node.name] = unit.number
        self.acted = {unit.number} if acts else self.acted

    def drop_unread(self, results: Iterable[str]) -> None:
        """Takes out the items that neither a result nor a live step needs: an update that overwrites all that the ones
        before it stored reads none of them."""
        needed = set(results)
        for unit in reversed(self.ordered()):
            if unit.group is not None:
                items: list[Item] = []
                for item in reversed(unit.group.items):
                    if {item.name, item.target} & needed:
                        items.insert(0, item)
                        needed |= {r.buffer for r in item.reads} | item.after
                unit.group = replace(unit.group, items=items) if items else None
            elif unit.node is not None or unit.outside:
                needed |= unit.reads

    def ordered(self) -> list[Unit]:
        live = [u for u in self.all if u.group is not None or u.node is not None or u.outside]
        return sorted(live, key=lambda u: (self.ancestry.before[u.number].bit_count(), u.number))
