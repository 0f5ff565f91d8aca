"""Temporary folders that outlive their process as little as can be.

Nothing is made ahead of need: a compilation works in a folder that is gone when it ends, and only a process whose
cache cannot be used keeps one until it exits. A process that is killed cannot clean up. So each folder is locked by
whoever works in it, the system unlocks it when that process is gone, however it ended, and the next process to
need a folder removes those of ours that nobody holds.

    with scratch() as folder:
        ...
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dynacomp.capture.base.interrupts import by_handler

PREFIX = "dynacomp-scratch-"
NAME = re.compile(PREFIX + "[a-z0-9_]{8}")  # as tempfile names folders


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the block."""
    held: list[tuple[Path, int]] = []
    try:
        _acquire(held)
        yield held[-1][0]
    finally:
        for folder, lock in held:
            try:
                remove(folder)
            finally:
                os.close(lock)


def remove(folder: Path) -> None:
    """Removes a folder; what cannot be removed stays. A signal handler's exception, which rmtree takes for an error of
    the disk, is raised when the folder is gone."""
    rang: list[BaseException] = []

    def failed(fn: object, path: str, found: Any) -> None:
        error = found[1] if isinstance(found, tuple) else found
        if by_handler(error):
            rang.append(error)

    how: dict[str, Any] = {"onexc" if sys.version_info >= (3, 12) else "onerror": failed}
    shutil.rmtree(folder, **how)
    if rang:
        shutil.rmtree(folder, ignore_errors=True)
        raise rang[0]


@functools.cache
def private_folder() -> Path:
    """This process's own folder, removed when it ends; a forked child makes its own."""
    held: list[tuple[Path, int]] = []
    _acquire(held)
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(held[-1][0], ignore_errors=True) if os.getpid() == owner else None)
    return held[-1][0]


os.register_at_fork(after_in_child=private_folder.cache_clear)


def _acquire(held: list[tuple[Path, int]]) -> None:
    """Puts a new folder with its lock into `held`. Another process may find it before it is locked, and remove it."""
    _sweep(tempfile.gettempdir())
    while not held:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            held.append((folder, _locked(folder)))


def _locked(folder: Path) -> int:
    """The lock of a folder of this user's, as a file descriptor; OSError where another has it, or it is gone."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to another user")
    except BaseException:
        os.close(lock)
        raise
    return lock


@functools.cache
def _sweep(place: str) -> None:
    """Removes the folders here whose processes are gone; once in a process."""
    for folder in Path(place).glob(PREFIX + "*"):
        if NAME.fullmatch(folder.name):
            with contextlib.suppress(BlockingIOError, FileNotFoundError, NotADirectoryError, PermissionError):
                lock = _locked(folder)
                remove(folder)
                os.close(lock)
