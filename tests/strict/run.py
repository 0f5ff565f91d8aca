"""Runs one module of CPython's `test` package in a process of its own, and says what came of each test.

    >>> run_module("test_list", "strict").outcomes["test_list.ListTest.test_init"]
    'ok'

A test that crashes the process, says nothing for `SILENCE` seconds or takes more than `MAX_RSS` bytes
is noted as such, and the tests after it run in a new process. Processes are forked from one that has
imported JAX and dynacomp already (multiprocessing's fork server).
"""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.strict import child

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.strict.child"])
ROOT = Path(__file__).parents[2]
SILENCE = 180.0  # seconds without a test that ends: it hangs, also on a machine that does much else
MAX_RSS = 3 << 30
MAX_PROCESSES = 6  # for one module
BAD = ("fail", "error", "crash", "hang", "memory")


@dataclass
class Report:
    """What came of one module: test → outcome, test → why, and dynacomp's counters (`stats` by reason,
    `native` of the hook), summed over its processes."""

    module: str
    outcomes: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    native: Counter[str] = field(default_factory=Counter)
    defects: list[dict[str, Any]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def bad(self) -> list[str]:
        return [name for name, outcome in self.outcomes.items() if outcome in BAD]


def run_module(module: str, mode: str, only: str = "", silence: float = SILENCE) -> Report:
    """The Report of the module's tests whose ids contain `only`, in mode "plain" or "strict"."""
    report, began = Report(module), time.perf_counter()
    for _ in range(MAX_PROCESSES):
        with tempfile.TemporaryDirectory() as folder:
            out, skip = Path(folder, "out"), Path(folder, "skip")
            out.touch()
            skip.write_text("\n".join(report.outcomes))
            how, said = run_process([str(out), mode, module, str(skip), only], out, silence)
            if read_journal(out, report, how, said):
                break
    report.seconds = time.perf_counter() - began
    return report


def run_process(args: list[str], out: Path, silence: float) -> tuple[str, str]:
    """Runs the child; how it ended ("" if well) and the end of what it printed."""
    with tempfile.NamedTemporaryFile() as said:
        process = FORKS.Process(target=alone, args=(said.name, args))
        process.start()
        try:
            how = watch(process, out, silence)
        finally:
            kill_group(process)
        return how, said.read().decode(errors="replace")[-6000:]


def alone(said: str, args: list[str]) -> None:
    """The child's process: a session of its own, whose output goes to the file `said`."""
    os.setsid()
    os.chdir(ROOT)
    faulthandler.enable()
    with open(said, "wb") as file, open(os.devnull) as nothing:
        for mine, there in ((0, nothing), (1, file), (2, file)):
            os.dup2(there.fileno(), mine)
    child.main(*args)


def watch(process: Any, out: Path, silence: float) -> str:
    """Waits for the child's end; "" when it ended well, else why it did not."""
    while True:
        process.join(0.2)
        if process.exitcode is not None:
            return "" if process.exitcode == 0 else "crash"
        if time.time() - out.stat().st_mtime > silence:
            os.kill(process.pid, signal.SIGABRT)  # faulthandler prints where it hangs
            time.sleep(0.5)
            return "hang"
        if resident(process.pid) > MAX_RSS:
            return "memory"


def kill_group(process: Any) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    process.join()


def resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def read_journal(out: Path, report: Report, how: str, said: str) -> bool:
    """Adds what a child wrote to the report; True when there is nothing left to run."""
    running = f"{report.module} (import)"
    ended = False
    for text in out.read_text().splitlines():
        line = json.loads(text)
        running = line.get("start", running)
        if "end" in line:
            name = running = line["end"]
            report.outcomes[name], report.times[name] = line["outcome"], line["seconds"]
            report.why[name] = line["why"]
        elif "internal" in line:
            report.defects.append({**line, "test": running})
        elif "stats" in line:
            ended = True
            add_counts(report, line)
    if not ended:
        report.outcomes[running], report.why[running] = how or "crash", said
    return ended or running.endswith("(import)")


def add_counts(report: Report, line: dict[str, Any]) -> None:
    for name, value in line["stats"].items():
        counts = report.counts.setdefault(name, Counter())
        counts.update(value if isinstance(value, dict) else {"": value})
    report.native.update(line["native"])
    report.notices += line["notices"]
