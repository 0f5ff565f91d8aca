"""Loops that compute nothing with arrays, in frames that have stopped in them: Python runs them to their end, and
compiled code goes on behind.

A frame stops in such a loop because its rounds, or what it reads and fills (queues, counters, tables), are others in
each call. Each piece of its body would be captured for nothing. With no JAX in sight of the loop its rest is a stretch
(see `capture.stretched`), which takes no capture, and serves until a call brings an array there.

    while queue:                        # a graph that is another one in each call
        node = queue.popleft()
        order.append(node)
        queue.extend(n for n in edges[node] if n not in seen)
    return x[jnp.asarray(order)]        # compiled code goes on here

So is what a frame does before anything of JAX comes, where calls have brought other data once and again and no entry
has served any of them: two entries are made at most before Python runs this search for all.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from dynacomp import callers, counters, notices
from dynacomp.capture._native import Entry
from dynacomp.capture.bytecode.loop_exits import ends, exits
from dynacomp.capture.entries import Info
from dynacomp.capture.stretched import stretched, without_arrays
from dynacomp.capture.symbolic.lessons import Lesson
from dynacomp.options import Options
from dynacomp.sight import leads_to_jax


def entry_to_the_end(code: CodeType, fn: Any, args: tuple[Any, ...], options: Options, traced: bool,
                     changed: set[str] | None) -> Entry | None:
    """What runs the rest of the loop in Python that the resume function `fn` goes on in: of the loops around it the
    outermost that computes nothing. changed: arguments of which calls have had other contents often; the frame may then
    go on as far as nothing of JAX is in sight. None where it cannot be left so."""
    if options.capture_idle or options.fullgraph:
        return None
    for behind in (*(() if changed is None else ends(code, changed)), *exits(code)):
        if not leads_to_jax(code, fn, args, behind):
            known = Info(None, "", (), _told(code), {}, 0, {}, traced)
            found = stretched(code, known, behind, options, without_arrays(code, fn, args, behind))
            if found is not None:
                counters.count("frames_idle")
                return found
    return None


def _told(code: CodeType) -> Lesson:
    """Why the frame leaves its compiled code there."""
    shown = callers.shown(code)
    where = shown.co_filename, shown.co_firstlineno, shown.co_qualname
    notices.log("breaks", lambda: f"{where[0]}:{where[1]}: {where[2]}: Python runs a loop to its end: it computes "
                "nothing with arrays")
    return Lesson(-1, "idle", "a loop", (where,))
