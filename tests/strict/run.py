"""Runs one module of CPython's `test` package in a process of its own, and says what came of each test.

    >>> run_module("test_list", "strict").outcomes["test_list.ListTest.test_init"]
    'ok'

A test that crashes the process, says nothing for `SILENCE` seconds or takes more than `MAX_RSS` bytes
is noted as such, and the tests after it run in a new process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SILENCE = 60.0  # seconds
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
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen([sys.executable, "-X", "faulthandler", "-m", "tests.strict.child", *args], env=env,
                                 stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, cwd=ROOT,
                                 start_new_session=True)
        try:
            how = watch(child, out, silence)
        finally:
            kill_group(child)
        said.seek(0)
        return how, said.read().decode(errors="replace")[-6000:]


def watch(child: subprocess.Popen[bytes], out: Path, silence: float) -> str:
    """Waits for the child's end; "" when it ended well, else why it did not."""
    while True:
        try:
            return "" if child.wait(timeout=0.2) == 0 else "crash"
        except subprocess.TimeoutExpired:
            if time.time() - out.stat().st_mtime > silence:
                child.send_signal(signal.SIGABRT)  # faulthandler prints where it hangs
                time.sleep(0.5)
                return "hang"
            if resident(child.pid) > MAX_RSS:
                return "memory"


def kill_group(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


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
