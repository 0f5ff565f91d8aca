"""Functions that go through all items of something, as loops where that is a symbolic number of items.

`sum(xs)`, `list(map(f, xs))`, `functools.reduce(f, xs)` over the rows of an array become nodes of the Graph if the
machine enters them as loops in Python (see `loops_py`). A generator expression that nobody has begun is to such a loop
what `map` of its expression is; its frame is of no use there, since it stands still between items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynacomp.capture.base import itertools_py
from dynacomp.capture.base.errors import Break, Raised
from dynacomp.capture.base.loops_py import accumulated, as_list
from dynacomp.capture.bytecode.genexprs import ITEM, function_of_item
from dynacomp.capture.kinds.iteration import get_iter
from dynacomp.capture.rows.alike_items import goes_on
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import mutating
from dynacomp.capture.values.callables import FunctionV
from dynacomp.capture.values.computed import ArrayV
from dynacomp.capture.values.constant import Const
from dynacomp.capture.values.containers import ListV
from dynacomp.capture.values.iterators import GeneratorV, StreamV
from dynacomp.capture.values.kind import Kind, define, kind
from dynacomp.capture.values.questions import is_made_function
from dynacomp.capture.values.value import Value


def looped(cap: Capture, loop: Callable[..., Any], xs: Value, *more: Value) -> Value | None:
    """`loop(xs, *more)`, a function of `loops_py`, if `xs` gives a symbolic number of items; else None, and `xs` is as
    it was."""
    row = kind(xs).looped
    return None if row is None else row(cap, loop, xs, *more)


def gathered(cap: Capture, xs: Value) -> Value:
    """A list of what an iterator gives, for who goes through it to its end, if that is a symbolic number of items; else
    `xs`."""
    return looped(cap, as_list, xs) or xs if isinstance(xs, (StreamV, GeneratorV)) else xs


def _over(cap: Capture, loop: Callable[..., Any], xs: Value, *more: Value) -> Value | None:
    it = get_iter(cap, xs)
    return cap.call(Const(loop), [it, *more]) if goes_on(it) else None


def _through(cap: Capture, loop: Callable[..., Any], gen: GeneratorV, *more: Value) -> Value | None:
    """The same of a generator, which is at its end then."""
    items = _mapped(gen) or _accumulated(cap, gen)
    if items is None:
        return None
    mutating(cap, gen)
    gen.started = gen.done = True
    try:
        return cap.call(Const(loop), [items, *more])
    except Raised:  # where the generator would stand now only Python knows
        raise Break("iterator", "an exception while something goes through a generator expression") from None


def _accumulated(cap: Capture, gen: GeneratorV) -> Value | None:
    """What `itertools.accumulate` gives that nobody has asked yet, in a list; None for other generators."""
    frame = gen.frame
    if gen.started or gen.real is not None or frame.code.code is not itertools_py.accumulate.__code__:
        return None
    return looped(cap, accumulated, *(cap.realize(frame.locals[name]) for name in ("iterable", "func", "initial")))


def _mapped(gen: GeneratorV) -> StreamV | None:
    """The items of a generator expression that stands at its start, as `map`; None of other generators."""
    function, source = gen.frame.function, gen.frame.locals.get(ITEM)
    if gen.started or gen.real is not None or source is None or not is_made_function(function):
        return None
    code = function_of_item(function.code) if goes_on(source) else None
    if code is None:
        return None
    made = FunctionV(code, function.globals, function.name, function.qualname, closure=function.closure)
    return StreamV("map", [source], fn=made)


for _cls, _looped in ((ArrayV, _over), (ListV, _over), (StreamV, _over), (GeneratorV, _through)):
    define(_cls, Kind(looped=_looped))
