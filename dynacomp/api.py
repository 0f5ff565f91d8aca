"""`dynacomp.jit` and its companions: the public way in.

`jit(fn)` returns a C callable. A call whose guards hold enters the compiled program at once; any
other asks `on_miss` here, which captures the frame, compiles its Graph and puts the entry into the
code object's cache, or says why the frame runs as plain Python, once, in one line.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from jax._src.core import trace_ctx

from dynacomp import capture as capture_stage
from dynacomp import codegen, counters, kernels, lowering, notices
from dynacomp.breaks import REASONS
from dynacomp.capture import _native
from dynacomp.capture.frame import Outcome, capture
from dynacomp.capture.libraries import is_pure_module
from dynacomp.capture.resume import is_resume
from dynacomp.capture.sources import Local
from dynacomp.options import Options, resolve
from dynacomp.pipeline import Compiled, compile_graph

_STAGES = (capture_stage, lowering, codegen, kernels, counters)
MAX_VALUES = 2  # a Python number that must be a constant and had more values than this breaks the graph
MAX_RAISES = 3  # frames that keep raising are not captured again and again


class History:
    """What earlier captures of one code object saw."""

    def __init__(self) -> None:
        self.sizes: dict[tuple[str, int], set[int]] = {}
        self.scalars: dict[str, set[Any]] = {}
        self.captures = 0
        self.raises = 0
        self.static = False


_HISTORY: dict[CodeType, History] = {}
_DEFAULT = resolve()


def jit(fn: Any = None, *, backend: str = "auto", dynamic: bool | None = None, fullgraph: bool = False,
        mode: str = "default", options: Mapping[str, Any] | None = None, static_argnums: Any = None,
        static_argnames: Any = None, donate_argnums: Any = None, donate_argnames: Any = None) -> Any:
    """Compiles `fn` as it is called: same values, exceptions and side effects as eager JAX, faster.

    fn: a function, method, `functools.partial` or callable object (a model), whose attributes stay
    visible. backend: "auto" or a name of `list_backends()`. dynamic: True makes array sizes symbolic
    from the first call, False never, None when a second size is seen. fullgraph: a graph break is an
    error. The arguments of `jax.jit` are accepted, so that replacing it just works: static arguments
    need no marking here, donated buffers may be reused.

        @dynacomp.jit
        def step(params, batch): ...
    """
    if fn is None:
        return functools.partial(jit, backend=backend, dynamic=dynamic, fullgraph=fullgraph, mode=mode,
                                 options=options, static_argnums=static_argnums, static_argnames=static_argnames,
                                 donate_argnums=donate_argnums, donate_argnames=donate_argnames)
    if not callable(fn):
        raise TypeError(f"dynacomp.jit: expected a callable, got {type(fn).__name__}")
    chosen = resolve(backend=backend, dynamic=dynamic, fullgraph=fullgraph, mode=mode, options=options)
    return compiled(fn, chosen)


def compiled(fn: Any, options: Options) -> Any:
    """The C callable for a function or method; a wrapper with the object's attributes for others."""
    if isinstance(fn, _native.CompiledFunction):
        return fn
    if type(fn).__name__ == "PjitFunction":
        fn = fn.__wrapped__
    if isinstance(fn, (types.FunctionType, types.MethodType)) and isinstance(
            getattr(fn, "__func__", fn), types.FunctionType):
        return _native.CompiledFunction(fn, functools.partial(on_miss, options), options)
    return CompiledObject(fn, options)


class CompiledObject:
    """A callable object (a model, a partial) whose calls are compiled; everything else is the object's."""

    def __init__(self, obj: Any, options: Options) -> None:
        object.__setattr__(self, "__wrapped__", obj)

        def call(*args: Any, **kwargs: Any) -> Any:
            return obj(*args, **kwargs)

        name = getattr(obj, "__name__", type(obj).__name__)
        call.__name__ = call.__qualname__ = name
        object.__setattr__(self, "_compiled", compiled(call, options))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "__wrapped__"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __repr__(self) -> str:
        return f"<dynacomp.jit of {self.__wrapped__!r}>"


def on_miss(options: Options, fn: Any, code: CodeType, args: tuple[Any, ...]) -> Any:
    """Captures a frame that no entry serves; an Entry, True (plain Python, callees captured) or None."""
    history = _HISTORY.setdefault(code, History())
    if history.captures >= options.recompile_limit:
        tell(code, "recompile limit", "limit", f"{history.captures} entries for {code.co_qualname}")
        return True
    if not trace_ctx.is_top_level() or history.raises >= MAX_RAISES:
        return eager(code, "traced" if history.raises < MAX_RAISES else "raises", "")
    explain_recompile(fn, code, args)
    seen: list[Compiled] = []

    def compile_one(graph: Any) -> Any:
        seen.append(compile_graph(graph, options))
        return seen[-1].program

    with counters.timed("capture"):
        outcome = capture(fn, code, args, compile_one, dynamic_rule(history, options),
                          scalar_rule(history, options, is_resume(code)),
                          lambda source: len(history.scalars.get(repr(source), ())) > MAX_VALUES)
    return accept(outcome, code, history, options, seen)


def dynamic_rule(history: History, options: Options) -> Callable[[Any, int, int], bool]:
    """Which sizes of which inputs are symbolic: those that were seen to differ."""
    def is_dynamic(source: Any, axis: int, size: int) -> bool:
        if options.dynamic is False or history.static or size < 2:
            return False
        seen = history.sizes.get((repr(source), axis))
        return options.dynamic is True or (seen is not None and seen != {size})
    return is_dynamic


def scalar_rule(history: History, options: Options, resumed: bool) -> Callable[[Any, Any], bool]:
    """Which Python numbers are inputs instead of constants: those that were seen to differ, and, after
    a graph break, all floats (Python has just computed them)."""
    def is_dynamic_scalar(source: Any, value: Any) -> bool:
        if options.dynamic is False:
            return False
        seen = history.scalars.get(repr(source))
        fresh = resumed and type(value) is float and isinstance(source, Local)
        return fresh or (seen is not None and seen != {value})
    return is_dynamic_scalar


def accept(outcome: Outcome, code: CodeType, history: History, options: Options, seen: list[Compiled]) -> Any:
    """Puts a captured frame into the cache and says what broke."""
    for lesson in outcome.lessons.breaks.values():
        report_break(lesson, code, options)
    if outcome.entry is None:
        history.raises += outcome.kind == "raises"
        return eager(code, outcome.kind, outcome.detail)
    info = outcome.info
    assert info is not None
    counters.count("frames_captured")
    if history.captures:
        counters.count("recompiles")
    history.captures += 1
    for place, size in info.shapes.items():
        history.sizes.setdefault(place, set()).add(size)
    for name, value in info.scalars.items():
        history.scalars.setdefault(name, set()).add(value)
    if info.graph is not None:
        counters.count("graphs")
        counters.count("operations", by=info.operations)
    notices.log("guards", lambda: f"{code.co_qualname}:\n{info.guards}")
    info.compiled = seen[0] if seen else None  # type: ignore[attr-defined]
    _native.add_entry(code, outcome.entry)
    return outcome.entry


def eager(code: CodeType, kind: str, detail: str) -> Any:
    """The frame runs as plain Python; what it calls may still be captured."""
    counters.count("frames_eager", kind)
    if kind != "traced":
        tell(code, "runs eagerly", kind, detail)
    return None if kind in ("traced", "raises") else True


def tell(code: CodeType, what: str, kind: str, detail: str) -> None:
    reason = REASONS[kind]
    notices.tell(what, code.co_filename, code.co_firstlineno, f"{reason.text}: {detail}" if detail else reason.text,
                 hint=reason.hint, id=kind)


def report_break(lesson: Any, code: CodeType, options: Options) -> None:
    reason = REASONS[lesson.kind]
    counters.count("breaks", lesson.kind)
    file, line, _ = lesson.where[-1] if lesson.where else (code.co_filename, code.co_firstlineno, "")
    text = f"{reason.text}: {lesson.detail}" if lesson.detail else reason.text
    if options.fullgraph:
        raise GraphBreakError(f"{file}:{line}: graph break under fullgraph=True: {text} (hint: {reason.hint})")
    notices.tell("graph break", file, line, text, hint=reason.hint, id=lesson.kind)


class GraphBreakError(RuntimeError):
    """`fullgraph=True` and the function cannot be captured whole."""


def explain_recompile(fn: Any, code: CodeType, args: tuple[Any, ...]) -> None:
    """Logs which guard of the newest entry failed."""
    entries = _native.entries(code)
    if not entries:
        return

    def text() -> str:
        failed = entries[0].guards.check(fn, args)
        return f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}): {entries[0].info.origin[failed]}"

    notices.log("recompiles", text)


def should_capture(code: CodeType) -> bool:
    """Frames that the hook looks at: everything that is not Python's or a pure library's own."""
    if is_resume(code):
        return True
    return not (code.co_filename.startswith("<") or code.co_flags & 0x2A0 or library_file(code.co_filename))


@functools.cache
def library_file(filename: str) -> bool:
    parts = filename.replace("\\", "/")
    if parts.startswith(_OWN):
        return True
    inside = parts.rpartition("site-packages/")[2] if "site-packages/" in parts else ""
    if inside:
        return True
    return parts.startswith(_STDLIB) or is_pure_module(inside)


_OWN = tuple({m.__file__.replace("\\", "/").rpartition("/")[0] + "/" for m in _STAGES if m.__file__})
_STDLIB = functools.__file__.rpartition("/")[0] + "/"


def install() -> None:
    """Connects the C hook; called once, on import."""
    _native.set_callback(functools.partial(on_miss_hook))
    _native.set_filter(should_capture)


def on_miss_hook(fn: Any, code: CodeType, args: tuple[Any, ...]) -> Any:
    current = _native.current()
    options = current.key if current is not None and isinstance(current.key, Options) else _DEFAULT
    return on_miss(options, fn, code, args)


def reset() -> None:
    """Forgets every compiled entry, counter and notice."""
    _native.reset()
    _HISTORY.clear()
    counters.reset()
    notices.reset()


install()
