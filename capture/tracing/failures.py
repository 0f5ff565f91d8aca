"""What becomes of a library call that fails on tracers: eager JAX's own exception, or it is entered.

Tracing a call finds out that it fails, but words it about tracers and symbolic sizes, and a check may
come before the one that eager JAX makes first. `eager_error` therefore makes the call again, on zeros
of the same shapes and dtypes: the calls that are nodes are pure, and one that fails does little work.
Where that cannot be done (a function of the user's is among the arguments) the call is left to Python,
by a graph break.

A function in Python that computes with a size in a way that JAX's symbolic sizes don't know (`operator.index(n)`, a
`range`, `math.log`) fails though the program does not. The next attempt enters it: its bytecode runs as if the program
had written it, there a size is a number like any other, and what the function calls is one node each. Where that fails,
too, the sizes are constants.

    jnp.geomspace(1, 10, n)     # asks for `operator.index(n)`
"""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src.interpreters.ad import primitive_transposes
from jax._src.lax.control_flow.loops import while_p
from jax._src.lax.lax import _convert_element_type

from dynacomp.capture.base.errors import Restart
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.bodies.treedef_contents import in_structure
from dynacomp.capture.graph.avals import Aval, is_numpy_dtype
from dynacomp.capture.symbolic.libraries import is_library, is_stateful, module_of
from dynacomp.capture.symbolic.machine import Capture
from dynacomp.capture.values.value import Value
from dynacomp.capture.wrapping.builder import JITTED
from dynacomp.capture.wrapping.immutability import TREEDEF

CAPTURE = Path(__file__).parents[1]
MISTAKES = (AssertionError, AttributeError, KeyError, NameError)


def _refusal_to_reverse() -> str:
    try:
        primitive_transposes[while_p]()
    except ValueError as error:
        return str(error)
    return ""


REFUSAL = _refusal_to_reverse()


def is_of_a_loop(error: BaseException) -> bool:
    """Whether JAX would not reverse a `while`. Eager it may know how often that runs; on zeros it may never end."""
    return REFUSAL != "" and str(error).startswith(REFUSAL)


class Failed(Exception):
    """Tracing a library call raised `args[0]`, which the program may see."""


def calls_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates what calls the function that is traced: what is raised there, C code has raised that was called, or a
    function of JAX's own, whose frames JAX takes out of tracebacks."""
    CALLS_OUT.add(function.__code__)
    return function


CALLS_OUT: set[types.CodeType] = set()


def is_defect(error: BaseException) -> bool:
    """Whether tracing failed by a mistake of ours, which no constant size would mend: one of the exceptions that
    mistakes are, raised in `capture`."""
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = bool(codes) and codes[-1] not in CALLS_OUT and CAPTURE in Path(codes[-1].co_filename).parents
    return own and isinstance(error, MISTAKES)


def saw_values(error: BaseException | None) -> bool:
    """Whether a Value came into code that is not ours, out of sight in an object: the program's would not have failed
    there."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            theirs = CAPTURE not in Path(frame.f_code.co_filename).parents
            if theirs and any(issubclass(type(held), Value) for held in list(frame.f_locals.values())):
                return True
        error = error.__context__
    return False


def eager_error(call: Callable[..., Any], avals: list[Aval], error: BaseException) -> BaseException | None:
    """The exception of `call` on arrays such as `avals`, chained to its own alone; None where zeros do not make it
    fail, or fail in another way: what looks at the content of arrays cannot be traced, and may find zeros wanting."""
    outside = sys.exception()
    try:
        call(*map(zeros, avals))
    except ours(Exception) as eager:
        _unchain(eager, outside)
        if type(eager) is type(error):
            return eager
    return None


def _unchain(error: BaseException, end: BaseException | None) -> None:
    """Takes `end`, which was handled where the call was made, off the chain of what the call has raised."""
    found = [error]
    for at in found:  # which grows: a chain may come back to itself
        if end is not None and at.__context__ is end:
            at.__context__ = None
        links = of_class(BaseException, (at.__cause__, at.__context__))
        found += [link for link in links if not any(link is one for one in found)]


def zeros(aval: Aval) -> Any:
    """An array of this shape, dtype and weak type; nothing is compiled for it where its type is not weak."""
    array = jax.device_put(np.zeros(aval.shape, aval.dtype))
    return _convert_element_type(array, aval.dtype, weak_type=True) if aval.weak_type else array


def can_be_called(avals: list[Aval]) -> bool:
    """Whether `zeros` of all of these exist: plain dtypes, known sizes."""
    return all(is_numpy_dtype(a.dtype) and all(isinstance(d, int) for d in a.shape) for a in avals)


# --- functions that are entered


def python_inside(fn: Any) -> types.FunctionType | None:
    """The Python function that a call of `fn` runs, perhaps inside `jax.jit`; None of what is written in C, or does
    more (`jax.custom_jvp`)."""
    while type(fn) is JITTED:
        fn = vars(fn).get("__wrapped__")
    return fn if type(fn) is types.FunctionType else None


def may_enter(cap: Capture, fn: Any) -> bool:
    """Whether this is a library function in Python that no attempt has entered. JAX's transformations are not: what
    they do to sizes (axes, positions of arguments) no bytecode of theirs can do."""
    inside = python_inside(fn)
    return inside is not None and is_library(inside) and inside not in cap.lessons.entered and (
        inside.__module__ != jax.vmap.__module__)


def enter_next(cap: Capture, fn: Any, given: Sequence[Any]) -> None:
    """Restart where the next attempt is to enter this function, which could not take a size, or one of those that it
    is given or made by: `jax.vmap(jnp.interp)`, `nn.initializers.orthogonal()`. Or those that an object keeps beside
    its leaves: `eqx.filter_jit(f)`."""
    for part in (fn, *given):
        if may_enter(cap, part):
            cap.lessons.entered[python_inside(part)] = True
            raise Restart
    if not cap.lessons.opens_trees and any(map(keeps_functions, of_class(TREEDEF, given))):
        cap.lessons.opens_trees = True
        raise Restart
    for inside in map(python_inside, (fn, *given)):
        if inside in cap.lessons.entered:
            cap.lessons.entered[inside] = False


def enter_others(cap: Capture, fn: Any) -> None:
    """Restart where the next attempt is to enter this function of a library built on JAX, whose call cannot be a node
    (it looks at an array's content, or an object is not yet what it will be): just what it calls breaks the graph."""
    inside = python_inside(fn)
    own = inside is not None and is_library(inside) and str(module_of(inside)).partition(".")[0] != "jax"
    if own and id(inside) not in cap.lessons.unpacked:
        cap.lessons.unpacked[id(inside)] = inside
        raise Restart


def enter_class(cap: Capture, cls: Any) -> None:
    """Restart where the next attempt is to make objects of this class of a library as if the program had written it:
    what they do, as context managers, is no operation of a graph."""
    if issubclass(type(cls), type) and is_library(cls) and id(cls) not in cap.lessons.unpacked:
        cap.lessons.unpacked[id(cls)] = cls
        raise Restart


def keeps_functions(treedef: Any) -> bool:
    """Whether objects in a tree keep functions beside their leaves."""
    return in_structure(treedef, types.FunctionType)


def is_made(cap: Capture, cls: type) -> bool:
    """Whether objects of a library's class are made, and their methods entered, as those of the program's classes."""
    return is_stateful(cls) or id(cls) in cap.lessons.unpacked


def unpacked(cap: Capture, fn: Any) -> types.FunctionType | None:
    """The Python inside of a library's function of which an earlier attempt has found that no call can be a node."""
    inside = python_inside(fn) if cap.lessons.unpacked else None
    return inside if id(inside) in cap.lessons.unpacked else None


def is_entered(cap: Capture, fn: Any) -> bool:
    """Whether an earlier attempt has found that calls of this library function are to be entered."""
    return bool(cap.lessons.entered) and cap.lessons.entered.get(python_inside(fn), False)
