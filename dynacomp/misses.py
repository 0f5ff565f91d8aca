"""What happens when no compiled entry serves a call: capture, compile, or say why not.

`on_miss` is what the C callable and the frame hook ask. What earlier captures saw (see `driver.history`) decides what
is symbolic in this one; every break and fallback becomes a counter and a one-line notice.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import CodeType
from typing import Any

import jax
from jax._src import source_info_util
from jax._src.core import eval_context, eval_trace, trace_ctx

from dynacomp import callers, counters, idle, notices
from dynacomp.breaks import REASONS
from dynacomp.capture import _native
from dynacomp.capture._native import Entry
from dynacomp.capture.base.collector import seldom_collecting
from dynacomp.capture.base.interrupts import handlers, surfacing
from dynacomp.capture.bytecode import generator_plan
from dynacomp.capture.bytecode.suspensions import SUSPENDS
from dynacomp.capture.entries import Info
from dynacomp.capture.frame import Refusal, Root
from dynacomp.capture.hosting.hearing import collecting
from dynacomp.capture.reconstruct import checks
from dynacomp.capture.suspended import capture_suspended
from dynacomp.capture.symbolic.lessons import Lesson, Lessons
from dynacomp.capture.symbolic.libraries import host_below
from dynacomp.capture.values.sources import Local, Source
from dynacomp.driver import classes_anew, rounds, timing, warm
from dynacomp.driver.attempts import entry_for
from dynacomp.driver.history import (
    LOOPS,
    History,
    Seen,
    forget,
    had_lengths,
    history_of,
    is_lasting,
    note_content,
    note_lengths,
    note_walks,
    policy_of,
    remember,
)
from dynacomp.driver.host_loops import entry_to_the_end
from dynacomp.driver.pipeline import compile_graph
from dynacomp.driver.traced import derivatives, on_mesh, overheard, staged, starting_again, traced_graph
from dynacomp.filters import should_capture
from dynacomp.options import Options, resolve
from dynacomp.stance import STANCES, current_stance
from dynacomp.tampered import builtins_replaced

TOLD_AFTER = 3  # sizes that one place had, each of which took an entry of its own
MAX_CAPTURES = 8  # times the limit of entries: what they guarded died, again and again
CHURN, DEAD = (12, 48), (6, 24)  # so many captures in a row, and the entries of the code served fewer calls meanwhile:
#                                  Python runs the next ones. DEAD: where so many entries have died
USELESS = 8  # the same where they served not one; or as many as the code may have entries
PATIENCE, MAX_WAIT = 3, 4096  # after so many failed captures in a row, calls wait for the next attempt
TOO_LONG = 6  # failures for which one counts that came to the end of what a capture may take
REFUSED, UNASKED = 32, 96  # after so many calls of full code, so many in a row ask nobody whether it is full yet
RESTLESS = 16  # calls of code without an entry for which nobody asks, where captures have become rare
DEBUGGING = ("jax_debug_nans", "jax_debug_infs", "jax_disable_jit", "jax_no_execution", "jax_check_tracer_leaks",
             "jax_debug_key_reuse")
MOVES = ("jax_transfer_guard_host_to_device", "jax_transfer_guard_device_to_device")  # eager operations tell of theirs


class GraphBreakError(RuntimeError):
    """`fullgraph=True`, and the function cannot be captured whole."""


class RecompileError(RuntimeError):
    """The stance is "fail_on_recompile", and a call needs a new entry."""


_DEFAULT = resolve()


def on_miss(options: Options, fn: Any, code: CodeType, args: tuple[Any, ...]) -> Any:
    """Captures a frame that no entry serves; an Entry, True (plain Python, callees captured) or None."""
    if code in handlers() or code in collecting():  # it runs between any two instructions of ours, too
        return between_instructions(code)
    if trace_ctx.is_top_level():
        return answered(options, fn, code, args)
    if overheard():
        eager(code, "heard", code.co_qualname)
        return None
    if staged() or trace_ctx.trace is eval_trace:  # JAX compiles it; a callback below a `vmap` that names its axis
        counters.count("frames_eager", "traced")
        return None
    if on_mesh():
        eager(code, "mesh", code.co_qualname)
        return None
    return answered(options, fn, code, args, traced=True, order=derivatives())


def answered(options: Options, fn: Any, code: CodeType, args: tuple[Any, ...], traced: bool = False,
             order: int = 0) -> Any:
    """The answer to a call that no entry serves."""
    if builtins_replaced():  # nothing is noted of the code then: what they make would stay
        return eager(code, "builtins", "")
    history = history_of(code, options, traced)
    history.order = max(history.order, order)
    history.owners.add(id(getattr(_native.current(), "__wrapped__", fn)))
    if history.limited == history.captures and is_full(code, options, history):
        return left_at_limit(code, history)
    host = host_below(sys._getframe())
    if host:
        eager(code, "host", host)
        return None
    with history.lock:
        history.trace = trace_ctx.trace._weakref
        # looked for where the call stands: in JAX's `eval_context` an entry of eager code would seem to serve it
        made_meanwhile = next((e for e in live_entries(code, options) if e.guards.check(fn, args) == -1), None)
        with seldom_collecting():
            return made_meanwhile or missed(options, fn, code, args, history)


def left_at_limit(code: CodeType, history: History) -> bool:
    """Plain Python for a call of full code, which has been told: such calls cost little, and after a few next to
    nothing, for nobody is asked."""
    counters.count("frames_eager", "limit", by=1 + history.unasked)
    history.refused += 1
    history.unasked = UNASKED if history.refused >= REFUSED else 0
    _native.ask_later(code, history.unasked)
    return True


def between_instructions(code: CodeType) -> None:
    """What Python calls of its own accord runs plainly. It is told where the program has it compiled by name."""
    if _native.current() is None:  # not found by the hook
        eager(code, "interrupt", "")
        return
    counters.count("frames_eager", "interrupt")
    notices.log("breaks", lambda: f"{code.co_filename}:{code.co_firstlineno}: {code.co_qualname} runs as plain Python: "
                + REASONS["interrupt"].text)


def live_entries(code: CodeType, options: Options) -> list[_native.Entry]:
    """The entries that a call under these options may use."""
    return [e for e in _native.entries(code) if e.key is None or e.key is options]


def is_full(code: CodeType, options: Options, history: History) -> bool:
    """Whether the code may have no more entries; those that have died do not count, but for a while. Functions that
    one `def` makes anew, with other closures (training steps, say), share its code: each may have its entries."""
    limit = options.recompile_limit
    alive = [e for e in live_entries(code, options) if e.info is not None and e.info.traced == history.traced]
    return STANCES[current_stance()].recompiles and (
        history.captures >= MAX_CAPTURES * limit or len(alive) >= limit * min(len(history.owners), MAX_CAPTURES))


def is_churning(code: CodeType, options: Options, history: History) -> bool:
    """Whether entry after entry has died, or was of no use, before it had served enough calls to pay. Functions that
    one `def` makes share its code."""
    now, died = _native.hits(code), history.captures - len(idle.infos_of(code))  # those serve nobody any more
    rows = (CHURN, (max(USELESS, options.recompile_limit), 1), *([DEAD] if died >= DEAD[0] else []))
    return any(len(history.served) >= most * len(history.owners) and now - history.served[-most] < worth
               for most, worth in rows)


def missed(options: Options, fn: Any, code: CodeType, args: tuple[Any, ...], history: History) -> Any:
    """A call that no entry serves."""
    if any(getattr(jax.config, name) for name in DEBUGGING) or any(
            getattr(jax.config, name) not in (None, "allow") for name in MOVES):
        eager(code, "config", "")
        return None
    if history.captures and not STANCES[current_stance()].recompiles:
        return refused(fn, code, args)
    full = is_full(code, options, history)
    with apart(history):
        entry = idle.entry_instead(
            code, fn, args, options, history.traced) if full or is_churning(code, options, history) else None
    if entry is not None:
        _native.add_entry(code, entry)
        return entry
    if full:
        history.limited = history.captures
        failed_now = failed_guard(fn, code, args)
        return eager(code, "limit", f"{history.captures} entries for {callers.shown(code).co_qualname}"
                     + (f", none of which serves a call where this fails: {failed_now}" if failed_now else ""))
    if history.wait:
        history.wait -= 1
        return eager(code, *history.failure)
    anew = 0 if options.fullgraph else classes_anew.made_anew(code, fn, args, history)
    if is_churning(code, options, history) or rounds.parts_of(code).is_useless() or anew >= classes_anew.CALLS:
        failed_now = failed_guard(fn, code, args)
        history.served.clear()
        if _native.current() is not None or not classes_anew.CALLS <= anew < classes_anew.SURE:  # found by the hook
            history.churned += 1
            _native.rest(code, min(MAX_WAIT, 1 << 2 * history.churned + 4))
        return eager(code, "churn", f"{history.captures} of {callers.shown(code).co_qualname}" + (
            f", lately because of {failed_now}" if failed_now else ""))
    held_back = None if options.fullgraph else denied(code, options)
    if held_back:
        if not _native.entries(code):
            _native.rest(code, RESTLESS)
        return eager(rounds.compiled_above(code), held_back, "")
    seen = history.seen_by(fn, args)
    argument, container, said = failed_part(fn, code, args, had_lengths(seen, code, args))
    history.missed.update(filter(None, [argument]))
    note_content(history, container, said)
    note_lengths(history, seen, code, args, argument)
    history.hits = _native.hits(code)
    changed = None if history.hits else history.changed()
    entry = None if history.captures and changed is None else entry_to_the_end(
        code, fn, args, options, history.traced, changed)
    if entry is not None:
        history.restless.add(LOOPS)
        _native.clear(code)
        _native.add_entry(code, entry)
        return entry
    history.splits += split_by_condition(fn, code, args)
    history.data |= bool(container) or isinstance(argument, Local) and type(args[argument.index]) in (str, bytes)
    notices.log("recompiles", lambda: recompile_text(fn, code, args))
    history.died = history.captures - len(idle.infos_of(code))
    known = recalled(options, fn, code, args, functools.partial(is_lasting, history, seen))
    if known is not None and known.info.traced != history.traced:
        known = None
    if known is not None:
        if known.info.breaks is not None:
            report_break(known.info.breaks, code, options)
        return served(known, code, fn, args, options, history, "frames_recalled")
    with apart(history):
        return captured(options, fn, code, args, history)


def denied(code: CodeType, options: Options) -> str | None:
    """Why nothing more is captured in this call of a compiled function, for now."""
    root = rounds.compiled_above(code)
    if not rounds.may_capture(root):
        return "restless"
    again = rounds.parts_of(code).has_begun() and not options.capture_idle  # with that all is captured
    return "dear" if again and rounds.budget_of(root).is_over(rounds.GRACE * options.recompile_limit) else None


def apart(history: History) -> AbstractContextManager[Any]:
    """What captures runs apart from the transformation that runs the call. Guards are asked inside of that: apart from
    it no entry of such calls holds, whatever else has changed."""
    return eval_context() if history.traced else nullcontext()


def captured(options: Options, fn: Any, code: CodeType, args: tuple[Any, ...], history: History) -> Any:
    seen, parts = history.seen_by(fn, args), rounds.parts_of(code)
    lessons = Lessons(order=history.order, unpacked=dict(parts.entered))
    if code.co_flags & SUSPENDS and idle.is_left_suspended(code, fn, args, options):
        return True
    spending = rounds.budget_of(rounds.compiled_above(code)).spending(parts.has_begun())
    with surfacing(), counters.timed("capture"), no_stack_noted(), spending:
        if code.co_flags & SUSPENDS:
            found = suspended(options, code)
        else:
            root = Root(fn, code, args, policy_of(history, seen, options, fn, code, args), history.traced,
                        history.trace)
            compiler = functools.partial(traced_graph, order=history.order) if history.traced else compile_graph
            found = entry_for(root, lessons, lambda graph, places: starting_again(compiler(graph, options, places)),
                              options)
    freeze(history, lessons, code)
    parts.entered.update(lessons.unpacked)
    for lesson in lessons.breaks.values():
        report_break(lesson, code, options)
    info = getattr(found, "info", None)
    if info is None:
        why = found if isinstance(found, Refusal) else Refusal("died")
        failed(history, why)
        return eager(code, why.kind, why.detail)
    history.failures = 0
    return served(found, code, fn, args, options, history, "frames_captured")


def served(entry: Any, code: CodeType, fn: Any, args: tuple[Any, ...], options: Options, history: History,
           counter: str) -> Any:
    """The answer to a call for which an entry was found: that, or plain Python where nothing is computed."""
    info = entry.info
    if idle.is_left_alone(code, fn, args, info, options):
        return True
    note(info, code, history, history.seen_by(fn, args), counter)
    note_walks(info, code, options, history.traced)
    entry = idle.entry_without_guards(code, fn, args, info, options) or entry
    _native.add_entry(code, entry)
    return entry


def recalled(options: Options, fn: Any, code: CodeType, args: tuple[Any, ...],
             fits: Callable[[Any], bool]) -> Entry | None:
    """The entry that another process has kept for such a call."""
    with surfacing(), counters.timed("recall"):
        return warm.recalled(fn, code, args, options, fits)


def freeze(history: History, lessons: Lessons, code: CodeType) -> None:
    """Remembers which sizes must be constants. Where the third entry is made for one, it is said what froze it."""
    for place, why in lessons.frozen.items():
        history.frozen.setdefault(repr(place), why)
    for name, why in history.frozen.items():
        seen = history.sizes_of(name)
        if len(seen) >= TOLD_AFTER:
            file, line, _ = why.where[-1] if why.where else place_of(code)
            old = ", ".join(map(str, sorted(seen)))
            notices.tell("constant size", file, line, f"{name} was {old} and is compiled for each: {why.what}",
                         hint="fix the size, pad to a few sizes, or leave this call out with dynacomp.disable", id=name)


@contextmanager
def no_stack_noted() -> Iterator[None]:
    """JAX notes with every operation that it traces which code objects were running. A compiled entry may not
    keep those: the code that runs it is among them, and code takes no part in garbage collection."""
    held = source_info_util._source_info_context
    before = held.context
    try:
        held.context = before.replace(traceback=_IMPORT)
        yield
    finally:
        held.context = before


_IMPORT = source_info_util.current().traceback  # the stack while this module was imported


def suspended(options: Options, code: CodeType) -> Entry | Refusal:
    """A generator, coroutine or async generator: its driver runs, and each segment is captured when it is called."""
    found = _native.current() is not None  # by the hook: nobody asked for this very function
    on_idle = functools.partial(left_to_python, weakref.ref(code)) if found else None
    return capture_suspended(code, compiling(options), options, on_idle)


def compiling(options: Options) -> Callable[[Any], Any]:
    """What makes of a function one that is captured when it is called."""
    return lambda made: _native.CompiledFunction(made, functools.partial(on_miss, options), options)


def left_to_python(code: weakref.ref[CodeType]) -> None:
    """A generator that computes nothing with arrays costs more captured than left alone."""
    known = code()
    if known is not None:
        counters.count("frames_idle")
        _native.clear(known)
        _native.mark_skip(known)


def failed(history: History, why: Refusal) -> None:
    """A capture costs far more than a call: one that keeps failing is tried ever more rarely."""
    history.failures += TOO_LONG if why.kind == "too_long" else 1
    history.failure = (why.kind, why.detail)
    if history.failures >= PATIENCE:
        history.wait = min(MAX_WAIT, 1 << history.failures)


# --- what is said and counted


def note(info: Info, code: CodeType, history: History, seen: Seen, counter: str = "frames_captured") -> None:
    """Remembers a capture for the next one, counts it and logs it."""
    counters.count(counter)
    if history.captures:
        counters.count("recompiles")
    history.captures += 1
    rounds.parts_of(code).note(code)
    history.served.append(_native.hits(code))
    remember(history, seen, info)
    if info.graph is not None:
        counters.count("graphs")
        counters.count("operations", by=info.operations)
    notices.log("guards", lambda: f"{code.co_qualname}:\n{info.guards}")


def eager(code: CodeType, kind: str, detail: str) -> Any:
    """The frame runs as plain Python; what it calls may still be captured."""
    counters.count("frames_eager", kind)
    code, reason = callers.shown(code), REASONS[kind]
    what = "recompile limit" if kind == "limit" else "runs eagerly"
    notices.log("breaks", lambda: f"{code.co_filename}:{code.co_firstlineno}: {code.co_qualname} runs as plain "
                f"Python: {_text(reason.text, detail)}")
    notices.tell(what, code.co_filename, code.co_firstlineno, _text(reason.text, detail), hint=reason.hint, id=kind)
    return None if kind == "raises" else True


def started_again(check: checks.Check) -> None:
    """A call starts again as plain Python. It is told where the program does not raise there."""
    stopped = check.stopped
    counters.count("checks_failed", stopped.kind if stopped else check.reason)
    text = check.text if stopped is None else (
        "calls that take the side of this condition that cannot be captured run as plain Python: "
        + _text(REASONS[stopped.kind].text, stopped.detail))
    notices.log("breaks", lambda: f"{check.file}:{check.line}: the call starts again as plain Python: {text}")
    if stopped is not None:
        notices.tell("fallback", check.file, check.line, text, hint=REASONS[stopped.kind].hint, id="check")


def report_break(lesson: Lesson, code: CodeType, options: Options) -> None:
    reason = REASONS[lesson.kind]
    counters.count("breaks", lesson.kind)
    file, line, _ = lesson.where[-1] if lesson.where else place_of(code)
    text = _text(reason.text, lesson.detail)
    notices.log("breaks", lambda: f"{file}:{line}: graph break: {text}")
    if options.fullgraph:
        hint = f" (hint: {reason.hint})" if reason.hint else ""
        raise GraphBreakError(f"{file}:{line}: graph break under fullgraph=True: {text}{hint}")
    notices.tell("graph break", file, line, text, hint=reason.hint, id=lesson.kind)


def place_of(code: CodeType) -> tuple[str, int, str]:
    """Where the program has what a frame runs."""
    told = callers.shown(code)
    return told.co_filename, told.co_firstlineno, told.co_qualname


def _text(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def recompile_text(fn: Any, code: CodeType, args: tuple[Any, ...]) -> str:
    """Which guard of the newest entry failed."""
    file, line, name = place_of(code)
    where = f"{name} ({file}:{line})"
    failed = failed_guard(fn, code, args)
    return f"{where}: failed guard: {failed}" if failed else f"{where}: first capture"


def failed_guard(fn: Any, code: CodeType, args: tuple[Any, ...]) -> str:
    """The guard that fails of the entry that comes nearest, of which the most guards hold; "" where there is none."""
    most, found = -1, ""
    for entry in _native.entries(code):
        info = entry.info  # which goes where what the entry guards dies, during the check too
        step = entry.guards.check(fn, args) if info is not None else -1
        if step > most:
            most, found = step, info.origin[step]
    return found


def failed_part(fn: Any, code: CodeType, args: tuple[Any, ...], had: set[Source]) -> tuple[Source | None, str, str]:
    """The argument whose content fails a guard of the entry that comes nearest, of which the most guards hold, the
    sizes of its arrays apart, the container that has another content, and that guard in words. Of entries for objects
    of several shapes (trees, say), that one was for the same shape. had: arguments as long as in an earlier call: what
    keeps the entry of that call from serving this one is what counts."""
    steps = [(entry.info, entry.guards.check(fn, args)) for entry in _native.entries(code)]
    failures = sorted(((info, step) for info, step in steps if info is not None and step >= 0), key=lambda f: -f[1])
    nearest = [(info, step) for info, step in failures if info.sized[step] or (
        info.contents[step] if info.arguments[step] is None else info.arguments[step] not in had)]
    return next(((info.arguments[step], info.contents[step], info.origin[step]) for info, step in nearest or failures),
                (None, "", ""))


def split_by_condition(fn: Any, code: CodeType, args: tuple[Any, ...]) -> bool:
    """Whether what a condition on changing numbers comes to keeps some entry from serving a call."""
    for entry in _native.entries(code):
        info = entry.info
        step = entry.guards.check(fn, args) if info is not None else -1
        if step >= 0 and info.conditional[step]:
            return True
    return False


def refused(fn: Any, code: CodeType, args: tuple[Any, ...]) -> Any:
    """A recompile under a stance that forbids it."""
    text = recompile_text(fn, code, args)
    if current_stance() == "fail_on_recompile":
        raise RecompileError(f"recompilation under stance 'fail_on_recompile': {text}")
    return eager(code, "stance", text)


def on_miss_hook(fn: Any, code: CodeType, args: tuple[Any, ...]) -> Any:
    """The same for frames that the hook found below a compiled function, under its options."""
    current = _native.current()
    options = current.key if current is not None and isinstance(current.key, Options) else _DEFAULT
    return on_miss(options, fn, code, args)


def reset() -> None:
    """Forgets all compiled entries and what was learned about code objects."""
    _native.reset()
    forget()
    idle.reset()
    generator_plan.forget()
    checks.forget()
    rounds.forget()
    classes_anew.forget()
    timing.forget()


def install() -> None:
    """Connects the C hook to this module."""
    _native.set_callback(on_miss_hook)
    _native.set_filter(should_capture)
    _native.set_timer(timing.timer, timing.FIRST)
    generator_plan.wrapping[:] = [compiling]
    checks.FAILED[:] = [started_again]
    counters.add_source("cache_hits", lambda: _native.counters()["hits"])


install()
