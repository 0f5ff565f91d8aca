"""Python's garbage collector, while a frame is captured and compiled.

A capture makes millions of objects and keeps most of them until its end: to look for cycles among them after each
700, as CPython does by itself, takes a tenth of the time of capturing a large model. Meanwhile it looks seldom; and as
before only when the capture has let go of them, for with them it would look through all that there is.

    >>> with seldom_collecting():
    ...     gc.get_threshold()[0]
    100000
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

YOUNG = 100_000  # objects made before the collector looks at them


@contextlib.contextmanager
def seldom_collecting() -> Iterator[None]:
    """The collector's threshold is raised to YOUNG, where it is on and lower; what others set meanwhile stays."""
    before = gc.get_threshold()
    raised = (YOUNG, *before[1:])
    try:
        if 0 < before[0] < YOUNG:
            gc.set_threshold(*raised)
        yield
    finally:
        if 0 < before[0] < YOUNG and gc.get_threshold() == raised:
            gc.set_threshold(*before)
