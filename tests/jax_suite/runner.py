"""JAX's own tests through dynacomp: which of them fail that do not fail through `jax.jit`.

    python -m tests.jax_suite.runner FOLDER [--files nn_test.py,...] [--cases 10] [--seed 42] [--seconds 600]
        [--replace] [--json FILE]

FOLDER is the folder `tests` of JAX's repository, checked out at the tag of the installed JAX (`jax-v` and
`jax.__version__`): wheels do not bring it. `_CompileAndCheck` of JAX's `test_util` compiles with `dynacomp.jit` and
compares three calls on new arguments with eager JAX; what fails is run again with `jax.jit`. `--replace` puts
the compiler where the tests themselves call `jax.jit`, too; what fails then is run in eager JAX as well, since some
tests expect what only `jax.jit` does (that it traces once, or refuses): they are not ours to pass.
`test_jax_suite.py` runs a small part where JAX_TESTS names the folder. The exit status is 1 where any test fails
that passes through `jax.jit`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FILES = ("lax_numpy_reducers_test.py", "lax_numpy_operators_test.py", "lax_numpy_indexing_test.py", "nn_test.py",
         "lax_control_flow_test.py")
CRASHES = 10  # of one file, before the rest of it is left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="the folder `tests` of JAX's repository")
    parser.add_argument("--files", default=",".join(FILES), help="with commas")
    parser.add_argument("--cases", type=int, default=10, help="JAX_NUM_GENERATED_CASES: cases of each test")
    parser.add_argument("--seed", type=int, default=42, help="which cases of each test; JAX's own choice is 42")
    parser.add_argument("--seconds", type=float, default=None, help="of one file; what it has not run then is left")
    parser.add_argument("--replace", action="store_true", help="replace `jax.jit` in the tests as well")
    parser.add_argument("--json", default="", help="a file for the new failures")
    asked = parser.parse_args()
    bad: dict[str, str] = {}
    for file in asked.files.split(","):
        ours, count = new_failures(Path(asked.folder, file), asked.cases, asked.replace, asked.seed, asked.seconds)
        print(f"{file}: {count} tests, {len(ours)} fail that jax.jit passes")
        for message, tests in grouped(ours).items():
            print(f"  {len(tests)} × {message}\n      " + "\n      ".join(tests), flush=True)
        bad |= ours
    if asked.json:
        Path(asked.json).write_text(json.dumps(bad, indent=1))
    return int(bool(bad))


def new_failures(file: Path, cases: int, replace: bool = False, seed: int = 42,
                 seconds: float | None = None) -> tuple[dict[str, str], int]:
    """The tests of a file that fail through dynacomp and pass through jax.jit (and eagerly, where tests call the
    compiler), with why; how many ran."""
    ours = outcomes(file, "dynacomp", cases, replace, seed, seconds)
    failed = [name for name, line in ours.items() if line["outcome"] == "fail"]
    theirs = outcomes(file, "jax", cases, replace, seed, seconds, failed) if failed else {}
    if replace and failed:
        eager = outcomes(file, "eager", cases, replace, seed, seconds, failed)
        theirs |= {name: line for name, line in eager.items() if line["outcome"] != "ok"}
    excused = {name for name, line in theirs.items() if line["outcome"] != "ok"}
    failing = {f"{file.stem}.{name}": line["why"] for name, line in ours.items()
               if line["outcome"] == "crash" or (line["outcome"] == "fail" and name not in excused)}
    return failing, sum(line["outcome"] != "skip" for line in ours.values())


def outcomes(file: Path, compiler: str, cases: int, replace: bool = False, seed: int = 42,
             seconds: float | None = None, only: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """What came of each test of a file, or of `only` these; a test that ends the process is a crash, and the rest run
    in a new one."""
    found: dict[str, dict[str, Any]] = {}
    for _ in range(CRASHES):
        with tempfile.TemporaryDirectory() as folder:
            out, chosen = Path(folder, "out"), Path(folder, "chosen")
            out.touch()
            chosen.write_text(json.dumps({"done": list(found), "only": only}))
            command = [sys.executable, "-m", "tests.jax_suite.child", str(file), compiler, str(out),
                       str(int(replace)), str(chosen), str(seed)]
            env = {k: v for k, v in os.environ.items() if "CACHE" not in k or not k.startswith("JAX_")}
            env |= {"JAX_NUM_GENERATED_CASES": str(cases), "JAX_PLATFORMS": "cpu"}
            try:
                ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=seconds)
            except subprocess.TimeoutExpired:
                read(out, found)
                break
            running = read(out, found)
        if ended.returncode >= 0 or not running:
            if ended.returncode and not found:
                raise RuntimeError(f"{file} cannot be run: {ended.stderr[-2000:]}")
            break
        found[running] = {"outcome": "crash", "why": f"ends the process with signal {-ended.returncode}"}
    return found


def read(out: Path, found: dict[str, dict[str, Any]]) -> str:
    """Adds what a child wrote; the test that was running when it ended, if any."""
    running = ""
    for line in map(json.loads, out.read_text().splitlines()):
        running = line.get("start", "")
        if "test" in line:
            found[line["test"]] = line
    return running


def grouped(bad: dict[str, str]) -> dict[str, list[str]]:
    """Tests by the first line of their message, numbers left out, the largest group first."""
    groups: dict[str, list[str]] = defaultdict(list)
    for test, why in bad.items():
        groups[re.sub(r"\d+", "N", why.splitlines()[0] if why else "")[:160]].append(test)
    return dict(sorted(groups.items(), key=lambda g: -len(g[1])))


if __name__ == "__main__":
    sys.exit(main())
