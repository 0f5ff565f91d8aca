"""Finds a C++ compiler, makes sure that it works, and runs it.

The command is the one that was asked for (`$CXX`, through the options), else the first of g++, clang++,
c++ on the PATH, else the PyPI package `ziglang`. It is probed once per process: it must build a small
shared library with our flags, that library must load and give the right number. A compiler that is
missing, fails, hangs or lies makes `CompilerError` with one line that says so.

    >>> compiler = find(())
    >>> compiler.build(source_text, Path("out.so"))     # raises CompilerError
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import functools
import importlib.util
import os
import platform
import queue
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from dynacomp.capture.base.interrupts import interrupting, ours
from dynacomp.codegen.scratch import scratch
from dynacomp.kernels import lapack
from dynacomp.kernels.templates import HEADERS

# -O2 compiles in half the time of -O3, but g++ then leaves loops of unknown length (packing, copies)
# scalar unless asked; clang++ vectorises them anyway and ignores the second of the two.
FLAGS = ("-std=c++20", "-O2", "-ftree-vectorize", "-fvect-cost-model", "-fPIC", "-shared", "-fno-math-errno",
         "-fno-trapping-math", "-fwrapv", "-fvisibility=hidden", "-Wall", "-Wextra")
EXACT_FLAGS = ("-ffp-contract=off", "-DDYNACOMP_EXACT")
NATIVE_FLAGS = {"x86_64": ("-march=native", "-mprefer-vector-width=512"), "AMD64": ("-march=native",),
                "aarch64": ("-mcpu=native",), "arm64": ("-mcpu=native",)}
# g++ 12 writes constants with its widest moves where it is tuned for a CPU of Intel's, and gets {3, 3, 0, 0} wrong:
# 3, 3, 3, 3, for it takes a number of 256 bits whose upper half is zero for one of 128. Others lack these options.
NARROW_MOVES = {"x86_64": ("-mmove-max=128", "-mstore-max=128"), "AMD64": ("-mmove-max=128", "-mstore-max=128")}
# What a compiler that has crashed is asked to leave out, one after the other: g++ 12 crashes where it puts statements
# side by side together in a vector (of a select whose sides are read through a table of places, say).
SIMPLER = ("-fno-tree-slp-vectorize", "-O1")
CRASH = "internal compiler error"
COMPILERS = ("g++", "clang++", "c++")  # where none is asked for, the first of these on the PATH
LINKERS = ("mold", "lld", "gold")  # faster than the usual one: half of what the compilation of a small unit takes
TIMEOUT = 300
WHO = "C++ compiler"  # runs, for messages
LOOK, GRACE = 0.1, 2.0  # seconds between looks at a run, and for one that is asked to end
ELF = struct.Struct("<40xQ10xHH2x")  # where the sections' table lies, the size of a row, and how many there are
_WORK: contextvars.ContextVar[list[Callable[[], object]] | None] = contextvars.ContextVar("_WORK", default=None)
_PROBE = """#include "math.h"
extern "C" __attribute__((visibility("default"), noinline)) void dynacomp_constants(long long* out) {
  static const long long known[] = {0, 0, 0, 0, 3, 3, 0, 0};
  __builtin_memcpy(out, known, sizeof known);
}
extern "C" __attribute__((visibility("default"))) int dynacomp_probe(int x) {
  dynacomp::vec<float, 4> v = dynacomp::splat<float, 4>((float)x);
  long long written[8];
  dynacomp_constants(written);
  return (int)dynacomp::exp(v)[3] + 37 + x + (int)written[4] + (int)(written[6] + written[7]);
}
"""


class CompilerError(RuntimeError):
    """No working C++ compiler, or it refused our source; the text is one line fit for a notice."""


class Crashed(CompilerError):
    """The compiler has a mistake of its own, and says so."""


@dataclass(frozen=True)
class Compiler:
    """A working compiler: its command, the flags for this CPU, and what it says its version is."""

    command: tuple[str, ...]
    flags: tuple[str, ...]
    version: str

    def arguments(self, out: Path, exact: bool = False, ahead: Path | None = None) -> list[str]:
        """The command up to the files that make `out`. ahead: where to look for headers first."""
        extra = EXACT_FLAGS if exact else ()
        first = () if ahead is None else (f"-I{ahead}",)
        return [*self.command, *self.flags, *extra, *first, f"-I{HEADERS}", "-o", str(out)]

    def build(self, source: str, out: Path, exact: bool = False, jobs: int = 1,
              parts: Mapping[Path, str] = MappingProxyType({}), objects: Sequence[Path] = (),
              ahead: Path | None = None) -> None:
        """Compile C++ text to the shared library `out`; CompilerError holds the first error line.

        jobs: how many objects to make of it side by side (see `cpp.unit`).
        parts: objects to make beside them, by text; they go into the library, as the given `objects` do.
        ahead: a folder with the unit's header, parsed ahead (see `cache.header_ahead`).
        """
        with scratch() as folder:
            file = folder / "kernel.cc"
            file.write_text(source)
            if jobs == 1 and not parts:
                run([*self.arguments(out, exact, ahead), "-xc++", str(file), "-xnone", *map(str, objects)])
            else:
                commands = [self._part(text, o, exact, folder / f"part{k}.cc")
                            for k, (o, text) in enumerate(parts.items())]
                own = [folder / f"{k}.o" for k in range(jobs)]
                commands += [[*self.arguments(o, exact, ahead), "-c", f"-DDYNACOMP_JOBS={jobs}",
                              f"-DDYNACOMP_JOB={k}", "-xc++", str(file)] for k, o in enumerate(own)]
                run_together(commands)
                run([*self.arguments(out, exact), *map(str, [*own, *parts, *objects])])
        if not out.is_file() or not out.stat().st_size:
            raise CompilerError(f"{WHO} {Path(self.command[0]).name} succeeded but wrote no file")
        if is_cut_off(out):
            raise CompilerError(f"{WHO} {Path(self.command[0]).name} succeeded but wrote a part of its file only")

    def objects(self, parts: Mapping[Path, str], exact: bool = False) -> None:
        """Compile each text to an object; side by side."""
        with scratch() as folder:
            run_together([self._part(text, o, exact, folder / f"part{k}.cc") for k, (o, text) in
                          enumerate(parts.items())])

    def header(self, file: Path, out: Path, exact: bool = False) -> None:
        """Parse a header ahead, for those that are compiled with the same flags."""
        run([*self.arguments(out, exact), "-xc++-header", str(file)])

    def _part(self, text: str, out: Path, exact: bool, file: Path) -> list[str]:
        """The command that makes an object of a text."""
        file.write_text(text)
        return [*self.arguments(out, exact), "-c", "-xc++", str(file)]


def run(command: list[str], timeout: float = TIMEOUT, who: str = WHO) -> str:
    """The output of a compiler's run; CompilerError where it cannot run, fails, or hangs."""
    return run_together([command], timeout, who)[0]


def run_together(commands: list[list[str]], timeout: float = TIMEOUT, who: str = WHO) -> list[str]:
    """The outputs of runs side by side; where one fails, or an exception of the program's ends the wait, none goes on.

    Each has a thread of its own, which no signal handler interrupts: between the start of a process and the note
    that it was started, an exception would leave it behind.
    """
    over, started, handled = threading.Event(), queue.SimpleQueue[None](), sys.exception()
    one = functools.partial(_run_or_simpler, over, started, timeout, who)
    most = max(1, min(len(commands), os.cpu_count() or 1))
    with ThreadPoolExecutor(most) as pool:
        try:
            try:
                outputs: Iterator[str] = pool.map(one, commands)
            except ours(RuntimeError):  # the interpreter is at its end (`atexit`): no thread starts any more
                outputs = map(one, commands)
            else:
                _work_meanwhile(started, most)
            return list(outputs)
        except BaseException as error:
            over.set()
            if (own := interrupting(error, handled)) is not error:  # a thread's start that it ends is a KeyError
                raise own from None
            raise


@contextlib.contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Within the block, the first time that this thread waits for a compiler, it does this work."""
    token = _WORK.set([work])
    try:
        yield
    finally:
        _WORK.reset(token)


def _work_meanwhile(started: queue.SimpleQueue[None], runs: int) -> None:
    """Does the work that there is, when so many runs have started: their threads get the GIL late once it is done."""
    waiting = _WORK.get()
    if waiting:
        work = waiting.pop()
        with contextlib.suppress(queue.Empty):
            for _ in range(runs):
                started.get(timeout=GRACE)
        work()


def _run_or_simpler(over: threading.Event, started: queue.SimpleQueue[None], timeout: float, who: str,
                    command: list[str]) -> str:
    """What a run gives, or one that is asked for less where the compiler crashes."""
    for less in SIMPLER:
        try:
            return _run(over, started, timeout, who, command)
        except Crashed:
            command = [*command, less]
    return _run(over, started, timeout, who, command)


def _run(over: threading.Event, started: queue.SimpleQueue[None], timeout: float, who: str, command: list[str]) -> str:
    told = f"{who} {Path(command[0]).name}"
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", process_group=0)
    except ours(OSError) as error:
        raise CompilerError(f"{who} {command[0]} cannot run: {error.strerror}") from None
    finally:
        started.put(None)
    until = time.monotonic() + timeout
    with process:
        while True:
            try:
                out, errors = process.communicate(timeout=LOOK)
                break
            except subprocess.TimeoutExpired:
                if over.is_set() or time.monotonic() > until:
                    _end(process)
                    raise CompilerError(f"{told} gave no result within {timeout:.0f} s") from None
    if process.returncode:
        kind = Crashed if CRASH in errors else CompilerError
        raise kind(f"{told} {_how(process.returncode)}: {_first_error(errors)}")
    return out


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a run with all the processes that it started: asked first, so that they remove their files."""
    for request in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, request)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE)
            return


def _how(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"failed with status {status}"


def _first_error(text: str) -> str:
    shown = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    lines = [line.strip() for line in shown.split("\n") if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["it printed nothing"])[0][:300]


def find(command: tuple[str, ...]) -> Compiler:
    """The compiler to use: `command`, or () to search. CompilerError says in a line why there is none.

    What was found is remembered for the life of the process; a failure is not.
    """
    if command:
        return _probed(tuple(command))
    reasons = []
    for candidate in _candidates():
        try:
            return _probed(candidate)
        except CompilerError as error:
            reasons.append(str(error))
    raise CompilerError("; ".join(reasons) or "no C++ compiler found: install g++ or clang++, or "
                        "pip install 'dynacomp[compiler]', or set CXX")


def _candidates() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [(path,) for name in COMPILERS if (path := shutil.which(name))]
    if importlib.util.find_spec("ziglang") is not None:
        found.append((sys.executable, "-m", "ziglang", "c++"))
    return found


@functools.cache
def _probed(command: tuple[str, ...]) -> Compiler:
    """The compiler with the most flags that it takes; it must build code that gives the right answer."""
    version = _first_line(run([*command, "--version"], timeout=30))
    native, narrow = (flags.get(platform.machine(), ()) for flags in (NATIVE_FLAGS, NARROW_MOVES))
    linker = linker_flags()
    failure = CompilerError("no flags to try")
    for extra in dict.fromkeys([(*native, *narrow, *linker), (*native, *narrow), (*native, *linker), native, native[:1],
                                ()]):
        compiler = Compiler(command, (*FLAGS, *extra), version)
        try:
            _check(compiler)
            return compiler
        except CompilerError as error:
            failure = error
    raise failure


def linker_flags() -> tuple[str, ...]:
    """What asks for the fastest linker that is here."""
    return tuple(f"-fuse-ld={name}" for name in LINKERS if shutil.which(f"ld.{name}"))[:1]


def _first_line(text: str) -> str:
    return (text.splitlines() or [""])[0].strip()


def _check(compiler: Compiler) -> None:
    with scratch() as folder:
        out = folder / "probe.so"
        compiler.build(_PROBE, out)
        probe = f"import ctypes; print(ctypes.CDLL({str(out)!r}).dynacomp_probe(1))"
        name = Path(compiler.command[0]).name
        try:
            answer = run([sys.executable, "-S", "-E", "-c", probe], 60, "its test in").strip()
        except CompilerError as error:
            raise CompilerError(f"C++ compiler {name} makes code that does not run: {error}") from None
        if answer != "43":
            raise CompilerError(f"C++ compiler {name} makes wrong code: its test gave {answer!r} instead of 43")


def is_cut_off(library: Path) -> bool:
    """Whether a library for Linux is shorter than its own header says: to load it would end the process. (The table of
    its sections, which the header tells of, is the last thing in it.)"""
    with library.open("rb") as file:
        header = file.read(ELF.size)
    if len(header) < ELF.size or header[:6] != b"\x7fELF\2\1":  # of 64 bits, little-endian
        return False
    sections, size, count = ELF.unpack(header)
    return sections + size * count > library.stat().st_size


def open_library(path: Path, entries: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The loaded shared library; where it does not load, or lacks one of the functions `entries`, it is
    removed and CompilerError says so."""
    try:
        library = ctypes.CDLL(str(path))
        for name in entries:
            getattr(library, name)
        lapack.link(library)
        return library
    except ours(OSError, AttributeError) as error:
        path.unlink(missing_ok=True)
        raise CompilerError(f"compiled code does not load: {error}") from None


def cpu_key() -> str:
    """What tells this CPU's instruction set from another's, for the cache key."""
    return _cpu_key()


@functools.cache
def _cpu_key() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except ours(OSError):
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("flags", "Features", "model name", "CPU part")
    lines = {line for line in text.splitlines() if line.startswith(wanted)}
    return platform.machine() + "\n".join(sorted(lines))
