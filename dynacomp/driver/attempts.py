"""From a frame to a cache entry: attempts to capture it, each with the lessons of those before, until one compiles.

Capture returns what it found and calls nothing of the driver's: here its Graph is compiled, and where that cannot be
done for sizes that the Graph does not know, the next attempt has them as constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynacomp import counters, notices
from dynacomp.capture._native import Entry
from dynacomp.capture.base.errors import GiveUp, NeverCalled
from dynacomp.capture.base.interrupts import ours, suppressing
from dynacomp.capture.entries import Parts, parts_of
from dynacomp.capture.frame import Captured, Refusal, Root, capture, refusal
from dynacomp.capture.graph.graph import Graph
from dynacomp.capture.symbolic.lessons import Lessons
from dynacomp.codegen.compiler import meanwhile
from dynacomp.driver import warm
from dynacomp.driver.pipeline import Compiled
from dynacomp.lowering.sizes.dims import SymbolicShapeError

MAX_ATTEMPTS, MAX_OPEN = 60, 20  # of one frame; with conditions left open, before those are guarded again
Compile = Callable[[Graph, set[Any]], Compiled]  # a Graph and the shardings of its inputs


def entry_for(root: Root, lessons: Lessons, compile_one: Compile, key: Any) -> Entry | Refusal:
    """The entry of a frame, or why it runs as plain Python. lessons: grow with each attempt. key: whose entry it is,
    the options. Where so many conditions as the Policy says are decided by this call's numbers, the frame is captured
    again with those left open; what does not do then goes back."""
    opens, closed, most, tried, again = root.policy.opens, None, 0, 0, False
    for _ in range(MAX_ATTEMPTS):
        before = lessons.state()
        tried += lessons.opens
        captured = capture(root, lessons, key)
        found: Entry | Refusal | None
        if isinstance(captured, Captured):
            with captured:
                if opens and len(captured.cap.numbers.decisions) >= opens:
                    opens, closed, most = None, lessons.kept(), lessons.learnt()
                    lessons.put_back(Lessons(order=lessons.order, opens=True, unpacked=lessons.unpacked).kept())
                    continue
                found = compiled(captured, compile_one)
        else:
            found = captured
        lost = isinstance(found, Refusal) or lessons.learnt() > most or found is None and tried > MAX_OPEN
        if lessons.opens and lost:
            assert closed is not None
            if isinstance(found, Refusal) and found.kind == "internal":
                notices.tell("fallback", root.code.co_filename, root.code.co_firstlineno, "conditions on numbers that "
                             f"change are guarded, not left open: {found.detail} (a defect in dynacomp)", id="open")
            lessons.put_back(closed)
        elif found is not None:
            if again or not has_changed(found, root):
                return found
            again = True
        elif lessons.state() == before:  # the next one would do the same
            return Refusal("attempts", "one more attempt would learn nothing new")
    return Refusal("attempts", f"no end after {MAX_ATTEMPTS} attempts")


def has_changed(found: Entry | Refusal, root: Root) -> bool:
    """Whether something that the capture rests on has changed while its Graph was compiled: JAX notes the functions
    that it traces by weak references, which the next attempt finds."""
    if isinstance(found, Refusal) or found.info is None or root.traced:  # whose guards hold in the transformation alone
        return False
    return found.guards.check(root.fn, root.args) != -1


def compiled(found: Captured, compile_one: Compile) -> Entry | Refusal | None:
    """The entry of what was captured; None where the next attempt is to have its sizes as constants."""
    early = Early(found)
    try:
        with meanwhile(early.make):
            made = compile_one(found.graph, found.places) if found.graph is not None else None
        parts, content = early.now()
        entry = parts.entry(found.cap.options, made and made.program)
    except SymbolicShapeError as error:
        found.freeze(error.sizes, str(error))
        return None
    except NeverCalled:
        return refusal(GiveUp("body", "an object of a library keeps a function of the program out of sight"))
    except ours(Exception) as error:
        return refusal(error)
    info = entry.info
    if info is not None:  # or an object that its guards look at has died by now
        info.compiled = made
        warm.keep(found.cap.root, made, found.cap.options, content)
    return entry


class Early:
    """What is made of a capture while a compiler runs for its Graph: the parts of its entry, and what other processes
    get of them. It serves where compiling has not asked for more sizes since."""

    def __init__(self, found: Captured) -> None:
        self.found = found
        self.made: tuple[int, Parts, warm.Content] | None = None

    def make(self) -> None:
        """Makes it; what goes wrong does so again in `now`."""
        with suppressing(Exception):
            self.made = self._made()

    def now(self) -> tuple[Parts, warm.Content]:
        """The same, of all that is known now."""
        if self.made is None or self.made[0] != self._asked():
            with counters.timed("recall"):
                self.made = self._made()
        return self.made[1:]

    def _made(self) -> tuple[int, Parts, warm.Content]:
        asked, parts, cap = self._asked(), parts_of(self.found), self.found.cap
        return asked, parts, warm.Content(cap.root, parts, cap.options)

    def _asked(self) -> int:
        """How many relations of sizes there are."""
        return len(self.found.cap.sizes.scope.relations)
