"""The end of a capture: its Graph, and what runs in place of the frame.

A frame that was captured whole and has no side effects becomes a *direct* entry: the C side calls
the program and fills a result template. Otherwise a replacement code object is written: load the
inputs, call the program, build every object that is still needed, replay the side effects, then
return, or run the breaking instruction and call the resume function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Any

import jax.numpy as jnp
import numpy as np
from bytecode import Bytecode, CompilerFlags, Instr

from dynacomp.capture._native import arrange, write_attribute
from dynacomp.capture.base.classes import own_dict
from dynacomp.capture.base.key_order import unordered
from dynacomp.capture.base.literals import is_literal, is_single
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bytecode.code import argument_count
from dynacomp.capture.bytecode.line_tables import to_code
from dynacomp.capture.graph.avals import Aval, key_impl
from dynacomp.capture.graph.graph import GET_ATTR, OUTPUT, PLACEHOLDER, Graph, Node, nodes_in
from dynacomp.capture.graph.graph_sizes import sizes_in, with_sizes
from dynacomp.capture.graph.sizes import canonical, names
from dynacomp.capture.numbers import size_values
from dynacomp.capture.numbers.dynamic_scalars import is_for_guards
from dynacomp.capture.numbers.graph_inputs import add_input
from dynacomp.capture.reconstruct import runtime, structures
from dynacomp.capture.reconstruct.array_identity import candidates, chosen, first, object_of
from dynacomp.capture.reconstruct.checks import Checks
from dynacomp.capture.reconstruct.emit import (
    INPUTS,
    OUTPUTS,
    Emitter,
    load_changes,
    load_elements,
    load_keys,
    load_parts,
    load_table,
    own_stacks,
)
from dynacomp.capture.reconstruct.emit_sources import load_globals, load_source
from dynacomp.capture.reconstruct.readers import reader
from dynacomp.capture.reconstruct.unchanged import changed_entries, effects, unmoved
from dynacomp.capture.symbolic.effects import Effect, Effects, Globals, Made, Phase, Real
from dynacomp.capture.symbolic.generator_finalization import check_none_lost
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import leaving, leaving_apart
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import ArrayV, NumberV
from dynacomp.capture.values.constant import Const, is_const, peek
from dynacomp.capture.values.containers import DictV, ListV, RowsV, SetV, TupleV, layout_of
from dynacomp.capture.values.grown_items import Run, holds_given, is_run, kinds_of, parts_of
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.objects import DELETED, CellV, ObjectV
from dynacomp.capture.values.questions import is_dict, is_list, is_tuple
from dynacomp.capture.values.value import Value, children
from dynacomp.capture.wrapping.class_attrs import hides_entry
from dynacomp.capture.wrapping.class_prototypes import is_made, shown_classes


@dataclass
class Recipe:
    """What runs in place of a frame: the Graph (None when nothing is computed), its inputs' Sources, and
    either a template (direct) or the replacement code."""

    graph: Graph | None
    inputs: tuple[Any, ...] = ()
    template: Any = None
    code: CodeType | None = None
    takes: bool = False  # the code takes the inputs as one more argument, a tuple
    resumes: tuple[CodeType, ...] = ()
    slot: Any = None  # where the program goes once it is compiled: a Program holder of the code


class ProgramSlot:
    """A constant of the replacement code that calls the compiled program."""

    def __init__(self) -> None:
        self.program: Callable[..., Any] | None = None

    def __call__(self, *arrays: Any) -> Any:
        assert self.program is not None
        return self.program(*arrays)


def build_graph(cap: Capture, outputs: dict[Node, int]) -> tuple[Graph, tuple[Any, ...]]:
    """The Graph of what `outputs` need, and its inputs' Sources in the order of its placeholders."""
    result = []
    for node in outputs:
        aval = node.aval
        if runtime.is_key(aval.dtype):
            data = cap.graph.builder.call(runtime.jax.random.key_data, (node,), {}, key_data_aval(aval))
            result.append(data)
        else:
            result.append(node)
    whole = cap.graph.builder.finish(tuple(result))
    needed: set[Node] = {*result, *cap.graph.telling}
    kept: list[Node] = []
    for node in reversed(whole.nodes[:-1]):
        if node in needed:
            kept.append(node)
            needed.update(nodes_in((node.args, dict(node.kwargs))))
    _check_unused(cap, [n for n in whole.nodes if n not in needed], needed)
    nodes = (*carriers(cap, kept), *reversed(kept))
    consts = {n.target: whole.consts[n.target] for n in nodes if n.op == GET_ATTR}
    graph = with_sizes(Graph((*nodes, whole.nodes[-1]), consts, whole.name), canonical)
    assert graph.nodes[-1].op == OUTPUT
    return graph, tuple(cap.graph.inputs[n] for n in nodes if n.op == PLACEHOLDER)


def _check_unused(cap: Capture, unused: list[Node], needed: set[Node]) -> None:
    """Guards that arrays were not deleted which are computed with for nothing: JAX would raise."""
    arrays = {g.source for g in cap.guards.guards if g.kind == "array"}
    for node in dict.fromkeys(n for u in unused if u.op != OUTPUT for n in nodes_in((u.args, dict(u.kwargs)))):
        if node not in needed and cap.graph.inputs.get(node) in arrays:
            cap.guards.add("undeleted", cap.graph.inputs[node])


def answers(cap: Capture) -> Node:
    """What all conditions that were left for the end come to: booleans, in the order of `cap.graph.checks`."""
    nodes = [node for _, node in cap.graph.checks]
    flat = Aval((len(nodes),), np.dtype(np.bool_))
    return cap.graph.builder.call(jnp.stack, (nodes,), {}, flat, name="checks") if len(nodes) > 1 else nodes[0]


def carriers(cap: Capture, kept: list[Node]) -> list[Node]:
    """Inputs that only say sizes which no other input shows: arrays that nothing else reads, and `S.Carrier`s of
    numbers, or of sizes of what Python computed and the Graph is not given."""
    shown = {str(canonical(d)) for n in kept if n.op == PLACEHOLDER for d in n.aval.shape}
    wanted = sorted({name for size in sizes_in(*kept) for name in names(canonical(size))} - shown)
    found: dict[Node, None] = {}
    for name in wanted:
        place = cap.sizes.dims[name]
        symbol, array = cap.sizes.scope.symbol(name), place.base if isinstance(place, S.Dim) else None
        shows = [n for n, source in cap.graph.inputs.items() if source == array]
        number = place if array is None else S.SizeOf(symbol, ((name, place),))
        aval = Aval((symbol, 0), np.dtype(np.bool_))
        found.setdefault(shows[0] if shows else add_input(cap, S.Carrier(number), aval))
    return [n for n in found if n not in kept]


def key_data_aval(aval: Any) -> Any:
    struct = runtime.jax.eval_shape(runtime.jax.random.key_data, runtime.jax.ShapeDtypeStruct(aval.shape, aval.dtype))
    return type(aval)(tuple(struct.shape), struct.dtype)


# --- direct entries


class NoTemplate(Exception):
    """The result needs Python to be built."""


def template_of(cap: Capture, value: Any, outputs: dict[Node, int]) -> Any:
    """The result as the C side's template, with Sources where that has registers (see `registered`); NoTemplate when it
    cannot be one."""
    row = kind(value).template
    found = None if row is None else row(cap, value, outputs)
    if found is not None:
        return found
    if value.source is None:
        raise NoTemplate(value)
    return ("reg", value.source)


def _array(cap: Capture, v: ArrayV, outputs: dict[Node, int]) -> Any:
    leaving(cap, v)
    if v.origin is not None:
        return _chosen(cap, v, outputs)
    if v.source:
        return None
    if v.node in cap.graph.inputs:
        return ("reg", cap.graph.inputs[v.node])
    if v.real is not None:
        return None
    given = object_of(cap, v)
    if given is not None:
        return template_of(cap, given, outputs)
    index = outputs.setdefault(v.node, len(outputs))
    if runtime.is_key(v.aval.dtype):
        return ("call", runtime.wrap_key, [("out", index), ("const", key_impl(v.aval.dtype))], {})
    return ("out", index)


def _number(cap: Capture, v: NumberV, outputs: dict[Node, int]) -> Any:
    leaving(cap, v)
    return ("call", reader(v.kind), [("out", outputs.setdefault(v.node, len(outputs)))], {})


def _constant(cap: Capture, v: Const, outputs: dict[Node, int]) -> Any:
    real = peek(v)  # without a guard: what has a source is handed on, whichever it is
    if cap.known.made and is_made(cap, real) or structures.has_shells(real, cap.known.shells):
        raise NoTemplate(v)
    if v.source is not None and not is_single(real):
        return None
    if id(type(real)) in cap.known.anew:
        raise NoTemplate(v)
    return _of_call(cap, v.value)


def _of_call(cap: Capture, obj: Any) -> Any:
    """A constant; of a class that each call makes anew, that of the call."""
    source = cap.known.anew.get(id(obj))
    return ("const", obj) if source is None else ("reg", source)


def _tuple(cap: Capture, v: TupleV, outputs: dict[Node, int]) -> Any:
    if cap.known.made and is_made(cap, v.cls):
        raise NoTemplate(v)
    if v.source is not None:
        return None
    if v.of_row:
        leaving_apart(cap)
    items = ("tuple", [template_of(cap, x, outputs) for x in v.items])
    return items if v.cls is tuple else ("call", tuple.__new__, [_of_call(cap, v.cls), items], {})


def _rows(cap: Capture, v: RowsV, outputs: dict[Node, int]) -> Any:
    if v.front is None:
        return _tuple(cap, v, outputs)
    return ("call", tuple, [_joined_template(cap, v, outputs)], {})


def _list(cap: Capture, v: ListV, outputs: dict[Node, int]) -> Any:
    if v.source is not None or v.cls is not list or v.real is not None:
        return None
    if v.front is not None:
        return _joined_template(cap, v, outputs)
    return ("list", [template_of(cap, x, outputs) for x in cap.items(v)])


def _dict(cap: Capture, v: DictV, outputs: dict[Node, int]) -> Any:
    if v.of_row:
        leaving_apart(cap)
    if v.source is not None or v.cls is not dict or v.real is not None or not all(map(is_literal, v.items)):
        return None
    return ("dict", list(v.items), [template_of(cap, cap.realize(x), outputs) for x in v.items.values()])


define(ArrayV, Kind(template=_array))
define(NumberV, Kind(template=_number))
define(Const, Kind(template=_constant))
define(TupleV, Kind(template=_tuple))
define(RowsV, Kind(template=_rows))
define(ListV, Kind(template=_list))
define(DictV, Kind(template=_dict))


def _joined_template(cap: Capture, v: ListV | RowsV, outputs: dict[Node, int]) -> Any:
    """All items of a list of runs."""
    return ("call", runtime.joined_items, [_part_template(cap, part, outputs) for part in parts_of(v)], {})


def _part_template(cap: Capture, part: Any, outputs: dict[Node, int]) -> Any:
    """One item of a list, or the items that a loop appended, in a sequence."""
    if not is_run(part):
        return ("tuple", [template_of(cap, cap.realize(part), outputs)])
    if holds_given(part):
        leaving_apart(cap)
    fixed: list[Value] = []
    specs = tuple(shape.spec(fixed) for shape in part.shapes)
    return ("call", runtime.run_items, [
        length_of(cap, part, outputs), ("const", specs), ("const", kinds_of(part)),
        ("tuple", [template_of(cap, v, outputs) for v in own_stacks(cap, part)]),
        ("tuple", [template_of(cap, v, outputs) for v in fixed])], {})


def length_of(cap: Capture, run: Run, outputs: dict[Node, int]) -> Any:
    """How many rounds a loop had: as many as a stack has rows, where there is one."""
    length = size_values.of_expr(cap, run.length)
    if not run.stacks or is_const(length):
        return template_of(cap, length, outputs)
    return ("call", len, [template_of(cap, own_stacks(cap, run)[0], outputs)], {})


def _chosen(cap: Capture, value: ArrayV, outputs: dict[Node, int]) -> Any:
    made = template_of(cap, ArrayV(value.node, value.aval), outputs)
    existing = [template_of(cap, v, outputs) for v in candidates(cap, value)]
    flag = ("out", outputs.setdefault(value.origin.node, len(outputs)))
    return ("call", chosen, [flag, made, ("const", first(value)), ("tuple", existing)], {})


def registered(template: Any, register: Callable[[S.Source], int]) -> Any:
    """A template with the registers of its Sources."""
    match template:
        case ("reg", source):
            return ("reg", register(source))
        case ("tuple" | "list" as tag, items):
            return (tag, [registered(item, register) for item in items])
        case ("dict", keys, items):
            return ("dict", keys, [registered(item, register) for item in items])
        case ("call", fn, args, kwargs):
            return ("call", fn, [registered(arg, register) for arg in args], kwargs)
    return template


def sources_in(template: Any) -> list[S.Source]:
    """What a template reads besides the Graph's outputs."""
    found: dict[S.Source, int] = {}
    registered(template, lambda source: found.setdefault(source, 0))
    return list(found)


def is_shared(cap: Capture, value: Any, seen: set[int] | None = None) -> bool:
    """Whether a new list, dict or tuple occurs twice in a result: templates would make two of it."""
    seen = set() if seen is None else seen
    grown = getattr(value, "front", None) is not None
    if is_list(value) or is_dict(value) or is_tuple(value) and value.source is None and (grown or value.items):
        if id(value) in seen:
            return True
        seen.add(id(value))
    if grown:
        inside: Iterable[Any] = [part for part in parts_of(value) if not is_run(part)]
    else:  # of a list that the frame was given, only what the frame has looked at: looking guards its length
        inside = children(value) if getattr(value, "unseen", None) is None else value.appended
    return any(is_shared(cap, v, seen) for v in inside)


# --- replacement code


def stores(effects: Effects) -> Iterator[Effect]:
    """The rows of what arrays and names have been given."""
    for array, held in effects.arrays.values():
        for name, value in held.items():
            yield Effect(Phase.ARRAYS, setattr, (array, Real(name), value))
    for (_, name), (table, _, value) in effects.globals.items():
        yield _store(Globals(table), name, value, None, runtime.set_global, runtime.delete_global)
    for (_, name), (cls, value) in effects.classes.items():
        yield _store(Real(cls), name, value, DELETED, type.__setattr__, runtime.delete_class_attribute)


def _store(place: Real | Globals, name: str, value: Any, gone: Any, put: Callable, delete: Callable) -> Effect:
    if value is gone:
        return Effect(Phase.NAMES, delete, (place, Real(name)))
    return Effect(Phase.NAMES, put, (place, Real(name), value))


def returning(cap: Capture, value: Value, code: CodeType) -> Recipe:
    """The entry of a frame that was captured to its end."""
    changed = effects(cap, value)
    acts = changed or cap.effects or cap.graph.checks or cap.dropping.pending
    if not (acts or shown_classes(cap) or is_shared(cap, value)):
        try:
            outputs: dict[Node, int] = {}
            template = template_of(cap, value, outputs)
            graph, inputs = build_graph(cap, outputs) if outputs or cap.graph.telling else (None, ())
            if graph is None:
                _check_unused(cap, list(cap.graph.builder.nodes), set())
            if not all(is_for_guards(cap, source) for source in (*inputs, *sources_in(template))):
                raise NoTemplate("a number that Python computes")
            return Recipe(graph, inputs, template)
        except NoTemplate:
            pass
    writer = Writer(cap, code)
    writer.prepare(changed)
    name = writer.save(value)
    writer.replay()
    writer.e.op("LOAD_FAST", name)
    if writer.e.frame_kept:
        writer.forget(code.co_varnames)
    writer.e.op("RETURN_VALUE")
    return writer.finish()


class Writer:
    """Writes one replacement code object, in three acts: build, replay, leave."""

    def __init__(self, cap: Capture, code: CodeType) -> None:
        self.cap, self.code = cap, code
        cap.emptied.append(self)
        self.e = Emitter(cap)
        self.slot = ProgramSlot()
        self.replays: list[Callable[[], None]] = []
        self.resumes: list[CodeType] = []

    def save(self, value: Any) -> str:
        """Builds `value` and keeps it in a temporary: effects come later and may not disturb it."""
        self.e.load(value)
        return self.e.store_temp("k")

    def prepare(self, changed: list[Value]) -> None:
        for recipe in shown_classes(self.cap):
            self.e.const(recipe.obj)
            self.e.op("POP_TOP")
        for effect in self.cap.effects.calls:
            self.note(effect)
        for value in changed:
            replay = kind(value).replay
            assert replay is not None
            replay(self, value)
        for effect in stores(self.cap.effects):
            self.note(effect)

    def note(self, effect: Effect) -> None:
        """Makes what an effect needs, and leaves its replay for its phase."""
        act = partial(self.act, effect.act, *map(self._operand, effect.operands))
        (self.e.late if effect.phase is Phase.LAST else self.replays).append(act)

    def _operand(self, operand: Value | Real | Globals | Made) -> Callable[[], None]:
        """What loads an operand when the effect is replayed."""
        if isinstance(operand, Real):
            return partial(self.e.const, operand.obj)
        if isinstance(operand, Globals):
            return partial(load_globals, self.e, operand.table)
        if isinstance(operand, Made):
            return lambda: self.e.tuple([v for v in operand.arrays if v.node in self.e.outputs])
        return partial(self.e.op, "LOAD_FAST", self.save(operand))

    def act(self, fn: Any, *args: Callable[[], None]) -> None:
        self.e.call(fn, *args)
        self.e.op("POP_TOP")

    def replay(self) -> None:
        for step in (*self.replays, *self.e.late):
            step()

    def forget(self, needed: Collection[str]) -> None:
        """Drops what only wrote this code: the program's objects die here when they do in its own frame."""
        bound = dict.fromkeys(self.code.co_varnames[:argument_count(self.code)])
        for item in of_class(Instr, self.e.out):
            if item.name in ("STORE_FAST", "DELETE_FAST"):
                name = str(item.arg)
                bound.pop(name, None) if item.name == "DELETE_FAST" else bound.setdefault(name)
        for name in bound:
            if name not in needed:
                self.e.op("DELETE_FAST", name)

    def finish(self) -> Recipe:
        """Puts the call of the program in front and assembles."""
        e = self.e
        check_none_lost(self.cap, e.temps)
        body, e.out, e.temps = e.out, [], {}
        graph: Graph | None = None
        inputs: tuple[Any, ...] = ()
        asked = e.output(answers(self.cap)) if self.cap.graph.checks else None
        takes = False
        if e.outputs or self.cap.graph.telling:
            graph, inputs = build_graph(self.cap, e.outputs)
            held = {guard.source for guard in self.cap.guards.guards}  # by guards, whatever it takes
            takes = bool(inputs) and all(s in held or is_for_guards(self.cap, s) for s in inputs)
            begin = len(e.out)
            self._call_program(inputs, takes)
            _place(e.out[begin:], last_line(graph, self.code))
        if asked is not None:
            self.act(Checks(tuple(check for check, _ in self.cap.graph.checks)),
                     lambda: e.item(lambda: e.op("LOAD_FAST", OUTPUTS), asked))
        code = assemble(self.code, [*e.out, *body], (INPUTS,) * takes)
        return Recipe(graph, inputs, code=code, takes=takes, slot=self.slot, resumes=tuple(self.resumes))

    def _call_program(self, inputs: tuple[S.Source, ...], takes: bool) -> None:
        """Calls the program, with the inputs that the entry gives, or with what the code finds at their Sources."""
        e = self.e
        if takes:
            e.begin_call(partial(e.const, self.slot))
            e.op("LOAD_FAST", INPUTS)
            e.op("DELETE_FAST", INPUTS)
            e.op("CALL_FUNCTION_EX", 0)
        else:
            e.call(self.slot, *[lambda s=s: load_source(e, s) for s in inputs])  # type: ignore[misc]
        e.op("STORE_FAST", OUTPUTS)


def last_line(graph: Graph, code: CodeType) -> int:
    """The line of `code` at which the Graph's last operation stands: there its program is called, so that what JAX and
    profilers say of arrays that it makes (tracers, where a caller is transformed) names that line."""
    lines = (n.where[0][1] for n in reversed(graph.nodes) if n.where and n.where[0][0] == code.co_filename)
    return next(lines, code.co_firstlineno)


def _place(items: list[Any], line: int) -> None:
    for item in of_class(Instr, items):
        item.lineno = line


def assemble(code: CodeType, body: list[Any], more: tuple[str, ...] = ()) -> CodeType:
    """A code object that takes the arguments of `code`, and `more`, as positional parameters and runs `body`."""
    bc = Bytecode()
    bc.name, bc.qualname = code.co_name, code.co_qualname
    bc.filename, bc.first_lineno = code.co_filename, code.co_firstlineno
    star = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    taken = code.co_argcount + code.co_kwonlyargcount + star
    bc.argnames = [*code.co_varnames[:taken], *more]
    bc.argcount = len(bc.argnames)
    bc.freevars = list(code.co_freevars)
    bc.flags = CompilerFlags(code.co_flags & ~(0x04 | 0x08))
    if code.co_freevars:
        bc.append(Instr("COPY_FREE_VARS", len(code.co_freevars), lineno=code.co_firstlineno))
    bc.append(Instr("RESUME", 0, lineno=code.co_firstlineno))
    for item in of_class(Instr, body):
        if item.lineno is None:
            item.lineno = code.co_firstlineno
    bc.extend(body)
    return to_code(bc)


def _change(w: Writer, fn: Callable[..., None], v: Value, *more: int | bytes | tuple[int, ...] | None) -> None:
    """After the Graph: `fn(object, content, *more)`, the content being what lies on the stack now."""
    kept = w.e.store_temp("k")
    loads = [partial(w.e.op, "LOAD_FAST", name) for name in (w.save(v), kept)]
    w.replays.append(partial(w.act, fn, *loads, *[partial(w.e.const, n) for n in more]))


def _prepare_list(w: Writer, v: ListV) -> None:
    replay: Callable[..., None]
    place: tuple[int, ...] = ()
    if v.unseen is not None or v.front is not None and v.real is not None:
        replay, items = runtime.extend_list, [*(v.front.all_parts if v.front is not None else ()), *v.appended]
    elif v.cls is list:
        front, back = unmoved(v)
        place = (front, list.__len__(v.real) - back)
        replay, items = runtime.replace_part, v.items[front:len(v.items) - back]
    else:
        replay, items = runtime.replace_deque if v.changes else runtime.set_items, v.items
    w.e.tuple(items) if not any(map(is_run, items)) else load_parts(w.e, items)
    _change(w, replay, v, *place)


def _prepare_dict(w: Writer, v: DictV) -> None:
    change = changed_entries(v)
    if change is not None:
        _update_dict(w, v, *change)
        return
    load_table(w.e, v.items)
    _change(w, runtime.replace_dict, v)


def _update_dict(w: Writer, v: DictV, gone: list[Any], stored: list[tuple[Any, Any]], moved: list[Any]) -> None:
    load_keys(w.e, gone)
    load_keys(w.e, [key for key, _ in stored])
    w.e.tuple([item for _, item in stored])
    w.e.op("BUILD_TUPLE", 3)
    moves = tuple(n for n, (key, _) in enumerate(stored) if key in moved)
    _change(w, runtime.update_dict, v, *([moves] if moves else []))


def _prepare_set(w: Writer, v: SetV) -> None:
    log = v.log if v.parts is None else v.parts.log
    if log is not None:
        load_changes(w.e, log)
        _change(w, runtime.change_set, v, v.parts is not None and v.parts.emptied)
        return
    load_elements(w.e, v.items)
    _change(w, runtime.replace_set, v, layout_of(v.items))


def _prepare_object(w: Writer, v: ObjectV) -> None:
    target = w.save(v)
    gone = [n for n in own_dict(v.real) if n not in v.attrs]  # through `vars`
    for name in [n for n in (*gone, *unordered(v.attrs)) if n in v.written]:
        value, hidden = v.attrs.get(name, DELETED), hides_entry(v.cls, name)
        place = partial(w.e.op, "LOAD_FAST", target), partial(w.e.const, name)
        if value is DELETED or name in v.moved:
            w.replays.append(partial(w.act, runtime.delete_entry if hidden else runtime.delete_attribute, *place))
        if value is DELETED:
            continue
        put = runtime.write_entry if hidden else setattr if v.initialising else write_attribute
        w.replays.append(partial(w.act, put, *place, partial(w.e.op, "LOAD_FAST", w.save(value))))
    if v.arranged is not None:
        w.replays.append(partial(w.act, arrange, partial(w.e.op, "LOAD_FAST", target),
                                 partial(w.e.const, v.arranged)))


def _load_cell(w: Writer, v: CellV) -> None:
    if v.source is not None:
        load_source(w.e, v.source)
    else:
        w.e.const(v.real)


def _prepare_cell(w: Writer, v: CellV) -> None:
    _load_cell(w, v)
    load = partial(w.e.op, "LOAD_FAST", w.e.store_temp("k"))  # a generator that it is found in may end meanwhile
    if v.content is None:
        w.replays.append(lambda: w.act(runtime.empty_cell, load))
        return
    kept = w.save(v.content)
    w.replays.append(lambda: w.act(runtime.fill_cell, load, lambda: w.e.op("LOAD_FAST", kept)))


for _cls, _replay in ((ListV, _prepare_list), (DictV, _prepare_dict), (SetV, _prepare_set),
                      (ObjectV, _prepare_object), (CellV, _prepare_cell)):
    define(_cls, Kind(replay=_replay))  # type: ignore[arg-type]
