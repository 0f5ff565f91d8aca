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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce

from dynacomp.codegen.cpp import types
from dynacomp.codegen.cpp.columns import columns, wants_columns
from dynacomp.codegen.cpp.cost import cost, cycles, grain, iterations, stores_in, work_of
from dynacomp.codegen.cpp.expr import Scope, depends, emit
from dynacomp.codegen.cpp.folds import (
    BLOCK,
    collect,
    collect_either,
    declare,
    declare_blocks,
    flush,
    flushed,
    fold_into,
    is_long,
    lane_accs,
    lane_lets,
    round_accs,
    whole_name,
)
from dynacomp.codegen.cpp.index import cpp_name, index_code, names_in
from dynacomp.codegen.cpp.runs import Run, with_runs
from dynacomp.codegen.cpp.scatter import inside_out
from dynacomp.codegen.cpp.sections import Section, sections
from dynacomp.codegen.cpp.shape import Unit, lane_width, numels, scratch, unit_of
from dynacomp.codegen.cpp.stores import store, woven, zip_store
from dynacomp.codegen.cpp.tiles import FIRST_INNER, FIRST_OUTER, INNER, OUTER, Tiling, tiling
from dynacomp.lowering.kernel_ir.loops import Acc, Kernel, Let, Loop, Stmt, Store, inner_loops, is_nest
from dynacomp.lowering.kernel_ir.scalars import DEAR

SPAN = 64    # columns of a scatter's rows that a thread takes at once
SHORT = 16   # iterations of a small kernel's loop that are no work for lanes ...
FEWEST = 4   # ... unless each of them costs a function like exp ...
MUCH = 80    # ... or so many cycles in loops of its own
UNROLLED = 256  # iterations of a small kernel's loops that are written out, so that arrays become registers
JAM = 4      # registers of columns that a fold down columns runs in step
UNCUT = 256  # lanes of a loop that threads do not cut
_FEW = 64  # elements of four registers: shorter loops would only fold empty ones
FEWEST_BYTES, MOST_BYTES = 16, 64  # that a register has (kernels/vec.h)
# What threads run. Sizes and places are copied for each piece of the work: as references into the kernel's frame they
# would be read again after each store, since a vector may alias anything.
BODY = "[=](int64_t begin, int64_t end) __attribute__((always_inline)) {"
_LIGHT = 12  # bodies cheaper than this are unrolled over four accumulators

Lines = Iterator[str]


def kernel_body(kernel: Kernel, exact: bool, small: bool = False) -> Lines:
    """The C++ lines of a kernel's function; a `small` one does without threads, and without lanes in short loops."""
    unit = unit_of(kernel, exact)
    if small:  # its locals need no copies for threads and lanes
        unit = replace(unit, small=True, owners={})
    yield from scratch(unit, None)
    yield from statements(kernel.body, Scope(numels=numels(kernel)), unit)


def statements(body: Sequence[Stmt | Run], scope: Scope, unit: Unit) -> Lines:
    """The C++ lines of `body`."""
    done = 0
    for at, stmt in enumerate(body):
        match stmt:
            case _ if at < done:
                continue
            case Let(name):
                value = emit(stmt.value, scope)
                scope = scope.having(name) if value.vector else scope
                if stmt.value.dtype == bool:
                    scope = replace(scope, known=scope.known.naming(name, stmt.value))
                unused = "[[maybe_unused]] " if stmt.value.dtype == bool else ""
                yield f"{unused}const auto {scope.call(name)} = {value.code};"
            case Run(code):
                yield code
            case Store() if run := woven(body[at:], scope):
                yield zip_store(run, scope)
                done = at + len(run)
            case Store():
                yield store(stmt, scope)
            case Loop():
                yield from _loop(stmt, scope, unit)
                scope = scope.having(*lane_accs(stmt, scope)) if scope.var else scope


def _loop(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    if unit.small:
        lanes = loop.vector and _pays(loop) and not scope.var and not unit.locals and lane_width(loop, unit)
        return (_vector if lanes else _plain)(loop, scope, unit)
    if loop.parallel and not scope.threaded and not scope.var:
        return _threads(loop, scope, unit)
    if loop.vector and not scope.var and lane_width(loop, unit):
        alone = loop.accs and not scope.threaded and not any(a.is_arg for a in loop.accs)
        return (_pieces if alone else _vector)(loop, scope, unit)
    return _plain(loop, scope, unit)


def _pays(loop: Loop) -> bool:
    """Do lanes pay in a small kernel? They keep arrays in memory."""
    dear = cost(loop.body, loop.accs) >= DEAR or cycles(loop.body) >= MUCH
    return loop.extent >= SHORT or loop.extent >= FEWEST and dear


# ---- plain loops ------------------------------------------------------------------------------

def _plain(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    """A counted loop; inside a vector loop it runs in step for all lanes."""
    scope = scope.inside(loop)
    inner = scope.having(*lane_accs(loop, scope)) if scope.var else scope
    for fold in loop.folds:
        yield from declare(fold, inner)
    unrolled = unit.small and iterations(loop) <= UNROLLED
    long = [] if unrolled or loop.reverse else [(acc, inner) for acc in loop.accs if is_long(acc, loop.extent)]
    if unrolled:
        yield f"#pragma GCC unroll {loop.extent}"
    yield from _counted(loop, long, _iteration(loop, inner, unit))
    yield from round_accs(loop.accs, inner)


def _counted(loop: Loop, long: Sequence[tuple[Acc, Scope]], iteration: Lines) -> Lines:
    """The loop; in blocks where there are long sums."""
    if not long:
        yield _header(loop)
        yield from indent(iteration)
        yield "}"
        return
    for acc, scope in long:
        yield from declare_blocks(acc, scope)
    var, extent = cpp_name(loop.var.name), index_code(loop.extent)
    yield f"for (int64_t {var}b = 0; {var}b < {extent}; {var}b += {BLOCK}) {{"
    yield f"  const int64_t {var}e = least({extent}, {var}b + {BLOCK});"
    yield f"  for (int64_t {var} = {var}b; {var} < {var}e; ++{var}) {{"
    yield from indent(iteration, 2)
    yield "  }"
    yield f"  if ({extent} <= {BLOCK}) break;  // one block: no doubles are needed"
    yield from indent(line for acc, scope in long for line in flush(acc, scope, f"({var}b + {BLOCK - 1})"))
    yield "}"
    yield f"if ({extent} > {BLOCK}) {{"
    yield from indent(line for acc, scope in long for line in flushed(acc, scope))
    yield "}"


def _header(loop: Loop) -> str:
    var, extent = cpp_name(loop.var.name), index_code(loop.extent)
    if loop.reverse:
        return f"for (int64_t {var} = {extent} - 1; {var} >= 0; --{var}) {{"
    return f"for (int64_t {var} = 0; {var} < {extent}; ++{var}) {{"


def _iteration(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    yield from statements(loop.body, scope, unit)
    inside = scope.having(*lane_lets(loop.body, scope))
    for fold in loop.folds:
        yield from fold_into(fold, inside, "")
    yield from statements(loop.after, inside, unit)


# ---- vector loops -----------------------------------------------------------------------------


def _vector(loop: Loop, scope: Scope, unit: Unit, begin: str = "0", end: str = "") -> Lines:
    """A vector loop over [begin, end): lanes, accumulators in several registers, one tail."""
    width = lane_width(loop, unit)
    few = int(loop.extent) if _shorter(loop, MOST_BYTES // width // 2 + 1) else 0
    inner = replace(scope.inside(loop), var=loop.var.name, width=width, few=few,
                    vectors=frozenset(a.name for a in loop.accs),
                    widened=frozenset(name for name, owner in unit.owners.items() if owner is loop))
    end = end or index_code(loop.extent)
    if loop.accs:
        yield from _reduce(loop, inner, unit, begin, end)
        return
    body = (*loop.body, *loop.after)
    if not _shorter(loop, JAM * MOST_BYTES // inner.width) and wants_columns(loop, inner):
        yield from columns(loop, inner, begin, end, partial(statements, unit=unit), partial(_iteration, unit=unit))
    elif not _may_jam(loop, inner) or _shorter(loop, JAM * FEWEST_BYTES // inner.width):
        if found := sections(loop, inner.known, MOST_BYTES // inner.width):
            yield from _in_sections(loop, found, inner, unit, begin, end)
        else:
            yield from _lanes_loop(loop, body, inner, unit, begin, end)
    elif _shorter(loop, JAM * MOST_BYTES // inner.width):  # the compiler knows its machine, and is spared the rest
        yield f"#if {index_code(loop.extent)} >= {JAM} * (DC_VECTOR_BYTES / {inner.width})"
        yield from _jam(loop, body, inner, unit, begin, end)
        yield "#else"
        yield from _lanes_loop(loop, body, inner, unit, begin, end)
        yield "#endif"
    else:
        yield from _jam(loop, body, inner, unit, begin, end)


def _shorter(loop: Loop, extent: int) -> bool:
    return bool(loop.extent.is_Integer and loop.extent < extent)


def _jam(loop: Loop, body: Sequence[Stmt], inner: Scope, unit: Unit, begin: str, end: str) -> Lines:
    """A vector loop of several registers in step, then the rest one by one."""
    yield "{"
    yield f"  int64_t first = {begin};"
    yield f"  for (; first + {JAM}*({inner.lanes}) <= {end}; first += {JAM}*({inner.lanes})) {{"
    yield f"    [[maybe_unused]] const full<{inner.lanes}> lanes{{}};"
    scopes = [replace(inner, suffix=f"u{k}") for k in range(JAM)]
    for k, one in enumerate(scopes):
        yield f"    const int64_t {one.call(loop.var.name)} = first + {k}*({inner.lanes});"
    yield from indent(_jammed(body, scopes, unit), 2)
    yield "  }"
    yield from indent(_lanes_loop(loop, body, inner, unit, "first", end))
    yield "}"


def _lanes_loop(loop: Loop, body: Sequence[Stmt], scope: Scope, unit: Unit, begin: str, end: str) -> Lines:
    variable = f"int64_t {cpp_name(loop.var.name)}"
    ahead, stmts = with_runs(body, scope)
    if ahead:
        yield "{"
        yield from indent(ahead)
    yield f"vector_loop<{scope.lanes}>({_range(loop, begin, end)}, [&]({variable}, auto lanes)"
    yield "  __attribute__((always_inline)) {"
    yield from indent(statements(stmts, scope, unit))
    yield "});"
    if ahead:
        yield "}"


def _in_sections(loop: Loop, found: Sequence[Section], scope: Scope, unit: Unit, begin: str, end: str) -> Lines:
    """A vector loop part by part (see `sections`); between the sections, registers whose lanes differ."""
    body, extent, most = (*loop.body, *loop.after), int(loop.extent), MOST_BYTES // scope.width
    parts: list[tuple[str, int, int]] = []  # to where each goes, and between which lanes it lies on any machine
    done = 0
    for first, last in found:
        if first > done or done % most:
            parts.append((f"ceil_div({first}, {scope.lanes})*({scope.lanes})", done // most * most,
                          -(-first // most) * most - 1))
        parts.append((end if last == extent else f"{last}/({scope.lanes})*({scope.lanes})", first, last - 1))
        done = last
    if done < extent:
        parts.append((end, done // most * most, extent - 1))
    yield "{"
    yield f"  int64_t first = {begin};"
    for to, low, high in parts:
        yield f"  const int64_t last{low} = least({end}, {to});" if to != end else f"  const int64_t last{low} = {end};"
        inner = replace(scope, known=scope.known.within(loop.var.name, low, min(high, extent - 1)))
        yield from indent(_lanes_loop(loop, body, inner, unit, "first", f"last{low}"))
        yield f"  first = most(first, last{low});"
    yield "}"


def _range(loop: Loop, begin: str, end: str) -> str:
    """Where a vector loop begins and ends: all of a known extent is said by its type, see kernels/vec.h."""
    known = loop.extent.is_Integer and (begin, end) == ("0", index_code(loop.extent))
    return f"upto<{end}>{{}}" if known else f"{begin}, {end}"


def _may_jam(loop: Loop, scope: Scope) -> bool:
    """Folds down columns: several registers of columns in step use whole cache lines and hide latency."""
    inner = inner_loops(loop.body)
    simple = not scope.widened and not loop.after and cost(_moving(loop.body, scope)) < _LIGHT
    return simple and bool(inner) and all(map(_is_simple_fold, inner))


def _moving(body: Sequence[Stmt], scope: Scope) -> list[Stmt]:
    """`body` without the Lets that are the same for all lanes: registers side by side share them."""
    names = scope.having(*lane_lets(body, scope))
    return [replace(s, body=tuple(_moving(s.body, names))) if is_nest(s) else s for s in body
            if not isinstance(s, Let) or s.name in names.vectors]


def _is_simple_fold(loop: Loop) -> bool:
    nested = bool(inner_loops(loop.body))
    return bool(loop.accs) and not nested and not loop.scans and not any(a.is_arg for a in loop.accs)


def _jammed(body: Sequence[Stmt], scopes: list[Scope], unit: Unit) -> Lines:
    """`body` for several registers of lanes at once: each statement for all of them, inner loops shared."""
    for stmt in body:
        match stmt:
            case Loop():
                scopes = [s.having(*lane_accs(stmt, s)) for s in scopes]
                yield from _jammed_loop(stmt, scopes, unit)
            case Let(name, value):
                vector = depends(value, scopes[0])
                scopes = [s.having(name) if vector else s for s in scopes]
                yield from (line for s in _distinct(name, scopes) for line in statements((stmt,), s, unit))
            case _:
                yield from (line for s in scopes for line in statements((stmt,), s, unit))


def _jammed_loop(loop: Loop, scopes: list[Scope], unit: Unit) -> Lines:
    folding = [s.having(*lane_lets(loop.body, s)) for s in scopes]
    yield from (line for acc in loop.accs for s in _distinct(acc.name, scopes) for line in declare(acc, s))
    long = [(acc, s) for acc in loop.accs if is_long(acc, loop.extent) for s in _distinct(acc.name, scopes)]
    fold = [line for acc in loop.accs for s in _distinct(acc.name, folding) for line in fold_into(acc, s, "")]
    yield from _counted(loop, long, iter([*_jammed(loop.body, scopes, unit), *fold]))
    yield from (line for s in scopes for line in round_accs(loop.accs, s))


def _distinct(name: str, scopes: list[Scope]) -> list[Scope]:
    """The scopes in which `name` is another variable: all, or the first where it is no lanes."""
    return scopes if name in scopes[0].vectors else scopes[:1]


def _unrolled(loop: Loop) -> int:
    """How many registers each accumulator of a vector loop takes: more hide the latency of the fold."""
    plain = not inner_loops(loop.body) and not any(a.is_arg for a in loop.accs)
    short = loop.extent.is_Integer and loop.extent < _FEW
    return 4 if plain and not short and cost(loop.body, loop.accs) < _LIGHT else 1


def _long(loop: Loop, width: int) -> list[Acc]:
    """The sums of a vector loop that doubles keep, block by block."""
    most = 2 * BLOCK * _unrolled(loop) * MOST_BYTES // width
    return [] if _shorter(loop, most + 1) else [acc for acc in loop.accs if is_long(acc, loop.extent)]


def _reduce(loop: Loop, scope: Scope, unit: Unit, begin: str, end: str) -> Lines:
    slots, long = _unrolled(loop), _long(loop, scope.width)
    for acc in loop.accs:
        yield f"{types.register(acc.dtype)} {cpp_name(acc.name)};"
    for acc in long:
        yield f"[[maybe_unused]] double {whole_name(acc)};"
    yield "{"
    for acc in loop.accs:
        yield from indent(declare(acc, scope, slots))
    for acc in long:
        name = cpp_name(acc.name)
        yield f"  decltype(widened({name}start)) {name}blocks[] = {{{', '.join(['{}'] * slots)}}};"
    if long:
        yield f"  const int64_t block = {BLOCK * slots}*({scope.lanes});"
        yield f"  const bool short_sum = {end} - ({begin}) <= block;  // one block: no doubles are needed"
        yield f"  for (int64_t first = {begin}; first < {end}; first += block) {{"
    yield f"  reduce_loop<{scope.lanes}, {slots}>({_range(loop, *_block(begin, end, bool(long)))},"
    yield f"    [&]([[maybe_unused]] int64_t {cpp_name(loop.var.name)}, auto lanes, auto slot)"
    yield "      __attribute__((always_inline)) {"
    yield from indent(statements((*loop.body, *loop.after), scope, unit), 2)
    body = scope.having(*lane_lets(loop.body, scope))
    for acc in loop.accs:
        yield from indent(fold_into(acc, body, "s[slot.value]"), 2)
    yield "  });"
    if long:
        yield "  if (short_sum) break;"
    for name in (cpp_name(acc.name) for acc in long):
        for k in range(slots):  # no loop: arrays whose places are known are registers
            yield f"  {name}blocks[{k}] = {name}blocks[{k}] + widened({name}s[{k}]);"
            yield f"  {name}s[{k}] = {name}start;"
    if long:
        yield "  }"
    for acc in loop.accs:
        yield from indent(collect_either(acc, slots) if acc in long else collect(acc, slots))
    yield "}"
    yield from round_accs(loop.accs, replace(scope, suffix=""))


def _block(begin: str, end: str, cut: bool) -> tuple[str, str]:
    return ("first", f"least({end}, first + block)") if cut else (begin, end)


def _pieces(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    """A reduction that no parallel loop surrounds: at most 64 pieces, however many threads there are, so
    that the result is always the same bits; long sums gain accuracy too."""
    for acc in loop.accs:
        yield f"{types.register(acc.dtype)} {cpp_name(acc.name)};"
    yield "{"
    yield f"  const int64_t all = {index_code(loop.extent)}, piece = piece_of(all);"
    yield "  const int64_t pieces = ceil_div(all, piece);"
    long = _long(loop, lane_width(loop, unit))
    for acc in loop.accs:
        yield f"  {'double' if acc in long else types.register(acc.dtype)} {cpp_name(acc.name)}p[64];"
    work = grain(f"(double)piece*({work_of(loop, 8)})")
    yield f"  parallel(rt, pieces, {work}, [&](int64_t begin, int64_t end) {{"
    yield "    for (int64_t p = begin; p < end; ++p) {"
    inner = replace(scope, threaded=True)
    yield from indent(_vector(loop, inner, unit, "p*piece", "least(all, p*piece + piece)"), 3)
    for acc in loop.accs:
        yield f"      {cpp_name(acc.name)}p[p] = {whole_name(acc) if acc in long else cpp_name(acc.name)};"
    yield "    }"
    yield "  });"
    for acc in loop.accs:
        name = cpp_name(acc.name)
        yield "  for (int64_t w = 1; w < pieces; w *= 2) for (int64_t p = 0; p + w < pieces; p += 2*w)"
        yield f"    {name}p[p] = {types.FOLD[acc.fold]}({name}p[p], {name}p[p + w]);"
        yield f"  {name} = pieces ? ({types.register(acc.dtype)}){name}p[0] : {types.identity(acc.fold, acc.dtype)};"
    yield "}"


# ---- threads ----------------------------------------------------------------------------------

def _threads(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    """A chain of parallel loops, flattened: `outer` ones count, a last `vector` one runs as lanes."""
    chain = _chain(loop)
    last = chain[-1]
    lanes = last if last.vector and lane_width(last, unit) else None
    outer = chain[:-1] if lanes else chain
    scope = replace(reduce(Scope.inside, outer, scope), threaded=True)
    if any(s.mode != "set" for s in stores_in(loop)):
        plan = inside_out(loop, unit)
        yield from _over_updates(loop, *plan, scope, unit) if plan else _serial(chain, scope, unit)
    elif not outer:
        yield from _over_lanes(last, scope, unit)
    elif lanes and (tiles := tiling(outer, lanes)):
        yield from _over_tiles(outer, tiles, scope, unit)
    else:
        yield from _over_units(outer, lanes, scope, unit)


def _chain(loop: Loop) -> list[Loop]:
    """Perfectly nested parallel loops from `loop` down, of extents that do not depend on each other."""
    chain = [loop]
    while True:
        match chain[-1]:
            case Loop(body=(Loop(parallel=True) as inner,), after=(), vector=False, reverse=False) if names_in(
                    inner.extent).isdisjoint({c.var.name for c in chain}):
                chain.append(inner)
            case _:
                return chain


def _serial(chain: list[Loop], scope: Scope, unit: Unit) -> Lines:
    """Read-modify-write stores that may meet: in the order of the loops, on one thread."""
    yield "[&] {"
    yield from scratch(unit, chain[0])
    first = chain[0]
    if first.vector and lane_width(first, unit):
        yield from _vector(first, scope, unit)
    else:
        yield from _plain(first, scope, unit)
    yield "}();"


def _over_updates(loop: Loop, updates: Loop, lanes: Loop, scope: Scope, unit: Unit) -> Lines:
    """A scatter whose rows never meet (see `scatter`): threads take spans of the rows."""
    extent, work = index_code(loop.extent), grain(f"{SPAN}*({work_of(loop, 8)})")
    spans = f"ceil_div({extent}, {SPAN})"
    # Each piece goes through all updates, and to all their rows in memory: one for each thread.
    work = f"most({work}, ceil_div({spans}, (int64_t)rt->threads))"
    yield f"parallel(rt, {spans}, {work}, {BODY}"
    yield f"  const int64_t first = begin*{SPAN}, last = least({extent}, end*{SPAN});"
    yield "  " + _header(updates)
    yield from indent(statements(updates.body, scope, unit), 2)
    yield from indent(_vector(lanes, scope, unit, "first", "last"), 2)
    yield "  }"
    yield "});"


def _over_lanes(loop: Loop, scope: Scope, unit: Unit) -> Lines:
    work = grain(work_of(loop, 8))
    yield f"parallel(rt, {index_code(loop.extent)}, {work}, {BODY}"
    yield from indent(scratch(unit, loop))
    yield from indent(_vector(loop, scope, unit, "begin", "end"))
    yield "});"


def _over_units(outer: list[Loop], lanes: Loop | None, scope: Scope, unit: Unit) -> Lines:
    """Threads over the flattened outer loops, times blocks of the vector loop where these are few; a short one is not
    cut, so that the compiler knows its tail."""
    names = [cpp_name(o.var.name) for o in outer]
    extents = [index_code(o.extent) for o in outer]
    work = work_of(outer[-1], 1)
    total = "*".join(f"({e})" for e in extents)
    yield "{"
    cut = lanes if lanes and not _shorter(lanes, UNCUT) else None
    if cut:
        yield f"const int64_t all = {index_code(cut.extent)};"
        yield f"const int64_t block = block_of({total}, all, rt->threads);"
        names, extents = [*names, "b"], [*extents, "ceil_div(all, block)"]
        total = f"{total}*ceil_div(all, block)"
        work = f"(double)block*({work_of(cut, 8)})"
    elif lanes:
        work = f"(double){lanes.extent}*({work_of(lanes, 8)})"
    yield f"parallel(rt, {total}, {grain(work)}, {BODY}"
    yield from indent(scratch(unit, outer[0]))
    yield from indent(_decode(names, extents))
    yield "  for (int64_t u = begin; u < end; ++u) {"
    yield from indent(_vector(cut, scope, unit, "b*block", "least(all, b*block + block)") if cut
                       else _vector(lanes, scope, unit) if lanes else _iteration(outer[-1], scope, unit), 2)
    yield from indent(_advance(names, extents), 2)
    yield "  }"
    yield "});"
    yield "}"


def _over_tiles(outer: list[Loop], plan: Tiling, scope: Scope, unit: Unit) -> Lines:
    """Threads over the flattened outer loops times tiles (see `tiles`)."""
    others = [o for o in outer if o is not plan.along]
    rows, columns = index_code(plan.along.extent), index_code(plan.lanes.extent)
    names = [*(cpp_name(o.var.name) for o in others), "down", "across"]
    extents = [*(index_code(o.extent) for o in others),
               f"ceil_div({rows}, {OUTER})", f"ceil_div({columns}, {INNER})"]
    unit = replace(unit, dtypes={**unit.dtypes, **{t.name: t.load.dtype for t in plan.tiles}})
    first, left = cpp_name(FIRST_OUTER.name), cpp_name(FIRST_INNER.name)
    work = f"{OUTER * INNER}*({work_of(plan.lanes, 8)} + 1.0)"
    total = "*".join(f"({e})" for e in extents)
    yield f"parallel(rt, {total}, {grain(work)}, {BODY}"
    yield from indent(scratch(unit, outer[0]))
    for tile in plan.tiles:
        kind = types.storage(unit.dtypes[tile.load.buffer])
        yield f"  alignas(64) {kind} {cpp_name(tile.name)}[{OUTER * INNER}];"
    yield from indent(_decode(names, extents))
    yield "  for (int64_t u = begin; u < end; ++u) {"
    yield f"    const int64_t {first} = down*{OUTER}, last = least({rows}, {first} + {OUTER});"
    yield f"    const int64_t {left} = across*{INNER}, right = least({columns}, {left} + {INNER});"
    for tile in plan.tiles:
        base = index_code(tile.load.index, {plan.along.var.name: first, plan.lanes.var.name: left})
        source = f"{cpp_name(tile.load.buffer)} + {base}"
        yield (f"    fill_tile<{OUTER}, {INNER}>({cpp_name(tile.name)}, {source}, {index_code(tile.stride)}, "
               f"last - {first}, right - {left});")
    var = cpp_name(plan.along.var.name)
    yield f"    for (int64_t {var} = {first}; {var} < last; ++{var}) {{"
    yield from indent(_vector(plan.lanes, scope, unit, left, "right"), 3)
    yield "    }"
    yield from indent(_advance(names, extents), 2)
    yield "  }"
    yield "});"


def _decode(names: list[str], extents: list[str]) -> Lines:
    """The loop variables at flat position `begin`."""
    if len(names) == 1:
        yield f"int64_t {names[0]} = begin;"
        return
    yield "int64_t rest = begin;"
    for name, extent in zip(reversed(names[1:]), reversed(extents[1:])):
        yield f"int64_t {name} = rest % ({extent}); rest /= ({extent});"
    yield f"int64_t {names[0]} = rest;"


def _advance(names: list[str], extents: list[str]) -> Lines:
    """One step of the flattened loops, like an odometer."""
    carry = f"++{names[0]};"
    for name, extent in zip(names[1:], extents[1:]):
        carry = f"if (++{name} == ({extent})) {{ {name} = 0; {carry} }}"
    yield carry


def indent(lines: Iterable[str], depth: int = 1) -> Lines:
    for line in lines:
        yield "  " * depth + line
