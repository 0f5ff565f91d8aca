"""Options and environment variables: the one file that reads either.

`resolve` turns what a user passed to `dynacomp.jit`, and the process environment, into one frozen
`Options`, checked. A mode is a row of `MODES`: a name for a set of options.

    >>> resolve(options={"numerics": "exact"}, environ={"DYNACOMP_THREADS": "2"}).threads
    2

| variable | meaning |
|---|---|
| `DYNACOMP_LOG` | comma-separated topics to print to stderr: see `TOPICS`, or say `help` |
| `DYNACOMP_CACHE_DIR` | where compiled code is kept; default: `dynacomp` in the user's cache folder |
| `DYNACOMP_THREADS` | threads of compiled code; default: the CPUs this process may use |
| `DYNACOMP_VERIFY` | 1: primitive Graphs and Kernels are verified after each step: for work on dynacomp |
| `DYNACOMP_CAPTURE_IDLE` | 1: frames that compute nothing with arrays are captured as well |
| `PYTHONHASHSEED` | Python's own: a number gives all processes the same order of sets of strings |
| `CXX` | the C++ compiler, with arguments if need be (`ccache g++`); default: the first found |
"""

from __future__ import annotations

import difflib
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dynacomp.driver.foreign import Foreign, is_foreign, known
from dynacomp.driver.pass_list import Passes
from dynacomp.lowering.passes.recompute import BUDGET

TOPICS: dict[str, str] = {  # of DYNACOMP_LOG, and what each prints
    "breaks": "every graph break and every call that runs as plain Python, not only the first of a line",
    "guards": "what each new entry relies on",
    "recompiles": "which guard failed, where a call needs a new entry",
    "graph": "each captured graph",
    "passes": "the primitive graph after lowering, and after each pass",
    "kernels": "the kernels that each graph became",
    "code": "their source",
}
HELP = "help"  # a topic that prints what there are
NUMERICS = ("default", "exact")
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "exact": {"numerics": "exact"},
}


@dataclass(frozen=True)
class Options:
    """Everything that decides how a function is compiled; hashable, so that it can be a key.

    backend: a name of `dynacomp.list_backends()`, "auto" for the best one of the device, or a `Foreign`.
    dynamic: True makes every size symbolic at once, False never, None when a second size is seen.
    fullgraph: True turns a graph break into an error.
    numerics: "default" (a few ULP, see the README) or "exact" (no reassociation, no contraction).
    memory_budget: from 1 (a step keeps all that it reads later) to 0 (what is cheap is computed again instead).
    threads: how many threads one compiled call may use.
    recompile_limit: entries that one code object may hold before its calls run eagerly.
    passes: the passes that it goes through (see `dynacomp.passes`); None for those in force in the process.
    capture_idle: whether frames that compute nothing with arrays are captured, too, however long it takes: slower, for
        tests of capture.
    measure: whether calls are timed, and plain Python runs what it runs faster (see `dynacomp.driver.timing`).
    recall: whether what other processes found out is used (see `dynacomp.driver.recall`).
    verify: whether primitive Graphs and Kernels are verified between all steps.
    cache_dir: the folder of compiled code. cxx: the compiler's command, or () to search for one.
    """

    backend: str | Foreign = "auto"
    dynamic: bool | None = None
    fullgraph: bool = False
    numerics: str = "default"
    memory_budget: float = BUDGET
    threads: int = 1
    recompile_limit: int = 8
    passes: Passes | None = None
    capture_idle: bool = False
    measure: bool = True
    recall: bool = True
    verify: bool = False
    cache_dir: Path = field(default_factory=lambda: default_cache_dir(os.environ))
    cxx: tuple[str, ...] = ()


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "backend": (lambda v: is_foreign(v) or isinstance(v, str) and bool(v),
                "a backend's name (see dynacomp.list_backends()), or a function of a Graph"),
    "dynamic": (lambda v: v is None or isinstance(v, bool), "True, False or None"),
    "fullgraph": (lambda v: isinstance(v, bool), "True or False"),
    "numerics": (lambda v: v in NUMERICS, f"one of {', '.join(map(repr, NUMERICS))}"),
    "memory_budget": (lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and 0 <= v <= 1,
                      "a number from 0 to 1"),
    "threads": (lambda v: _is_count(v), "an int of at least 1"),
    "recompile_limit": (lambda v: _is_count(v), "an int of at least 1"),
    "passes": (lambda v: v is None or isinstance(v, Passes), "a dynacomp.passes.Passes, or None"),
    "capture_idle": (lambda v: isinstance(v, bool), "True or False"),
    "measure": (lambda v: isinstance(v, bool), "True or False"),
    "recall": (lambda v: isinstance(v, bool), "True or False"),
    "verify": (lambda v: isinstance(v, bool), "True or False"),
    "cache_dir": (lambda v: isinstance(v, Path) and "\0" not in str(v), "a folder"),
    "cxx": (lambda v: isinstance(v, tuple) and all(isinstance(w, str) for w in v), "a command"),
}
_PARSE: dict[str, Callable[[Any], Any]] = {
    "cache_dir": lambda v: _at_home(v) if isinstance(v, (str, os.PathLike)) else v,
    "cxx": lambda v: tuple(shlex.split(v)) if isinstance(v, str) else tuple(v) if isinstance(v, list) else v,
}
_OWN_ARGUMENTS = ("backend", "dynamic", "fullgraph")


def resolve(*, backend: Any = "auto", dynamic: bool | None = None, fullgraph: bool = False,
            mode: str = "default", options: Mapping[str, Any] | None = None,
            environ: Mapping[str, str] = os.environ) -> Options:
    """The Options for these arguments of `dynacomp.jit` under `environ`.

    What `options` says wins over the mode, and the mode over the environment. Raises ValueError
    for an unknown name or a bad value and TypeError where `options` is no mapping; both say what
    would be right.
    """
    if mode not in MODES:
        raise ValueError(_unknown("mode", mode, tuple(MODES)))
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a dict of option names to values, not {type(options).__name__}")
    extra = {**MODES[mode], **(options or {})}
    names = tuple(f.name for f in fields(Options) if f.name not in _OWN_ARGUMENTS)
    for name in extra:
        if name in _OWN_ARGUMENTS:
            raise ValueError(f"{name!r} is an argument of dynacomp.jit of its own: jit(fn, {name}=...)")
        if name not in names:
            raise ValueError(_unknown("option", name, names))
    extra = {name: _PARSE.get(name, _same)(value) for name, value in extra.items()}
    own: dict[str, Any] = {"backend": known(backend), "dynamic": dynamic, "fullgraph": fullgraph}
    return interned(checked(replace(from_environment(environ), **own, **extra)))


_ONE_EACH: dict[Options, Options] = {}


def interned(options: Options) -> Options:
    """Equal options as one object: compiled entries belong to it by identity."""
    return _ONE_EACH.setdefault(options, options)


def hashes_are_fixed(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether other processes have the same hashes of strings."""
    return environ.get("PYTHONHASHSEED", "random") != "random"


def from_environment(environ: Mapping[str, str] = os.environ) -> Options:
    """The Options that the environment alone asks for; ValueError names a bad variable."""
    return Options(
        threads=_threads(environ),
        capture_idle=environ.get("DYNACOMP_CAPTURE_IDLE", "") not in ("", "0"),
        verify=environ.get("DYNACOMP_VERIFY", "") not in ("", "0"),
        cache_dir=default_cache_dir(environ),
        cxx=tuple(shlex.split(environ.get("CXX", ""))),
    )


def checked(options: Options) -> Options:
    """`options` itself; ValueError says which one is wrong and what would be right."""
    for name, (good, expected) in _CHECKS.items():
        value = getattr(options, name)
        if not good(value):
            raise ValueError(f"option {name}={value!r}: expected {expected}")
    return options


def default_cache_dir(environ: Mapping[str, str]) -> Path:
    """`$DYNACOMP_CACHE_DIR`, or `dynacomp` in the user's cache folder (not created here), or in the temporary one
    where the user has none: containers run under users that nobody knows."""
    if own := environ.get("DYNACOMP_CACHE_DIR"):
        return _at_home(own)
    base = Path(environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"))
    return base / "dynacomp" if base.is_absolute() else Path(tempfile.gettempdir(), f"dynacomp-{os.getuid()}")


def _at_home(path: str | os.PathLike[str]) -> Path:
    """The path with its `~` as the folder that it stands for."""
    found = os.path.expanduser(path)
    if found.startswith("~") and found == os.fspath(path):
        raise ValueError(f"cache folder {found!r}: no home folder of that user is known")
    return Path(found)


def log_topics(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The topics of `DYNACOMP_LOG`; ValueError names an unknown one."""
    wanted = [t.strip() for t in environ.get("DYNACOMP_LOG", "").split(",") if t.strip()]
    for topic in wanted:
        if topic not in TOPICS and topic != HELP:
            raise ValueError("DYNACOMP_LOG: " + _unknown("topic", topic, (*TOPICS, HELP)))
    return frozenset(wanted)


def log_help() -> str:
    """What `DYNACOMP_LOG=help` prints."""
    rows = "\n".join(f"  {topic:<12}{what}" for topic, what in TOPICS.items())
    return f"DYNACOMP_LOG takes these topics, with commas between them:\n{rows}"


def available_cpus() -> int:
    """How many CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _threads(environ: Mapping[str, str]) -> int:
    text = environ.get("DYNACOMP_THREADS", "").strip()
    if not text:
        return available_cpus()
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(f"DYNACOMP_THREADS={text!r}: expected a whole number of at least 1")
    return int(text)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _same(value: Any) -> Any:
    return value


def _unknown(what: str, name: Any, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(str(name), known, 1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown {what} {name!r}{hint}; there are: {', '.join(known)}"
