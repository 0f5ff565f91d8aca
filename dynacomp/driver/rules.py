"""What derivative rules of the program's read and do, where JAX differentiates the caller of a compiled function.

Eager JAX runs the Python code of a rule (`jax.custom_vjp`, `jax.custom_jvp`) in each call; a region's derivative runs
it once and keeps what it computed. `Rules` hears which of the program's functions start meanwhile: what they read must
be as it was for the derivative to serve another call, and a rule that does more than compute must run again.

    @loss.defvjp                       # backward: the global is read in each call
    def backward(saved, g): return g * SCALE,
"""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dynacomp.capture import _native
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.interrupts import handlers
from dynacomp.capture.graph.graph import Graph, is_closure, leaves_in
from dynacomp.capture.graph.silence import Said, noting, pass_on
from dynacomp.capture.hosting.code_names import names_in, nested_codes, reached
from dynacomp.capture.hosting.hearing import collecting, interrupted
from dynacomp.capture.hosting.library_effects import forget_traces
from dynacomp.capture.hosting.outside import Outside
from dynacomp.capture.hosting.outward import refuse_effects
from dynacomp.capture.symbolic.libraries import is_steady_module, module_of


class Acts(Exception):
    """A rule that does more than compute is about to start, while the call can still run in another way."""


class Rules:
    """The program's functions that ran while derivatives were made. acts: why they must run in each call, if so.
    forward: the call of the compiled function has not returned yet, as it has where a backward pass is derived."""

    def __init__(self) -> None:
        self.functions: dict[types.FunctionType, tuple[bool, list[Any]]] = {}  # made in the call; what each reads
        self.refused: set[types.FunctionType] = set()  # those that do more than compute
        self.outside = Outside()
        self.acts, self.forward = "", False

    def listening(self, derive: Callable[[], Any]) -> Any:
        """`derive()`, while functions that start are heard. What they change is put back where they run again."""
        ours = not self.outside.changed()  # what changes from here on: the program may have run since the last rule
        said: list[Said] = []
        try:
            with noting(said, kept=True):
                made, heard_all = _native.run_watched(derive, self._hear)
        except BaseException:
            if ours and self.outside.restore():
                forget_traces()
            raise
        if self.outside.changed():
            self.acts = self.acts or "a rule of the program's changes what stands outside of it"
            if self.forward and ours:
                self.outside.restore()
                forget_traces()
                raise Acts
        if said and self.functions:
            self.acts = self.acts or "a rule of the program's warns"
            if self.forward and not self.outside.changed():
                raise Acts
        pass_on(said)
        if not heard_all:
            self.acts = self.acts or "it is not known what its rules read, so deep in the stack"
        return made

    def _hear(self, fn: types.FunctionType) -> bool:
        if fn.__code__ in collecting() or fn.__name__ == "__del__" or is_steady_module(module_of(fn)):
            return False
        if self.forward and fn in self.refused:  # as of known sizes, where it was refused as of unknown ones
            raise Acts
        if fn in self.functions or fn.__code__ in handlers() or interrupted() or _called_by_us(fn):
            return True
        own = fn.__code__ in nested_codes(self.functions)
        found = self.functions[fn] = own, list(reached(fn, own))
        try:
            refuse_effects(fn, own)
            self.outside.keep(found[1], names_in(fn.__code__))
        except Break as refusal:
            self.acts = self.acts or refusal.detail
            self.refused.add(fn)
            if self.forward:
                raise Acts from None
        if any(isinstance(x, np.ndarray) for x in found[1]):  # it may change in place
            self.acts = self.acts or f"{fn.__qualname__} reads an array of NumPy"
        return True

    def serve(self) -> bool:
        """Whether what was derived serves another time: what acts must run again, in a second call of one pullback."""
        return not self.acts

    def hold(self) -> bool:
        """Whether all that was read is as it was."""
        return not self.functions or not self.outside.changed() and all(
            len(was) == len(now := list(reached(fn, own))) and all(map(operator.is_, was, now))
            for fn, (own, was) in self.functions.items())


def rules_in(graph: Graph) -> tuple[types.FunctionType, ...]:
    """The rules of the program's that JAX may run where it differentiates a Graph."""
    found: dict[types.FunctionType, None] = {}
    for node in graph.nodes:
        for leaf in leaves_in((node.target, node.args, node.kwargs)):
            if is_closure(leaf):
                found.update(dict.fromkeys(rules_in(leaf.graph)))
            elif isinstance(leaf, (jax.custom_jvp, jax.custom_vjp)):
                rules = (getattr(leaf, name, None) for name in ("jvp", "fwd", "bwd"))
                found.update({f: None for f in rules if isinstance(f, types.FunctionType)})
    return tuple(found)


def package(module: str) -> str:
    """The package that a module stands in: `networkx` of `networkx.classes.graph`."""
    return module.partition(".")[0]


def before(rules: tuple[types.FunctionType, ...]) -> Outside:
    """What rules may change, as it is now. Break where they do more than can be put back."""
    outside = Outside()
    for fn in rules:
        refuse_effects(fn, False)
        outside.keep(list(reached(fn, False)), names_in(fn.__code__))
    return outside


CUTTER = "networkx"  # what derivatives are cut with


def _called_by_us(fn: types.FunctionType) -> bool:
    """Whether what starts now is no rule: JAX calls these, and we a library that cuts graphs, the standard library's
    functions between its own."""
    frame: types.FrameType | None = sys._getframe(2)
    cuts = package(str(module_of(fn))) == CUTTER
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        standard = package(name) in sys.stdlib_module_names and name != "__main__"
        cuts = cuts and (standard or package(name) == CUTTER)
        if is_steady_module(name) and not (cuts and standard):
            break
        frame = frame.f_back
    return frame is None or str(frame.f_globals["__name__"]).startswith("dynacomp.")
