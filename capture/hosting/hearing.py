"""Which of the program's functions start while a library runs, and what they may not do there.

A linen module's `__call__`, a function under `hk.transform`, the vector field of a solver: the library calls them
while JAX traces the call, so no bytecode of them is captured. `overhearing` is told by the frame hook of each function
that starts. What would be seen outside (`outward`) or tells a tracer from an array raises a Break there; what else
they change is put back (`outside`), and the graph breaks before the library's call.

    class Scaled(nn.Module):
        def __call__(self, x):
            print(x)                  # Break("effect", ...)
            return x * SCALE          # heard: `library_reads` guards SCALE
"""

from __future__ import annotations

import contextvars
import dis
import functools
import gc
import sys
import types
from collections.abc import Callable
from typing import Any

import jax
from jax._src import api_util, tree_util
from jax._src.core import Tracer
from jax._src.linear_util import DebugInfo

from dynacomp.capture import _native
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import by_handler, handlers
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.graph.avals import ARRAY_TYPE
from dynacomp.capture.hosting.code_names import DISPATCHING, names_in, nested_codes, reached
from dynacomp.capture.hosting.host_contexts import Contexts
from dynacomp.capture.hosting.library_effects import forget_traces
from dynacomp.capture.hosting.outside import Outside
from dynacomp.capture.hosting.outward import is_asked_outside, is_showing, opens_files, refuse_effects
from dynacomp.capture.symbolic.libraries import is_host_module, is_pure_module, is_steady_module, module_of
from dynacomp.capture.symbolic.machine import Capture

OWN_FILES = ("jax._src.compilation_cache", "jax._src.xla_bridge")  # compiled code, and plugins for devices
FLAT_TREES: Any = sys.modules.get("jax._src.flattree", tree_util)  # JAX 0.12 has moved them
NAMES = (api_util.debug_info.__code__, DebugInfo.set_result_paths.__code__,  # what JAX's messages call leaves
         FLAT_TREES.FlatTree.paths.func.__code__)
DISPATCH = functools.singledispatch(print).dispatch.__code__  # type: ignore[attr-defined]
TEXT = Tracer.__repr__.__code__
UNSAID = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError,  # what JAX says of no tracer
          jax.errors.TracerIntegerConversionError, jax.errors.NonConcreteBooleanIndexError)
REFUSALS = frozenset(error.__init__.__code__ for error in (*UNSAID, jax.errors.TracerBoolConversionError))


class TextWanted(TypeError):
    """The program's code, run by a library on tracers, would make a text of one."""


class Hearing:
    """Hears which of the program's functions start while a library runs, and what they would change."""

    def __init__(self, cap: Capture) -> None:
        self.heard = cap.libraries.overheard
        self.kept: set[types.FunctionType] = set()  # what these may change is watched
        self.refused: list[Exception] = []  # Breaks, but for `TextWanted`
        self.outside, self.contexts = Outside(), Contexts()
        self.context = contextvars.copy_context()  # what is set in it is gone again
        self.concrete = False  # whether JAX has refused to say what a tracer holds
        self.handlers = handlers()  # once: JAX and a library start a hundred thousand functions for one model
        self.silent: dict[tuple[int, int], Any] = {}  # code with its globals, by identity (hashes are slow): unasked

    def hear(self, fn: types.FunctionType) -> bool:
        """Whether what `fn` calls is to be heard, too."""
        if fn.__code__ is TEXT:
            self.refuse_text(sys._getframe(1))
            return True
        if fn.__code__ in REFUSALS:
            self.concrete = self.concrete or may_catch(sys._getframe(1))
            return True
        if fn.__code__ is DISPATCH:
            self.refuse_dispatch(fn, sys._getframe(1))
            return True
        place = id(fn.__code__), id(fn.__globals__)
        if place in self.silent:
            return False
        module = module_of(fn)
        if is_showing(fn):
            self.refuse_showing(fn, sys._getframe(1))
            return True
        steady = is_steady_module(module) and not opens_files(fn)
        if steady and not is_host_module(module):  # nearly all
            self.silent[place] = fn.__code__, fn.__globals__
            return False
        if fn.__code__ in collecting() or fn.__name__ == "__del__":
            return False
        if fn.__code__ in self.handlers:
            return True
        host = self.contexts.hear(module)
        if steady:
            return host
        if not interrupted() and fn not in self.kept:
            self.collect(fn)
        return True

    def collect(self, fn: types.FunctionType) -> None:
        try:
            own = fn.__code__ in nested_codes(self.heard)
            refuse_effects(fn, own)
            self.outside.keep(reached(fn, own), names_in(fn.__code__))
        except Break as refusal:
            self.refused.append(refusal)  # the library may catch it
            raise
        self.kept.add(fn)
        if not names_arguments():
            self.heard[fn] = None

    def refuse_text(self, asking: types.FrameType) -> None:
        if wants_text(asking):
            self.refused.append(TextWanted("the text of an array"))
            raise self.refused[-1]

    def refuse_dispatch(self, dispatch: Any, asking: types.FrameType) -> None:
        """Of a `functools.singledispatch` function that would take a tracer for something else than what it is: an
        array, or a number that the program has."""
        given = asking.f_locals.get("args")
        if asking.f_code is DISPATCHING and given and issubclass(type(given[0]), Tracer) and any(
                dispatch(cls) is not dispatch(type(given[0])) for cls in (ARRAY_TYPE, int, float)):
            self.refused.append(Break("tracer", "what a tracer is, is asked by code that a library runs"))
            raise self.refused[-1]

    def refuse_showing(self, fn: types.FunctionType, asking: types.FrameType) -> None:
        if is_asked_outside(fn, asking) and not interrupted():
            self.refused.append(Break("effect", f"{module_of(fn)}.{fn.__name__}, which code that a library runs calls"))
            raise self.refused[-1]

    def end(self) -> None:
        """Puts back what was changed."""
        if self.outside.restore(bool(self.refused)):
            self.refused.append(Break("effect", "something outside is changed in place by code that a library runs"))
        if self.contexts.restore():
            self.refused.append(Break("effect", "a library changes the context that it runs the program's code in"))
        if not same_context(self.context):
            self.refused.append(Break("effect", "a context variable is set by code that a library runs"))
        if self.concrete:
            self.refused.append(Break("tracer", "code that a library runs catches what JAX raises of tracers"))
        if self.refused:
            forget_traces()


def overhearing(cap: Capture, run: Callable[[], Any]) -> Any:
    """`run()`, while `cap.libraries.overheard` collects the program's functions that start."""
    if cap.libraries.overhears or cap.libraries.promised:
        return run()
    hearing, programs = Hearing(cap), False
    cap.libraries.overhears = True
    try:
        result, heard_all = hearing.context.run(_native.run_watched, run, hearing.hear)
    except BaseException as error:
        programs = by_handler(error)
        hearing.concrete = hearing.concrete and not issubclass(type(error), UNSAID)
        raise
    finally:
        cap.libraries.overhears = False
        hearing.end()
        cap.libraries.hosts |= hearing.contexts.ran
        if hearing.refused and not programs:
            raise hearing.refused[0]
    if not heard_all:
        raise Break("depth", "a library's call so deep in the stack that what it reads is not known")
    return result


def may_catch(frame: types.FrameType | None) -> bool:
    """Whether code of the program's, which a library runs, has handlers for what is raised in what it calls."""
    while frame is not None and frame.f_code is not overhearing.__code__:
        if has_handlers(frame.f_code) and not is_steady_module(frame.f_globals.get("__name__")):
            return True
        frame = frame.f_back
    return False


@remembered
def has_handlers(code: types.CodeType) -> bool:
    ops = [i.opname for i in dis.get_instructions(code)]
    bare = any(pair == ("PUSH_EXC_INFO", "POP_TOP") for pair in zip(ops, ops[1:]))
    return bare or "CHECK_EXC_MATCH" in ops or "suppress" in code.co_names


def same_context(context: contextvars.Context) -> bool:
    """Whether context variables have in it what they have here."""
    here, missing = contextvars.copy_context(), object()
    return len(here) == len(context) and all(here.get(var, missing) is held for var, held in context.items())


def collecting() -> set[types.CodeType]:
    """The code that garbage collection calls, whatever runs."""
    called = (getattr(f, "__func__", f) for f in gc.callbacks)
    return {f.__code__ for f in called if isinstance(f, types.FunctionType)}


def interrupted() -> bool:
    """Whether what starts now was called, directly or not, by a garbage collection, a finalizer, a signal handler, or
    by JAX where it keeps compiled code in files, or looks for devices when it is asked for the first array."""
    codes = {id(code) for code in collecting() | handlers()}  # our replacement code may hold what has no hash
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not (id(frame.f_code) in codes or frame.f_code.co_name == "__del__"
                                     or frame.f_globals.get("__name__") in OWN_FILES):
        frame = frame.f_back
    return frame is not None


def wants_text(asking: types.FrameType | None) -> bool:
    """Whether the program's code makes a text of a tracer, where eager JAX has an array, itself or by way of Python's
    library. JAX's own messages are not the program's."""
    while asking is not None and not is_pure_module(asking.f_globals.get("__name__")):
        if not is_steady_module(asking.f_globals.get("__name__")):
            return True
        asking = asking.f_back
    return False


def names_arguments() -> bool:
    """Whether what starts now says how JAX's messages call the leaves of arguments: no result depends on it."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not any(frame.f_code is code for code in NAMES):
        frame = frame.f_back
    return frame is not None
