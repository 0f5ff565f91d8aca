"""What has to be computed: the realised nodes of a primitive Graph as Items.

A node is *realised* when its elements are computed once and kept (in a buffer, or, when fusion
brings producer and consumers together, in a register); all other nodes are inlined into whoever
reads them. Realised are: outputs, operands of templates and of XLA calls, reductions, scans,
scatters, and elementwise nodes whose recomputation would cost more than keeping them.

An `Item` is one realised node with its loop variables and its value, an expression in which other
realised nodes are Loads. Reshapes are never realised: they share their operand's buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import sympy

from dynacomp.capture.base.of_class import of_class
from dynacomp.capture.graph.graph import Node
from dynacomp.lowering.kernel_ir.loops import Expr, Load
from dynacomp.lowering.kernel_ir.scalars import DEAR, SCALARS
from dynacomp.lowering.rules.pairs import place_of_part
from dynacomp.lowering.rules.reader import Point, Reader, dtype_of, shape_of, walk
from dynacomp.lowering.rules.reduce import CUMULATIVE, Fold, accumulator
from dynacomp.lowering.rules.scatter import MODES, STORES, ScatterStore, is_single
from dynacomp.lowering.rules.window import ALL_FOLDS as FOLDS
from dynacomp.lowering.rules.window import WINDOW_FOLDS
from dynacomp.lowering.sizes.indexing import ZERO, FloorDiv, FloorMod, coefficient, flat, hint, product, total

NARROW = 8
"""Reductions over fewer elements than this run as lanes over the results, not over themselves."""
LEAST_LANES, MOST_RESIDUES = 32, 4
WOVEN = 4
"""Columns so few that lanes down one of them load whole registers all the same."""


@dataclass(frozen=True, eq=False)
class Item:
    """One realised node: `value` at position `at` (and `inner`, for folds) of loop variables.

    kind: "point" (one value per position), "fold" (folds `inner` away), "scan" (running fold along
    dimension `axis`), "scatter" (stores into an array that another item made).
    lanes: it wants SIMD lanes over its last result dimension rather than over its innermost loop.
    after: buffers that must be there before it is computed, though it does not read them.
    target, place: the item is a part of the array `target`, stored at flat offset `place` in it.
    """

    name: str
    kind: str
    shape: tuple[sympy.Expr, ...]
    dtype: np.dtype
    at: Point
    value: Expr
    inner: Point = ()
    extents: tuple[sympy.Expr, ...] = ()
    fold: Fold | None = None
    axis: int = -1
    reverse: bool = False
    lanes: bool = True
    reads: tuple[Load, ...] = field(default=())
    store: ScatterStore | None = None
    target: str = ""
    place: sympy.Expr | None = None
    after: frozenset[str] = frozenset()
    cuts: dict[sympy.Expr, Any] = field(init=False, repr=False, default_factory=dict)  # see `groups.cut`

    @cached_property
    def numel(self) -> sympy.Expr:
        return product(self.shape)

    @cached_property
    def work(self) -> int:
        """How many times the value is computed, by a plausible guess for unknown sizes."""
        return total((*self.shape, *self.extents))

    @cached_property
    def row_counts(self) -> tuple[sympy.Expr, ...]:
        """The numbers of rows that it may be cut into, most first: of its leading dimensions, a scan's before its
        axis."""
        limit = self.axis if self.kind == "scan" else len(self.shape)
        return tuple(dict.fromkeys(product(self.shape[:k]) for k in range(limit, -1, -1)))

    @property
    def is_deep(self) -> bool:
        """Does it fold enough elements for lanes?"""
        return total(self.extents) >= NARROW


def make_item(reader: Reader, node: Node) -> Item:
    """The Item of a node: its value is read as if it were not realised."""
    name = node.name
    realised = name in reader.realised
    reader.realised.discard(name)
    try:
        return _make(reader, node)
    finally:
        if realised:
            reader.realised.add(name)


def _make(reader: Reader, node: Node) -> Item:
    op = getattr(node.target, "name", "")
    if op in FOLDS:
        return make_fold_item(reader, node.name, shape_of(node), dtype_of(node), FOLDS[op](node))
    if op in CUMULATIVE:
        return _scan_item(reader, node, CUMULATIVE[op])
    shape = shape_of(node)
    at = reader.point(shape)
    value = reader.fresh_read(node, at)
    return Item(node.name, "point", shape, dtype_of(node), at, value, reads=loads_of(reader, value))


def make_fold_item(reader: Reader, name: str, shape: Point, dtype: np.dtype, fold: Fold) -> Item:
    """The Item of a reduction into an array of `shape`."""
    at = reader.point(shape)
    inner = reader.point(fold.extents, depth=sum(n != 1 for n in shape))
    value = fold.value(reader, at, inner)
    reads = loads_of(reader, value)
    if all(n == 1 for n in fold.extents) and fold.position is None:  # nothing is folded away
        value = reader.apply("convert", value, dtype=dtype)
        return Item(name, "point", shape, dtype, at, value, reads=reads)
    return Item(
        name,
        "fold",
        shape,
        dtype,
        at,
        value,
        inner,
        fold.extents,
        fold,
        lanes=_wants_lanes(reader, at, inner, shape, fold.extents, reads),
        reads=reads,
    )


def _scan_item(reader: Reader, node: Node, how: str) -> Item:
    shape, axis = shape_of(node), node.kwargs["axis"]
    at = reader.point(shape)
    if shape[axis] == 1:  # no loop to go along
        value = reader.read(node.args[0], at)
        return Item(node.name, "point", shape, dtype_of(node), at, value, reads=loads_of(reader, value))
    dtype = accumulator(how, dtype_of(node))
    value = reader.apply("convert", reader.read(node.args[0], at), dtype=dtype)
    fold = Fold((), how, dtype, lambda *_: value)
    last = all(n == 1 for n in shape[axis + 1 :])
    return Item(
        node.name,
        "scan",
        shape,
        dtype_of(node),
        at,
        value,
        (),
        (),
        fold,
        axis,
        bool(node.kwargs.get("reverse")),
        not last,
        loads_of(reader, value),
    )


def make_scatter_items(reader: Reader, node: Node) -> tuple[Item, Item]:
    """A copy of the operand, named "<node>_start", and the updates stored into it."""
    shape, dtype, before = shape_of(node), dtype_of(node), f"{node.name}_start"
    at = reader.point(shape)
    old = reader.read(node.args[0], at)
    copy = Item(before, "point", shape, dtype, at, old, reads=loads_of(reader, old))
    return copy, make_update(reader, node, before)


def make_update(reader: Reader, node: Node, before: str) -> Item:
    """The updates of a node, stored into the array of which `before` was the version until then."""
    store, dtype = STORES[op_name(node)](reader, node), dtype_of(node)
    roots = [store.value, reader.place(store.index), *([] if store.mask is None else [store.mask])]
    reads = tuple(of_class(Load, walk(reader, roots)))
    return Item(
        node.name,
        "scatter",
        store.rows,
        dtype,
        store.at,
        store.value,
        store.inner,
        store.extents,
        lanes=any(n != 1 for n in store.rows),
        reads=(*reads, Load(before, ZERO, dtype)),
        store=store,
    )


def make_parts(reader: Reader, node: Node) -> list[Item]:
    """The operands of a concatenation, or of `complex`, each stored to its place in the result."""
    if op_name(node) == "complex":
        return [_complex_part(reader, node, k) for k in range(2)]
    whole, d = shape_of(node), node.kwargs["dimension"]
    parts, start = [], ZERO
    for k, operand in enumerate(node.args):
        shape = shape_of(operand)
        at = reader.point(shape)
        value = reader.read(operand, at)
        place = flat((*at[:d], at[d] + start, *at[d + 1 :]), whole)
        name = f"{node.name}_part{k}"
        parts.append(
            Item(
                name,
                "point",
                shape,
                dtype_of(node),
                at,
                value,
                reads=loads_of(reader, value),
                target=node.name,
                place=place,
            )
        )
        start = start + shape[d]
    return parts


def _complex_part(reader: Reader, node: Node, k: int) -> Item:
    shape, operand = shape_of(node), node.args[k]
    at = reader.point(shape)
    value = reader.read(operand, at if shape_of(operand) else ())
    return Item(f"{node.name}_part{k}", "point", shape, value.dtype, at, value, reads=loads_of(reader, value),
                target=node.name, place=place_of_part(at, shape, k))


def make_residues(reader: Reader, node: Node, item: Item) -> list[Item]:
    """An elementwise node whose lanes divide their position by a small number (as what stands between inserted zeros
    does), in parts, one for each remainder, whose lanes need not; or one whose last dimension is a small number, in
    parts whose lanes go along the dimension before it. Empty for any other node.

    before:  out[i] = i % 2 == 0 ? x[i // 2] : y[i // 2]
    after:   out[2*k] = x[k], out[2*k + 1] = y[k]
    """
    d = max((d for d, v in enumerate(item.at) if v != 0), default=-1)
    if d < 0 or item.kind != "point" or not item.shape[d].is_Integer:
        return []
    extent = int(item.shape[d])
    step = extent if extent <= MOST_RESIDUES else _divisor(reader, item, item.at[d])
    if not step or total(item.shape) < LEAST_LANES * step or extent == step and _runs_on(reader, item, d):
        return []
    count, left = divmod(extent, step)
    starts = [(r, count, step) for r in range(step)] + ([(count * step, left, 1)] if left else [])
    return [_residue(reader, node, f"{item.name}_part{k}", d, start) for k, start in enumerate(starts)]


def _runs_on(reader: Reader, item: Item, d: int) -> bool:
    """Does each place that it reads go on from one row along dimension `d` to the next, in the result's own order? Then
    the two loops become one."""
    places = {i for e in walk(reader, [item.value]) if (i := e.place) is not None}
    before = next((v for v in reversed(item.at[:d]) if v != 0), None)
    if before is None or any(i == flat(item.at, item.shape) for i in places):
        return all(i == flat(item.at, item.shape) or not i.free_symbols for i in places)
    steps = [(coefficient(i, before), coefficient(i, item.at[d])) for i in places if i.free_symbols]
    return all(None not in step and step[0] == step[1] * item.shape[d] for step in steps)


def _divisor(reader: Reader, item: Item, var: sympy.Expr) -> int | None:
    """The small number by which lanes along `var` divide their position."""
    indices = (i for e in walk(reader, [item.value]) if (i := e.place) is not None and i.has(FloorDiv, FloorMod))
    parts = (d for i in indices for d in i.atoms(FloorDiv, FloorMod) if d.args[0].has(var) and d.args[1].is_Integer)
    return next((int(d.args[1]) for d in parts if d.args[1] <= MOST_RESIDUES), None)


def _residue(reader: Reader, node: Node, name: str, d: int, start: tuple[int, int, int]) -> Item:
    """The elements of a node that lie at first, first + step, ... along dimension `d`: `count` of them."""
    (first, count, step), whole = start, shape_of(node)
    shape = (*whole[:d], sympy.Integer(count), *whole[d + 1 :])
    at = reader.point(shape)
    there = (*at[:d], step * at[d] + first, *at[d + 1 :])
    value = _value_at(reader, node, there)
    return Item(name, "point", shape, dtype_of(node), at, value, reads=loads_of(reader, value), target=node.name,
                place=flat(there, whole))


def _value_at(reader: Reader, node: Node, at: Point) -> Expr:
    """The value of a node of which `_make` makes a "point": elementwise, or a fold or scan over a single element."""
    op = op_name(node)
    if op in FOLDS:
        fold = FOLDS[op](node)
        return reader.apply("convert", fold.value(reader, at, reader.point(fold.extents)), dtype=dtype_of(node))
    return reader.read(node.args[0], at) if op in CUMULATIVE else reader.fresh_read(node, at)


def is_scatter(node: Node) -> bool:
    """A scatter whose updates may meet: it needs loops of its own."""
    return op_name(node) in MODES and not is_single(node)


def loads_of(reader: Reader, value: Expr) -> tuple[Load, ...]:
    """Every Load in a value, masks and computed positions included."""
    return tuple(of_class(Load, walk(reader, [value])))


def _wants_lanes(
    reader: Reader, at: Point, inner: Point, shape: Point, extents: Point, reads: tuple[Load, ...]
) -> bool:
    outer_vars = [v for v in at if v != 0]
    inner_vars = [v for v in inner if v != 0]
    if not outer_vars or not inner_vars:
        return bool(outer_vars)
    if total(extents) < NARROW:
        return total(shape) > total(extents)
    outer, inner_var = outer_vars[-1], inner_vars[-1]
    matrices = [r.index for r in reads if {outer, inner_var} <= variables(reader, r)]  # vectors cost little
    down = [r for r in reads if inner_var in (seen := variables(reader, r)) and outer not in seen]
    if down and any(coefficient(i, inner_var) == _run(i, at, shape) <= WOVEN for i in matrices):
        return False  # one value for the few columns of each row: nor do rows and columns make one loop
    return _contiguous(matrices, outer) > _contiguous(matrices, inner_var)


def _run(index: sympy.Expr, at: Point, shape: Point) -> int:
    """How many results side by side read neighbours in memory."""
    run = sympy.Integer(1)
    for var, extent in zip(reversed(at), reversed(shape)):
        if var != 0:
            if coefficient(index, var) != run:
                break
            run *= extent
    return hint(run)


def variables(reader: Reader, load: Load) -> set[sympy.Symbol]:
    """Every symbol that the place of a load depends on, through positions made from data too."""
    found: set[sympy.Symbol] = set(load.index.free_symbols)
    made = [reader.values[v] for v in load.index.free_symbols if v in reader.values]
    for expr in walk(reader, made):
        index = expr.place
        found |= index.free_symbols if index is not None else set()
    return found


def _contiguous(indices: list[sympy.Expr], var: sympy.Expr) -> int:
    return sum(coefficient(i, var) == 1 for i in indices)


# which nodes to realise

_OWN_COST = {
    "threefry2x32": 200,
    "gather": 3,
    "concatenate": 3,
    "pad": 2,
    "dynamic_slice": 2,
    "dynamic_update_slice": 3,
    "pow": DEAR,
}
_FREE = {
    "reshape",
    "broadcast_in_dim",
    "transpose",
    "slice",
    "rev",
    "iota",
    "convert_element_type",
    "getitem",
    "dim_as_value",
    "real",
    "imag",
    "complex",
    "iota_2x32_shape",
    "again",
}
KEEP_COST, KEEP_READS, MAX_INLINE, MAX_READS = DEAR, 2, 150, 24


def op_name(node: Node) -> str:
    """The Op's name, or "getitem" for the node that picks one of several results."""
    return getattr(node.target, "name", "getitem")


def own_cost(node: Node) -> int:
    """What computing one element costs beside its operands, in additions."""
    name = op_name(node)
    if name in _FREE:
        return 0
    return _OWN_COST.get(name, SCALARS[name].cost if name in SCALARS else 1)


_MOVED = {"slice", "concatenate", "pad", "rev", "gather", "dynamic_slice"}
"""Ops through which an array is read at other places: a load each, beside those of its other readers."""


@dataclass
class _Weight:
    """What inlining a node costs: additions for one element, the loads (the realised node and the
    moves on the way to it) with the node's size, and how deep it nests."""

    cost: int
    reads: dict[tuple[str, ...], int]
    depth: int

    def loads(self, size: int) -> int:
        """Loads that matter for an array of `size`: smaller arrays stay in cache."""
        return sum(2 * n > size for n in self.reads.values())

    @property
    def arrays(self) -> int:
        """How many arrays are read."""
        return len({name for name, *_ in self.reads})


def choose_realised(
    nodes: tuple[Node, ...], required: set[str], users: Mapping[Node, list[Node]], loopable: Mapping[Node, bool]
) -> set[str]:
    """The names of the nodes to realise; `required` are so anyway (outputs, template operands)."""
    realised = set(required)
    weights: dict[Node, _Weight] = {}
    for node in nodes:
        if not loopable.get(node, False):
            continue
        weights[node] = _weigh(node, realised, weights)
        if node.name in realised or _worth_keeping(node, users, weights[node]):
            realised.add(node.name)
    return realised


def _size(node: Node) -> int:
    return 0 if isinstance(node.aval, tuple) else total(shape_of(node))


def _weigh(node: Node, realised: set[str], weights: Mapping[Node, _Weight]) -> _Weight:
    parts = [
        _Weight(0, {(a.name,): _size(a)}, 0) if a.name in realised or a not in weights else weights[a]
        for a in dict.fromkeys(of_class(Node, node.args))
    ]
    moved = (node.name,) if op_name(node) in _MOVED else ()
    reads = {(*load, *moved): size for p in parts for load, size in p.reads.items()}
    return _Weight(
        min(own_cost(node) + sum(p.cost for p in parts), 10**6), reads, 1 + max((p.depth for p in parts), default=0)
    )


def _worth_keeping(node: Node, users_of: Mapping[Node, list[Node]], weight: _Weight) -> bool:
    name, users = op_name(node), users_of[node]
    if name in FOLDS or name in CUMULATIVE or is_scatter(node):
        return True
    if getattr(node.aval, "shape", None) is None:  # several results: its getitem nodes decide
        return False
    if weight.depth >= MAX_INLINE or weight.arrays > MAX_READS:
        return True
    if len(users) > 1 and (weight.cost >= KEEP_COST or (weight.loads(_size(node)) >= KEEP_READS and weight.cost)):
        return True
    return weight.cost >= KEEP_COST // 2 and any(replicates(u, node, users_of) for u in users)


def replicates(user: Node, of: Node, users_of: Mapping[Node, list[Node]]) -> bool:
    """Does `user` read each element of `of` many times, where a loop cannot keep it at hand?"""
    name = op_name(user)
    if name == "broadcast_in_dim":
        dims = user.kwargs["broadcast_dimensions"]
        kept = [d for d, n in zip(dims, shape_of(of)) if n != 1]
        new = [d for d, n in enumerate(shape_of(user)) if n != 1 and d not in kept]
        return bool(kept and new) and (min(new) < max(kept) or _is_folded_across(user, kept, new, users_of))
    if name in ("gather", "dynamic_slice"):
        return total(shape_of(user)) > total(shape_of(of))
    return name == "dot_general" or name in WINDOW_FOLDS


def _is_folded_across(node: Node, kept: list[int], new: list[int], users_of: Mapping[Node, list[Node]]) -> bool:
    """Does a fold over `kept` dimensions go through a broadcast value once for each position along `new` ones?
    `(d / r[..., None] ** 1.5).sum(1)`: the fold's loop is the innermost, whatever the order of the dimensions."""
    todo, seen = [node], {node}
    while todo and len(seen) < MAX_INLINE:
        for user in users_of[todo.pop()]:
            if op_name(user) in FOLDS and "axes" in user.kwargs:
                axes = user.kwargs["axes"]
                if set(axes) & set(kept) and set(new) - set(axes):
                    return True
            elif user not in seen and getattr(user.aval, "shape", None) == node.aval.shape:
                seen.add(user)
                todo.append(user)
    return False
