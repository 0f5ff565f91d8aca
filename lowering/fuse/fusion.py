"""From a primitive Graph to a Schedule: what is computed where, in how many kernels.

    realise   which nodes are kept, which are inlined into their readers          (items.py)
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

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import sympy

from dynacomp.capture.graph.avals import Aval
from dynacomp.capture.graph.graph import (
    CALL_FUNCTION,
    GET_ATTR,
    OUTPUT,
    PLACEHOLDER,
    Builder,
    Graph,
    Node,
    map_nodes,
    nodes_in,
)
from dynacomp.lowering.fuse.assembly import assemble
from dynacomp.lowering.fuse.control import control_step, lifted
from dynacomp.lowering.fuse.digits import taken_apart
from dynacomp.lowering.fuse.emit import Emitter
from dynacomp.lowering.fuse.groups import Group, alone, fused
from dynacomp.lowering.fuse.hoisting import hoisted
from dynacomp.lowering.fuse.in_place import Carried, kept_places, readers, source, updates_in_place, users_in
from dynacomp.lowering.fuse.items import (
    Item,
    choose_realised,
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
from dynacomp.lowering.primitives.control import is_control, map_bodies
from dynacomp.lowering.primitives.ops import OPS, TEMPLATE, Op, has_effects
from dynacomp.lowering.rules.gather import GATHERS
from dynacomp.lowering.rules.layout import LAYOUT
from dynacomp.lowering.rules.pairs import PARTS
from dynacomp.lowering.rules.pointwise import POINTWISE
from dynacomp.lowering.rules.reader import INT32, Reader, dtype_of, shape_of
from dynacomp.lowering.rules.scatter import SINGLE
from dynacomp.lowering.rules.support import why_not
from dynacomp.lowering.rules.templates import TEMPLATE_RULES, fitting_strides, row_major, view_of
from dynacomp.lowering.rules.window import ALL_FOLDS, WINDOW_RULES, choice_name

RULES = POINTWISE | LAYOUT | GATHERS | SINGLE | WINDOW_RULES | PARTS


class Planner:
    """The state of one scheduling; `schedule` is the way in."""

    def __init__(self, graph: Graph, carried: Carried = ()) -> None:
        self.graph = graph
        self.users = users_in(graph)
        self.outside: dict[Node, str | None] = {}
        for node in graph.calls:  # a getitem goes where its source goes
            self.outside[node] = why_not(node) if op_name(node) != "getitem" else self.outside[node.args[0]]
        self.templates = {n for n in graph.calls if self._is_template(n)}
        self.controls = {n for n in graph.calls if is_control(n) and not self.outside[n]}
        self.in_place = updates_in_place(graph, self.users, carried, self.outside)
        self.reader = Reader(RULES, set())
        self.required: set[str] = set()
        self.shapes: dict[str, tuple[tuple[sympy.Expr, ...], np.dtype]] = {}
        self.views: dict[str, str] = {}
        self.storage = {node.name: last.name for node, last in self.in_place.items()}
        self.aliases: dict[str, str] = {}
        self.copies: dict[Node, list[Node]] = {}
        self.operand_views: dict[Node, tuple[tuple[str, Any], ...]] = {}
        self.units = Units(self.reader)
        self.by_name = {n.name: n for n in graph.nodes}

    # which nodes are what

    def _is_template(self, node: Node) -> bool:
        rule = TEMPLATE_RULES.get(op_name(node))
        return rule is not None and not self.outside[node] and rule.wants(node)

    def loopable(self, node: Node) -> bool:
        """Computed by loops: not a step of its own (nor a part of one's result), not XLA's, not an input."""
        source = node.args[0] if op_name(node) == "getitem" and node in self.outside else node
        own = source in self.templates or source in self.controls
        return node in self.outside and not self.outside[node] and not own

    def require(self, node: Any) -> None:
        """`node` must have a buffer: itself, or the one that it only reshapes."""
        if isinstance(node, Node):
            self.required.add(self.root(node).name)

    def root(self, node: Node) -> Node:
        """The node whose buffer holds this one's elements: reshapes have none of their own."""
        while op_name(node) == "reshape" and self.loopable(node) and node.op not in (PLACEHOLDER, GET_ATTR):
            node = node.args[0]
        return node

    def layout_root(self, node: Node) -> Node:
        """The node under all ops that a strided view may stand for."""
        while op_name(node) in ("reshape", "transpose", "broadcast_in_dim", "again") and self.loopable(node):
            if not isinstance(node.args[0], Node):
                return node
            node = node.args[0]
        return node

    def decide(self) -> None:
        """Which nodes get buffers."""
        for node in self.graph.nodes:
            if node in self.templates:
                for operand in node.args:
                    self.required.add(self.layout_root(operand).name)
            elif node in self.controls or node.op != OUTPUT and self.outside.get(node):
                for operand in nodes_in((node.args, dict(node.kwargs))):
                    self.require(operand)
            if op_name(node) == "again":
                self.required.add(self.layout_root(node).name)
        for node in self.output_nodes():
            self.require_output(node)
        for node in self.in_place:
            self.required |= {node.name, *(r.name for r in readers(source(node), self.users) if r is not node)}
        given = {n.name for n in self.graph.nodes if n.op in (PLACEHOLDER, GET_ATTR)}
        outside = {n.name for n in self.graph.calls if not self.loopable(n)}
        flags = {n: self.loopable(n) for n in self.graph.calls}
        chosen = choose_realised(self.graph.calls, self.required, self.users, flags)
        self.reader.realised |= chosen | given | outside
        self.add_views()
        for node in self.graph.nodes:
            if node in self.templates:
                self.operand_views[node] = self.views_for(node)

    def output_nodes(self) -> tuple[Any, ...]:
        return tuple(self.graph.output)

    def require_output(self, node: Node) -> None:
        """An output that reshapes a value of its own takes that value's buffer; else it is computed, as where XLA,
        which makes the value, cannot tell the sizes."""
        root = self.root(node)
        taken = {self.views.get(o.name, o.name) for o in self.output_nodes() if o is not node} | {
            o.name for o in self.output_nodes()
        }
        unknown = self.outside.get(root) and sum(not d.is_Integer for d in shape_of(node)) > 1
        if root is node or root.op in (PLACEHOLDER, GET_ATTR) or root.name in taken or unknown:
            self.required.add(node.name)
        else:
            self.required.add(root.name)
            self.views[node.name] = root.name

    def add_views(self) -> None:
        """Every reshape of a realised node reads that node's buffer."""
        for node in self.graph.calls:
            if op_name(node) == "reshape" and self.loopable(node) and node.name not in self.required:
                below = node.args[0]
                if isinstance(below, Node) and below.name in self.reader.realised:
                    self.reader.views[node.name] = self.reader.views.get(below.name, below.name)
                    self.reader.realised.add(node.name)

    def views_for(self, node: Node) -> tuple[tuple[str, Any], ...]:
        """(buffer, strides) of a template's operands; one without fitting strides is copied."""
        found = []
        rule = TEMPLATE_RULES[op_name(node)]
        for operand, dims in rule.operands(node):
            view = view_of(self.reader, operand)
            steps = None if view is None else fitting_strides(rule, operand, view, dims)
            if view is None or steps is None:
                operand, dims = self.copy_of(node, operand, dims)
                view = row_major(operand)
                steps = fitting_strides(rule, operand, view, dims)
            found.append((view.buffer, steps))
        return tuple(found)

    def copy_of(self, node: Node, operand: Node, dims: Any) -> tuple[Node, Any]:
        """The operand copied into the order of its groups of dimensions, and those groups now."""
        order = tuple(d for group in dims for d in group)
        aval = replace(operand.aval, shape=tuple(operand.aval.shape[d] for d in order))
        name = f"{operand.name}_for_{node.name}_{len(self.copies.get(node, ()))}"
        copy = Node(CALL_FUNCTION, name, OPS["transpose"], (operand,), {"permutation": order}, aval)
        self.copies.setdefault(node, []).append(copy)
        self.by_name[name] = copy
        self.shapes[name] = (shape_of(copy), dtype_of(copy))
        self.reader.realised.add(name)
        ends = [0, *itertools.accumulate(map(len, dims))]
        return copy, tuple(tuple(range(a, b)) for a, b in zip(ends, ends[1:]))

    # units

    def build(self) -> None:
        """Every realised node into a unit, in graph order."""
        for node in self.graph.calls:
            if node in self.templates:
                for copy in self.copies.get(node, ()):
                    self.units.add_item(replace(make_item(self.reader, copy), after=self.waits_for(copy)))
                self.add_node(node, {v[0] for v in self.operand_views[node]})
            elif node in self.controls:
                self.add_node(node, set(self.buffers_of(node)))
            elif self.outside[node]:
                self.units.add_outside(node)
            elif self.loopable(node) and node.name in self.reader.realised and node.name not in self.reader.views:
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
        self.by_name |= dict.fromkeys(group.names, node)
        return True

    def choice_of(self, node: Node) -> Node:
        """The node that says which cell each window of a max-pooling chose."""
        name, aval = choice_name(node), replace(node.args[0].aval, dtype=INT32)
        choice = Node(CALL_FUNCTION, name, Op("window_choice", "gather", why_not), node.args, node.kwargs, aval)
        self.by_name[name] = choice
        self.shapes[name] = (shape_of(choice), INT32)
        return choice

    def add_items(self, node: Node) -> None:
        """The item of a realised node, or the two stages of a big fold or a scatter."""
        if node in self.in_place:
            self.units.add_item(make_update(self.reader, node, node.args[0].name))
            return
        if is_scatter(node):
            copy, update = make_scatter_items(self.reader, node)
            self.storage[copy.name] = node.name
            self.by_name[copy.name] = node
            self.units.add_item(copy)
            self.units.add_item(update)
            return
        if op_name(node) in ("concatenate", "complex") and self.add_parts(node, make_parts(self.reader, node)):
            return
        if op_name(node) == "select_and_scatter_add":
            self.units.add_item(make_item(self.reader, self.choice_of(node)))
        item = make_item(self.reader, node)
        if (parts := make_residues(self.reader, node, item)) and self.add_parts(node, parts):
            return
        for stage in self.stages_of(node, item):
            self.by_name[stage.name] = node
            self.shapes.setdefault(stage.name, (stage.shape, stage.dtype))
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
        return stages_of(self.reader, node, ALL_FOLDS[op_name(node)](node), item) if item.kind == "fold" else (item,)

    def add_node(self, node: Node, reads: set[str]) -> None:
        parts = (u.name for u in self.users[node] if op_name(u) == "getitem")
        self.units.new((node.name, *parts), reads, node=node)

    # steps

    def steps(self) -> list[Step]:
        self.units.drop_unread(self.results())
        external = self.external_names()
        kernels: dict[Any, Kernel] = {}
        return [self.step(u, external, kernels) for u in self.units.ordered()]

    def results(self) -> set[str]:
        """The realised names that are outputs."""
        return {self.views.get(o.name, o.name) for o in self.output_nodes()}

    def external_names(self) -> set[str]:
        """Realised names that something outside their own group reads."""
        found = self.results()
        for unit in self.units.all:
            found |= {i.name for i in unit.group.items if i.target} if unit.group else set()
            found |= {r for r in unit.reads if self.units.of.get(r) != unit.number}
        return found

    def step(self, unit: Unit, external: set[str], kernels: dict[Any, Kernel]) -> Step:
        if unit.group is not None:
            return self.kernel_step(unit.group, external, kernels)
        if unit.node is None:
            return self.extern_step(unit, external)
        return self.control_step(unit.node) if unit.node in self.controls else self.template_step(unit.node)

    def kernel_step(self, group: Group, external: set[str], kernels: dict[Any, Kernel]) -> KernelStep:
        emitter = Emitter(self.reader, group, external, self.shapes)
        kernel, bindings = emitter.emit("kernel")
        kernel = hoisted(taken_apart(kernel))
        kernel = kernels.setdefault(kernel, replace(kernel, name=self.kernel_name(group, len(kernels))))
        return KernelStep(kernel, {p: self.storage.get(b, b) for p, b in bindings.items()})

    def kernel_name(self, group: Group, number: int) -> str:
        ops = dict.fromkeys(op_name(self.by_name[i.name]) for i in group.items)
        return "_".join([*list(ops)[:4], str(number)])

    def template_step(self, node: Node) -> TemplateStep:
        rule, views = TEMPLATE_RULES[op_name(node)], self.operand_views[node]
        params = rule.params(node, *(steps for _, steps in views))
        operands = tuple(self.stored(buffer) for buffer, _ in views)
        return TemplateStep(rule.template, operands, self.results_of(node), params)

    def buffers_of(self, node: Node) -> tuple[str, ...]:
        """The buffers of a node's operands."""
        return tuple(self.stored(o.name) for o in nodes_in(node.args))

    def stored(self, name: str) -> str:
        """The buffer that a node's value is in."""
        name = self.reader.views.get(name, name)
        return self.storage.get(name, name)

    def control_step(self, node: Node) -> Step:
        """A loop or branches: their bodies as Schedules of their own."""
        step, scratch = control_step(node, self.buffers_of(node), self.results_of(node), planned)
        self.shapes |= scratch
        return step

    def results_of(self, node: Node) -> tuple[str, ...]:
        """The names of a step's results; those that nobody takes get names of their own."""
        if not isinstance(node.aval, tuple):
            return (node.name,)
        taken = {u.args[1]: u.name for u in self.users[node] if op_name(u) == "getitem"}
        for k, aval in enumerate(node.aval):
            name = taken.setdefault(k, f"{node.name}_{k}")
            self.shapes.setdefault(name, (tuple(map(sympy.sympify, aval.shape)), np.dtype(aval.dtype)))
        return tuple(self.storage.get(taken[k], taken[k]) for k in range(len(node.aval)))

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
        why = "; ".join(dict.fromkeys(str(self.outside[n]) for n in unit.outside))
        return ExternStep(builder.finish(tuple(env[r] for r in results)), names, tuple(r.name for r in results), why)

    def fill_shapes(self) -> None:
        for node in self.graph.nodes:
            if node.op != OUTPUT and not isinstance(node.aval, tuple):
                self.shapes[node.name] = (shape_of(node), dtype_of(node))
            if is_scatter(node):
                self.shapes[f"{node.name}_start"] = self.shapes[node.name]
        for view, root in self.views.items():
            self.shapes[root] = self.shapes[view]


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
        for k in [k for k, a in enumerate(args) if not isinstance(a, Node)] if op_kind(node) == TEMPLATE else ():
            name = f"{node.name}_argument{k}"
            consts[name] = np.asarray(args[k])
            made.append(Node(GET_ATTR, name, name, aval=Aval((), consts[name].dtype)))
            args = (*args[:k], made[-1], *args[k + 1:])
        new[node] = replace(node, args=args, kwargs=kwargs)
        made.append(new[node])
    return replace(graph, nodes=tuple(made), consts=consts)


def op_kind(node: Node) -> str:
    """The kind of a node's Op, or ""."""
    return node.target.kind if isinstance(node.target, Op) else ""


def schedule(graph: Graph) -> Schedule:
    """The Schedule of a primitive Graph whose output is a tuple of Nodes."""
    return planned(lifted(with_arrays(graph)), inner=False)


def planned(graph: Graph, carried: Carried = (), inner: bool = True) -> Schedule:
    """The Schedule of a Graph without constants in its bodies (`control.lifted`); of a loop's body, which of
    its inputs and outputs are one array's values before and after a step."""
    planner = Planner(without_dead(graph), carried)
    planner.decide()
    planner.fill_shapes()
    planner.build()
    steps = planner.steps()
    outputs = [planner.storage.get(o.name, planner.views.get(o.name, o.name)) for o in planner.output_nodes()]
    made = assemble(planner.graph, tuple(steps), planner.shapes, outputs, inner)
    return replace(made, in_place=kept_places(planner.in_place))
