"""Runs many entries in processes of their own: one that crashes or hangs is noted, and the rest go on.

    >>> results(everything(), backend="auto")

Processes are forked from one that has imported JAX and dynacomp already (multiprocessing's fork server).
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.changing.kit import Entry, Result, run
from tests.changing.variants import everything

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.changing.run"])
CHUNK = 120  # entries a process
SILENCE = 240.0  # seconds without a result: it hangs


def results(chosen: Iterable[Entry], backend: str, show: Callable[[Result], None] = lambda r: None) -> list[Result]:
    """The Result of each entry, in their order; `show` is called with each as it comes."""
    left, found = [e.name for e in chosen], []
    while left:
        for one in process(left[:CHUNK], backend):
            show(one)
            found.append(one)
            left.remove(one.name)
    return found


def process(names: list[str], backend: str) -> Iterator[Result]:
    """The Results of one process, the last one that of the entry that ended it, if any did."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "results")
        out.touch()
        child = FORKS.Process(target=work, args=(str(out), names, backend))
        child.start()
        read = 0
        while child.exitcode is None:
            child.join(0.1)
            if time.time() - out.stat().st_mtime > SILENCE:
                os.kill(child.pid or 0, signal.SIGKILL)
                child.join()
            lines = whole_lines(out)
            yield from (Result(**json.loads(line)) for line in lines[read:])
            read = len(lines)
        lines = whole_lines(out)
        yield from (Result(**json.loads(line)) for line in lines[read:])
        if len(lines) < len(names):
            yield Result(names[len(lines)], crash=ending(child.exitcode))


def whole_lines(out: Path) -> list[str]:
    """What the child has written, but for a line that it is writing."""
    return out.read_text().rpartition("\n")[0].splitlines()


def ending(code: int) -> str:
    """How a process ended before its time."""
    if code == -signal.SIGKILL:
        return f"hangs: nothing for {SILENCE:.0f} s"
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def work(out: str, names: list[str], backend: str) -> None:
    """The child: runs entries by name and writes one line of JSON for each."""
    logging.getLogger("dynacomp").setLevel(logging.CRITICAL)
    known = {e.name: e for e in everything()}
    with open(out, "a") as file:
        for name in names:
            file.write(json.dumps(asdict(timed(known[name], backend))) + "\n")
            file.flush()
    sys.stdout.flush()
    os._exit(0)  # nothing that was compiled needs to be taken apart


def timed(e: Entry, backend: str) -> Any:
    start = time.perf_counter()
    result = run(e, backend)
    result.seconds = time.perf_counter() - start
    return result
