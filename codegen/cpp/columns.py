"""Work down long columns, in passes: lanes are columns, and each pass goes down rows that lie far apart.

One register of columns at a time would go through memory as often as there are passes, a cache line of each row, and
rows a power of two apart share their place in the cache. So a chunk of columns takes each pass together, a few rows at
a time, and what a column carries from one pass or row to the next lies in arrays of registers:

    before:  for columns: for rows: m = max(m, x);    for rows: s += exp(x - m);    for rows: out = exp(x - m) / s
    after:   for chunks:  for spans of rows: for columns: for rows of the span: m = max(m, x)
                          for spans ...

Every column is folded in the same order as before: the bits stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dynacomp.capture.base.of_class import of_class
from dynacomp.codegen.cpp import types
from dynacomp.codegen.cpp.expr import Scope, depends
from dynacomp.codegen.cpp.folds import (
    BLOCK,
    DOUBLE,
    best_name,
    declare,
    flush,
    flushed,
    is_long,
    is_running,
    lane_accs,
    round_accs,
)
from dynacomp.codegen.cpp.index import cpp_name, index_code
from dynacomp.lowering.kernel_ir.loops import Acc, Let, Loop, Scan, Stmt, inner_loops, is_nest

REGISTERS = 32  # of columns in a chunk
SPAN = 4        # rows: 16 take twice as long, 1 writes what a column carries as often as it reads a row
MANY = 256      # rows; fewer stay in the cache from pass to pass

Lines = Iterator[str]
Write = Callable[[Sequence[Stmt], Scope], Lines]       # statements
Iteration = Callable[[Loop, Scope], Lines]             # one iteration of a loop


def wants_columns(loop: Loop, scope: Scope) -> bool:
    """Is the vector loop passes down long columns, all of whose values differ from lane to lane?"""
    passes = inner_loops(loop.body)
    if not passes or loop.after or scope.widened or not all(map(_is_plain, passes)):
        return False
    for stmt in loop.body:
        names = _lane_names(stmt, scope)
        if names is None:
            return False
        scope = scope.having(*names)
    return all(not p.extent.is_Integer or p.extent >= MANY for p in passes)


def _is_plain(loop: Loop) -> bool:
    return not loop.reverse and not inner_loops((*loop.body, *loop.after))


def _lane_names(stmt: Stmt, scope: Scope) -> list[str] | None:
    """The names that a statement makes; None where one of them is no lanes, or truths, whose registers differ."""
    match stmt:
        case Let(name, value):
            return [name] if depends(value, scope) and value.dtype != bool else None
        case Loop():
            found = lane_accs(stmt, scope)
            return found if len(found) == len(stmt.folds) and all(f.dtype != bool for f in stmt.folds) else None
    return []


def columns(loop: Loop, scope: Scope, begin: str, end: str, write: Write, iteration: Iteration) -> Lines:
    """The vector loop over [begin, end)."""
    chunk = f"{REGISTERS}*({scope.lanes})"
    yield f"for (int64_t left = {begin}; left < {end}; left += {chunk}) {{"
    yield f"  const int64_t right = least({end}, left + {chunk});"
    kept: list[str] = []
    run: list[Stmt] = []
    for stmt in (*loop.body, None):
        if isinstance(stmt, (Loop, type(None))) and run:
            made = [*of_class(Let, run)]
            for let in made:
                yield f"  {_array(scope.call(let.name), let.value.dtype, scope)}"
            body = [*write(run, scope), *_saved([scope.call(s.name) for s in made])]
            yield from _over_columns(loop, scope, kept, body)
            kept += [scope.call(s.name) for s in made]
            scope, run = scope.having(*(s.name for s in made)), []
        if is_nest(stmt):
            yield from _pass(loop, stmt, scope, kept, iteration)
            scope = scope.having(*lane_accs(stmt, scope))
            kept += [scope.call(acc.name) for acc in stmt.accs]
        elif stmt is not None:
            run.append(stmt)
    yield "}"


def _over_columns(loop: Loop, scope: Scope, kept: Sequence[str], body: Sequence[str]) -> Lines:
    """A pass over the columns of the chunk; `kept` are the values of earlier ones."""
    yield f"  vector_loop<{scope.lanes}>(left, right, [&](int64_t {cpp_name(loop.var.name)}, auto lanes)"
    yield "    __attribute__((always_inline)) {"
    yield f"    [[maybe_unused]] const int64_t nth = ({cpp_name(loop.var.name)} - left)/({scope.lanes});"
    yield from (f"    [[maybe_unused]] const auto {name} = {name}kept[nth];" for name in kept)
    yield from (f"    {line}" for line in body)
    yield "  });"


def _pass(loop: Loop, rows: Loop, scope: Scope, kept: Sequence[str], iteration: Iteration) -> Lines:
    """One pass: spans of rows, in each of them all columns, for each column the rows of the span."""
    inner = scope.having(*lane_accs(rows, scope))
    var, extent = cpp_name(rows.var.name), index_code(rows.extent)
    long = [acc for acc in rows.accs if is_long(acc, rows.extent)]
    states = [state for f in rows.folds for state in _state(f, inner)]
    yield from (f"  {_array(name, dtype, scope)}" for name, dtype in states)
    for acc in long:
        name, register = inner.call(acc.name), f"vec<{types.register(acc.dtype)}, {scope.lanes}>"
        yield f"  decltype(widened({register}{{}})) {name}blockkept[{REGISTERS}], {name}blockskept[{REGISTERS}];"
    yield f"  for (int64_t {var}b = 0; !{var}b || {var}b < {extent}; {var}b += {SPAN}) {{"  # of no rows: first values
    yield f"    const int64_t {var}e = least({extent}, {var}b + {SPAN});"
    body = [*(line for f in rows.folds for line in declare(f, inner)),
            *(f"const auto {inner.call(acc.name)}start = {inner.call(acc.name)};" for acc in long),
            *(f"if ({var}b) {name} = {name}kept[nth];" for name, _ in states),
            f"for (int64_t {var} = {var}b; {var} < {var}e; ++{var}) {{",
            *(f"  {line}" for line in iteration(rows, inner)), "}",
            *(line for acc in long for line in _block(acc, inner, var, extent)),
            *(f"if ({var}e == {extent}) {{ {line} }}" for line in round_accs(rows.accs, inner)),
            *_saved([name for name, _ in states])]
    yield from (f"  {line}" for line in _over_columns(loop, scope, kept, body))
    yield "  }"


def _block(acc: Acc, scope: Scope, var: str, extent: str) -> Lines:
    """The end of a block of a long sum, where a span is one."""
    name = scope.call(acc.name)
    yield f"if (!({var}e & {BLOCK - 1}) || {var}e == {extent}) {{"
    yield f"  decltype(widened({name})) {name}block{{}}, {name}blocks{{}};"
    yield f"  if ({var}b >= {BLOCK}) {{ {name}block = {name}blockkept[nth]; {name}blocks = {name}blockskept[nth]; }}"
    yield from (f"  {line}" for line in flush(acc, scope, f"({var}b | {BLOCK - 1})"))
    yield from (f"  if ({var}e == {extent}) {{ {line} }}" for line in flushed(acc, scope))
    yield from (f"  {line}" for line in _saved([f"{name}block", f"{name}blocks"]))
    yield "}"


def _state(fold: Acc | Scan, scope: Scope) -> Iterator[tuple[str, np.dtype]]:
    """What a fold carries from row to row."""
    yield scope.call(fold.name), fold.dtype
    if fold.is_arg:
        yield best_name(fold, scope), fold.value.dtype
    if is_running(fold):
        yield f"{scope.call(fold.name)}wide", DOUBLE


def _array(name: str, dtype: np.dtype, scope: Scope) -> str:
    return f"vec<{types.register(dtype)}, {scope.lanes}> {name}kept[{REGISTERS}];"


def _saved(names: Sequence[str]) -> list[str]:
    return [f"{name}kept[nth] = {name};" for name in names]
