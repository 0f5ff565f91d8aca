"""The ways through a code object: successors, meeting places, loops, live names.

Instructions are named by their index. Ways that an exception takes are left out, save where a name
may still be read on them. `stops` cut the ways: a region ends there (see `branches`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx

from dynacomp.capture.bytecode.code import VERSION, Decoded, Instruction, per_code
from dynacomp.capture.bytecode.resume import looks_at_frame
from dynacomp.capture.bytecode.supers import asking_supers

EXIT = -1
READS = ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLOSURE", "LOAD_FAST_AND_CLEAR", "DELETE_FAST", "LOAD_FAST_LOAD_FAST",
         "STORE_FAST_LOAD_FAST", "MAKE_CELL", "LOAD_FAST_BORROW")
ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT")
LEAVES = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
PASSES = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "NOP", "NOT_TAKEN", "EXTENDED_ARG")
LOOP_ENDS = 0 if VERSION < (3, 12) else 1 if VERSION < (3, 13) else 2  # END_FOR, and POP_TOP after it
# networkx compiles each of its functions when it is first called, by `exec`: not while a library's call is watched for
# what it does besides making its result (see `tracing/library_effects.py`).
READY = nx.immediate_dominators(nx.DiGraph([(0, 1)]), 0), nx.ancestors(nx.DiGraph([(0, 1)]), 1)


def successors(code: Decoded, i: int) -> Iterator[int]:
    """The instructions that may run after instruction `i`; EXIT after a return."""
    instr = code.instrs[i]
    if instr.name in LEAVES:
        yield EXIT
        return
    target = jump_target(code, instr)
    if target is not None:
        yield target + (LOOP_ENDS if instr.name == "FOR_ITER" else 0)
    if instr.name not in ENDS and i + 1 < len(code.instrs):
        yield i + 1


def jump_target(code: Decoded, instr: Instruction) -> int | None:
    if ("JUMP" in instr.name or instr.name in ("FOR_ITER", "SEND")) and isinstance(instr.argval, int):
        return code.at[instr.argval]
    return None


def meeting_place(code: Decoded, index: int, stops: frozenset[int] = frozenset()) -> int:
    """The instruction that every way on from `index` passes first, or EXIT."""
    flow = nx.DiGraph()
    for i in range(len(code.instrs)):
        for successor in (EXIT,) if i in stops and i != index else successors(code, i):
            flow.add_edge(successor, i)
    found = nx.immediate_dominators(flow, EXIT).get(index, EXIT) if EXIT in flow else EXIT
    return EXIT if found is None else found


# --- loops


@dataclass(frozen=True)
class Loop:
    """A loop that a conditional jump may leave: `tests` are the jumps that go on at `stay` or leave to
    `leave` (a `while` has one at its top and one at its bottom), `body` its instructions."""

    tests: frozenset[int]
    stay: int
    leave: int
    body: frozenset[int]


def loop_of(code: Decoded, index: int) -> Loop | None:
    """The loop of which the conditional jump at `index` is a test."""
    targets = tests(code).get(index)
    if targets is None:
        return None
    for stay, leave in (targets, targets[::-1]):
        body = min((b for b in loops(code) if stay in b), key=len, default=None)
        if body is not None and leave not in body:
            same = {i for i, found in tests(code).items() if set(found) == {stay, leave}}
            if same & body:
                return Loop(frozenset(same), stay, leave, body)
    return None


@per_code
def tests(code: Decoded) -> dict[int, tuple[int, int]]:
    """Every conditional jump: where it goes when it jumps, and when not."""
    found = {}
    for i, instr in enumerate(code.instrs):
        target = jump_target(code, instr)
        if target is not None and instr.name.startswith("POP_JUMP") and i + 1 < len(code.instrs):
            found[i] = (landing(code, target), landing(code, i + 1))
    return found


def landing(code: Decoded, i: int) -> int:
    """Where a jump to `i` ends, past instructions that only pass on."""
    while code.instrs[i].name in PASSES:
        i = next(successors(code, i))
    return i


@per_code
def loops(code: Decoded) -> tuple[frozenset[int], ...]:
    """The natural loops: instructions that reach a jump back to one that dominates it."""
    flow = nx.DiGraph()
    flow.add_node(0)
    flow.add_edges_from((i, s) for i in range(len(code.instrs)) for s in successors(code, i))
    reached = {**nx.immediate_dominators(flow, 0), 0: None}
    found: dict[int, set[int]] = {}
    for tail, head in flow.edges:
        if tail in reached and head in reached and _dominates(reached, head, tail):
            into = nx.ancestors(flow.subgraph(set(reached) - {head}), tail) if tail != head else set()
            found.setdefault(head, {head}).update(into, (tail,))
    return tuple(map(frozenset, found.values()))


def _dominates(above: dict[int, int | None], head: int, node: int) -> bool:
    at: int | None = node
    while at is not None and at != head:
        at = above[at]
    return at == head


# --- names


def live(code: Decoded, index: int) -> frozenset[str]:
    """The local names whose values may still be read when `index` is next."""
    return _live(code)[index]


@per_code
def _live(code: Decoded) -> tuple[frozenset[str], ...]:
    if looks_at_frame(code.code):
        return (frozenset(code.code.co_varnames) | frozenset(code.code.co_cellvars),) * len(code.instrs)
    found: list[frozenset[str]] = [frozenset()] * len(code.instrs)
    supers = asking_supers(code)  # `super()` asks the frame for its first argument
    asked = [_read(instr) | frozenset(code.code.co_varnames[:i in supers]) for i, instr in enumerate(code.instrs)]
    settled = False
    while not settled:
        settled = True
        for i in reversed(range(len(code.instrs))):
            now = _before(code, i, found) | asked[i]
            settled, found[i] = settled and now == found[i], now
    return tuple(found)


def _before(code: Decoded, i: int, found: list[frozenset[str]]) -> frozenset[str]:
    instr = code.instrs[i]
    after = frozenset().union(*(found[s] for s in successors(code, i) if s != EXIT))
    handler = code.handler(instr.offset)
    caught = found[code.at[handler.target]] if handler is not None else frozenset()
    return (after - written(instr)) | caught


def _names(instr: Instruction) -> tuple[str, ...]:
    return instr.argval if isinstance(instr.argval, tuple) else (instr.argval,)


def _read(instr: Instruction) -> frozenset[str]:
    if instr.name == "STORE_FAST_LOAD_FAST":
        return frozenset(_names(instr)[1:]) - frozenset(_names(instr)[:1])
    return frozenset(_names(instr)) if instr.name in READS else frozenset()


def written(instr: Instruction) -> frozenset[str]:
    """The names that an instruction binds or unbinds."""
    if instr.name in ("STORE_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_MAYBE_NULL", "LOAD_FAST_AND_CLEAR"):
        return frozenset(_names(instr))
    if instr.name == "STORE_FAST_LOAD_FAST":
        return frozenset(_names(instr)[:1])
    return frozenset(_names(instr)) if instr.name == "DELETE_FAST" else frozenset()
