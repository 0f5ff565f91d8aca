"""What of a capture rests on hashes, of which another process has others.

Numbers hash alike everywhere; texts do in processes that were started with one PYTHONHASHSEED; most other objects hash
by their addresses.
"""

from __future__ import annotations

from typing import Any

from dynacomp.capture.base.literals import leaves

HASHED = [0, 0]  # how often any capture has seen what rests on hashes of texts, and of addresses


def note_hashes(by_address: bool = False) -> None:
    """Notes that what a capture finds rests on hashes: on the order of a set of strings, say."""
    HASHED[by_address] += 1


def note_order(elements: Any) -> None:
    """The same of the order of a set."""
    if len(elements) > 1 and not all(map(hashes_alike, elements)):
        note_hashes(by_address=not hashes_as_text(tuple(elements)))


def hashes_alike(obj: Any) -> bool:
    """Whether an object's hash is the same in every process: no NaN's is."""
    return type(obj) in (int, bool) or type(obj) in (float, complex) and obj == obj


def hashes_as_text(obj: Any) -> bool:
    """Whether an object's hash is made of texts and such numbers alone: then processes with the same hashes of texts
    have it."""
    return all(type(x) in (str, bytes) or hashes_alike(x) for x in leaves(obj))
