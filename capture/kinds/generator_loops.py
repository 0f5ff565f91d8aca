"""Loops over generators of the program that are loops themselves: `for batch in batches(x, 32)`.

Where the generator's own loop goes round a symbolic number of times, the loop over it can be a node of the Graph only
if no frame stands still between two rounds. The first attempt learns that (`rolled_loops.roll`); the next one runs what
stands before the generator's loop where the program asks for the first item, and goes through `map` of the rest (see
`bytecode.genexprs.loop_codes`). Nobody else may have the generator: the loop itself has called the function.
"""

from __future__ import annotations

from typing import Any

from dynacomp.capture.base.errors import Break, Raised, Restart
from dynacomp.capture.bytecode.genexprs import loop_codes
from dynacomp.capture.symbolic.machine import Capture, Frame
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.callables import FunctionV, PartialV
from dynacomp.capture.values.iterators import StreamV
from dynacomp.capture.values.questions import is_stream, is_suspended
from dynacomp.capture.values.value import Value

BETWEEN = ("PRECALL", "LOAD_CONST", "KW_NAMES")  # what stands between a call and one that takes its result


def learn(cap: Capture, frame: Frame) -> None:
    """Called where a generator's loop goes round a symbolic number of times: Restart where the next attempt can go
    through it as `map`."""
    code = frame.code.code
    if id(code) not in cap.lessons.mapped and loop_codes(code) is not None:
        cap.lessons.mapped[id(code)] = True
        raise Restart


def give_up(cap: Capture, it: Value, error: Exception) -> None:
    """Called where a loop can be no node: Restart where Python has to run a part of it, which wants the generator, or
    where the program raises (a StopIteration ends `map`, and is an error in a generator)."""
    found = [part.state["generator"] for part in (it, *getattr(it, "parts", ())) if is_stream(
        part) and "generator" in part.state]
    if found and (isinstance(error, Raised) or isinstance(error, Break) and error.kind != "branch"):
        cap.lessons.mapped.update(dict.fromkeys(found, False))
        raise Restart


def as_map(cap: Capture, frame: Frame, it: Value) -> Value:
    """The iterator of a `for` that begins in `frame`, with `map` in the place of generators that were learned of and
    that the loop has made itself: `for b in f(x)`, `for k, b in enumerate(f(x))`."""
    if is_stream(it) and it.kind in ("enumerate", "zip") and _is_new(frame, it.maker, frame.index):
        it.parts[:] = [_mapped(cap, frame, part, it.maker[1]) for part in it.parts]
    return _mapped(cap, frame, it, frame.index)


def _mapped(cap: Capture, frame: Frame, it: Value, index: int) -> Value:
    """`map` for a generator that goes to the instruction at `index` and nowhere else; any other Value as it is."""
    if not is_suspended(it) or it.started or it.real is not None or not _is_new(frame, it.maker, index) or (
            not cap.lessons.mapped.get(id(it.frame.code.code))):
        return it
    inner = it.frame
    code, codes = inner.code.code, loop_codes(inner.code.code)
    assert codes is not None
    mutating(cap, it)
    it.started = it.done = True
    before, item = (FunctionV(made, inner.globals, code.co_name, code.co_qualname, closure=inner.function.closure)
                    for made in (codes.before, codes.item))
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    source, *given = cap.items(cap.call(before, [inner.locals[name] for name in names]))
    return StreamV("map", [source], fn=PartialV(item, given, {}), state={"generator": id(code)})


def _is_new(frame: Frame, maker: tuple[Any, int], index: int) -> bool:
    """Whether what was made there goes straight to the instruction at `index`, or was made by that (`__iter__`)."""
    where, made = maker
    return where is frame and (made == index or made < index and all(
        frame.code.instrs[k].name in BETWEEN for k in range(made + 1, index)))
