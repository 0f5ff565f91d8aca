"""`print`: to a stream of the captured code's own, at once; in a function that JAX transforms, once the Graph has run.

Elsewhere it breaks the graph. There it cannot: the whole gradient would be Python's, and the function traced in pieces.
`grad`, `vmap` and their kin call it as Python does, once, and what is printed is known before the Graph runs: numbers
and texts that are no part of it. It is kept among the effects, in its place. On one side of an `if` on arrays (see
`branches`) it is said if that side is the one taken.

Where JAX transforms a caller of the compiled function, all of it is such a function.

    def loss(p):
        print("tracing", p.shape)      # kept, and printed behind the Graph that holds the gradient
        return (p ** 2).sum()
"""

from __future__ import annotations

import io
import sys

from dynacomp.capture.base.errors import Break
from dynacomp.capture.calls.c_objects import call_method, is_private
from dynacomp.capture.calls.calls import BUILTINS
from dynacomp.capture.kinds.text import text
from dynacomp.capture.reconstruct import runtime
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.symbolic.side_effects import heard_outside
from dynacomp.capture.values.constant import Const, is_known_literal, stands_for
from dynacomp.capture.values.questions import is_tuple
from dynacomp.capture.values.value import NotConstant, Value, as_python, node_of, type_of

PLAIN = (str, int, float, complex, bool, type(None))  # what prints the same whenever it does


def printed(cap: Capture, *args: Value, sep: Value = Const(None), end: Value = Const(None), file: Value = Const(None),
            flush: Value = Const(False)) -> Value:
    between, last = as_python(sep), as_python(end)
    if stands_for(file, None):
        file = cap.effects.globals.get((id(vars(sys)), "stdout"), (None, None, file))[2]
    if not all(type(x) in (str, type(None)) for x in (between, last)):
        raise Break("effect", "print()")
    if is_private(file) and file.cls is io.StringIO:
        parts = [as_python(text(cap, x, str)) for x in args]
        said = (" " if between is None else between).join(parts) + ("\n" if last is None else last)
        call_method(cap, file, "write", [Const(said)], {})
    elif stands_for(file, None) and is_known_literal(flush) and may_wait(cap, args):
        heard_outside(cap, "a print")
        cap.effects.call(runtime.call_only, [Const(print), *args], {"sep": sep, "end": end, "flush": flush}, heard=True)
    else:
        raise Break("effect", "print()")
    return Const(None)


def may_wait(cap: Capture, args: tuple[Value, ...]) -> bool:
    """Whether these can be printed when the Graph has run, and nothing that it prints or calls itself comes first. What
    `jax.jit` traces prints in its first call alone."""
    transformed = cap.root.traced or any(not b.is_side for b in cap.bodies)
    at_once = cap.graph.heard or cap.effects.jitted
    return transformed and not at_once and all(_is_plain(cap, x) for x in args)


def _is_plain(cap: Capture, value: Value) -> bool:
    """A number or a text, or a tuple of such, that no body computes."""
    if is_tuple(value):
        return type_of(value) is tuple and all(_is_plain(cap, x) for x in cap.items(value))
    try:
        return node_of(value) not in cap.graph.homes and type_of(value) in PLAIN
    except NotConstant:
        return False


BUILTINS[print] = printed
