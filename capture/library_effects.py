"""What a library's call has changed besides making its result, noticed once it has run on tracers.

Functions that are called for what they change are known by name (`libraries.has_effect`). Any other may have
changed JAX's configuration, or a list or dict among its arguments, of which it got a copy: the graph breaks
before the call then, and Python makes it.

    >>> with noticing("f", ([1], {})): f([1], {})
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from dynacomp.capture import _native
from dynacomp.capture.errors import Break


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
