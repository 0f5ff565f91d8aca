"""What a library's call has changed besides making its result, noticed once it has run on tracers.

Functions that are called for what they change are known by name (`libraries.has_effect`). Any other may have
changed JAX's configuration, or a list or dict among its arguments, of which it got a copy, or a container or an
object that the program's functions refer to: the graph breaks before the call then, and Python makes it.

    >>> with noticing("f", ([1], {})): f([1], {})
"""

from __future__ import annotations

import collections
import contextlib
import operator
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from dynacomp.capture import _native
from dynacomp.capture.base.classes import own_dict
from dynacomp.capture.base.errors import Break
from dynacomp.capture.wrapping.builder import is_plain_instance

MAX_KEPT = 1 << 16  # containers that are watched during one call: some tenths of a second


@contextlib.contextmanager
def noticing(name: str, arguments: Any) -> Iterator[None]:
    """Break after a call of `name` that has changed JAX's configuration, or a container in `arguments`."""
    before = _native.jax_config_token(), contents(arguments)
    yield
    if _native.jax_config_token() != before[0]:
        raise Break("effect", f"{name} changes JAX's configuration")
    if contents(arguments) != before[1]:
        raise Break("effect", f"{name} changes an argument in place")


def contents(tree: Any) -> list[tuple[int, ...]]:
    """Which objects stand in the lists and dicts of `tree`, by identity."""
    found: list[tuple[int, ...]] = []
    todo, seen = [tree], set()
    while todo:
        at = todo.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        inside = (*at, *at.values()) if type(at) is dict else at if isinstance(at, (list, tuple)) else ()
        found.append((id(at), *map(id, inside)))
        todo.extend(inside)
    return found


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
            attributes = None if isinstance(at, KINDS) or not is_plain_instance(at) else own_dict(at)
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
