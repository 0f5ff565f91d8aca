"""Classes that each call makes anew, and that capture cannot make itself (of a metaclass, say) nor tell by what they
say (see `alike_classes`): what is captured for one serves no other call.

They come to a frame as the class statement has left them, after its graph break, in an argument or a closure. Guards
ask for that very class, so entry after entry is of no use. Where a class of the same name was another one in call after
call, Python runs what asks for it, unless the function must be compiled whole (`fullgraph=True`). A few classes of one
name that take turns, each for some calls, are no such ones, nor is one that comes back in a later call: many models,
each of a class of its own that one function made (`def build(act): class Model(eqx.Module): ...`). So that those are
met again, the compiled function itself asks in each call, until `SURE`.

    def f(x):
        class Scaled(eqx.Module): ...   # other classes of this name in each call
        return Scaled(2.0)(x)           # captured `CALLS` times, not as often as a function may have entries
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any

from dynacomp.capture import _native
from dynacomp.capture.base.classes import full_name
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.wrapping.alike_classes import may_be_anew
from dynacomp.driver.history import History, cells_of

CALLS = 3  # in a row, in which a class of a name was another one than before
SURE = 64  # such calls, after which the code is left alone for a while
SERVED = 3  # calls that an entry has served: it was of some use

_KNOWN: dict[str, tuple[int, int]] = {}  # by name: the last call with another such class, and how many there were


def made_anew(code: CodeType, fn: Any, args: tuple[Any, ...], history: History) -> int:
    """In how many calls in a row no entry served for the sake of a class that is another one in each, where that is
    why none serves this call: from `CALLS` on, classes are made anew."""
    served = _native.hits(code) - history.served[-1] if history.served else 0
    call, asked = _call(), history.made_anew.union(_asked_for(code, fn, args))
    others = {full_name(cls): _count(full_name(cls), call, served) for cls in _classes(fn, args)
              if full_name(cls) in asked and _first_call(cls) == call}
    history.made_anew.update(name for name, many in others.items() if many >= CALLS)
    return max(others.values(), default=0)


def _call() -> int:
    """The number of this call of compiled code from outside."""
    return _native.counters()["outer"]


@remembered
def _first_call(cls: type) -> int:
    """That in which a class was first met as another one than entries ask for."""
    return _call()


def _count(name: str, call: int, served: int) -> int:
    """In how many calls, this one with them, a class of this name was another one."""
    last, many = _KNOWN.get(name, (call - 1, 0))
    if call != last:
        many = many + 1 if call == last + 1 or served < SERVED else 1
    _KNOWN[name] = call, many
    return many


def _asked_for(code: CodeType, fn: Any, args: tuple[Any, ...]) -> Iterator[str]:
    """The names of the classes that entries of this code ask for, and that this call does not have."""
    for entry in _native.entries(code):
        info = entry.info
        step = entry.guards.check(fn, args) if info is not None else -1
        if step >= 0 and info.classes[step]:
            yield info.classes[step]


def _classes(fn: Any, args: tuple[Any, ...]) -> Iterator[type]:
    """Those that a call is given, and those of the objects that it is given, where captures know them by identity."""
    for x in (*args, *(held for _, held in cells_of(fn))):
        cls = x if issubclass(type(x), type) else type(x)
        if not may_be_anew(cls):
            yield cls


def forget() -> None:
    """Begins again."""
    _KNOWN.clear()
