"""Kernel statements as C++: loops, threads, reductions, stores.

The Loop's flags decide: `vector` loops run a body once per register of lanes (`vector_loop`,
`reduce_loop` in kernels/vec.h: the body is compiled for whole registers and for one tail), the
outermost chain of `parallel` loops is flattened and spread over threads (`parallel` in runtime.h)
above a grain of estimated work.

    parallel i < n: vector j < m: ...        threads over i and blocks of j, lanes over j
    parallel vector j < m: for i < n: ...    threads and lanes over j, i in step
    vector i < n: acc s: sum = ...           several accumulators, folded at the end; a long one at the
                                             kernel's top is cut in pieces whose number does not depend
                                             on the threads, so that every run gives the same bits
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy

from dynacomp.codegen import cpp_types as types
from dynacomp.codegen.cpp_cost import cost, stores_in
from dynacomp.codegen.cpp_expr import Scope, address, depends, emit, emit_lanes, lane_names, splat
from dynacomp.codegen.cpp_index import cpp_name, index_code, names_in
from dynacomp.codegen.cpp_locals import Owners, contains, owners
from dynacomp.codegen.cpp_tiles import FIRST_INNER, FIRST_OUTER, INNER, OUTER, Tiling, tiling
from dynacomp.lowering.loops import Acc, Buffer, Kernel, Let, Loop, Stmt, Store

STACK_BYTES = 16_384
CYCLES_PER_THREAD = 30_000  # below this much work a second thread costs more than it saves
_MODES = {"add": "add", "mul": "mul", "max": "max", "min": "min"}
JAM = 4                     # registers of columns that a fold down columns runs in step
_LIGHT = 12                 # bodies cheaper than this are unrolled over four accumulators


Lines = Iterator[str]


@dataclass(frozen=True)
class Unit:
    """What holds for a whole kernel: `exact` numerics, its scratch buffers and the loops that they belong
    to, the dtype of every buffer."""

    exact: bool
    locals: tuple[Buffer, ...]
    owners: Owners
    dtypes: dict[str, np.dtype]


def unit_of(kernel: Kernel, exact: bool) -> Unit:
    """The Unit of a kernel."""
    buffers = (*kernel.inputs, *kernel.outputs, *kernel.locals)
    return Unit(exact, kernel.locals, owners(kernel.body, [b.name for b in kernel.locals]),
                {b.name: np.dtype(b.dtype) for b in buffers})


def kernel_body(kernel: Kernel, exact: bool) -> Lines:
    """The C++ lines of a kernel's function."""
    unit = unit_of(kernel, exact)
    yield from _scratch(unit, None)
    yield from statements(kernel.body, Scope(), unit)


def statements(body: Sequence[Stmt], scope: Scope, unit: Unit) -> Lines:
    """The C++ lines of `body`."""
    for stmt in body:
        if isinstance(stmt, Let):
            value = emit(stmt.value, scope)
            scope = scope.having(stmt.name) if value.vector else scope
            yield f"const auto {scope.call(stmt.name)} = {value.code};"
        elif isinstance(stmt, Store):
            yield _store(stmt, scope)
        else:
            yield from _loop(stmt, scope, unit)
            scope = scope.having(*_lane_accs(stmt, scope)) if scope.var else scope


def _loop(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    if loop.parallel and not scope.threaded and not scope.var:
        return _threads(loop, scope, unit)
    if loop.vector and not scope.var and lane_width(loop, unit):
        alone = loop.accs and not scope.threaded and not any(map(_is_arg, loop.accs))
        return (_pieces if alone else _vector)(loop, scope, unit)
    return _plain(loop, scope, unit)


# ---- plain loops ------------------------------------------------------------------------------

def _plain(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    """A counted loop; inside a vector loop it runs in step for all lanes."""
    inner = scope.having(*_lane_accs(loop, scope)) if scope.var else scope
    for fold in (*loop.accs, *loop.scans):
        yield from _declare(fold, inner)
    yield _header(loop)
    yield from _indent(_iteration(loop, inner, unit))
    yield "}"
    yield from _round_accs(loop.accs, inner)


def _header(loop: Loop) -> str:
    var, extent = cpp_name(loop.var.name), index_code(loop.extent)
    if loop.reverse:
        return f"for (int64_t {var} = {extent} - 1; {var} >= 0; --{var}) {{"
    return f"for (int64_t {var} = 0; {var} < {extent}; ++{var}) {{"


def _iteration(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    yield from statements(loop.body, scope, unit)
    inside = scope.having(*_lane_lets(loop.body, scope))
    for fold in (*loop.accs, *loop.scans):
        yield from _fold(fold, inside, "")
    yield from statements(loop.after, inside, unit)


def _lane_lets(body: Sequence[Stmt], scope: Scope) -> list[str]:
    """Names defined by `body` that hold lanes."""
    found: list[str] = []
    if not scope.var:
        return found
    for stmt in body:
        inner = scope.having(*found)
        if isinstance(stmt, Let) and depends(stmt.value, inner):
            found.append(stmt.name)
        elif isinstance(stmt, Loop):
            found += _lane_accs(stmt, inner)
    return found


def _lane_accs(loop: Loop, scope: Scope) -> list[str]:
    """The accumulators and scans of a plain loop that hold lanes (it stands in a vector loop)."""
    folds = (*loop.accs, *loop.scans)
    found: list[str] = []
    for _ in range(len(folds) + 1):  # a scan's value may read another scan
        inside = scope.having(*found)
        inside = inside.having(*_lane_lets(loop.body, inside))
        found = [f.name for f in folds if depends(f.value, inside) or _moves(f, inside)]
    return found


def _moves(fold: object, scope: Scope) -> bool:
    return isinstance(fold, Acc) and fold.position is not None and scope.moves(fold.position)


# ---- folds ------------------------------------------------------------------------------------

def _is_arg(fold: object) -> bool:
    return isinstance(fold, Acc) and fold.fold in ("argmax", "argmin")


def _best(fold: Acc, scope: Scope) -> str:
    return f"{scope.call(fold.name)}best"


def _declare(fold: Acc, scope: Scope, slots: int = 0) -> Lines:
    """The accumulator at its identity: a scalar, or lanes where the scope says so; or `slots` of them."""
    vector = fold.name in scope.vectors
    names = {scope.call(fold.name): (fold.dtype, types.identity(fold.fold, fold.dtype))}
    if _is_arg(fold):
        dtype = fold.value.dtype
        names = {_best(fold, scope): (dtype, types.identity(fold.fold, dtype)),
                 scope.call(fold.name): (fold.dtype, types.literal(np.iinfo(fold.dtype).max, fold.dtype))}
    for name, (dtype, start) in names.items():
        code = splat(start, dtype, scope) if vector else f"{types.register(dtype)}({start})"
        if slots:
            yield f"const auto {name}start = {code};"
            yield f"bare<decltype({name}start)>::type {name}s[] = {{{', '.join([f'{name}start'] * slots)}}};"
        else:
            yield f"auto {name} = {code};"


def _fold(fold: Acc, scope: Scope, at: str) -> Lines:
    """One iteration's value into the accumulator; `at` is its index when it is unrolled."""
    vector = fold.name in scope.vectors
    give = emit_lanes if vector else (lambda e, s: emit(e, s).code)
    name = scope.call(fold.name) + at
    value = give(fold.value, scope)
    if _is_arg(fold):
        yield from _fold_arg(fold, scope, name, _best(fold, scope) + at, value, bool(at))
        return
    if fold.value.dtype != fold.dtype:
        value = f"convert<{types.register(fold.dtype)}>({value})"
    new = f"{types.FOLD[fold.fold]}({name}, {value})"
    if vector and (at or fold.dtype == bool):
        new = f"keep({name}, {new}, {'lanes' if at else _whole(scope)})"
    yield f"{name} = {new};"


def _whole(scope: Scope) -> str:
    return f"full<({scope.lanes})>{{}}"


def _fold_arg(fold: Acc, scope: Scope, name: str, best: str, value: str, tail: bool) -> Lines:
    vector = fold.name in scope.vectors
    position = types.register(fold.dtype)
    yield "{"
    yield f"  const auto value = {value};"
    if vector and scope.moves(fold.position):
        yield (f"  const auto here = per_lane<{position}>(lanes, [&](int l) {{ return ({position})"
               f"({index_code(fold.position, lane_names(scope))}); }});")
    elif vector:
        yield f"  const auto here = splat<{position}, {scope.lanes}>(({position})({scope.index(fold.position)}));"
    else:
        yield f"  const auto here = ({position})({scope.index(fold.position)});"
    wins = f"wins_{fold.fold}(value, here, {best}, {name})"
    last = "lanes" if tail else _whole(scope)
    yield f"  const auto better = {wins};"
    for target, new in ((best, "value"), (name, "here")):
        chosen = f"select(better, {new}, {target})"
        yield f"  {target} = {f'keep({target}, {chosen}, {last})' if vector else chosen};"
    yield "}"


def _round_accs(accs: Sequence[Acc], scope: Scope) -> Lines:
    for acc in accs:
        if acc.dtype in types.ROUND:
            name = scope.call(acc.name)
            yield f"{name} = {types.ROUND[acc.dtype]}({name});"


# ---- vector loops -----------------------------------------------------------------------------

def lane_width(loop: Loop, unit: Unit) -> int:
    """Bytes of a register for each lane of a vector loop: those of the widest value of its body.

    0 where it must run as a scalar loop: `exact` sums and products of floats keep their order.
    """
    ordered = any(a.fold in ("sum", "prod") and a.dtype.kind not in "biu" for a in loop.accs)
    if (unit.exact and ordered) or loop.scans or loop.reverse or _extents_move(loop):
        return 0
    return max(value_widths(loop, unit), default=4)


def _extents_move(loop: Loop) -> bool:
    inner = [s for s in (*loop.body, *loop.after) if isinstance(s, Loop)]
    return any(loop.var.name in names_in(s.extent) or _extents_move(replace(s, var=loop.var)) for s in inner)


def value_widths(loop: Loop, unit: Unit) -> Iterator[int]:
    """Bytes of every value that a loop's body computes or stores."""
    for stmt in (*loop.body, *loop.after):
        if isinstance(stmt, Loop):
            yield from value_widths(stmt, unit)
            continue
        yield from _expr_widths(stmt.value)
        if isinstance(stmt, Store):
            yield types.register_bytes(unit.dtypes[stmt.buffer])
            yield from _expr_widths(stmt.mask) if stmt.mask is not None else ()
    for fold in (*loop.accs, *loop.scans):
        yield types.register_bytes(fold.dtype)
        yield from _expr_widths(fold.value)


def _expr_widths(expr: object) -> Iterator[int]:
    yield types.register_bytes(expr.dtype)
    for part in (*getattr(expr, "args", ()), getattr(expr, "mask", None), getattr(expr, "other", None)):
        if part is not None:
            yield from _expr_widths(part)


def _vector(loop: Loop, scope: Scope, unit: Unit, begin: str = "0", end: str = "") -> Lines:
    """A vector loop over [begin, end): lanes, accumulators in several registers, one tail."""
    inner = replace(scope, var=loop.var.name, width=lane_width(loop, unit),
                    vectors=frozenset(a.name for a in loop.accs),
                    widened=frozenset(name for name, owner in unit.owners.items() if owner is loop))
    end = end or index_code(loop.extent)
    if loop.accs:
        yield from _reduce(loop, inner, unit, begin, end)
        return
    body = (*loop.body, *loop.after)
    if _may_jam(loop, inner):
        yield "{"
        yield f"  int64_t first = {begin};"
        yield f"  for (; first + {JAM}*({inner.lanes}) <= {end}; first += {JAM}*({inner.lanes})) {{"
        yield f"    [[maybe_unused]] const full<{inner.lanes}> lanes{{}};"
        scopes = [replace(inner, suffix=f"u{k}") for k in range(JAM)]
        for k, one in enumerate(scopes):
            yield f"    const int64_t {one.call(loop.var.name)} = first + {k}*({inner.lanes});"
        yield from _indent(_jammed(body, scopes, unit), 2)
        yield "  }"
        yield from _indent(_lanes_loop(loop, body, inner, unit, "first", end))
        yield "}"
    else:
        yield from _lanes_loop(loop, body, inner, unit, begin, end)


def _lanes_loop(loop: Loop, body: Sequence[Stmt], scope: Scope, unit: Unit, begin: str, end: str) -> Lines:
    yield f"vector_loop<{scope.lanes}>({begin}, {end}, [&](int64_t {cpp_name(loop.var.name)}, auto lanes)"
    yield "  __attribute__((always_inline)) {"
    yield from _indent(statements(body, scope, unit))
    yield "});"


def _may_jam(loop: Loop, scope: Scope) -> bool:
    """Folds down columns: several registers of columns in step use whole cache lines and hide latency."""
    inner = [s for s in loop.body if isinstance(s, Loop)]
    return bool(inner) and not scope.widened and not loop.after and cost(loop.body) < _LIGHT and all(
        s.accs and not s.scans and not any(map(_is_arg, s.accs)) and not any(isinstance(t, Loop) for t in s.body)
        for s in inner)


def _jammed(body: Sequence[Stmt], scopes: list[Scope], unit: Unit) -> Lines:
    """`body` for several registers of lanes at once: each statement for all of them, inner loops shared."""
    for stmt in body:
        if isinstance(stmt, Loop):
            scopes = [s.having(*_lane_accs(stmt, s)) for s in scopes]
            folding = [s.having(*_lane_lets(stmt.body, s)) for s in scopes]
            yield from (line for acc in stmt.accs for s in _distinct(acc.name, scopes) for line in _declare(acc, s))
            yield _header(stmt)
            yield from _indent(_jammed(stmt.body, scopes, unit))
            yield from _indent(line for acc in stmt.accs for s in _distinct(acc.name, folding)
                               for line in _fold(acc, s, ""))
            yield "}"
            yield from (line for s in scopes for line in _round_accs(stmt.accs, s))
        elif isinstance(stmt, Let):
            vector = depends(stmt.value, scopes[0])
            scopes = [s.having(stmt.name) if vector else s for s in scopes]
            yield from (line for s in _distinct(stmt.name, scopes) for line in statements((stmt,), s, unit))
        else:
            yield from (line for s in scopes for line in statements((stmt,), s, unit))


def _distinct(name: str, scopes: list[Scope]) -> list[Scope]:
    """The scopes in which `name` is another variable: all, or the first where it is no lanes."""
    return scopes if name in scopes[0].vectors else scopes[:1]


def _unrolled(loop: Loop) -> int:
    """How many registers each accumulator of a vector loop takes: more hide the latency of the fold."""
    plain = not any(isinstance(s, Loop) for s in loop.body) and not any(map(_is_arg, loop.accs))
    return 4 if plain and cost(loop.body, loop.accs) < _LIGHT else 1


def _reduce(loop: Loop, scope: Scope, unit: Unit, begin: str, end: str) -> Lines:
    slots = _unrolled(loop)
    for acc in loop.accs:
        yield f"{types.register(acc.dtype)} {cpp_name(acc.name)};"
    yield "{"
    for acc in loop.accs:
        yield from _indent(_declare(acc, scope, slots))
    yield f"  reduce_loop<{scope.lanes}, {slots}>({begin}, {end},"
    yield f"    [&](int64_t {cpp_name(loop.var.name)}, auto lanes, auto slot) __attribute__((always_inline)) {{"
    yield from _indent(statements((*loop.body, *loop.after), scope, unit), 2)
    body = scope.having(*_lane_lets(loop.body, scope))
    for acc in loop.accs:
        yield from _indent(_fold(acc, body, "s[slot.value]"), 2)
    yield "  });"
    for acc in loop.accs:
        yield from _indent(_collect(acc, slots))
    yield "}"
    yield from _round_accs(loop.accs, replace(scope, suffix=""))


def _collect(acc: Acc, slots: int) -> Lines:
    """All slots and lanes into the scalar."""
    name, fold = cpp_name(acc.name), types.FOLD[acc.fold]
    if _is_arg(acc):
        yield f"{name} = collect_{acc.fold}({name}bests[0], {name}s[0]);"
        return
    for k in range(1, slots):
        yield f"{name}s[0] = {fold}({name}s[0], {name}s[{k}]);"
    yield f"{name} = fold_lanes({name}s[0], [](auto a, auto b) {{ return {fold}(a, b); }});"


def _pieces(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    """A reduction that no parallel loop surrounds: at most 64 pieces, however many threads there are, so
    that the result is always the same bits; long sums gain accuracy too."""
    for acc in loop.accs:
        yield f"{types.register(acc.dtype)} {cpp_name(acc.name)};"
    yield "{"
    yield f"  const int64_t all = {index_code(loop.extent)}, piece = piece_of(all), pieces = ceil_div(all, piece);"
    for acc in loop.accs:
        yield f"  {types.register(acc.dtype)} {cpp_name(acc.name)}p[64];"
    yield f"  parallel(rt, pieces, {_grain(f'(double)piece*({_work(loop, 8)})')}, [&](int64_t begin, int64_t end) {{"
    yield "    for (int64_t p = begin; p < end; ++p) {"
    yield from _indent(_vector(loop, replace(scope, threaded=True), unit, "p*piece", "least(all, p*piece + piece)"), 3)
    for acc in loop.accs:
        yield f"      {cpp_name(acc.name)}p[p] = {cpp_name(acc.name)};"
    yield "    }"
    yield "  });"
    for acc in loop.accs:
        name = cpp_name(acc.name)
        yield f"  {name} = {types.identity(acc.fold, acc.dtype)};"
        yield f"  for (int64_t p = 0; p < pieces; ++p) {name} = {types.FOLD[acc.fold]}({name}, {name}p[p]);"
    yield "}"


# ---- threads ----------------------------------------------------------------------------------

def _threads(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    """A chain of parallel loops, flattened: `outer` ones count, a last `vector` one runs as lanes."""
    chain = _chain(loop)
    last = chain[-1]
    lanes = last if last.vector and lane_width(last, unit) else None
    outer = chain[:-1] if lanes else chain
    scope = replace(scope, threaded=True)
    if any(s.mode != "set" for s in stores_in(loop)):
        yield from _serial(chain, scope, unit)
    elif not outer:
        yield from _over_lanes(lanes, scope, unit)
    elif lanes and (plan := tiling(outer, lanes)):
        yield from _over_tiles(outer, plan, scope, unit)
    else:
        yield from _over_units(outer, lanes, scope, unit)


def _chain(loop: Loop) -> list[Loop]:
    """Perfectly nested parallel loops from `loop` down, of extents that do not depend on each other."""
    chain = [loop]
    while len(chain[-1].body) == 1 and not chain[-1].after and not chain[-1].vector:
        (inner,) = chain[-1].body
        if not (isinstance(inner, Loop) and inner.parallel) or chain[-1].reverse:
            break
        if not names_in(inner.extent).isdisjoint({c.var.name for c in chain}):
            break
        chain.append(inner)
    return chain


def _serial(chain: list[Loop], scope: Scope, unit: Unit) -> Lines:
    """Read-modify-write stores that may meet: in the order of the loops, on one thread."""
    yield "[&] {"
    yield from _scratch(unit, chain[0])
    first = chain[0]
    if first.vector and lane_width(first, unit):
        yield from _vector(first, scope, unit)
    else:
        yield from _plain(first, scope, unit)
    yield "}();"


def _scratch(unit: Unit, loop: Loop | None) -> Lines:
    """The local buffers that belong to `loop` or to loops inside it (None: to the kernel): on the stack
    where they are small, else from the heap; without memory the kernel gives up (see `scratch`)."""
    for buffer in unit.locals:
        owner = unit.owners.get(buffer.name)
        if (owner is None) == (loop is None) and (loop is None or contains(loop, owner)):
            yield from _local(buffer, lane_width(owner, unit) if owner and owner.vector else 0)


def _local(buffer: Buffer, width: int) -> Lines:
    kind, name = types.storage(buffer.dtype), cpp_name(buffer.name)
    count = f"({index_code(buffer.numel)})" + (f"*(kVectorBytes / {width})" if width else "")
    numel = sympy.sympify(buffer.numel)
    if numel.is_Integer and int(numel) * buffer.dtype.itemsize * (64 if width else 1) <= STACK_BYTES:
        yield f"alignas(64) {kind} {name}[{count}];"
        return
    yield f"scratch<{kind}> {name}own({count});"
    yield f"{kind}* const {name} = {name}own.data;"
    yield f"if (!{name}) return;"


def _grain(work: str) -> str:
    """Iterations worth a thread of their own, when one costs `work` cycles."""
    return f"grain_of({CYCLES_PER_THREAD}.0, {work})"


def _work(loop: Loop, lanes: int) -> str:
    """The estimated cycles of one iteration of `loop`, as a C++ double; `lanes` iterations share them."""
    own = cost([s for s in loop.body if not isinstance(s, Loop)], loop.accs)
    parts = [f"{max(own / lanes, 0.05):.3f}"]
    for inner in (s for s in (*loop.body, *loop.after) if isinstance(s, Loop)):
        across = 8 if inner.vector and lanes == 1 else lanes
        first = inner.extent.xreplace({v: sympy.Integer(0) for v in inner.extent.free_symbols if not v.is_positive})
        parts.append(f"(double)({index_code(first)})*({_work(inner, across)})")  # as in the first iteration
    return " + ".join(parts)


def _over_lanes(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    yield f"parallel(rt, {index_code(loop.extent)}, {_grain(_work(loop, 8))}, [&](int64_t begin, int64_t end) {{"
    yield from _indent(_scratch(unit, loop))
    yield from _indent(_vector(loop, scope, unit, "begin", "end"))
    yield "});"


def _over_units(outer: list[Loop], lanes: Loop | None, scope: Scope, unit: Unit) -> Lines:
    """Threads over the flattened outer loops, times blocks of the vector loop where these are few."""
    names = [cpp_name(o.var.name) for o in outer]
    extents = [index_code(o.extent) for o in outer]
    work = _work(outer[-1], 1)
    total = "*".join(f"({e})" for e in extents)
    yield "{"
    if lanes:
        yield f"const int64_t all = {index_code(lanes.extent)};"
        yield f"const int64_t block = block_of({total}, all, rt->threads);"
        names, extents = [*names, "b"], [*extents, "ceil_div(all, block)"]
        total = f"{total}*ceil_div(all, block)"
        work = f"(double)block*({_work(lanes, 8)})"
    yield f"parallel(rt, {total}, {_grain(work)}, [&](int64_t begin, int64_t end) {{"
    yield from _indent(_scratch(unit, outer[0]))
    yield from _indent(_decode(names, extents))
    yield "  for (int64_t u = begin; u < end; ++u) {"
    yield from _indent(_vector(lanes, scope, unit, "b*block", "least(all, b*block + block)") if lanes
                       else _iteration(outer[-1], scope, unit), 2)
    yield from _indent(_advance(names, extents), 2)
    yield "  }"
    yield "});"
    yield "}"


def _over_tiles(outer: list[Loop], plan: Tiling, scope: Scope, unit: Unit) -> Lines:
    """Threads over the flattened outer loops times tiles (see `cpp_tiles`)."""
    others = [o for o in outer if o is not plan.along]
    rows, columns = index_code(plan.along.extent), index_code(plan.lanes.extent)
    names = [*(cpp_name(o.var.name) for o in others), "down", "across"]
    extents = [*(index_code(o.extent) for o in others), f"ceil_div({rows}, {OUTER})", f"ceil_div({columns}, {INNER})"]
    unit = replace(unit, dtypes={**unit.dtypes, **{t.name: t.load.dtype for t in plan.tiles}})
    first, left = cpp_name(FIRST_OUTER.name), cpp_name(FIRST_INNER.name)
    work = f"{OUTER * INNER}*({_work(plan.lanes, 8)} + 1.0)"
    yield f"parallel(rt, {'*'.join(f'({e})' for e in extents)}, {_grain(work)}, [&](int64_t begin, int64_t end) {{"
    yield from _indent(_scratch(unit, outer[0]))
    for tile in plan.tiles:
        kind = types.storage(unit.dtypes[tile.load.buffer])
        yield f"  alignas(64) {kind} {cpp_name(tile.name)}[{OUTER * INNER}];"
    yield from _indent(_decode(names, extents))
    yield "  for (int64_t u = begin; u < end; ++u) {"
    yield f"    const int64_t {first} = down*{OUTER}, last = least({rows}, {first} + {OUTER});"
    yield f"    const int64_t {left} = across*{INNER}, right = least({columns}, {left} + {INNER});"
    for tile in plan.tiles:
        base = index_code(tile.load.index, {plan.along.var.name: first, plan.lanes.var.name: left})
        yield (f"    fill_tile<{OUTER}, {INNER}>({cpp_name(tile.name)}, {cpp_name(tile.load.buffer)} + {base}, "
               f"{index_code(tile.stride)}, last - {first}, right - {left});")
    var = cpp_name(plan.along.var.name)
    yield f"    for (int64_t {var} = {first}; {var} < last; ++{var}) {{"
    yield from _indent(_vector(plan.lanes, scope, unit, left, "right"), 3)
    yield "    }"
    yield from _indent(_advance(names, extents), 2)
    yield "  }"
    yield "});"


def _decode(names: list[str], extents: list[str]) -> Lines:
    """The loop variables at flat position `begin`."""
    if len(names) == 1:
        yield f"int64_t {names[0]} = begin;"
        return
    yield "int64_t rest = begin;"
    for name, extent in zip(reversed(names[1:]), reversed(extents[1:])):
        yield f"int64_t {name} = rest % ({extent}); rest /= {extent if extent.isidentifier() else f'({extent})'};"
    yield f"int64_t {names[0]} = rest;"


def _advance(names: list[str], extents: list[str]) -> Lines:
    """One step of the flattened loops, like an odometer."""
    carry = f"++{names[0]};"
    for name, extent in zip(names[1:], extents[1:]):
        carry = f"if (++{name} == ({extent})) {{ {name} = 0; {carry} }}"
    yield carry


# ---- stores -----------------------------------------------------------------------------------

def _store(stmt: Store, scope: Scope) -> str:
    where = cpp_name(stmt.buffer)
    if not scope.var:
        return _scalar_store(stmt, scope, where)
    how, index = address(stmt.buffer, stmt.index, scope)
    value = emit_lanes(stmt.value, scope)
    if stmt.mode == "set" and stmt.mask is None:
        if how == "contiguous":
            return f"store({where} + {index}, {value}, lanes);"
        return f"scatter({where}, {value}, lanes, [&](int l) {{ (void)l; return {index}; }});"
    if how == "contiguous":
        index = f"({index}) + l"
    at_lane = f"[&](int l) {{ (void)l; return {index}; }}"
    mask = emit_lanes(stmt.mask, scope) if stmt.mask is not None else "true"
    if stmt.mode == "set":
        return f"masked_scatter({where}, {value}, lanes, {mask}, {at_lane});"
    return f"update({where}, {value}, lanes, {mask}, {at_lane}, {_op(stmt)});"


def _op(stmt: Store) -> str:
    return f"[](auto a, auto b) {{ return {_MODES[stmt.mode]}(a, b); }}"


def _scalar_store(stmt: Store, scope: Scope, where: str) -> str:
    target = f"{where} + {scope.index(stmt.index)}"
    value = emit(stmt.value, scope).code
    if stmt.mode != "set":
        value = f"{_MODES[stmt.mode]}(load({target}), {value})"
    guard = f"if ({emit(stmt.mask, scope).code}) " if stmt.mask is not None else ""
    return f"{guard}store({target}, {value});"


def _indent(lines: Lines, depth: int = 1) -> Lines:
    for line in lines:
        yield "  " * depth + line
