"""Where the loops are left that a resume function goes on in: the resume functions for there.

A frame that has stopped in a loop goes on in it. Where Python is to run the rest of the loop, compiled code goes on
behind it, in the state that the frame has then: what lies on the stack below the loop, and the locals, of which the
loop may have bound some.

    for word in words:              # the frame stopped here, with an iterator and a word on the stack
        counts[word] += 1
    return x * len(counts)          # goes on here, with nothing on it
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType

from dynacomp.capture.bytecode.code import Decoded, decode
from dynacomp.capture.bytecode.control_flow_graph import EXIT, live, loops, successors
from dynacomp.capture.bytecode.resume import Layout, layout_of, original_of, resume_code
from dynacomp.capture.bytecode.stretches import can_leave
from dynacomp.capture.bytecode.suspensions import SUSPENDS, State, states


def exits(resumed: CodeType) -> Iterator[list[CodeType]]:
    """The resume functions behind each of the loops in which `resumed` goes on, the outermost loop first."""
    layout, code = layout_of(resumed), original_of(resumed)
    if layout is None or not can_leave(layout) or code.co_flags & SUSPENDS:
        return
    decoded = decode(code)
    around = [body for body in loops(decoded) if layout.target in body]
    known = states(decoded) if around else {}
    for loop in sorted(around, key=len, reverse=True):
        left = _left(decoded, loop, layout, known)
        if left:
            yield [resume_code(decoded, state) for state in left]


def _left(code: Decoded, loop: frozenset[int], layout: Layout, known: dict[int, State]) -> list[Layout]:
    """The states in which a frame leaves the loop that goes on in it with `layout`; none where that cannot be said."""
    lowest = min(len(known[i].stack) for i in loop if i in known)
    ways = {after for i in loop for after in successors(code, i) if after not in loop and after != EXIT}
    kept = set(layout.locals) - live(code, layout.target)  # somebody would notice that they are gone
    found = []
    for at in sorted({_behind_pops(code, at) for at in ways}):
        height = len(known[at].stack)
        if height > min(lowest, len(layout.stack)):
            return []
        names = (kept | live(code, at) & known[at].maybe).difference(code.code.co_cellvars, code.code.co_freevars)
        found.append(Layout(at, layout.stack[:height], None, tuple(sorted(names))))
    return found


def _behind_pops(code: Decoded, at: int) -> int:
    """Past what only drops the iterator of a loop that `break` leaves: the place where the loop's own end goes on."""
    while code.instrs[at].name in ("POP_TOP", "JUMP_FORWARD", "NOP"):
        at = next(successors(code, at))
    return at
