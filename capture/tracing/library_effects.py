"""What a library's call has changed besides making its result, noticed once it has run on tracers.

Functions that are called for what they change are known by name (`libraries.has_effect`). Any other may have
changed JAX's configuration, or a list, a dict or an object among its arguments (lists and dicts are copies, a library's
object may be the program's), or a container or an object that the program's functions refer to: all is put back, the
graph breaks before the call, and Python makes it.

    >>> with noticing("f", ([1], {})): f([1], {})
"""

from __future__ import annotations

import collections
import contextlib
import logging
import operator
import types
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import jax
from jax._src import pjit
from jax._src.interpreters import partial_eval

from dynacomp.capture import _native
from dynacomp.capture.base.classes import entries, module_name, mro, own_dict
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.symbolic.outward import is_open_file
from dynacomp.capture.wrapping.builder import is_plain_instance

MAX_KEPT = 1 << 16  # containers that are watched during one call: some tenths of a second


@contextlib.contextmanager
def noticing(name: str, arguments: Any, lowered: Any = ()) -> Iterator[None]:
    """Break after a call of `name` that has changed JAX's configuration, a container in `arguments`, or one of the
    program's objects, which are in `lowered` too (others are copies): all is as it was before, then.
    `hk.PRNGSequence.__next__` takes a key from a deque."""
    config, given = _native.jax_config_token(), Given(arguments, lowered)
    try:
        yield
    except BaseException:
        given.restore()
        raise
    if _native.jax_config_token() != config:
        forget_traces()
        raise Break("effect", f"{name} changes JAX's configuration")
    if given.restore():
        forget_traces()
        raise Break("effect", f"{name} changes an argument in place")


# Where JAX keeps the traces of functions that `jax.jit` has made, by its versions.
TRACES = [getattr(module, name) for module, name in (
    (pjit, "_infer_params_cached"), (pjit, "_create_pjit_jaxpr"), (partial_eval, "trace_to_jaxpr"))
    if hasattr(module, name)]


def forget_traces() -> None:
    """What a jitted function did while it was traced, which has been put back, happens again when Python calls it."""
    for traces in TRACES:
        traces.cache_clear()


class Given:
    """The containers in the arguments of a call, and the program's objects in `lowered`, as they were before it."""

    def __init__(self, arguments: Any, lowered: Any = (), notes: bool = False) -> None:
        """notes: what is added to any dictionary is noted there, as objects do in theirs."""
        self.was: dict[int, tuple[Any, tuple[Any, ...]]] = {}  # by identity: one of them, and what stood in it
        self.tables: set[int] = set()  # the identities of objects' dictionaries
        self._watch([arguments], _inside_container)
        self._watch([lowered], _inside)
        if notes:
            self.tables.update(i for i, (at, _) in self.was.items() if isinstance(at, dict))

    def noted(self) -> dict[int, Any]:
        """The dictionaries to which something was added, by their identities."""
        return {i: self.was[i][0] for i in self.tables
                if i in self.was and 2 * dict.__len__(self.was[i][0]) > len(self.was[i][1])}

    def _watch(self, todo: list[Any], inside_of: Callable[[Any], tuple[Any, ...] | None]) -> None:
        while todo and len(self.was) < MAX_KEPT:
            at = todo.pop()
            inside = None if id(at) in self.was else inside_of(at)
            if inside is not None:
                self.was[id(at)] = at, inside
                if not isinstance(at, (*KINDS, tuple)):
                    self.tables.add(id(inside[0]))
                todo.extend(inside)

    def restore(self) -> bool:
        """Puts everything back; whether anything had changed. What was noted stays only where nothing has: who runs the
        call again counts on it as little as on the rest."""
        if all(self._is_same(at, parts) for at, parts in self.was.values()):
            return False
        for at, parts in [(at, parts) for at, parts in self.was.values() if not _same(_inside(at) or (), parts)]:
            if isinstance(at, KINDS):
                _refill(at, parts)
            else:
                _put_slots(at, parts[1:])
        return True

    def _is_same(self, at: Any, parts: tuple[Any, ...]) -> bool:
        """Whether nothing has changed, but for what an object has noted in its dictionary that is no array."""
        now = _inside(at) or ()
        if _same(now, parts):
            return True
        if id(at) not in self.tables:
            return False
        old = dict(zip(parts[:len(parts) // 2], parts[len(parts) // 2:]))
        return all(dict.get(at, k, at) is v for k, v in old.items()) and not any(
            _holds_tracers(v) for k, v in dict.items(at) if k not in old)


def _holds_tracers(made: Any) -> bool:
    """Whether a tracer stands in what was noted, or in a container of it."""
    todo, seen = [made], set()
    while todo:
        at = todo.pop()
        if isinstance(at, jax.core.Tracer):
            return True
        if id(at) not in seen:
            seen.add(id(at))
            todo.extend(_inside_container(at) or ())
    return False


def _inside_container(at: Any) -> tuple[Any, ...] | None:
    return _parts(at) if isinstance(at, KINDS) else tuple(tuple.__iter__(at)) if isinstance(at, tuple) else None


def _inside(at: Any) -> tuple[Any, ...] | None:
    """What stands in a container or an object: of the latter its dictionary, and what its slots hold. None of others,
    and of what is JAX's own, or ours."""
    found = _inside_container(at)
    if found is not None:
        return found
    if isinstance(at, jax.Array) or not is_plain_instance(at) or module_name(type(at)).partition(".")[0] in (
            "jax", "dynacomp"):
        return None
    return (own_dict(at), *(_in_slot(slot, at) for slot in _slots(type(at))))


@remembered
def _slots(cls: type) -> tuple[Any, ...]:
    return tuple(slot for base in mro(cls) for slot in entries(base).values()
                 if type(slot) is types.MemberDescriptorType)


def _in_slot(slot: Any, obj: Any) -> Any:
    try:
        return slot.__get__(obj)
    except AttributeError:
        return _EMPTY


def _put_slots(obj: Any, parts: tuple[Any, ...]) -> None:
    for slot, part in zip(_slots(type(obj)), parts):
        if _in_slot(slot, obj) is not part:
            slot.__delete__(obj) if part is _EMPTY else slot.__set__(obj, part)


_EMPTY = object()  # what a slot holds that holds nothing


class Outside:
    """What functions that a library runs can change besides their arguments, as it was before they started.

        outside.keep([cell.cell_contents for cell in fn.__closure__], names)
        fn()                                      # on tracers
        outside.restore()                         # True where fn has changed something: all is as it was again
    """

    def __init__(self) -> None:
        self.was: dict[int, tuple[Any, tuple[Any, ...]]] = {}  # by identity: a container, and what stood in it

    def keep(self, roots: Iterable[Any], names: Collection[str]) -> None:
        """Remember the containers among `roots`, those in them, and the objects' attributes: of these the ones with
        `names` are followed. Break where there are too many to watch."""
        todo = list(roots)
        while todo:
            if len(self.was) > MAX_KEPT:
                raise Break("effect", f"code that a library runs reaches more than {MAX_KEPT} containers")
            at = todo.pop()
            if is_open_file(at):
                raise Break("effect", "code that a library runs reaches an open file")
            opaque = isinstance(at, (*KINDS, logging.Logger)) or not is_plain_instance(at)  # a logger caches levels
            attributes = None if opaque else own_dict(at)
            at = at if attributes is None else attributes
            if id(at) not in self.was and isinstance(at, KINDS):
                self.was[id(at)] = at, _parts(at)
                todo.extend(_parts(at) if attributes is None else
                            [v for k, v in attributes.items() if k in names or isinstance(v, KINDS)])

    def changed(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """What has changed, with what stood in it."""
        return [(at, parts) for at, parts in self.was.values() if not _same(_parts(at), parts)]

    def restore(self) -> bool:
        """Put everything back; whether anything had changed."""
        changed = self.changed()
        for at, parts in changed:
            _refill(at, parts)
        return bool(changed)


KINDS = (dict, list, set, collections.deque)


def _parts(at: Any) -> tuple[Any, ...]:
    """What stands in a container, past methods of the program's: a dict's keys and then its values."""
    if isinstance(at, dict):
        return (*dict.keys(at), *dict.values(at))
    return tuple(next(kind for kind in KINDS if isinstance(at, kind)).__iter__(at))


def _same(parts: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return len(parts) == len(others) and all(map(operator.is_, parts, others))


def _refill(at: Any, parts: tuple[Any, ...]) -> None:
    kind: Any = next(k for k in (collections.OrderedDict, *KINDS) if isinstance(at, k))
    kind.clear(at)
    if isinstance(at, dict):
        half = len(parts) // 2
        kind.update(at, zip(parts[:half], parts[half:]))
    else:
        (kind.update if kind is set else kind.extend)(at, parts)
