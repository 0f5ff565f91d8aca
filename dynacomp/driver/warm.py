"""What another process has captured is not captured again: entries on disk, found by the code of a frame.

Under a key of the frame's code, our own files, the options and JAX's settings, the cache folder keeps records of
entries (`capture.portable`), several for one code, each with the key of its Program (see `recall`). A second process
goes from a call that no entry serves to the loaded library: nothing is captured, traced, lowered or compiled.

A record is used where its guards hold of the call, where all that they compare with has the same print, and where the
files of every module that its process had loaded are what they were. Kept are entries, those that end in a graph break
as well, whose Graph is one native program, of frames that compute nothing, and of those that JAX transforms: what it
derives of their Graph is traced again. None are kept where a user looks on, has passes or kernels of his own, or has
patched a library. Of others the counter `frames_unkept` says why.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import jax
import numpy as np

import dynacomp.kernels as kernels
import dynacomp.lowering as lowering
from dynacomp import capture, codegen, counters, notices
from dynacomp.capture import frame
from dynacomp.capture._native import Entry
from dynacomp.capture.base.interrupts import ours
from dynacomp.capture.bytecode.suspensions import SUSPENDS
from dynacomp.capture.entries import Parts
from dynacomp.capture.frame import Root
from dynacomp.capture.portable import homes, record
from dynacomp.capture.portable.homes import Unportable
from dynacomp.capture.portable.prints import prints_of
from dynacomp.capture.portable.references import Changed
from dynacomp.capture.symbolic import libraries
from dynacomp.codegen import records
from dynacomp.codegen.cpp import recall as cpp
from dynacomp.driver import recall
from dynacomp.driver.pass_list import DEFAULT, current
from dynacomp.driver.pipeline import Compiled, Returns, candidates, recorded, returning, settings_of
from dynacomp.driver.traced import TRACED, traced_graph
from dynacomp.lowering.passes.kernels import REGISTERED
from dynacomp.options import TOPICS, Options, hashes_are_fixed

MOST = 32  # records of one code
OURS = Path(__file__).parents[1]
ROOMS = (OURS, *(Path(str(m.__file__)).parent for m in (capture, codegen, kernels, lowering)))


def key_of(code: CodeType, options: Options) -> str | None:
    """What the entries of a frame are kept under; None where there are none."""
    if not options.recall or options.verify or code.co_flags & SUSPENDS or any(
            map(notices.logs, TOPICS)) or REGISTERED or (options.passes or current()) != DEFAULT:
        return None
    if candidates(options)[0] != recall.BACKEND or is_patched():
        return None
    how = (options.dynamic, options.fullgraph, options.numerics, options.memory_budget, options.threads,
           options.capture_idle, options.recompile_limit)
    try:
        return records.digest("entries", origin(), repr(how), configuration(), prints_of(code))
    except Unportable:
        return None


@functools.cache
def origin() -> str:
    """Our own code, Python, the libraries that everything rests on, and this machine's devices. Unportable where our
    own files cannot be looked at now (too many files are open, say)."""
    try:
        own = [(f.name, s.st_size, s.st_mtime_ns) for room in ROOMS for f in sorted(room.rglob("*"))
               if f.suffix in (".py", ".so", ".h", ".c") and (s := f.stat())]
    except ours(OSError) as error:
        raise Unportable(f"its own files cannot be read: {error.strerror}") from None
    return records.digest(repr(own), sys.version, repr(sys.flags), jax.__version__, np.__version__,
                          repr(jax.local_devices()), jax.default_backend())


def configuration() -> str:
    """JAX's settings, those that no guard asks for too, and what is known of libraries."""
    settings = sorted((k, repr(v)) for k, v in jax.config.values.items())
    return records.digest(repr(settings), repr(sorted(map(repr, libraries.REGISTERED.values()))))


def is_patched() -> bool:
    """Whether the program has put functions of its own into modules of libraries that are called whole."""
    return homes.patched(frozenset(name.partition(".")[0] for name in libraries.pure_names())) is not None


# --- writing


class Content:
    """What is kept of an entry that was made for the call of `root`, besides its program: made at once, which may be
    while a compiler runs for that."""

    def __init__(self, root: Root, parts: Parts, options: Options) -> None:
        self.key = key_of(root.code, options)
        self.written: tuple[str, bytes] | None = None
        self.error: Exception | None = None
        try:
            if self.key is not None:
                self.written = (keep_files(len(sys.modules), options.cache_dir), record.written(
                    parts, root.fn, root.code, root.args, hashes_are_fixed(), options))
        except ours(Exception) as error:
            error.__context__ = None  # whose frames hold the call's objects, and this one, as its own do
            self.error = error.with_traceback(None)

    def data(self) -> tuple[str, bytes]:
        """The name of a record of files, and that of the parts. Raises what went wrong with them."""
        if self.written is None:
            assert self.error is not None
            raise self.error
        return self.written


def keep(root: Root, made: Compiled | None, options: Options, content: Content) -> None:
    """Keeps an entry that was made for the call of `root`, with what its Graph became (None where nothing is computed);
    what cannot be kept, is not."""
    if content.key is None:
        return
    try:
        with counters.timed("recall"):
            _publish(content.key, pickle.dumps((check(root, made), *content.data())), options)
    except Unportable as why:
        counters.count("frames_unkept", str(why))
    except RecursionError:  # a linked list, a graph of nodes
        counters.count("frames_unkept", "what it holds is nested too deeply")
    except ours(Exception) as error:
        defect(root.code, "what was captured is not kept for other processes", error)


def check(root: Root, made: Compiled | None) -> tuple[Any, ...] | None:
    """What makes the program of an entry again, None where there is none: its key and what it returns, or how often JAX
    may differentiate its Graph. Unportable where it is more than one native program of the call's arrays."""
    if made is None:
        return None
    if made.backend == TRACED:
        return (made.program.order or 0,)  # type: ignore[attr-defined]
    native = getattr(made.program, "inner", made.program)
    if made.key is None or not hasattr(native, "library") or made.returns is None:
        raise Unportable("its Graph is not one native program")
    if getattr(made.program, "may_restart", False):
        raise Unportable("its program may start again in Python")
    if not all(type(s) is int for s in made.returns.slots):
        raise Unportable("it returns what is not computed")
    return made.key, made.returns


def defect(code: CodeType, what: str, error: Exception) -> None:
    """Tells of an error of ours, or of a record that is none; under test it is raised."""
    if frame.strict_errors:
        raise error
    notices.tell("fallback", code.co_filename, code.co_firstlineno,
                 f"{what} ({code.co_qualname}): {type(error).__name__}: {error}",
                 hint="please report it; options={'recall': False} does without", id="warm")


def _publish(key: str, content: bytes, options: Options) -> None:
    """Under the first name that is free or whose record is out of date; else the last."""
    for name in names(key):
        known = records.found(options.cache_dir, name)
        if known in (None, content) or not are_unchanged(pickle.loads(known)[-2], options.cache_dir):
            break
    records.keep(options.cache_dir, name, content)


def names(key: str) -> Iterator[str]:
    return (records.digest(key, str(n)) for n in range(MOST))


Files = list[tuple[str, int, int]]


@functools.lru_cache(1)
def keep_files(modules: int, folder: Path) -> str:
    """The name of a record of the files of all modules (so many), which many entries share."""
    data = json.dumps(files_now()).encode()
    name = hashlib.sha256(data).hexdigest()[:40]
    if records.found(folder, name) is None:
        records.keep(folder, name, data)
    return name


def files_now() -> Files:
    """The files of all modules but ours, with sizes and times. Unportable where one was written after the process
    began: it may have loaded another."""
    found: Files = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if type(file) is str and not file.startswith(str(OURS)):
            try:
                status = os.stat(file)
            except ours(OSError):
                raise Unportable(f"{file}, which is gone") from None
            if status.st_mtime_ns > began():
                raise Unportable(f"{file}, which is newer than this process")
            found.append((file, status.st_size, status.st_mtime_ns))
    return sorted(set(found))


@functools.cache
def began() -> int:
    """When this process began, in nanoseconds; 0 where nothing says so."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        since = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return int((time.time() - since) * 1e9)
    except ours(OSError, AttributeError, ValueError, IndexError):
        return 0


# --- reading


def recalled(fn: Any, code: CodeType, args: tuple[Any, ...], options: Options,
             fits: Callable[[Any], bool]) -> Entry | None:
    """The first entry that another process has made for such a call and that `fits`, by what is known of it."""
    key = key_of(code, options)
    for name in names(key) if key is not None else ():
        data = records.found(options.cache_dir, name)
        if data is None:
            return None
        try:
            entry = _entry(data, fn, code, args, options, fits)
        except RecursionError:  # there is less of the stack left than where it was kept
            return None
        except ours(Exception) as error:
            defect(code, "what another process has kept is captured again", error)
            return None
        if entry is not None:
            return entry
    return None


def _entry(data: bytes, fn: Any, code: CodeType, args: tuple[Any, ...], options: Options,
           fits: Callable[[Any], bool]) -> Entry | None:
    program, files, content = pickle.loads(data)
    if not are_unchanged(files, options.cache_dir):
        return None
    try:
        parts = record.read(content, fn, code, args, options)
    except (Changed, Unportable):  # what could not be kept is not what was kept
        return None
    if not fits(parts.info):
        return None
    again = traced_again if parts.info.traced else made_again
    made = None if program is None else again(parts, options, *program)
    if program is not None and made is None:
        return None
    entry = parts.entry(options, made and made.program)
    if entry.guards.check(fn, args) != -1:
        return None
    parts.info.compiled = made if made is None or parts.info.traced else recorded(made)
    return entry


def traced_again(parts: Parts, options: Options, order: int) -> Compiled:
    """The program of an entry for calls that JAX transforms: it traces the Graph anew."""
    assert parts.info.graph is not None
    return traced_graph(parts.info.graph, options, (), order)


def made_again(parts: Parts, options: Options, key: str, returns: Returns) -> Compiled | None:
    """The native program of an entry, where it is still kept."""
    kept = records.found(options.cache_dir, key)
    native = kept and cpp.recalled(kept, settings_of(options))
    graph: Any = parts.info.graph  # its text
    return Compiled(returning(native, returns), graph, backend=recall.BACKEND, key=key) if native else None


@functools.cache
def are_unchanged(name: str, folder: Path) -> bool:
    """Whether the files of a record are what they were."""
    data = records.found(folder, name)
    if data is None:
        return False
    for file, size, modified in json.loads(data):
        try:
            status = os.stat(file)
        except ours(OSError):
            return False
        if (status.st_size, status.st_mtime_ns) != (size, modified):
            return False
    return True
