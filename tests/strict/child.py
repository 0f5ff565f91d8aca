"""One process of the strict runs: the tests of one module of CPython's `test` package, plainly or strictly.

    python -m tests.strict.child OUT MODE MODULE SKIP ONLY

appends one JSON line to the file OUT when a test starts, one when it ends (its outcome and, where it
failed, why), one per defect of capture, and a last one with dynacomp's counters. MODE "strict" sends
every frame through the symbolic machine (`filters.strict`); "plain" leaves the interpreter alone. SKIP
names a file of test ids that are not run (those that ran before a crash); ONLY, if not empty, is what
an id must contain.

A defect of dynacomp runs the frame as plain Python, as for users; here its traceback is kept as well.
"""

from __future__ import annotations

import doctest
import functools
import gc
import importlib
import json
import logging
import os
import re
import sys
import tempfile
import time
import traceback
import types
import unittest
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from test import support

from dynacomp import counters, filters, misses, notices
from dynacomp.capture import _native, frame
from dynacomp.options import Options, resolve

MACHINERY = (unittest, doctest, support)


class Journal(unittest.TestResult):
    """Writes what happens to each test into a file, at once: a crash must not lose it."""

    def __init__(self, out: Any) -> None:
        super().__init__()
        self.out = out
        self.outcome, self.why = "ok", ""

    def write(self, **line: Any) -> None:
        _native.run_eager(self._write, (line,))

    def _write(self, line: dict[str, Any]) -> None:
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.outcome, self.why, self.began = "ok", "", time.perf_counter()
        self.write(start=name_of(test))

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.write(end=name_of(test), outcome=self.outcome, why=self.why, seconds=time.perf_counter() - self.began)

    def note(self, outcome: str, test: Any, why: Any) -> None:
        text = why if isinstance(why, str) else self._exc_info_to_string(why, test)
        if not hasattr(test, "_testMethodName") and not hasattr(test, "test_case"):  # a class's or module's set-up
            self.write(end=name_of(test), outcome=outcome, why=text, seconds=0)
        elif self.outcome not in ("fail", "error"):
            self.outcome, self.why = outcome, text

    def addError(self, test: Any, err: Any) -> None:
        self.note("error", test, err)

    def addFailure(self, test: Any, err: Any) -> None:
        self.note("fail", test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.note("fail", test, err)

    def addSkip(self, test: Any, reason: str) -> None:
        self.note("skip", test, reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.outcome = "ok"

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.note("fail", test, "it passed, and was expected to fail")


def name_of(test: Any) -> str:
    """`test_list.ListTest.test_init`, the same in every run."""
    return re.sub(r"0x[0-9a-f]+", "0x", test.id().removeprefix("test."))


def flat(suite: Any) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def run(suite: unittest.TestSuite, result: unittest.TestResult) -> None:
    suite.run(result)


def strictly(suite: unittest.TestSuite, result: Journal) -> dict[str, int]:
    """Runs the suite inside the call of a compiled function, so that the hook sees all that it calls."""
    options = resolve(options={"capture_idle": True})
    compiled = _native.CompiledFunction(run, functools.partial(asked, result.write, options), options)
    with filters.strict(*MACHINERY, sys.modules[__name__]):
        for code in (run.__code__, weakref.finalize.__call__.__code__):  # with the latter dynacomp forgets dead code
            _native.mark_skip(code, False)
        compiled(suite, result)
        return _native.counters()


def asked(write: Callable[..., None], options: Options, fn: Any, code: types.CodeType, args: tuple[Any, ...]) -> Any:
    try:
        return misses.on_miss(options, fn, code, args)
    except RecursionError:  # the hook runs the call plainly, as for users
        raise
    except Exception as error:
        counters.count("frames_eager", "internal")
        write(internal=traceback.format_exc(), code=code.co_qualname, file=code.co_filename,
              line=code.co_firstlineno, error=f"{type(error).__name__}: {error}")
        _native.mark_skip(code, False)  # once is enough
        return True


def main(out: str, mode: str, module: str, skip: str, only: str) -> None:
    logging.getLogger("dynacomp").propagate = False  # notices are read afterwards: tests look at stderr
    logging.getLogger("dynacomp").addHandler(logging.NullHandler())
    frame.strict_errors = True
    with open(skip) as file:
        done = set(file.read().split("\n"))
    importlib.import_module(f"test.{module}")
    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{module}")
    gc.collect()
    gc.freeze()  # JAX is not in a test's process: collections go through what the tests make, not through what it has
    chosen = [t for t in flat(suite) if name_of(t) not in done and only in name_of(t)]
    with open(out, "a") as file, tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        journal = Journal(file)
        counts = (strictly if mode == "strict" else run)(unittest.TestSuite(chosen), journal)
        journal.write(native=counts or {}, stats=counters.stats(), notices=[str(n) for n in notices.told()])
        os.chdir("/")


if __name__ == "__main__":
    main(*sys.argv[1:])
