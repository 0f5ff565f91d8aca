"""What code does that is seen outside the program: shown, logged, written, asked of a clock or the system.

A library that traces the program's code on tracers would do it once, with tracers, where Python does it at each call:
the call is left to Python then. Code is known by what it names before it starts (`refuse_effects`), functions of
Python's library and of others that are called for nothing else by their own name, once they start (`is_showing`).

    class Watched(nn.Module):
        def __call__(self, x):
            log.info("batch of %d", len(x))     # logging.Logger.handle starts: refused, unless the level is off
            sys.stdout.write(".")               # names sys and stdout: refused
"""

from __future__ import annotations

import builtins
import dis
import io
import itertools
import types
from collections.abc import Collection
from typing import Any

import numpy as np

from dynacomp.capture.base.errors import Break
from dynacomp.capture.base.remembered import remembered
from dynacomp.capture.hosting.code_names import globals_in

BUILTINS = ("print", "input", "open", "breakpoint", "exec", "eval")  # functions that do more than compute
CLOCKS = ("random", "time", "secrets", "numpy.random", "datetime", "uuid")  # modules that give another result each time
ALL: frozenset[str] = frozenset()

# What the program's code may not name of a module: attributes of it, `ALL` where there is hardly another use.
NAMED: dict[str, frozenset[str]] = {
    "sys": frozenset({"stdout", "stderr", "stdin", "__stdout__", "__stderr__", "__stdin__"}),
    "os": frozenset({
        "chdir", "chmod", "chown", "close", "fdopen", "fork", "fsync", "getrandom", "kill", "link", "listdir",
        "makedirs", "mkdir", "open", "pipe", "popen", "putenv", "read", "readlink", "remove", "removedirs", "rename",
        "renames", "replace", "rmdir", "scandir", "stat", "symlink", "system", "times", "truncate", "unlink",
        "unsetenv", "urandom", "utime", "walk", "write"}),
    **dict.fromkeys(("shutil", "subprocess", "socket", "tempfile", "glob"), ALL),
}

# Functions that are called for what is seen of it, by the module that has them.
SHOWING: dict[str, frozenset[str]] = {
    "logging": frozenset({"handle"}),  # of a Logger, once its level lets a record through
    "pprint": frozenset({"pprint", "pp"}),
    "traceback": frozenset({"print_exc", "print_exception", "print_last", "print_list", "print_stack", "print_tb"}),
    "threading": frozenset({"start"}),
    "concurrent.futures.thread": frozenset({"submit"}),
    "pathlib": frozenset({"exists", "glob", "is_dir", "is_file", "iterdir", "mkdir", "open", "rename", "replace",
                          "rglob", "rmdir", "stat", "touch", "unlink"}),
    "json": frozenset({"dump"}),
    "rich": frozenset({"print", "print_json", "inspect"}),
    "rich.console": frozenset({"print", "log"}),
    "tqdm.std": frozenset({"__init__", "update", "write", "display"}),
    **dict.fromkeys(("shutil", "subprocess", "socket", "tempfile", "glob", "urllib.request", "http.client"), ALL),
}
TRACING = frozenset({"jax", "jaxlib", "dynacomp"})  # what these log and write while they trace is theirs


def is_showing(fn: types.FunctionType) -> bool:
    """Whether `fn` is called for what is seen of it."""
    names = SHOWING.get(fn.__globals__.get("__name__", ""))
    return names is not None and (not names or fn.__name__ in names)


def is_asked_outside(fn: types.FunctionType, asking: types.FrameType | None) -> bool:
    """Whether it is not JAX that, by way of functions beside `fn`, has `asking` call it."""
    home = frozenset({_package(fn.__globals__.get("__name__")), "absl"})  # which logs by way of logging
    while asking is not None and _package(asking.f_globals.get("__name__")) in home:
        asking = asking.f_back
    return asking is not None and _package(asking.f_globals.get("__name__")) not in TRACING


def _package(module: Any) -> str:
    return str(module).partition(".")[0]


def refuse_effects(fn: types.FunctionType, is_nested: bool) -> None:
    """Break, before `fn` starts, where running it once instead of at each call would be seen."""
    where = f"in {fn.__qualname__}, which a library runs"
    variables, cells = stored_in(fn.__code__)
    if variables or cells and not is_nested:
        raise Break("effect", f"{', '.join(sorted(variables | cells))} is assigned {where}")
    if "Tracer" in fn.__code__.co_names:
        raise Break("tracer", f"whether JAX traces is asked {where}")
    named = fn.__code__.co_names
    for name in globals_in(fn.__code__):
        found = fn.__globals__.get(name, getattr(builtins, name, None))
        if is_outward(found, name, named):
            raise Break("effect", f"{name} {where}")


def is_outward(found: Any, name: str, named: Collection[str]) -> bool:
    """Whether the code that has `found` as global `name`, and names these attributes, would be seen outside."""
    if isinstance(found, types.ModuleType):
        shown = NAMED.get(found.__name__)
        return found.__name__ in CLOCKS or found is np and "random" in named or shown is not None and (
            not shown or not shown.isdisjoint(named))
    if name in BUILTINS and found is getattr(builtins, name):
        return True
    return isinstance(found, (types.BuiltinFunctionType, types.MethodType, type)) and _is_clocks(found) or is_open_file(
        found)


def _is_clocks(found: Any) -> bool:
    """Whether it is one of a clock's own (`from time import perf_counter`, `from random import random`)."""
    return (type(found.__self__).__module__ if isinstance(found, types.MethodType) else found.__module__) in CLOCKS


def is_open_file(found: Any) -> bool:
    return issubclass(type(found), io.IOBase)


# --- what code names


@remembered
def stored_in(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The globals and the cells of other functions that code binds."""
    found = [(i.opname, i.argval) for i in dis.get_instructions(code)]
    return (frozenset(n for op, n in found if op in ("STORE_GLOBAL", "DELETE_GLOBAL")),
            frozenset(n for op, n in found if op == "STORE_DEREF") & set(code.co_freevars))


def prints(fn: Any) -> bool:
    """Whether a library's function itself calls the built-in `print` before it has decided anything, as one does that
    shows what it is given. (What stands in a branch may be for debugging: `eqx.error_if` has one.)"""
    return isinstance(fn, types.FunctionType) and "print" in fn.__code__.co_names and "print" in _loaded_first(
        fn.__code__) and fn.__globals__.get("print", builtins.print) is builtins.print


@remembered
def _loaded_first(code: types.CodeType) -> frozenset[str]:
    """The globals that a function's code loads on every way through it: before its first jump."""
    jumps = (*dis.hasjrel, *dis.hasjabs)
    first = itertools.takewhile(lambda i: i.opcode not in jumps, dis.get_instructions(code))
    return frozenset(i.argval for i in first if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))


def opens_files(fn: types.FunctionType) -> bool:
    """Whether a library's function calls the built-in `open`: what it does then is to happen at each call."""
    return "open" in fn.__code__.co_names and "open" in globals_in(fn.__code__) and \
        fn.__globals__.get("open", builtins.open) is builtins.open
