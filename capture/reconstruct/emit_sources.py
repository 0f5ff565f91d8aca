"""Sources as bytecode: instructions that find an object which existed before the call.

`e` is the Emitter of the replacement code. A kind of Source is one row of `_SOURCES`; most call a small
helper from `dynacomp.capture.reconstruct.runtime`.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable
from typing import Any

from bytecode import FreeVar

from dynacomp.capture._native import (
    Held,
    item,
    iterated,
    key,
    own_attribute,
    own_table,
    suspended_delegate,
    suspended_local,
    unhold,
)
from dynacomp.capture.base.carriers import carrier
from dynacomp.capture.bytecode.code import VERSION
from dynacomp.capture.graph.size_evaluation import postfix
from dynacomp.capture.numbers.applied import Applied
from dynacomp.capture.reconstruct import runtime, upcoming
from dynacomp.capture.values import sources as S


def load_globals(e: Any, table: dict[str, Any]) -> None:
    """The dict `table`, found through the running frame where it is that frame's: code objects take no part
    in garbage collection, so that a constant would keep the whole namespace of the code alive for ever."""
    if e.cap.globals_source(table) is None:
        e.call(runtime.own_globals)
    else:
        e.const(Held(table))


def load_source(e: Any, source: S.Source) -> None:
    """Leaves the object at `source` on the stack."""
    _SOURCES[type(source)](e, source)


def _fetch(fn: Any, *names: str) -> Callable[[Any, Any], None]:
    def row(e: Any, s: Any) -> None:
        e.call(fn, lambda: load_source(e, s.base), *[lambda n=n: e.const(getattr(s, n)) for n in names])  # type: ignore[misc]
    return row


def _root(e: Any, obj: Any) -> None:
    """An object itself; constants of code must be hashable, and equal tuples would become one."""
    if obj is e.cap.root.fn.__globals__:
        load_globals(e, obj)
    elif type(obj).__hash__ is None or type(obj) is tuple:
        e.call(unhold, lambda: e.const(Held(obj)))
    else:
        e.const(obj)


def _size(e: Any, s: S.SizeOf) -> None:
    names, places = zip(*s.reads)
    if names == (str(s.expr),):
        load_source(e, *places)
    else:
        e.call(runtime.SizeFunction(postfix(s.expr), names), *[lambda p=p: load_source(e, p) for p in places])  # type: ignore[misc]


def _host(e: Any, s: S.Host) -> None:
    """What Python makes of others; NumPy makes each array once."""
    if id(s.fn) in e.temps:
        e.op("LOAD_FAST", e.temps[id(s.fn)])
        return
    e.call(s.fn, *[lambda a=a: load_source(e, a) if isinstance(a, S.Source) else e.const(a) for a in s.args])  # type: ignore[misc]
    if isinstance(s.fn, Applied):
        e.remember(s.fn)


_SOURCES: dict[type, Callable[[Any, Any], None]] = {
    S.Local: lambda e, s: e.op("LOAD_FAST", s.name),
    S.Closure: lambda e, s: e.op("LOAD_DEREF", FreeVar(s.name)),
    S.ClosureCell: lambda e, s: e.op("LOAD_CLOSURE" if VERSION < (3, 13) else "LOAD_FAST", FreeVar(s.name)),
    S.Global: lambda e, s: e.op("LOAD_GLOBAL", (False, s.name)),
    S.Handled: lambda e, s: e.call(sys.exception),
    S.ThreadIdent: lambda e, s: e.call(threading.get_ident),
    S.TraceRef: lambda e, s: e.call(runtime.trace_ref),
    S.Root: lambda e, s: _root(e, s.obj),
    S.KeyObject: lambda e, s: _root(e, s.obj),
    S.Attr: _fetch(own_attribute, "name"),
    S.Slot: _fetch(runtime.slot, "member"),
    S.Get: _fetch(getattr, "name"),
    S.Item: _fetch(item, "index"),
    S.Key: _fetch(key, "key"),
    S.KnownKey: _fetch(runtime.known_key, "key"),
    S.Host: lambda e, s: _host(e, s),
    S.At: lambda e, s: _host(e, s),
    S.Dim: _fetch(runtime.dimension, "axis"),
    S.Count: _fetch(len),
    S.SizeOf: lambda e, s: _size(e, s),
    S.Carrier: _fetch(carrier),
    S.TypeOf: _fetch(type),
    S.DictOf: _fetch(own_table),
    S.Plain: _fetch(runtime.plain),
    S.ThreadDict: _fetch(runtime.thread_dict),
    S.Contextual: _fetch(runtime.contextual),
    S.Referent: _fetch(operator.call),
    S.Suspended: _fetch(suspended_local, "slot"),
    S.Delegate: _fetch(suspended_delegate),
    S.Upcoming: _fetch(upcoming.item, "after"),
    S.Iterated: _fetch(iterated),
    S.Reduced: _fetch(upcoming.reduced),
}
