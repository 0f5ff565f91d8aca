"""What a library's call has changed besides making its result, noticed once it has run on tracers.

Functions that are called for what they change are known by name (`libraries.has_effect`). Any other may have
changed JAX's configuration, or a list, a dict or an object among its arguments (lists and dicts are copies, a library's
object may be the program's), or a container or an object that the program's functions refer to: all is put back, the
graph breaks before the call, and Python makes it.

    >>> with noticing("f", ([1], {})): f([1], {})
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax._src import pjit
from jax._src.interpreters import partial_eval

from dynacomp.capture import _native
from dynacomp.capture.base.classes import entries, has_dict, module_name, mro, own_dict
from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.hosting.outside import (
    KINDS,
    MAX_KEPT,
    holds_tracers,
    in_slot,
    inside_container,
    put_back,
    put_slots,
    same,
)
from dynacomp.capture.hosting.rebuilt import LibraryArg
from dynacomp.capture.wrapping.builder import is_plain_instance


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
        self._watch([arguments], inside_container)
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
        for at, parts in [(at, parts) for at, parts in self.was.values() if not same(_inside(at) or (), parts)]:
            if isinstance(at, KINDS):
                put_back(at, parts)
            else:
                put_slots(at, zip(_slots(type(at)), parts[1:]))
        return True

    def _is_same(self, at: Any, parts: tuple[Any, ...]) -> bool:
        """Whether nothing has changed, but for what an object has noted in its dictionary that is no array."""
        now = _inside(at) or ()
        if same(now, parts):
            return True
        if id(at) not in self.tables:
            return False
        old = dict(zip(parts[:len(parts) // 2], parts[len(parts) // 2:]))
        return all(dict.get(at, k, at) is v for k, v in old.items()) and not any(
            holds_tracers(v) for k, v in dict.items(at) if k not in old)


def _inside(at: Any) -> tuple[Any, ...] | None:
    """What stands in a container or an object: of the latter its dictionary, and what its slots hold. None of others,
    and of what is JAX's own, or ours."""
    found = inside_container(at)
    if found is not None:
        return found
    if type(at) is LibraryArg:  # what it makes holds that
        return at.args, at.kwargs
    if isinstance(at, jax.Array) or not is_plain_instance(at) or module_name(type(at)).partition(".")[0] in (
            "jax", "dynacomp"):
        return None
    return (own_dict(at) if has_dict(type(at)) else _NO_DICT, *(in_slot(slot, at) for slot in _slots(type(at))))


@remembered
def _slots(cls: type) -> tuple[Any, ...]:
    return tuple(slot for base in mro(cls) for slot in entries(base).values()
                 if type(slot) is types.MemberDescriptorType)


_NO_DICT: dict[str, Any] = {}  # of objects that have slots only
