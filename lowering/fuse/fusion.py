"""From a primitive Graph to a Schedule: what is computed where, in how many kernels.

    realise   which nodes are kept, which are inlined into their readers          (buffers.py, items.py)
    group     which realised nodes share a kernel                                 (groups.py)
    emit      each group as a Kernel; equal kernels are one object                (emit.py)
    place     temporaries in the arena                                            (assembly.py, memory.py)

Products of matrices, convolutions and sorts become TemplateSteps, loops and branches steps that hold the
Schedules of their bodies (control.py); what nothing of ours can compute becomes ExternSteps, each with
its reason.

    >>> import jax, numpy as np
    >>> from dynacomp.lowering.primitives.translate import lower_function
    >>> steps = schedule(lower_function(jax.nn.softmax, np.zeros((64, 32), np.float32))).steps
    >>> [type(s).__name__ for s in steps]
    ['KernelStep']
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import (
    GET_ATTR,
    OUTPUT,
    PLACEHOLDER,
    Builder,
    Graph,
    Node,
    map_nodes,
    node_at,
    nodes_in,
)
from dynacomp.lowering.fuse.assembly import assemble
from dynacomp.lowering.fuse.blocking import in_blocks
from dynacomp.lowering.fuse.buffers import Buffers
from dynacomp.lowering.fuse.control import control_step, lifted
from dynacomp.lowering.fuse.crossing import crossed
from dynacomp.lowering.fuse.digits import taken_apart
from dynacomp.lowering.fuse.emit import Emitter
from dynacomp.lowering.fuse.groups import Group, alone, fused
from dynacomp.lowering.fuse.hoisting import hoisted
from dynacomp.lowering.fuse.in_place import Carried, kept_places
from dynacomp.lowering.fuse.items import (
    Item,
    is_scatter,
    make_item,
    make_parts,
    make_residues,
    make_scatter_items,
    make_update,
    op_name,
)
from dynacomp.lowering.fuse.schedule import ExternStep, KernelStep, Schedule, Step, TemplateStep
from dynacomp.lowering.fuse.splitting import stages_of
from dynacomp.lowering.fuse.units import Unit, Units
from dynacomp.lowering.kernel_ir.loops import Kernel
from dynacomp.lowering.kernel_ir.machine import CPU, Machine
from dynacomp.lowering.primitives.control import is_control, map_bodies
from dynacomp.lowering.primitives.ops import TEMPLATE, has_effects, op_kind
from dynacomp.lowering.rules.templates import TEMPLATE_RULES
from dynacomp.lowering.rules.window import ALL_FOLDS


class Planner:
    """The steps of one Graph, from its Buffers; `schedule` is the way in."""

    def __init__(self, buffers: Buffers, machine: Machine) -> None:
        self.buffers, self.reader, self.machine = buffers, buffers.reader, machine
        self.units = Units(self.reader)

    # units

    def build(self) -> None:
        """Every realised node into a unit, in graph order."""
        buffers, reader = self.buffers, self.reader
        for node in buffers.graph.calls:
            if node in buffers.templates:
                for copy in buffers.copies.get(node, ()):
                    self.units.add_item(replace(make_item(reader, copy), after=self.waits_for(copy)))
                self.add_node(node, {v[0] for v in buffers.operand_views[node]})
            elif node in buffers.controls:
                self.add_node(node, set(buffers.operands_of(node)))
            elif buffers.outside[node]:
                self.units.add_outside(node)
            elif buffers.loopable(node) and node.name in reader.realised and node.name not in reader.views:
                if isinstance(node.aval, tuple):
                    continue
                self.add_items(node)

    def add_parts(self, node: Node, parts: list[Item]) -> bool:
        """An array as one kernel that stores each part of it to its place, where they fit."""
        first, *rest = parts
        group: Group | None = alone(first)
        for part in rest:
            group = None if group is None else fused(self.reader, group, [part])
        if group is None or not rest:
            return False
        reads = {r.buffer for i in group.items for r in i.reads}
        self.units.new((node.name, *group.names), reads, group)
        self.buffers.by_name |= dict.fromkeys(group.names, node)
        return True

    def add_items(self, node: Node) -> None:
        """The item of a realised node, or the two stages of a big fold or a scatter."""
        if node in self.buffers.in_place:
            self.units.add_item(make_update(self.reader, node, node.args[0].name))
            return
        if is_scatter(node):
            copy, update = make_scatter_items(self.reader, node)
            self.buffers.storage[copy.name] = node.name
            self.buffers.by_name[copy.name] = node
            self.units.add_item(copy)
            self.units.add_item(update)
            return
        if op_name(node) in ("concatenate", "complex") and self.add_parts(node, make_parts(self.reader, node)):
            return
        if op_name(node) == "select_and_scatter_add":
            self.units.add_item(make_item(self.reader, self.buffers.choice_of(node)))
        item = make_item(self.reader, node)
        if (parts := make_residues(self.reader, node, item)) and self.add_parts(node, parts):
            return
        for stage in self.stages_of(node, item):
            self.buffers.by_name[stage.name] = node
            self.buffers.shapes.setdefault(stage.name, (stage.shape, stage.dtype))
            self.units.add_item(replace(stage, after=self.waits_for(node)))

    def waits_for(self, node: Node) -> frozenset[str]:
        """The buffers that must be there before what this node reads `again` is read."""
        found, waiting = set(), list(nodes_in(node.args))
        while waiting:
            read = waiting.pop()
            if op_name(read) == "again":
                found.add(self.reader.views.get(read.args[1].name, read.args[1].name))
            elif read.name not in self.reader.realised:
                waiting += nodes_in(read.args)
        return frozenset(found)

    def stages_of(self, node: Node, item: Item) -> tuple[Item, ...]:
        """The item, or the two folds that it is better done as."""
        if item.kind != "fold":
            return (item,)
        return stages_of(self.reader, node, ALL_FOLDS[op_name(node)](node), item, self.machine)

    def add_node(self, node: Node, reads: set[str]) -> None:
        parts = (u.name for u in self.buffers.users[node] if op_name(u) == "getitem")
        self.units.new((node.name, *parts), reads, node=node)

    # steps

    def steps(self) -> list[Step]:
        self.units.drop_unread(self.buffers.results())
        external = self.external_names()
        kernels: dict[Any, Kernel] = {}
        return [self.step(u, external, kernels) for u in self.units.ordered()]

    def external_names(self) -> set[str]:
        """Realised names that something outside their own group reads."""
        found = self.buffers.results()
        for unit in self.units.all:
            found |= {i.name for i in unit.group.items if i.target} if unit.group else set()
            found |= {r for r in unit.reads if self.units.of.get(r) != unit.number}
        return found

    def step(self, unit: Unit, external: set[str], kernels: dict[Any, Kernel]) -> Step:
        if unit.group is not None:
            return self.kernel_step(unit.group, external, kernels)
        if unit.node is None:
            return self.extern_step(unit, external)
        return self.control_step(unit.node) if unit.node in self.buffers.controls else self.template_step(unit.node)

    def kernel_step(self, group: Group, external: set[str], kernels: dict[Any, Kernel]) -> KernelStep:
        emitter = Emitter(self.reader, group, external, self.buffers.shapes)
        kernel, bindings = emitter.emit("kernel")
        kernel = crossed(taken_apart(kernel))
        kernel = hoisted(in_blocks(kernel), blocked=True) if self.machine is CPU else hoisted(kernel)
        kernel = kernels.setdefault(kernel, replace(kernel, name=self.kernel_name(group, len(kernels))))
        return KernelStep(kernel, {p: self.buffers.storage.get(b, b) for p, b in bindings.items()})

    def kernel_name(self, group: Group, number: int) -> str:
        ops = dict.fromkeys(op_name(self.buffers.by_name[i.name]) for i in group.items)
        return "_".join([*list(ops)[:4], str(number)])

    def template_step(self, node: Node) -> TemplateStep:
        rule, views = TEMPLATE_RULES[op_name(node)], self.buffers.operand_views[node]
        params = rule.params(node, *(steps for _, steps in views))
        operands = tuple(self.buffers.stored(buffer) for buffer, _ in views)
        return TemplateStep(rule.template, operands, self.buffers.results_of(node), params)

    def control_step(self, node: Node) -> Step:
        """A loop or branches: their bodies as Schedules of their own."""
        step, scratch = control_step(node, self.buffers.operands_of(node), self.buffers.results_of(node), planned)
        self.buffers.shapes |= scratch
        return step

    def extern_step(self, unit: Unit, external: set[str]) -> ExternStep:
        """The nodes of a unit as a Graph of their own, for XLA."""
        inside = dict.fromkeys(unit.outside)
        operands = dict.fromkeys(o for n in unit.outside for o in nodes_in((n.args, dict(n.kwargs))) if o not in inside)
        builder = Builder(unit.outside[0].name)
        env = {o: builder.placeholder(o.name, o.aval) for o in operands}
        for node in unit.outside:
            args, kwargs = map_nodes((node.args, dict(node.kwargs)), env.__getitem__)
            env[node] = builder.call(node.target, args, kwargs, node.aval, node.where)
        results = [n for n in unit.outside if n.name in external and not isinstance(n.aval, tuple)]
        names = tuple(self.reader.views.get(o.name, o.name) for o in operands)
        why = "; ".join(dict.fromkeys(str(self.buffers.outside[n]) for n in unit.outside))
        return ExternStep(builder.finish(tuple(env[r] for r in results)), names, tuple(r.name for r in results), why)


def without_dead(graph: Graph) -> Graph:
    """The Graph without nodes that no output needs; nodes with effects stay."""
    live: set[Node] = set()
    for node in reversed(graph.nodes):
        if node in live or node.op in (OUTPUT, PLACEHOLDER) or has_effects(node):
            live.add(node)
            live.update(nodes_in((node.args, dict(node.kwargs))))
    return replace(graph, nodes=tuple(n for n in graph.nodes if n in live))


def with_arrays(graph: Graph) -> Graph:
    """The Graph, and its bodies, with an array for each scalar constant that a template is given: templates read
    buffers."""
    consts, new = dict(graph.consts), dict[Node, Node]()
    made: list[Node] = []
    for node in graph.nodes:
        args = map_nodes(node.args, new.__getitem__)
        kwargs = map_bodies(node.kwargs, with_arrays) if is_control(node) else node.kwargs
        for k in [k for k in range(len(args)) if node_at(node, k) is None] if op_kind(node) == TEMPLATE else ():
            name = f"{node.name}_argument{k}"
            consts[name] = np.asarray(args[k])
            made.append(Node(GET_ATTR, name, name, aval=Aval((), consts[name].dtype)))
            args = (*args[:k], made[-1], *args[k + 1:])
        new[node] = replace(node, args=args, kwargs=kwargs)
        made.append(new[node])
    return replace(graph, nodes=tuple(made), consts=consts)


def schedule(graph: Graph, machine: Machine = CPU) -> Schedule:
    """The Schedule of a primitive Graph whose output is a tuple of Nodes."""
    return planned(lifted(with_arrays(graph)), inner=False, machine=machine)


def planned(graph: Graph, carried: Carried = (), inner: bool = True, machine: Machine = CPU) -> Schedule:
    """The Schedule of a Graph without constants in its bodies (`control.lifted`); of a loop's body, which of
    its inputs and outputs are one array's values before and after a step."""
    buffers = Buffers(without_dead(graph), carried)
    planner = Planner(buffers, machine)
    planner.build()
    steps = planner.steps()
    outputs = [buffers.storage.get(o.name, buffers.views.get(o.name, o.name)) for o in buffers.graph.output]
    made = assemble(buffers.graph, tuple(steps), buffers.shapes, outputs, inner)
    return replace(made, in_place=kept_places(buffers.in_place))
