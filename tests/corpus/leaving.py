"""Why a graph break is right: what leaves the compiled code there, or comes into it, that only Python has.

Rows are (pattern over the text of a notice, what that is). `unexplained` gives the breaks of no row: each is a
defect of capture. Both reports and `tests/corpus/test_corpus.py` ask it.

    >>> why("an array's content is needed in Python: int() of an array")
    "an array's content"
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dynacomp.notices import Notice

ROWS = (
    (r"print\(\)|input\(\)|open\(\)|logging|warning|'isatty' of a", "output and files, in their order"),
    (r"loop runs in Python|it runs in Python, its body compiled", "a loop that Python goes on with"),
    (r"time\.|of a Random|os\.urandom", "clocks and generators of random numbers"),
    (r"(random|uniform|integers|normal) of an object in C", "clocks and generators of random numbers"),
    (r"_asyncio|of a Task|of a Future|event loop|selectors?\b|socket", "the event loop"),
    (r"condition that is an array", "an array's content"),  # whose ways cannot be those of one node
    (r"array's content|NumPy array made from values|needs concrete values", "an array's content"),
    (r"__del__|may go\b|when it is dropped|never awaited|weak reference|weakref", "how long an object lives"),
    (r"__build_class__ with a |a subclass of .* library's", "a class that its metaclass or a library makes"),
    (r"pybind11", "what code in C makes of objects"),
    (r"decimal arithmetic", "flags that C code keeps for the thread"),
    (r"sys\._getframe|class typing\.TypeVar", "Python's own frames"),
    (r"dictionary changed size|container that has changed", "where an iterator stands"),
)


def why(reason: str) -> str | None:
    """What leaves at a break with this reason; None where nothing has to."""
    return next((what for pattern, what in ROWS if re.search(pattern, reason)), None)


def unexplained(notices: Iterable[Notice]) -> list[str]:
    return [str(n) for n in notices if n.kind == "graph break" and why(n.reason) is None]
