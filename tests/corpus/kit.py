"""The corpus: how a small program is declared, run plainly and compiled, and compared.

A program is a function in `tests/corpus/programs/`, registered with `@program`. It is run as plain
Python, then compiled twice (a miss, then a hit), each time on fresh arguments; result, exception,
standard output and the heap that is reachable from arguments, result and the module's own data
must be the same. `breaks` says which graph breaks it takes, none as a rule: a break is right only
where a value must leave.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import importlib
import io
import pkgutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

import dynacomp
from dynacomp import notices
from dynacomp.capture import frame
from dynacomp.notices import Notice
from tests.corpus import programs
from tests.corpus.heap import describe
from tests.corpus.leaving import unexplained


def vector() -> tuple[Any, ...]:
    """The usual argument: one float32 array of six elements."""
    return (jnp.arange(6, dtype=jnp.float32),)


@dataclass(frozen=True)
class Program:
    """One program. args: makes its arguments. breaks: reason → number of graph breaks. eager: why
    frames of it run as plain Python. hits: whether a second call must find the compiled entry."""

    fn: Callable[..., Any]
    args: Callable[[], tuple[Any, ...]]
    breaks: dict[str, int]
    eager: tuple[str, ...]
    hits: bool

    @property
    def name(self) -> str:
        return f"{self.fn.__module__.rpartition('.')[2]}.{self.fn.__name__}"


PROGRAMS: list[Program] = []
ANY: dict[str, int] = {"any": 0}  # breaks that differ between Python versions: they are not counted


def program(fn: Any = None, *, args: Callable[[], tuple[Any, ...]] = vector, breaks: dict[str, int] | None = None,
            eager: tuple[str, ...] = (), hits: bool = True) -> Any:
    """Registers a program of the corpus; see Program."""
    if fn is None:
        return functools.partial(program, args=args, breaks=breaks, eager=eager, hits=hits)
    PROGRAMS.append(Program(fn, args, breaks or {}, eager, hits))
    return fn


def load() -> list[Program]:
    """Every program, in the order of the files."""
    for module in sorted(m.name for m in pkgutil.iter_modules(programs.__path__)):
        importlib.import_module(f"{programs.__name__}.{module}")
    return PROGRAMS


@dataclass
class Run:
    """What one run did, as data that `==` compares."""

    raised: Any
    where: Any
    out: str
    heap: Any


def run(fn: Callable[..., Any], p: Program) -> Run:
    """Runs `fn` on fresh arguments, with the program's module data as it was at import."""
    args = p.args()
    raised, where, result, out = None, None, None, io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            result = fn(*args)
        except Exception as error:
            raised, where = error, position(error, p.fn)
    return Run(type(raised), where, out.getvalue(), describe(args, data(p.fn), closure(p.fn), raised, result))


def position(error: BaseException, fn: Any) -> list[tuple[str, int]]:
    """The lines of the program's own file in the traceback: (function, line)."""
    file = fn.__code__.co_filename
    frames = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return [x for n, x in enumerate(frames) if n + 1 == len(frames) or frames[n + 1][0] != x[0]]


def data(fn: Any) -> dict[str, Any]:
    """The module's globals that hold data, and the data attributes of its classes."""
    own = {k: v for k, v in fn.__globals__.items() if k.isupper() and not isinstance(v, type)}
    for cls in classes(fn):
        own.update({f"{cls.__name__}.{k}": v for k, v in vars(cls).items() if is_data(k, v)})
    return own


def classes(fn: Any) -> list[type]:
    return [c for c in fn.__globals__.values()
            if isinstance(c, type) and c.__module__ == fn.__module__ and not issubclass(c, enum.Enum)]


def is_data(name: str, value: Any) -> bool:
    return not name.startswith("__") and type(value) in (int, str, list, dict, set, type(None))


def closure(fn: Any) -> list[Any]:
    return [c.cell_contents for c in fn.__closure__ or ()]


@contextlib.contextmanager
def fresh(fn: Any) -> Any:
    """The module's data as at import, put back afterwards."""
    before, kept = data(fn), copy.deepcopy(data(fn))
    try:
        yield
    finally:
        for name in set(data(fn)) - set(before):
            put_back(fn, name)
        for name, value in before.items():
            put_back(fn, name, refilled(value, kept[name]))


def put_back(fn: Any, name: str, *value: Any) -> None:
    owner, _, attribute = name.rpartition(".")
    if owner:
        (setattr if value else delattr)(fn.__globals__[owner], attribute, *value)
    elif value:
        fn.__globals__[name] = value[0]
    else:
        del fn.__globals__[name]


def refilled(obj: Any, content: Any) -> Any:
    """`obj` itself with its old content; a set that has it keeps its order, which a refill would change."""
    if isinstance(obj, set) and obj == content:
        return obj
    if isinstance(obj, (list, dict, set)):
        obj.clear()
        (obj.extend if isinstance(obj, list) else obj.update)(content)
    return obj


@dataclass
class Report:
    """A program's three runs and the counters after them."""

    plain: Run
    cold: Run
    hit: Run
    stats: dict[str, Any]
    notices: tuple[Notice, ...]
    misses: int


def check(p: Program) -> Report:
    """Runs the program plainly, compiled cold and compiled again."""
    dynacomp.reset()
    frame.strict_errors = True
    compiled = dynacomp.jit(p.fn, backend="eager", options={"capture_idle": True})
    with fresh(p.fn):
        plain = run(p.fn, p)
    with fresh(p.fn):
        cold = run(compiled, p)
    stats, told = dynacomp.stats(), notices.told()
    with fresh(p.fn):
        hit = run(compiled, p)
    return Report(plain, cold, hit, stats, told, dynacomp.stats()["frames_captured"] - stats["frames_captured"])


def differences(p: Program, r: Report) -> list[str]:
    """What is wrong with a report, in words; empty when all is well."""
    found = []
    for label, got in (("cold", r.cold), ("hit", r.hit)):
        for part in ("raised", "where", "out", "heap"):
            want, have = getattr(r.plain, part), getattr(got, part)
            if want != have:
                found.append(f"{label}: {part} differs:\n  plain    {shown(want, have)}\n"
                             f"  compiled {shown(have, want)}")
    if p.breaks is not ANY and r.stats["breaks"] != p.breaks:
        found.append(f"breaks {r.stats['breaks']}, expected {p.breaks}")
    found += [f"nothing leaves here: {notice}" for notice in unexplained(r.notices)]
    eager = set(r.stats["frames_eager"])
    if eager != set(p.eager):
        found.append(f"frames run eagerly {r.stats['frames_eager']}, expected {p.eager}")
    if p.hits and r.misses:
        found.append(f"the second call was captured again ({r.misses} frames)")
    return found


def shown(a: Any, b: Any) -> str:
    """The part of `a` that differs from `b`."""
    if isinstance(a, list) and isinstance(b, list):
        return "; ".join(repr(x) for x in a if x not in b) or repr(a)
    return repr(a)


jax.config.update("jax_platforms", "cpu")
__all__ = ["ANY", "PROGRAMS", "Program", "check", "differences", "load", "program"]
