"""The symbolic machine: a Capture (one attempt to capture a frame) and its Frames.

`execute(cap, frame)` runs instructions through the handlers that the modules of `capture/opcodes`
register with `@opcode`. On the stack are Values; what touches arrays grows `cap.graph.builder`,
what reads the outside world adds to `cap.guards`, what writes it marks Values dirty for `side_effects`.

A handler returns None to go on, or the byte offset to jump to. It raises `Raised` when the program
raises (the exception table is searched, as CPython does), `Break` when this instruction cannot be
captured. Breaks always restart the capture with the lesson that the outermost frame's step number
N must run in Python: state needs no rollback, and what a callee did before breaking is forgotten.
"""

from __future__ import annotations

import dis
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from dynacomp.capture.base.errors import Break, GiveUp, Raised, Restart
from dynacomp.capture.base.hashes import HASHED
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.bytecode.code import VERSION, Decoded, Instruction, decode
from dynacomp.capture.symbolic.effects import Effects
from dynacomp.capture.symbolic.guards import GuardSet
from dynacomp.capture.symbolic.lessons import Data, Lesson, Lessons
from dynacomp.capture.symbolic.libraries import is_installed, is_pure_module
from dynacomp.capture.symbolic.operations import OPERATIONS
from dynacomp.capture.symbolic.state import Dropping, Growing, Known, LibraryCalls, Numbers, Progress, Sizes
from dynacomp.capture.values import sources as S
from dynacomp.capture.values.computed import NeedsConcrete
from dynacomp.capture.values.constant import Const, is_const
from dynacomp.capture.values.frames import HandlingV
from dynacomp.capture.values.kind import kind
from dynacomp.capture.values.objects import CellV, ObjectV
from dynacomp.capture.values.value import NotConstant, Value, next_serial

MAX_STEPS, MAX_OPS = 2_000_000, 20_000  # instructions a capture; a longer Python loop is run, not unrolled. Below so
#   many array operations, each allows for more: in eager JAX, too, each is made ready at a program's first call
STEPS_AN_OP = 5_000
STEPS_AN_ITEM = 10  # what an element that nothing looks at counts
MAX_IDLE_CALL = 20_000  # the same for a call, where the data that the frame is given changes
MAX_DEPTH = 120  # inlined calls inside each other


BACK_EDGES = frozenset({
    "FOR_ITER", "JUMP_BACKWARD", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_FALSE",
    "POP_JUMP_BACKWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE"})


@dataclass
class Loop:
    """A loop of a Frame, seen at its back edge: the outermost frame's step, the operations captured,
    the instructions run and what was asked of sizes and numbers when it was met first, and how often since."""

    step: int
    ops: int
    steps: int
    relations: int
    decisions: frozenset[Any] = frozenset()
    rounds: int = 0
    iterator: Any = None  # what it goes over, since it was entered last
    entered: tuple[int, int] = (0, 0)  # the rounds before that, and the operations captured before that
    serial: int = 0  # Values with a lower one were made before the last round
    shapes: Any = field(default_factory=dict)  # of arrays, as the last round found them: see `growing_arrays`


@dataclass(eq=False)
class Frame:
    """A symbolic frame: the counterpart of CPython's, with Values."""

    code: Decoded
    globals: dict[str, Any]
    globals_source: S.Source | None
    builtins: dict[str, Any]
    locals: dict[str, Value] = field(default_factory=dict)
    cells: dict[str, CellV] = field(default_factory=dict)
    stack: list[Value] = field(default_factory=list)
    index: int = 0
    loops: dict[int, Loop] = field(default_factory=dict)
    parent: Frame | None = None
    kw_names: tuple[str, ...] = ()
    handling: list[HandlingV] = field(default_factory=list)  # exceptions being handled, innermost last
    result: Value | None = None
    yielded: Value | None = None
    gave: Value | None = None  # what it has yielded last
    namespace: Any = None  # the mapping that a class body fills
    function: Any = None  # the function Value, for zero-argument super and generators
    first_local: str | None = None
    stops: frozenset[int] = frozenset()  # where a side of a branch ends (see `branches`)
    fork: Any = None  # a side that ends in two places: how it divides
    running: bool = False  # it, or what it has called
    shown: Any = None  # what `locals()` gave: before Python 3.13 always the same dict, updated

    @property
    def instr(self) -> Instruction:
        return self.code.instrs[self.index]

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop(self) -> Value:
        return self.stack.pop()

    def popn(self, n: int) -> list[Value]:
        if n == 0:
            return []
        taken = self.stack[-n:]
        del self.stack[-n:]
        return taken


class Capture:
    """One attempt to capture a frame: everything that it accumulates."""

    def __init__(self, lessons: Lessons, root: Any, options: Any) -> None:
        self.lessons = lessons
        self.root = root  # a `frame.Root`: function, code, arguments
        self.options = options
        self.guards = GuardSet()
        self.effects = Effects()
        self.current: Frame | None = None
        self.bodies: list[Any] = []  # sub-graphs being captured, innermost last
        self.emptied: list[Any] = []  # what `let_go` empties besides: what writes code, containers that are objects
        self.graph, self.sizes, self.numbers = Growing(), Sizes(), Numbers()
        self.known, self.libraries = Known(), LibraryCalls()
        self.dropping, self.progress = Dropping(), Progress(hashes=tuple(HASHED))

    @property
    def under_trace(self) -> bool:
        """Whether eager JAX may see tracers here: in a transformed function, or below one."""
        return self.root.traced or any(not b.is_side for b in self.bodies)

    @property
    def may_break(self) -> bool:
        """Whether the graph may break here to spare an entry: not in a function that JAX transforms."""
        return not self.bodies and not self.under_trace

    def ask_at_once(self) -> None:
        """Before a loop that ends when arrays say so, which may never end for arrays that a check would have refused:
        where a check is still open, the next attempt breaks there."""
        if self.graph.checks:
            self.lessons.asked_at_once = True
            raise Restart()

    def let_go(self) -> None:
        """Ends it. Frames, exceptions, tracebacks and generators refer to each other: what these Values hold of the
        program is let go of now, not when garbage is collected."""
        OPERATIONS.let_go(self)
        frames = [f for ref in self.dropping.frames if (f := ref()) is not None]
        for held in (*frames, *self.known.objects.values(), *self.known.twins.values(), *self.emptied):
            vars(held).clear()
        vars(self).clear()

    def hold(self, payload: Any, holder: Value) -> None:
        """Says that a container is an object: an instance of a subclass of `dict`, say."""
        payload.holder = holder
        self.emptied.append(payload)

    def caller(self) -> tuple[Frame | None, int]:
        """The frame that calls what runs now, and where."""
        return (None, 0) if self.current is None else (self.current, self.current.index)

    def count(self, steps: int) -> None:
        """So many more instructions; an element of an iterator that is run through counts as some (STEPS_AN_ITEM).
        Neither may go on for ever."""
        self.progress.steps += steps
        if self.progress.steps > MAX_STEPS:
            ops = self.progress.captured_ops
            most = MAX_STEPS + STEPS_AN_OP * ops if ops <= MAX_OPS else MAX_STEPS
            if self.progress.steps > most:
                raise GiveUp("too_long", f"more than {most} instructions in one capture, for {ops} array operations")

    def globals_source(self, table: dict[str, Any]) -> S.Source | None:
        """How bytecode and guards find a module's globals: None for the outermost frame's own."""
        if table is self.root.fn.__globals__:
            return None
        return S.Root(table, f"globals({table.get('__name__', '?')})")

    def rely(self, table: Any, name: str, found: Any) -> None:
        """Notes what a library's class, or its module's globals, have under `name`: one guard for each table
        at the end, for libraries change seldom, but tests and users do patch them. Nobody patches what the capture
        has made."""
        if id(table) in self.known.made or id(table) in self.known.anew:
            return
        self.known.relied.setdefault(id(table), (table, {}))[1][name] = found

    def lacks(self, table: dict[str, Any], source: S.Source | None, name: str) -> None:
        """Notes that a module has nothing under `name`."""
        if is_installed(table):
            self.rely(table, name, NotImplemented)
        else:
            self.guards.add("missing_key", source, name)

    def is_pure_globals(self, table: dict[str, Any]) -> bool:
        """Whether a module's globals never change (libraries that promise purity)."""
        return is_pure_module(table.get("__name__"))

    # Operations that modules below their implementation need: see `operations`.

    def call(self, fn: Value, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
        """The Value of a call of any callable Value."""
        return OPERATIONS.call(self, fn, args, kwargs or {})

    def getattr(self, value: Value, name: str) -> Value:
        """`value.name`; Raised AttributeError when there is none."""
        return OPERATIONS.getattr(self, value, name)

    def special(self, value: Value, name: str) -> Value | None:
        """A special method, looked up on the type as Python does; None when there is none."""
        return OPERATIONS.special(self, value, name)

    def own(self, value: Value, name: str) -> Value | None:
        """A special method that the class of an instance has; None for other Values, too."""
        special = kind(value).special
        return None if special is None else special(self, value, name)

    def instance_attribute(self, value: ObjectV, name: str) -> Value | None:
        """What an object's own dictionary or slot holds under `name`."""
        return OPERATIONS.instance_attribute(self, value, name)

    def items(self, value: Any) -> list[Value]:
        """All elements of a tuple or list Value."""
        return OPERATIONS.items(self, value)

    def realize(self, item: Any) -> Value:
        """A container's element, looked at now."""
        return OPERATIONS.realize(self, item)

    def node_argument(self, value: Value) -> Any:
        """`value` as an argument of a node."""
        return OPERATIONS.node_argument(self, value)

    def where(self) -> tuple[tuple[str, int, str], ...]:
        """The user's position: (file, line, function), outermost first."""
        found: list[tuple[str, int, str]] = []
        frame = self.current
        while frame is not None:
            code = frame.code.code
            found.append((code.co_filename, frame.instr.line, code.co_name))
            frame = frame.parent
        return tuple(reversed(found))


Handler = Callable[[Capture, Frame, Instruction], "int | None"]
HANDLERS: dict[str, Handler] = {}
UNSUPPORTED: dict[str, str] = {}


def opcode(*names: str, since: tuple[int, int] = (3, 11), until: tuple[int, int] = (9, 0)) -> Callable:
    """Registers a handler for opcodes that exist in versions [since, until)."""

    def register(handler: Handler) -> Handler:
        if since <= VERSION < until:
            for name in names:
                HANDLERS[name] = handler
        return handler

    return register


def unsupported(reason: str, *names: str) -> None:
    """Declares that these opcodes break the graph, and why."""
    for name in names:
        UNSUPPORTED[name] = reason


def check_complete() -> None:
    """Every opcode of the running Python is handled or declared unsupported; ImportError if not."""
    known = {n for n, op in dis.opmap.items() if op < 256 and not n.startswith("INSTRUMENTED_")}
    known -= set(getattr(dis, "_specialized_opmap", {})) | set(getattr(dis, "_specialized_instructions", ()))
    missing = known - set(HANDLERS) - set(UNSUPPORTED)
    if missing:
        raise ImportError(f"dynacomp.capture knows no handler for opcodes {sorted(missing)} of Python "
                          f"{VERSION[0]}.{VERSION[1]}: add one with @opcode, or declare it unsupported")


def new_frame(code: CodeType, globals_: dict[str, Any], source: S.Source | None, parent: Frame | None) -> Frame:
    """A frame that is about to run `code`; `source`: where its globals come from."""
    builtins = globals_.get("__builtins__", __builtins__)
    table = builtins if isinstance(builtins, dict) else vars(builtins)
    return Frame(decode(code), globals_, source, table, parent=parent)


def execute(cap: Capture, frame: Frame) -> None:
    """Runs `frame` until it returns (`frame.result`) or yields (`frame.yielded`)."""
    cap.count(0)
    cap.dropping.frames.append(weakref.ref(frame))
    outer = cap.current
    cap.current, frame.running = frame, True
    cap.progress.depth += 1
    if cap.progress.depth > MAX_DEPTH:
        cap.current, frame.running = outer, False
        cap.progress.depth -= 1
        raise Break("depth", f"{MAX_DEPTH} calls inside each other")
    try:
        while frame.result is None and frame.yielded is None:
            step(cap, frame)
    finally:
        cap.progress.depth -= 1
        cap.current, frame.running = outer, False
    if cap.dropping.pending and frame.result is not None:
        OPERATIONS.dropped(cap, [frame.locals, frame.stack, frame.cells], frame.result)


def step(cap: Capture, frame: Frame) -> None:
    """One instruction, with exceptions sent to the frame's handlers."""
    instr = frame.code.instrs[frame.index]
    if frame.parent is None and not cap.bodies and frame is cap.root.frame:
        cap.progress.top_step += 1
        cap.progress.top_from = cap.progress.steps, cap.progress.captured_ops
        cap.progress.top_known = len(cap.guards.guards), len(cap.sizes.scope.relations)
        cap.progress.births.append(next_serial())
        lesson = cap.lessons.breaks.get(cap.progress.top_step)
        if lesson is not None:
            raise StopAtBreak(lesson)
    cap.progress.steps += 1
    if instr.name in BACK_EDGES:  # without passing one, or a call, no code runs for ever
        cap.count(0)
        OPERATIONS.watch_loop(cap, frame, instr)
        watch_call(cap)
    handler = HANDLERS.get(instr.name)
    if handler is None:
        raise Break("opcode", f"{instr.name}: {UNSUPPORTED.get(instr.name, 'unknown')}")
    try:
        target = handler(cap, frame, instr)
        if cap.lessons.pinned and frame.stack:
            OPERATIONS.pin(cap, frame.stack)
    except (Break, NeedsConcrete):
        cap.progress.last_where = cap.progress.last_where or cap.where()
        raise
    except NotConstant as what:
        cap.progress.last_where = cap.progress.last_where or cap.where()
        raise Break("leaves", f"a value that only exists at run time ({what})") from None
    except ours(RuntimeError) as error:  # an `__eq__` changed a dict or set that was being walked: Python knows how
        if "during iteration" not in str(error):
            raise
        raise Break("hash", str(error)) from None
    except Raised as raised:
        unwind(cap, frame, instr, raised)
        return
    if cap.dropping.held_before:
        OPERATIONS.changed(cap)
    frame.index = frame.index + 1 if target is None else frame.code.at[target]


def watch_call(cap: Capture) -> None:
    """A call of the outermost frame that works on changing data for long, and makes no array operation, runs in
    Python: it would be captured for each text."""
    steps, ops = cap.progress.top_from
    idle = ops == cap.progress.captured_ops and cap.progress.steps - steps > MAX_IDLE_CALL and not cap.bodies
    if idle and cap.root.policy.changes_often(Data()):
        cap.lessons.breaks.setdefault(cap.progress.top_step, Lesson(cap.progress.top_step, "idle", "", cap.where()))
        raise Restart()


def unwind(cap: Capture, frame: Frame, instr: Instruction, raised: Raised) -> None:
    """Enters the handler that covers `instr`, or lets the exception leave the frame."""
    left = left_at(frame, instr)
    value = OPERATIONS.caught(cap, frame, instr, raised)
    handler = frame.code.handler(instr.offset)
    if handler is None:
        try:
            raise raised
        finally:
            del raised  # its traceback refers to this frame: a cycle, with the program's objects in it
    gone = frame.stack[handler.depth:]
    del frame.stack[handler.depth:]
    if cap.dropping.pending:
        OPERATIONS.dropped(cap, gone, value)
    if handler.lasti:
        frame.push(Const(left))
    frame.push(value)
    frame.index = frame.code.at[handler.target]


def left_at(frame: Frame, instr: Instruction) -> int:
    """The offset at which an exception of `instr` leaves the frame: `RERAISE` may name the one that it came from."""
    named = frame.stack[-instr.arg] if instr.name == "RERAISE" and instr.arg else None
    return named.value if is_const(named) else instr.offset


class StopAtBreak(Exception):
    """The outermost frame reached the step at which it must break."""

    def __init__(self, lesson: Lesson) -> None:
        super().__init__(lesson)
        self.lesson = lesson
