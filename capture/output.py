"""The end of a capture: its Graph, and what runs in place of the frame.

A frame that was captured whole and has no side effects becomes a *direct* entry: the C side calls
the program and fills a result template. Otherwise a replacement code object is written: load the
inputs, call the program, build every object that is still needed, replay the side effects, then
return, or run the breaking instruction and call the resume function.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import CodeType
from typing import Any

from bytecode import Bytecode, CompilerFlags, FreeVar, Instr, Label, TryBegin, TryEnd

from dynacomp.capture import remake
from dynacomp.capture import sources as S
from dynacomp.capture.code import Instr as Op
from dynacomp.capture.effects import certain, settle
from dynacomp.capture.emit import OUTPUTS, Emitter, load_source
from dynacomp.capture.errors import GiveUp
from dynacomp.capture.graph import GET_ATTR, OUTPUT, PLACEHOLDER, Graph, Node, nodes_in
from dynacomp.capture.machine import VERSION, Capture, Frame
from dynacomp.capture.resume import Layout, has_late_cells, is_resume, live_locals, resume_code
from dynacomp.capture.values import (
    DELETED,
    ArrayV,
    CellV,
    Const,
    DictV,
    ListV,
    NullV,
    ObjectV,
    SetV,
    TupleV,
    Value,
    is_literal,
)


@dataclass
class Result:
    """What a capture gives: the Graph (None when nothing is computed), its inputs' Sources, and
    either a template (direct) or the replacement code."""

    graph: Graph | None
    inputs: tuple[Any, ...] = ()
    template: Any = None
    code: CodeType | None = None
    resumes: tuple[CodeType, ...] = ()
    slot: Any = None  # where the program goes once it is compiled: a Program holder of the code
    notes: dict[str, Any] = field(default_factory=dict)


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
        if remake.is_key(aval.dtype):
            data = cap.builder.call(remake.jax.random.key_data, (node,), {}, key_data_aval(aval))
            result.append(data)
        else:
            result.append(node)
    whole = cap.builder.finish(tuple(result))
    needed: set[Node] = set(result)
    kept: list[Node] = []
    for node in reversed(whole.nodes[:-1]):
        if node in needed:
            kept.append(node)
            needed.update(nodes_in((node.args, dict(node.kwargs))))
    nodes = tuple(reversed(kept))
    consts = {n.target: whole.consts[n.target] for n in nodes if n.op == GET_ATTR}
    graph = Graph((*nodes, whole.nodes[-1]), consts, whole.name)
    assert graph.nodes[-1].op == OUTPUT
    return graph, tuple(cap.inputs[n] for n in nodes if n.op == PLACEHOLDER)


def key_data_aval(aval: Any) -> Any:
    struct = remake.jax.eval_shape(remake.jax.random.key_data, remake.jax.ShapeDtypeStruct(aval.shape, aval.dtype))
    return type(aval)(tuple(struct.shape), struct.dtype)


# --- direct entries


class NoTemplate(Exception):
    """The result needs Python to be built."""


def template_of(cap: Capture, value: Any, outputs: dict[Node, int], registers: Callable[[Any], int]) -> Any:
    """The result as the C side's template; NoTemplate when it cannot be one."""
    if isinstance(value, ArrayV):
        certain(cap, value)
    if isinstance(value, ArrayV) and not value.source and value.node not in cap.inputs and value.real is None:
        if remake.is_key(value.aval.dtype):
            index = outputs.setdefault(value.node, len(outputs))
            return ("call", remake.wrap_key, [("out", index), ("const", remake.key_impl(value.aval.dtype))], {})
        return ("out", outputs.setdefault(value.node, len(outputs)))
    if isinstance(value, Const) and (value.source is None or is_literal(value.value)):
        return ("const", value.value)
    if isinstance(value, Value) and value.source is not None:
        return ("reg", registers(value.source))
    if isinstance(value, ArrayV) and value.node in cap.inputs:
        return ("reg", registers(cap.inputs[value.node]))
    if type(value) is TupleV:
        items = [template_of(cap, v, outputs, registers) for v in cap.items(value)]
        if value.cls is tuple:
            return ("tuple", items)
        return ("call", tuple.__new__, [("const", value.cls), ("tuple", items)], {})
    if type(value) is ListV and value.cls is list and value.real is None:
        return ("list", [template_of(cap, v, outputs, registers) for v in cap.items(value)])
    if type(value) is DictV and value.cls is dict and value.real is None and all(map(is_literal, value.items)):
        items = [template_of(cap, cap.realize(v), outputs, registers) for v in value.items.values()]
        return ("dict", list(value.items), items)
    raise NoTemplate(value)


def shared_mutables(cap: Capture, value: Any, seen: set[int] | None = None) -> bool:
    """Whether a new list or dict occurs twice in a result: templates would make two of it."""
    seen = set() if seen is None else seen
    if isinstance(value, (ListV, DictV)):
        if id(value) in seen:
            return True
        seen.add(id(value))
    items = cap.items(value) if isinstance(value, (ListV, TupleV)) else (
        list(value.items.values()) if isinstance(value, DictV) else [])
    return any(shared_mutables(cap, v, seen) for v in items)


# --- replacement code


def _noted(wanted: list[Any], source: Any) -> int:
    """A register for a template that is only looked at."""
    wanted.append(source)
    return 0


def returning(cap: Capture, value: Value, code: CodeType) -> Result:
    """The entry of a frame that was captured to its end."""
    effects = settle(cap)
    if not effects and not cap.global_writes and not shared_mutables(cap, value):
        try:
            outputs: dict[Node, int] = {}
            wanted: list[Any] = []
            template = template_of(cap, value, outputs, partial(_noted, wanted))
            graph, inputs = build_graph(cap, outputs) if outputs else (None, ())
            if any(map(S.on_host, (*inputs, *wanted))):
                raise NoTemplate("a number that Python computes")
            return Result(graph, inputs, template=(value, outputs) if template else None)
        except NoTemplate:
            pass
    writer = Writer(cap, code)
    writer.prepare(effects)
    name = writer.save(value)
    writer.replay()
    writer.e.op("LOAD_FAST", name)
    writer.e.op("RETURN_VALUE")
    return writer.finish()


class Writer:
    """Writes one replacement code object, in three acts: build, replay, leave."""

    def __init__(self, cap: Capture, code: CodeType) -> None:
        self.cap, self.code = cap, code
        self.e = Emitter(cap)
        self.slot = ProgramSlot()
        self.replays: list[Callable[[], None]] = []
        self.resumes: list[CodeType] = []

    def save(self, value: Any) -> str:
        """Builds `value` and keeps it in a temporary: effects come later and may not disturb it."""
        self.e.load(value)
        return self.e.store_temp("k")

    def prepare(self, effects: list[Value]) -> None:
        for value in effects:
            _PREPARE[type(value)](self, value)
        for (_, name), (table, _, value) in self.cap.global_writes.items():
            self._global(table, name, value)

    def _global(self, table: dict[str, Any], name: str, value: Any) -> None:
        e = self.e
        held = remake.Held(table)
        if value is None:
            self.replays.append(lambda: self.act(remake.delete_global, lambda: e.const(held), lambda: e.const(name)))
            return
        kept = self.save(value)
        self.replays.append(lambda: self.act(remake.set_global, lambda: e.const(held), lambda: e.const(name),
                                             lambda: e.op("LOAD_FAST", kept)))

    def act(self, fn: Any, *args: Callable[[], None]) -> None:
        self.e.call(fn, *args)
        self.e.op("POP_TOP")

    def replay(self) -> None:
        for step in self.replays:
            step()

    def finish(self) -> Result:
        """Puts the call of the program in front and assembles."""
        e = self.e
        body, e.out = e.out, []
        graph: Graph | None = None
        inputs: tuple[Any, ...] = ()
        if e.outputs:
            graph, inputs = build_graph(self.cap, e.outputs)
            e.call(self.slot, *[lambda s=s: load_source(e, s) for s in inputs])  # type: ignore[misc]
            e.op("STORE_FAST", OUTPUTS)
        code = assemble(self.code, [*e.out, *body])
        return Result(graph, inputs, code=code, slot=self.slot, resumes=tuple(self.resumes))


def assemble(code: CodeType, body: list[Any]) -> CodeType:
    """A code object that takes the arguments of `code` as positional parameters and runs `body`."""
    bc = Bytecode()
    bc.name, bc.filename, bc.first_lineno = code.co_name, code.co_filename, code.co_firstlineno
    star = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    bc.argcount = code.co_argcount + code.co_kwonlyargcount + star
    bc.argnames = list(code.co_varnames[:bc.argcount])
    bc.freevars = list(code.co_freevars)
    bc.flags = CompilerFlags(code.co_flags & ~(0x04 | 0x08))
    if code.co_freevars:
        bc.append(Instr("COPY_FREE_VARS", len(code.co_freevars), lineno=code.co_firstlineno))
    bc.append(Instr("RESUME", 0, lineno=code.co_firstlineno))
    for item in body:
        if isinstance(item, Instr) and item.lineno is None:
            item.lineno = code.co_firstlineno
        bc.append(item)
    return bc.to_code()


def _source_loader(w: Writer, value: Any) -> Callable[[], None]:
    if value.source is not None:
        return lambda: load_source(w.e, value.source)
    return lambda: w.e.const(remake.Held(value.real) if isinstance(value.real, dict) else value.real)


def _prepare_list(w: Writer, v: ListV) -> None:
    replay = remake.replace_list if v.unseen is None else remake.extend_list
    w.e.tuple(v.items if v.unseen is None else v.appended)
    kept = w.e.store_temp("k")
    target = w.save(v)
    w.replays.append(lambda: w.act(replay, lambda: w.e.op("LOAD_FAST", target),
                                   lambda: w.e.op("LOAD_FAST", kept)))


def _prepare_dict(w: Writer, v: DictV) -> None:
    w.e.tuple(v.items.values())
    kept = w.e.store_temp("k")
    target = w.save(v)
    keys = tuple(v.items)
    w.replays.append(lambda: w.act(remake.replace_dict, lambda: w.e.op("LOAD_FAST", target),
                                   lambda: w.e.const(keys), lambda: w.e.op("LOAD_FAST", kept)))


def _prepare_set(w: Writer, v: SetV) -> None:
    target = w.save(v)
    keys = tuple(v.items)
    w.replays.append(lambda: w.act(remake.replace_set, lambda: w.e.op("LOAD_FAST", target),
                                   lambda: w.e.const(keys)))


def _prepare_object(w: Writer, v: ObjectV) -> None:
    target = w.save(v)
    for name in [n for n in v.attrs if n in v.written]:
        value = v.attrs[name]
        if value is DELETED:
            w.replays.append(lambda n=name: w.act(remake.delete_attribute,  # type: ignore[misc]
                                                  lambda: w.e.op("LOAD_FAST", target), lambda: w.e.const(n)))
            continue
        kept = w.save(value)
        w.replays.append(lambda n=name, k=kept: w.act(  # type: ignore[misc]
            remake.write_attribute, lambda: w.e.op("LOAD_FAST", target), lambda: w.e.const(n),
            lambda: w.e.op("LOAD_FAST", k)))


def _prepare_cell(w: Writer, v: CellV) -> None:
    load = _source_loader(w, v)
    if v.content is None:
        w.replays.append(lambda: w.act(remake.empty_cell, load))
        return
    kept = w.save(v.content)
    w.replays.append(lambda: w.act(remake.fill_cell, load, lambda: w.e.op("LOAD_FAST", kept)))


_PREPARE: dict[type, Callable[[Writer, Any], None]] = {
    ListV: _prepare_list, DictV: _prepare_dict, SetV: _prepare_set, ObjectV: _prepare_object, CellV: _prepare_cell,
}


# --- graph breaks


@dataclass
class Exit:
    """One way on from a breaking instruction: the stack effect, the target, what it pushes."""

    target: int
    depth: int


def breaking(cap: Capture, frame: Frame) -> Result:
    """The entry of a frame that stops before `frame.instr`: run that in Python, then resume."""
    if frame.handling:
        raise GiveUp("handler", "a graph break inside an except or finally block")
    if has_late_cells(frame.code):
        raise GiveUp("resume", "a graph break in a function whose comprehension shares a variable with a closure")
    code = frame.code.code
    w = Writer(cap, code)
    instr = frame.instr
    w.prepare(settle(cap))
    stack = [None if isinstance(v, NullV) else w.save(v) for v in frame.stack]
    needed = live_locals(frame.code, frame.index)
    names = sorted(n for n in frame.locals if n in needed)
    saved = {n: w.save(frame.locals[n]) for n in names}
    cells = tuple(w.save(frame.cells[n]) for n in (*code.co_cellvars, *code.co_freevars) if n in frame.cells)
    w.replay()
    Leaver(w, frame, instr, stack, saved, cells).leave()
    return w.finish()


class Leaver:
    """Writes the breaking instruction and the calls of resume functions after it."""

    def __init__(self, w: Writer, frame: Frame, instr: Op, stack: list[str | None], saved: dict[str, str],
                 cells: tuple[str, ...]) -> None:
        self.w, self.e, self.frame, self.instr = w, w.e, frame, instr
        self.stack, self.saved, self.cells = stack, dict(saved), cells
        self.globals = remake.Held(frame.globals)

    def leave(self) -> None:
        """try: the instruction; on to its normal and jump targets; except: on to its handler."""
        handler = self.frame.code.handler(self.instr.offset)
        caught = Label()
        begin = TryBegin(caught, handler.lasti) if handler is not None else None
        if begin is not None:
            self.e.out.append(begin)
        exits = self._instruction()
        self._normal(exits, begin)
        if handler is not None:
            self.e.out.append(caught)
            self._handler(handler)

    def _instruction(self) -> tuple[Label | None, int, int]:
        """Runs the instruction on its operands; (jump label, values pushed, values pushed after a jump)."""
        i, e = self.instr, self.e
        for name in self.saved:
            e.op("LOAD_FAST", self.saved[name])
            e.op("STORE_FAST", name)
        used = consumed(i, len(self.stack))
        operands, self.stack = self.stack[len(self.stack) - used:], self.stack[:len(self.stack) - used]
        for operand in operands:
            e.op("PUSH_NULL") if operand is None else e.op("LOAD_FAST", operand)
        if i.name in SIMPLER:
            e.out.append(Instr(*SIMPLER[i.name](i), lineno=i.line))
            return None, 1, 0
        if i.name in ("CALL", "PRECALL"):
            self._call(i)
            return None, 1, 0
        if i.name in ("JUMP_BACKWARD", "JUMP_FORWARD"):
            return None, 0, 0
        opcode = dis.opmap[i.name]
        arg = i.arg if opcode >= dis.HAVE_ARGUMENT else None
        after = used + dis.stack_effect(opcode, arg, jump=False)
        if "JUMP" in i.name or i.name in ("FOR_ITER", "SEND"):
            label = Label()
            if i.name in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE") and VERSION >= (3, 13):
                e.out.append(Instr("TO_BOOL", lineno=i.line))  # the jump itself takes only bools
            e.out.append(Instr(i.name.replace("BACKWARD", "FORWARD"), label, lineno=i.line))
            jumped = 0 if i.name == "FOR_ITER" else used + dis.stack_effect(opcode, arg, jump=True)
            return label, after, jumped
        e.out.append(self._copy(i))
        return None, after, 0

    def _copy(self, i: Op) -> Instr:
        """The instruction as `bytecode` has it in the original code."""
        found = [x for x in Bytecode.from_code(self.frame.code.code) if isinstance(x, Instr)][i.index]
        if found.require_arg():
            return Instr(found.name, _free(found.arg), lineno=i.line)
        return Instr(found.name, lineno=i.line)

    def _call(self, i: Op) -> None:
        if self.frame.kw_names:
            self.e.op("KW_NAMES", self.frame.kw_names)
        if VERSION < (3, 12):
            self.e.out.append(Instr("PRECALL", i.arg, lineno=i.line))
        self.e.out.append(Instr("CALL", i.arg, lineno=i.line))

    def _normal(self, exits: tuple[Label | None, int, int], begin: TryBegin | None) -> None:
        label, pushed, jumped = exits
        if begin is not None:
            self.e.out.append(TryEnd(begin))
        i = self.instr
        if i.name in ("RETURN_VALUE", "RAISE_VARARGS", "RERAISE"):
            return
        after = self.frame.code.at[i.argval] if i.name in ("JUMP_BACKWARD", "JUMP_FORWARD") else self.frame.index + 1
        self._resume(after, pushed)
        if label is None:
            return
        self.e.out.append(label)
        target = self.frame.code.at[i.argval]
        if i.name == "FOR_ITER":
            for name in LOOP_END:
                self.e.op(name)
            target += len(LOOP_END)
        self._resume(target, jumped)

    def _resume(self, target: int, pushed: int, extra: tuple[str, ...] = (), lasti: int | None = None) -> None:
        """Takes `pushed` values off the stack and calls the resume function at `target`."""
        taken = [self.e.store_temp("s") for _ in range(pushed)][::-1]
        shape = AFTER.get(self.instr.name, lambda i: None)(self.instr) if not extra else None
        layout = [*(name is not None for name in self.stack), *(shape or [True] * len(taken)), *(True for _ in extra)]
        live = live_locals(self.frame.code, target)
        known = {*self.saved, *_stored_local(self.instr)} - _deleted(self.instr)
        names = tuple(sorted(known & live))
        code = resume_code(self.frame.code, Layout(target, tuple(layout), lasti, names))
        self.w.resumes.append(code)
        arguments = [*(n for n in self.stack if n is not None), *taken, *extra, *names]
        e = self.e
        e.begin_call(lambda: e.const(remake.Tail))
        self._function(code)
        for name in arguments:
            e.op("LOAD_FAST", name)
        e.op("BUILD_TUPLE", len(arguments))
        e.end_call(2)
        if not is_resume(self.frame.code.code):
            self._trampoline()
        e.op("RETURN_VALUE")

    def _trampoline(self) -> None:
        """Resume functions return their own continuation: a loop that breaks needs no deeper stack."""
        e, again, done, name = self.e, Label(), Label(), self.e.temp("r")
        e.op("STORE_FAST", name)
        e.out.append(again)
        e.call(remake.is_tail, lambda: e.op("LOAD_FAST", name))
        e.op("POP_JUMP_FORWARD_IF_FALSE" if VERSION < (3, 12) else "POP_JUMP_IF_FALSE", done)
        e.begin_call(lambda: e.call(remake.tail_function, lambda: e.op("LOAD_FAST", name)))
        e.call(remake.tail_arguments, lambda: e.op("LOAD_FAST", name))
        e.op("CALL_FUNCTION_EX", 0)
        e.op("STORE_FAST", name)
        e.op("JUMP_BACKWARD", again)
        e.out.append(done)
        e.op("LOAD_FAST", name)

    def _function(self, code: CodeType) -> None:
        e = self.e

        def closure() -> None:
            for name in self.cells:
                e.op("LOAD_FAST", name)
            e.op("BUILD_TUPLE", len(self.cells))

        e.call(remake.resume_function, lambda: e.const(code), lambda: e.const(self.globals), closure)

    def _handler(self, handler: Any) -> None:
        """An exception of the instruction goes on in the frame's own handler."""
        e = self.e
        raised = e.store_temp("x")
        if handler.lasti:
            e.op("POP_TOP")
        self.stack = self.stack[:handler.depth]
        saved_instr = self.instr
        target = self.frame.code.at[handler.target]
        lasti = saved_instr.offset if handler.lasti else None
        self.instr = Op(saved_instr.index, saved_instr.offset, "NOP", 0, None, saved_instr.line)
        self._resume(target, 0, extra=(raised,), lasti=lasti)


def _free(arg: Any) -> Any:
    return FreeVar(str(arg)) if type(arg).__name__ == "CellVar" else arg


def _plain_attr(i: Op) -> tuple[str, Any]:
    return "LOAD_ATTR", (False, i.argval) if VERSION >= (3, 12) else i.argval


# Instructions that push a callee with NULL or self run as plain loads; AFTER says what the stack is then.
SIMPLER: dict[str, Any] = {"LOAD_METHOD": _plain_attr, "LOAD_ATTR": _plain_attr}
_PAIR = [True, False] if VERSION >= (3, 13) else [False, True]
AFTER: dict[str, Callable[[Op], list[bool] | None]] = {
    "LOAD_METHOD": lambda i: _PAIR,
    "LOAD_ATTR": lambda i: _PAIR if VERSION >= (3, 12) and i.arg & 1 else None,
}


LOOP_END = {(3, 11): (), (3, 12): ("END_FOR",)}.get(VERSION, ("END_FOR", "POP_TOP"))
# How many values an instruction takes off the stack or looks at: a number, or a function of its argument.
_POPS: dict[str, Any] = {
    **dict.fromkeys(("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "IS_OP", "CONTAINS_OP", "STORE_ATTR", "DELETE_SUBSCR",
                     "IMPORT_NAME", "FORMAT_WITH_SPEC", "SEND", "MATCH_KEYS"), 2),
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE", "UNARY_NOT", "TO_BOOL", "GET_ITER", "FOR_ITER",
                     "LOAD_ATTR", "LOAD_METHOD", "DELETE_ATTR", "UNPACK_SEQUENCE", "UNPACK_EX", "FORMAT_SIMPLE",
                     "CONVERT_VALUE", "BEFORE_WITH", "IMPORT_FROM", "GET_LEN", "MATCH_MAPPING", "MATCH_SEQUENCE",
                     "STORE_DEREF", "STORE_GLOBAL", "STORE_FAST", "STORE_NAME", "POP_TOP", "CALL_INTRINSIC_1",
                     "JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP", "RETURN_VALUE", "GET_YIELD_FROM_ITER",
                     "LIST_TO_TUPLE"), 1),
    **dict.fromkeys(("STORE_SUBSCR", "BINARY_SLICE", "LOAD_SUPER_ATTR", "MATCH_CLASS"), 3),
    **dict.fromkeys(("STORE_SLICE", "WITH_EXCEPT_START"), 4),
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CONST", "LOAD_FAST", "LOAD_BUILD_CLASS", "NOP",
                     "JUMP_BACKWARD", "JUMP_FORWARD", "DELETE_GLOBAL", "DELETE_DEREF", "DELETE_FAST",
                     "LOAD_CLASSDEREF"), 0),
    "CALL": lambda a: a + 2, "PRECALL": lambda a: a + 2, "CALL_KW": lambda a: a + 3,
    "CALL_FUNCTION_EX": lambda a: 3 + (a & 1), "FORMAT_VALUE": lambda a: 1 + bool(a & 4),
    "RAISE_VARARGS": lambda a: a, "RERAISE": lambda a: a + 1, "MAKE_FUNCTION": lambda a: 1 + bin(a).count("1"),
    **dict.fromkeys(("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_STRING", "BUILD_SLICE"), lambda a: a),
    "BUILD_MAP": lambda a: 2 * a, "BUILD_CONST_KEY_MAP": lambda a: a + 1,
    **dict.fromkeys(("LIST_APPEND", "SET_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE"), lambda a: a + 1),
    "MAP_ADD": lambda a: a + 2, "DICT_MERGE": lambda a: a + (4 if VERSION >= (3, 13) else 3),
}


def consumed(i: Op, depth: int) -> int:
    """How many stack values the instruction needs on the real stack."""
    pops = 1 if i.name.startswith("POP_JUMP") else _POPS.get(i.name)
    if pops is None:
        raise GiveUp("resume", f"a graph break at {i.name}")
    return min(depth, pops(i.arg) if callable(pops) else pops)


def _stored_local(i: Op) -> set[str]:
    if i.name in ("STORE_FAST", "STORE_FAST_LOAD_FAST"):
        return {i.argval if isinstance(i.argval, str) else i.argval[0]}
    return set(i.argval) if i.name == "STORE_FAST_STORE_FAST" else set()


def _deleted(i: Op) -> set[str]:
    return {i.argval} if i.name == "DELETE_FAST" else set()
