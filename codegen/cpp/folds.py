"""Reductions and running folds in C++: accumulators, one iteration's fold, lanes into a scalar.

An accumulator is a scalar, or lanes where its value differs from lane to lane (`lane_accs`); unrolled
vector loops give it several registers, `slots`.

A long sum of floats is no chain: what BLOCK iterations have summed goes to a second accumulator, and BLOCK of those
to a third, which are doubles (`is_long`, `flush`, `flushed`), so that it errs no more than XLA's, which is a tree. A
running sum of floats is kept as a double.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import sympy

from dynacomp.codegen.cpp import types
from dynacomp.codegen.cpp.expr import Scope, depends, emit, emit_lanes, lane_names, splat
from dynacomp.codegen.cpp.index import cpp_name, index_code
from dynacomp.lowering.kernel_ir.loops import Acc, Let, Loop, Scan, Stmt

Lines = Iterator[str]


BLOCK = 32  # a power of two
FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def is_long(acc: Acc, extent: sympy.Expr) -> bool:
    """Whether a fold of so many values is a sum that is made block by block."""
    return acc.fold == "sum" and acc.dtype.kind == "f" and not (extent.is_Integer and extent <= BLOCK)


def is_running(fold: Acc | Scan) -> bool:
    """Whether it is a running sum that a double keeps."""
    return fold.is_prefix and fold.fold == "sum" and fold.dtype == FLOAT


def best_name(fold: Acc | Scan, scope: Scope) -> str:
    return f"{scope.call(fold.name)}best"


def declare(fold: Acc | Scan, scope: Scope, slots: int = 0) -> Lines:
    """The accumulator at its identity: a scalar, or lanes where the scope says so; or `slots` of them."""
    vector = fold.name in scope.vectors
    names = {scope.call(fold.name): (fold.dtype, types.identity(fold.fold, fold.dtype))}
    if fold.is_arg:
        dtype = fold.value.dtype
        names = {best_name(fold, scope): (dtype, types.identity(fold.fold, dtype)),
                 scope.call(fold.name): (fold.dtype, types.literal(np.iinfo(fold.dtype).max, fold.dtype))}
    for name, (dtype, start) in names.items():
        code = splat(start, dtype, scope) if vector else f"{types.register(dtype)}({start})"
        if slots:
            yield f"const auto {name}start = {running(fold, code)};"
            yield f"bare<decltype({name}start)>::type {name}s[] = {{{', '.join([f'{name}start'] * slots)}}};"
        else:
            yield f"auto {name} = {code};"
    if is_running(fold):
        yield f"auto {scope.call(fold.name)}wide = {zero(fold, scope)};"


def running(fold: Acc | Scan, start: str) -> str:
    """What a vector accumulator starts from: the largest and the smallest of floats are looked for in integers."""
    is_extreme = fold.fold in ("max", "min") and types.register(fold.dtype) in ("float", "double")
    return f"running_{fold.fold}({start})" if is_extreme else start


def zero(fold: Acc | Scan, scope: Scope) -> str:
    """What a double accumulator of sums starts from: lanes where the fold has lanes."""
    start = types.identity(fold.fold, DOUBLE)
    return splat(start, DOUBLE, scope) if fold.name in scope.vectors else start


def declare_blocks(fold: Acc, scope: Scope) -> Lines:
    """The accumulators of whole blocks, and of blocks of these, beside one that `declare` has made: doubles."""
    name = scope.call(fold.name)
    yield f"const auto {name}start = {name}; decltype(widened({name})) {name}block{{}}, {name}blocks{{}};"


def flush(fold: Acc, scope: Scope, at: str) -> Lines:
    """After a block of iterations, whose last one is `at`: it goes where blocks are summed."""
    name = scope.call(fold.name)
    yield f"{name}block = {name}block + widened({name}); {name} = {name}start;"
    yield (f"if (({at} & {BLOCK * BLOCK - 1}) == {BLOCK * BLOCK - 1}) {{ {name}blocks = {name}blocks + {name}block; "
           f"{name}block = decltype(widened({name})){{}}; }}")


def flushed(fold: Acc, scope: Scope) -> Lines:
    """After the loop: all blocks into the accumulator."""
    name, register = scope.call(fold.name), types.register(fold.dtype)
    yield f"{name} = narrowed<{register}>({name}blocks + ({name}block + widened({name})));"


def fold_into(fold: Acc | Scan, scope: Scope, at: str) -> Lines:
    """One iteration's value into the accumulator; `at` is its index when it is unrolled."""
    vector = fold.name in scope.vectors
    give = emit_lanes if vector else (lambda e, s: emit(e, s).code)
    name = scope.call(fold.name) + at
    value = give(fold.value, scope)
    if fold.is_arg:
        yield from _fold_arg(fold, scope, name, best_name(fold, scope) + at, value, bool(at))
        return
    if is_running(fold):
        yield f"{name}wide = {name}wide + convert<{types.register(DOUBLE)}>({value});"
        yield f"{name} = convert<{types.register(FLOAT)}>({name}wide);"
        return
    if fold.value.dtype != fold.dtype:
        value = f"convert<{types.register(fold.dtype)}>({value})"
    new = f"{types.FOLD[fold.fold]}({name}, {value})"
    if vector and (at or fold.dtype == bool):
        new = f"keep({name}, {new}, {'lanes' if at else _whole(scope)})"
    yield f"{name} = {new};"


def _whole(scope: Scope) -> str:
    return f"full<({scope.lanes})>{{}}"


def _fold_arg(fold: Acc | Scan, scope: Scope, name: str, best: str, value: str, tail: bool) -> Lines:
    vector = fold.name in scope.vectors
    position = types.register(fold.dtype)
    yield "{"
    yield f"  const auto value = {value};"
    if vector and scope.moves(fold.position):
        yield (f"  const auto here = per_lane<{position}>(lanes, [&](int l) {{ return ({position})"
               f"({index_code(fold.position, lane_names(scope))}); }});")
    elif vector:
        yield (f"  const auto here = splat<{position}, {scope.lanes}>"
               f"(({position})({scope.index(fold.position)}));")
    else:
        yield f"  const auto here = ({position})({scope.index(fold.position)});"
    wins = f"wins_{fold.fold}(value, here, {best}, {name})"
    last = "lanes" if tail else _whole(scope)
    yield f"  const auto better = {wins};"
    for target, new in ((best, "value"), (name, "here")):
        chosen = f"select(better, {new}, {target})"
        yield f"  {target} = {f'keep({target}, {chosen}, {last})' if vector else chosen};"
    yield "}"


def round_accs(accs: Sequence[Acc], scope: Scope) -> Lines:
    for acc in accs:
        if acc.dtype in types.ROUND:
            name = scope.call(acc.name)
            yield f"{name} = {types.ROUND[acc.dtype]}({name});"


def collect(acc: Acc, slots: int) -> Lines:
    """All slots and lanes into the scalar."""
    name, fold = cpp_name(acc.name), types.FOLD[acc.fold]
    if acc.is_arg:
        yield f"{name} = collect_{acc.fold}({name}bests[0], {name}s[0]);"
        return
    for k in range(1, slots):
        yield f"{name}s[0] = {fold}({name}s[0], {name}s[{k}]);"
    yield f"{name} = fold_lanes({name}s[0], [](auto a, auto b) {{ return {fold}(a, b); }});"


def whole_name(acc: Acc) -> str:
    """The double that a long sum of a vector loop comes to."""
    return f"{cpp_name(acc.name)}whole"


def collect_either(acc: Acc, slots: int) -> Lines:
    """A sum whose length is known when it runs: as `collect` where it was one block, else as `collect_blocks`."""
    yield "if (short_sum) {"
    yield from (f"  {line}" for line in collect(acc, slots))
    yield f"  {whole_name(acc)} = {cpp_name(acc.name)};"
    yield "} else {"
    yield from (f"  {line}" for line in collect_blocks(acc, slots))
    yield "}"


def collect_blocks(acc: Acc, slots: int) -> Lines:
    """All blocks of a long sum, of all slots and lanes, into the scalar: a double till the end."""
    name, fold = cpp_name(acc.name), types.FOLD[acc.fold]
    for k in range(1, slots):
        yield f"{name}blocks[0] = {name}blocks[0] + {name}blocks[{k}];"
    yield f"{whole_name(acc)} = fold_lanes(in_one({name}blocks[0]), [](auto a, auto b) {{ return {fold}(a, b); }});"
    yield f"{name} = ({types.register(acc.dtype)}){whole_name(acc)};"


def lane_lets(body: Sequence[Stmt], scope: Scope) -> list[str]:
    """Names defined by `body` that hold lanes."""
    found: list[str] = []
    if not scope.var:
        return found
    for stmt in body:
        inner = scope.having(*found)
        match stmt:
            case Let(name, value) if depends(value, inner):
                found.append(name)
            case Loop():
                found += lane_accs(stmt, inner)
    return found


def lane_accs(loop: Loop, scope: Scope) -> list[str]:
    """The accumulators and scans of a plain loop that hold lanes (it stands in a vector loop)."""
    found: list[str] = []
    for _ in range(len(loop.folds) + 1):  # a scan's value may read another scan
        inside = scope.having(*found)
        inside = inside.having(*lane_lets(loop.body, inside))
        found = [f.name for f in loop.folds if depends(f.value, inside) or _moves(f, inside)]
    return found


def _moves(fold: Acc | Scan, scope: Scope) -> bool:
    return fold.position is not None and scope.moves(fold.position)
