"""Frames that compute nothing with arrays: their guards would cost more than compiled code can save, so they run as
plain Python, and what they call is captured by itself.

A capture without a Graph makes no entry. The code is looked at again after ever more calls, for another way through it
may compute something, and at once when an array comes where none was. A frame that has no JAX in sight
(`dynacomp.sight`) is left alone at its first graph break, with generators that the hook finds. Another that goes on
after a graph break is left alone once everything behind the break is. Where something behind it computes, the frame
runs in Python up to there, guarded for nothing but that no array comes to where none was (see `capture.stretched`): at
its second capture if nothing of JAX is in sight, or if the function has had some captures in vain, wherever in it they
began; else in place of going back to Python for good.
`options={"capture_idle": True}` and `fullgraph=True` capture such frames all the same.

    >>> import dynacomp
    >>> dynacomp.reset()
    >>> dynacomp.jit(lambda words: [w.title() for w in words], options={"capture_idle": False})(["a", "b"])
    ['A', 'B']
    >>> dynacomp.stats()["frames_captured"], dynacomp.stats()["frames_idle"]
    (0, 1)
"""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Any

from dynacomp import counters, notices
from dynacomp.capture import _native
from dynacomp.capture.base.identity_table import IdentityTable
from dynacomp.capture.bytecode.resume import original_of, reachable
from dynacomp.capture.bytecode.suspensions import SUSPENDS
from dynacomp.capture.stretched import has_jax_in_sight, stretched, without_arrays
from dynacomp.options import Options
from dynacomp.sight import leads_to_jax

RESTS = (2, 8, 64, 512, 4096)  # calls that run plainly after the first look in vain, the second, ...
VAIN = 6  # captures of a frame and of what goes on with it that computed nothing: no more is guarded for their like
LONG, LONG_LOOKS = 20_000, 3  # a look of so many instructions, a hundred times what Python takes, counts as so many


class Rest:
    """What is known of one code object. looks: how often it was captured in vain, in a row; vain: how many captures of
    it, and of what goes on with it after graph breaks, have made an entry that computes nothing; had_arrays: whether it
    computed nothing, or led to what did not, though it was given arrays; before: the codes that go on with this one
    after a graph break."""

    def __init__(self) -> None:
        self.looks = self.vain = 0
        self.had_arrays = False
        self.before: weakref.WeakSet[CodeType] = weakref.WeakSet()


_RESTS = IdentityTable()  # code objects compare by value


def rest_of(code: CodeType) -> Rest:
    """For as long as the code lives."""
    return _RESTS.setdefault(code, Rest)  # type: ignore[no-any-return]


def is_left_alone(code: CodeType, fn: Any, args: tuple[Any, ...], info: Any, options: Options) -> bool:
    """Whether the frame that was just captured, as `info` says, shall run as plain Python instead."""
    if options.capture_idle or options.fullgraph or code.co_flags & SUSPENDS:
        return False  # the driver of a generator has rules of its own
    if info.graph is not None:
        rest_of(code).looks = 0
        return False
    rest_of(code).had_arrays |= _native.array_among(args)
    for after in info.resumes():
        rest_of(after).before.add(code)
    if any(i.graph is not None for i in infos_of(code)):
        return False
    if not leads_to_jax(code, fn, args):
        _put_to_rest(code, info.steps, args)
        return True
    if info.breaks is not None and (not list(info.resumes()) or busy_behind(code, info)):
        return False
    if info.breaks is None and leads_on(code) or rest_of(code).looks and woken(code, info):
        return False
    for idle in {id(c): c for c in (code, *(c for c, _ in reachable(info.resumes())))}.values():
        _put_to_rest(idle, info.steps, args if idle is code else ())
    return True


def is_left_suspended(code: CodeType, fn: Any, args: tuple[Any, ...], options: Options) -> bool:
    """Whether a generator that the hook has found shall run as plain Python: it has no JAX in sight."""
    if options.capture_idle or options.fullgraph or _native.current() is None or leads_to_jax(code, fn, args):
        return False
    _put_to_rest(code, args=args)
    return True


def leads_on(code: CodeType) -> bool:
    """Whether another way through the frame than the one just captured (the last round of a loop, say) goes on, after
    graph breaks, in something that computes: left alone, the frame would run all of that in Python."""
    return any(info.graph is not None for way in infos_of(code) for _, info in reachable(way.resumes()))


def woken(code: CodeType, info: Any) -> bool:
    """Whether codes behind the graph breaks of a frame that is looked at again were put to rest on what another call
    did there, the last round of a loop perhaps: they are looked at again, in this call. If they are idle still, this
    frame is left alone with them."""
    behind = {id(c): c for i in (info, *(i for _, i in reachable(info.resumes()))) for c in i.resumes()}
    resting = [c for c in behind.values() if c is not code and _is_resting(c)]
    for after in resting:
        _native.rest(after, 0)
    return bool(resting)


def infos_of(code: CodeType) -> list[Any]:
    """What is known of the entries that are alive."""
    return [info for e in _native.entries(code) if (info := e.info) is not None]


def entry_without_guards(code: CodeType, fn: Any, args: tuple[Any, ...], info: Any, options: Options,
                         last: bool = False) -> Any:
    """What runs the frame that was just captured in Python up to where something computes; None where nothing does,
    or the frame itself may, and not many captures were in vain. last: it would not be captured again, whatever comes;
    that is told."""
    if options.capture_idle or options.fullgraph or info is None or code.co_flags & SUSPENDS or info.breaks is None:
        return None
    shared = rest_of(original_of(code))
    if info.graph is None:
        shared.vain += 1
    hurry = last or info.graph is None and shared.vain > VAIN
    known = [i for i in infos_of(code) if info.breaks.kind != "idle" or i.graph is None]  # else made of other data
    if info.graph is not None or any(i.graph is not None for i in known) or not known and info.breaks.kind != "idle":
        return None
    behind = busy_behind(code, info)
    if not behind or behind == [code] or not hurry and has_jax_in_sight(code, fn, args, behind):
        return None
    made = stretched(code, info, behind, options, () if last else without_arrays(code, fn, args, behind))
    if made is not None:
        _native.clear(code)
    return made


def entry_instead(code: CodeType, fn: Any, args: tuple[Any, ...], options: Options, traced: bool) -> Any:
    """The same for a frame that was captured so often that it would not be captured again."""
    info = next((i for i in infos_of(code) if i.traced == traced), None)
    made = entry_without_guards(code, fn, args, info, options, last=True)
    if made is not None:
        notices.tell("recompile limit", code.co_filename, code.co_firstlineno,
                     f"{code.co_qualname} runs as plain Python up to where compiled code goes on: its entries serve "
                     "hardly a call", hint="pass changing values as arrays, or raise recompile_limit", id="stretch")
    return made


def busy_behind(code: CodeType, info: Any) -> list[CodeType]:
    """Where a frame that was captured as `info` says goes on and may compute something: the first such resume
    functions on each way. A loop whose end was not seen yet may compute behind that."""
    found: list[CodeType] = []
    todo, seen, ends = [*info.resumes(), *(c for i in infos_of(code) for c in i.resumes())], {id(code)}, False
    while todo:
        after = todo.pop()
        ends = ends or after is not code and _is_resting(after)
        if id(after) in seen or _is_resting(after):
            continue
        seen.add(id(after))
        infos = infos_of(after)
        if infos and all(i.graph is None and i.breaks is not None for i in infos):
            todo += [c for i in infos for c in i.resumes()]
        else:
            found.append(after)
    return found if found or ends or info.breaks is None else [code]


def _is_resting(code: CodeType) -> bool:
    return rest_of(code).looks > 0 and not _native.entries(code)


def _put_to_rest(code: CodeType, steps: int = 0, args: tuple[Any, ...] = ()) -> None:
    """Code that computed nothing with numbers, say, may compute with arrays: if `args` had none, one that comes ends
    the rest."""
    rest = rest_of(code)
    looks = rest.looks
    _native.clear(code)
    if steps > LONG:
        rest.looks = max(rest.looks, LONG_LOOKS)
    rest.had_arrays |= _native.array_among(args)
    _native.rest(code, RESTS[min(rest.looks, len(RESTS) - 1)], not rest.had_arrays)
    rest.looks += 1
    counters.count("frames_idle")
    notices.log("breaks", lambda: f"{code.co_filename}:{code.co_firstlineno}: {code.co_qualname} runs as plain Python: "
                "it computes nothing with arrays")
    if looks < 2 <= rest.looks and _native.current() is None:  # not found by the hook: the user asked for this very one
        notices.tell("nothing compiled", code.co_filename, code.co_firstlineno,
                     f"{code.co_qualname} computes nothing with arrays, and runs as plain Python",
                     hint='compile the function that computes, or say options={"capture_idle": True}', id="idle")
    for before in list(rest.before):
        infos = infos_of(before)
        if infos and all(i.graph is None and not busy_behind(before, i) for i in infos):
            _put_to_rest(before)


def reset() -> None:
    """Forgets what was found idle."""
    _RESTS.clear()
