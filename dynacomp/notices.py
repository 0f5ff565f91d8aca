"""What dynacomp says: one-line notices, and the topics of `DYNACOMP_LOG`.

Nothing falls back in silence: every graph break, recompile limit and fallback is one `Notice`,
told once per site as a warning of the logger "dynacomp". A program that has not configured
`logging` sees it on stderr; one that has, sees it wherever its warnings go.

    >>> tell("graph break", "train.py", 12, "print must run in Python", hint="use jax.debug.print")
    True
    >>> tell("graph break", "train.py", 12, "print must run in Python", hint="use jax.debug.print")
    False

prints once

    dynacomp: train.py:12: graph break: print must run in Python (hint: use jax.debug.print)

`log` prints the detail that `DYNACOMP_LOG` asks for (`guards`, `graph`, ...), every time.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass

from dynacomp.capture.base.interrupts import suppressing
from dynacomp.capture.base.locks import ForkedLock
from dynacomp.options import HELP, TOPICS, log_help, log_topics

LOGGER = logging.getLogger("dynacomp")


@dataclass(frozen=True)
class Notice:
    """One thing that a user should know, about one line of their program.

    `kind` is "graph break", "recompile limit", "fallback" or the like; `id` tells apart two
    reasons of one kind at one line where their texts vary from call to call.
    """

    kind: str
    file: str
    line: int
    reason: str
    hint: str = ""
    id: str = ""

    @property
    def site(self) -> tuple[str, str, int, str]:
        """What makes two notices the same one."""
        return self.kind, self.file, self.line, self.id or self.reason

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file else ""
        hint = f" (hint: {self.hint})" if self.hint else ""
        return " ".join(f"dynacomp: {where}{self.kind}: {self.reason}{hint}".split())


_told: dict[tuple[str, str, int, str], Notice] = {}
_lock = ForkedLock()


def tell(kind: str, file: str, line: int, reason: str, *, hint: str = "", id: str = "") -> bool:
    """Warn once about this site (`file` may be "" where no line is to blame); True if it was new."""
    notice = Notice(kind, file, line, reason, hint, id)
    with _lock():
        if notice.site in _told:
            return False
        _told[notice.site] = notice
    with suppressing(Exception):  # a handler of the program's fails, or stderr is closed: the call must not
        LOGGER.warning("%s", notice)
    return True


def told() -> tuple[Notice, ...]:
    """Every Notice since the last reset, oldest first."""
    with _lock():
        return tuple(_told.copy().values())  # a finalizer may tell something meanwhile


def reset() -> None:
    """Forget what was told, so that every site is told again."""
    with _lock():
        _told.clear()


def log(topic: str, text: str | Callable[[], str]) -> None:
    """Print `text`, or what it returns, where `DYNACOMP_LOG` names `topic`; else cost nothing."""
    logger = _topic_loggers[topic]
    if logger.isEnabledFor(logging.INFO):
        said = text if isinstance(text, str) else text()
        with suppressing(Exception):
            logger.info("%s", said)


def logs(topic: str) -> bool:
    """Whether `log(topic, ...)` would print."""
    return _topic_loggers[topic].isEnabledFor(logging.INFO)


def enable(topics: frozenset[str]) -> None:
    """Print exactly these topics from now on, to stderr; what topics there are, where "help" is among them."""
    if HELP in topics:
        print(log_help(), file=sys.stderr)
    for topic, logger in _topic_loggers.items():
        logger.handlers.clear()
        logger.propagate = False
        logger.setLevel(logging.INFO if topic in topics else logging.CRITICAL + 1)
        logger.addHandler(_handler)


_handler = logging.StreamHandler()
_handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
_topic_loggers = {topic: logging.getLogger(f"dynacomp.{topic}") for topic in TOPICS}
enable(log_topics())
