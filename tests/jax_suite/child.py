"""One process of `runner.py`: one file of JAX's tests, its `_CompileAndCheck` compiling with one compiler.

    python -m tests.jax_suite.child FILE COMPILER OUT REPLACE CHOSEN SEED

Writes one line of JSON to OUT for each test that ends: its name (`named`), outcome, and why it failed. COMPILER is
"jax", "dynacomp" or "eager" (nothing is compiled). With REPLACE "1" the tests' own calls of `jax.jit` compile with it
as well. CHOSEN names a file of JSON: the names of the tests that are `done` (before a crash) and, where not null, of
the `only` ones to run. SEED chooses which cases of each grid are run.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import re
import sys
import time
import traceback
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import test_util

import dynacomp

CALLS = 3


def eager(fn: Any = None, **options: Any) -> Any:
    """In place of `jax.jit`: nothing is compiled. What fails here asks for what eager JAX does not do."""
    if fn is None:
        return functools.partial(eager, **options)
    return functools.wraps(fn)(lambda *args, **kwargs: fn(*args, **kwargs))


COMPILERS: dict[str, Callable[..., Any]] = {"jax": jax.jit, "dynacomp": dynacomp.jit, "eager": eager}


def checking(jit: Callable[..., Any]) -> Callable[..., None]:
    """A `_CompileAndCheck` that compares three calls on new arguments with eager JAX."""
    def compile_and_check(self: Any, fun: Any, args_maker: Any, *, check_dtypes: bool = True, tol: Any = None,
                          rtol: Any = None, atol: Any = None, check_cache_misses: bool = True) -> None:
        compiled = jit(fun)
        for _ in range(CALLS):
            args = args_maker()
            want, got = fun(*args), compiled(*args)
            self.assertAllClose(got, want, check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol)
    return compile_and_check


class Journal(unittest.TestResult):
    """Writes what came of each test, at once: a crash must not lose it."""

    def __init__(self, out: Any) -> None:
        super().__init__()
        self.out, self.name, self.outcome, self.why = out, "", "ok", ""

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self.outcome, self.why, self.began = "ok", "", time.perf_counter()

    def stopTest(self, test: Any) -> None:
        super().stopTest(test)
        line = {"test": self.name, "outcome": self.outcome, "why": self.why,
                "seconds": round(time.perf_counter() - self.began, 3)}
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()

    def addFailure(self, test: Any, error: Any) -> None:
        self.noted("fail", error)

    def addError(self, test: Any, error: Any) -> None:
        self.noted("fail", error)

    def addSubTest(self, test: Any, subtest: Any, error: Any) -> None:
        if error is not None:
            self.noted("fail", error)

    def addSkip(self, test: Any, reason: str) -> None:
        self.outcome = "skip"

    def noted(self, outcome: str, error: Any) -> None:
        self.outcome, self.why = outcome, "".join(traceback.format_exception_only(*error[:2])).strip()[:1500]


def main(file: str, compiler: str, out: str, replace: str, chosen: str, seed: str) -> None:
    logging.getLogger("dynacomp").setLevel(logging.CRITICAL)
    test_util.JaxTestCase._CompileAndCheck = checking(COMPILERS[compiler])
    test_util._choice = functools.cache(  # type: ignore[attr-defined]
        lambda n, m: np.random.RandomState(int(seed)).choice(n, size=m, replace=False))
    sys.argv = [file]
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if replace == "1":
        jax.jit = COMPILERS[compiler]  # type: ignore[assignment]
    wanted = json.loads(Path(chosen).read_text())
    with open(out, "a") as journal:
        result = Journal(journal)
        for name, test in named(flat(test_util.JaxTestLoader().loadTestsFromModule(module))):
            if name not in wanted["done"] and (wanted["only"] is None or name in wanted["only"]):
                journal.write(json.dumps({"start": name}) + "\n")
                journal.flush()
                result.name = name
                test.run(result)


def flat(suite: Any) -> list[Any]:
    return [t for one in suite for t in (flat(one) if isinstance(one, unittest.TestSuite) else [one])]


def named(tests: list[Any]) -> Iterator[tuple[str, Any]]:
    """Tests under names that are the same in each process: their ids without the addresses that the texts of
    parameters hold (`fun=<function f at 0x7f01>`), numbered where several would be called the same."""
    seen: Counter[str] = Counter()
    for test in tests:
        name = re.sub(r"\b0x[0-9a-f]+", "0x", test.id().partition(".")[2])
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name} #{seen[name]}"), test


if __name__ == "__main__":
    main(*sys.argv[1:])
