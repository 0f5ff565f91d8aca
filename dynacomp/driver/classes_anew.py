"""Classes that each call makes anew, and that capture cannot make itself (of a metaclass, say): what is captured for
one serves no other call.

They come to a frame as the class statement has left them, after its graph break, in an argument or a closure. Guards
ask for that very class, so entry after entry is of no use. Where a class of the same name was another one in call after
call, Python runs what asks for it, unless the function must be compiled whole (`fullgraph=True`). A few classes of one
name that take turns, each for some calls, are no such ones.

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
from dynacomp.driver.history import History, cells_of

CALLS = 3  # in a row, in which a class of a name was another one than before
SERVED = 3  # calls that an entry has served: it was of some use

_KNOWN: dict[str, tuple[int, int]] = {}  # by name: the last call with another such class, and how many there were


def are_made_anew(code: CodeType, fn: Any, args: tuple[Any, ...], history: History) -> bool:
    """Whether no entry serves this call for the sake of a class that is another one in each."""
    served = _native.hits(code) - history.served[-1] if history.served else 0
    anew = False
    for name in set(_asked_for(code, fn, args)).intersection(map(full_name, _classes(fn, args))):
        anew |= _count(name, _native.counters()["outer"], served) >= CALLS
    return anew


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
    """Those that a call is given, and those of the objects that it is given."""
    for x in (*args, *(held for _, held in cells_of(fn))):
        yield x if issubclass(type(x), type) else type(x)


def forget() -> None:
    """Begins again."""
    _KNOWN.clear()
