"""Where code is left that Python is to run for a while: the resume functions for there.

A frame that has stopped in a loop goes on in it. Where Python is to run the rest of the loop, compiled code goes on
behind it, in the state that the frame has then: what lies on the stack below the loop, and the locals, of which the
loop may have bound some. Python may run the statements that follow, too, or those that a frame begins with.

    for word in words:              # the frame stopped here, with an iterator and a word on the stack
        counts[word] += 1
    best = max(counts.values())
    return x * best                 # goes on here, or a line before, with nothing on it
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from types import CodeType

from dynacomp.capture.bytecode.code import Decoded, decode
from dynacomp.capture.bytecode.control_flow_graph import EXIT, live, loops, successors
from dynacomp.capture.bytecode.resume import VALUE, Layout, layout_of, original_of, resume_code
from dynacomp.capture.bytecode.stretches import can_leave
from dynacomp.capture.bytecode.suspensions import SUSPENDS, State, states

MOST = 3  # locals that may have no value where a loop is left, and are asked for there
READS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL")


def exits(resumed: CodeType) -> Iterator[list[CodeType]]:
    """The resume functions behind each of the loops in which `resumed` goes on, the outermost loop first."""
    layout, code = layout_of(resumed), original_of(resumed)
    if layout is None or not can_leave(layout) or code.co_flags & SUSPENDS:
        return
    decoded = decode(code)
    around = [body for body in loops(decoded) if layout.target in body]
    known = states(decoded, layout) if around else {}
    for loop in sorted(around, key=len, reverse=True):
        left = _left(decoded, loop, layout, known)
        if left:
            yield [resume_code(decoded, state) for state in left]


def ends(begun: CodeType, names: set[str]) -> Iterator[list[CodeType]]:
    """The resume functions where a statement begins behind a loop, a call, or one that reads one of `names`, that a
    function or resume function has yet to arrive at: the farthest first."""
    code, layout = original_of(begun), layout_of(begun) or Layout(0, (), None, ())
    if not can_leave(layout) or code.co_flags & SUSPENDS:
        return
    decoded = decode(code)
    around = frozenset(body for body in loops(decoded) if layout.target in body)
    last = {max(body) for body in loops(decoded) if body not in around}
    last |= {i.index for i in decoded.instrs if not any(i.index in body for body in loops(decoded)) and (
        i.name.startswith("CALL") or i.name.startswith(READS) and not names.isdisjoint(
            i.argval if isinstance(i.argval, tuple) else (i.argval,)))}
    known = states(decoded, layout_of(begun)) if any(n > layout.target for n in last) else {}
    for at in sorted({at for n in last if n > layout.target for at in _next(decoded, n, around, known)}, reverse=True):
        left = _layouts(decoded, at, known[at].stack, known)
        if left:
            yield [resume_code(decoded, state) for state in left]


def _next(code: Decoded, index: int, around: frozenset[frozenset[int]], known: dict[int, State]) -> Iterator[int]:
    """The next place behind an instruction where the stack holds nothing but what the loops around it go over."""
    height = min((len(known[i].stack) for body in around for i in body if i in known), default=0)
    for at in range(index + 1, len(code.instrs)):
        if at in known and known[at].stack == (VALUE,) * height and around.issuperset(
                body for body in loops(code) if at in body):
            yield at
            return


def _left(code: Decoded, loop: frozenset[int], layout: Layout, known: dict[int, State]) -> list[Layout]:
    """The states in which a frame leaves the loop that goes on in it with `layout`; none where that cannot be said."""
    lowest = min(len(known[i].stack) for i in loop if i in known)
    ways = {after for i in loop for after in successors(code, i) if after not in loop and after != EXIT}
    found: list[Layout] = []
    for at in sorted({_behind_pops(code, at) for at in ways}):
        height = len(known[at].stack)
        if height > min(lowest, len(layout.stack)):
            return []
        here = _layouts(code, at, layout.stack[:height], known)
        if not here:
            return []
        found += here
    return found


def _layouts(code: Decoded, at: int, stack: tuple[str, ...], known: dict[int, State]) -> list[Layout]:
    """The states of a frame there: one for each choice of the locals that may have no value by then and are asked for;
    none for too many. What nobody asks for any more is kept all the same: somebody may notice that it is gone."""
    own, state = {*code.code.co_cellvars, *code.code.co_freevars}, known[at]
    unsure = sorted(live(code, at) & state.maybe - state.bound - own)
    chosen = [some for n in range(len(unsure) + 1) for some in combinations(unsure, n)] if len(unsure) <= MOST else []
    return [Layout(at, stack, None, tuple(sorted({*state.bound - own, *some}))) for some in chosen]


def _behind_pops(code: Decoded, at: int) -> int:
    """Past what only drops the iterator of a loop that `break` leaves: the place where the loop's own end goes on."""
    while code.instrs[at].name in ("POP_TOP", "JUMP_FORWARD", "NOP"):
        at = next(successors(code, at))
    return at
