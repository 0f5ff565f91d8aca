"""Runs a generated program plainly and compiled, call by call, and says where they part.

The source is executed twice, so that each side has globals, closures and classes of its own; then
each call is made on both with equal fresh arguments, and twice compiled in a row where a second call
can only differ by what the first one compiled.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import linecache
import traceback
from typing import Any

import jax.numpy as jnp

import dynacomp
from dynacomp.capture import frame
from tests.corpus import world
from tests.corpus.generator import Call, Generated
from tests.corpus.heap import describe

_SERIAL = itertools.count()


def loaded(source: str, scope: dict[str, Any]) -> dict[str, Any]:
    """`scope` after the source was executed in it, in a file that tracebacks can show."""
    name = f"generated_{next(_SERIAL)}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), scope)
    return scope


def module(source: str) -> dict[str, Any]:
    """The globals of a generated program."""
    return loaded(source, {**world.NAMES, "__name__": "generated"})


def arguments(call: Call, before: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """Fresh arguments, but for what the call has of the one before."""
    x = jnp.asarray([1.5, -1.0, 2.0, 0.5][:call.size], call.dtype)
    if call.kept and before is not None:
        return x, x + 1, call.n, *before[3:]
    box, items = world.Box(x * 2), [call.n, *call.items]
    box.name = call.name
    y, opts = x + 1, {"lr": call.lr, "w": jnp.asarray(0.25)}
    if call.alias == "y is x":
        y = x
    elif call.alias == "box.value is x":
        box.value = x
    elif call.alias == "items is box.kids":
        items = box.kids
    elif call.alias == "opts.k is items":
        opts["k"] = items
    return x, y, call.n, box, items, opts


class Side:
    """A program in globals of its own, and the arguments of its last call."""

    def __init__(self, source: str, compile_with: Any = None) -> None:
        self.scope = module(source)
        self.file = self.scope["f"].__code__.co_filename
        self.f = self.scope["f"] if compile_with is None else dynacomp.jit(self.scope["f"], **compile_with)
        self.before: tuple[Any, ...] | None = None

    def outcome(self, call: Call) -> list[Any]:
        """What a call does: printed text, lines of the traceback, and the heap of arguments, result and globals."""
        args, out = arguments(call, self.before), io.StringIO()
        self.before = args
        raised = result = None
        with contextlib.redirect_stdout(out):
            try:
                result = self.f(*args)
            except Exception as error:
                raised = error
        heap = describe(args, result, raised, *map(self.scope.get, ("TOTAL", "NAMES", "TABLE")))
        return [out.getvalue(), position(raised, self.file), *heap]


def position(error: BaseException | None, file: str) -> list[tuple[str, int]]:
    """The program's lines in a traceback: (function, line), the last one of what stands in a row for one call."""
    frames = [(f.name, f.lineno) for f in traceback.extract_tb(getattr(error, "__traceback__", None))
              if f.filename == file]
    return [x for n, x in enumerate(frames) if n + 1 == len(frames) or frames[n + 1][0] != x[0]]


def differs(program: Generated, **options: Any) -> str:
    """The first call whose outcome differs, in words; "" when none does."""
    dynacomp.reset()
    frame.strict_errors = True
    plain, compiled = Side(program.source), Side(program.source, {"backend": "eager"} | options)
    for call in (*program.calls, program.calls[0]):
        for attempt in ("first", "second"):
            want, got = plain.outcome(call), compiled.outcome(call)
            if want != got:
                return f"{attempt} {call}:\nplain    {only(want, got)}\ncompiled {only(got, want)}"
    return ""


def only(a: list[Any], b: list[Any]) -> list[Any]:
    return [x for x in a if x not in b]
